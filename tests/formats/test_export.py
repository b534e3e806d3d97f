"""All exports: the known formats, the files, and the progress that they report."""

import json
from pathlib import Path

import pytest

from roocontext import NewMessage
from roocontext.errors import InvalidOption
from roocontext.formats import export, exports
from roocontext.formats.exporter import Exporter
from roocontext.formats.exporters import markdown
from roocontext.reports.html_export import HTML


def test_unknown_format_is_refused_with_all_names(store):
    chat = store.create()
    with pytest.raises(InvalidOption, match=r"jsonl, .*, roo, .*, bedrock-converse"):
        exports.exported_files(store, chat, "nonsense")


def test_request_to_bedrock_has_base64_for_bytes(store):
    chat = store.create()
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    chat.append("user", [{"type": "text", "text": "See"}, {"type": "image", "source": source}])
    (file,) = exports.exported_files(store, chat, "bedrock-converse")
    (message,) = json.loads(b"".join(file.chunks))["messages"]
    image = {"format": "png", "source": {"bytes": source["data"]}}
    assert message == {"role": "user", "content": [{"text": "See"}, {"image": image}]}


@pytest.mark.parametrize("to", ["anthropic", "gemini", "bedrock-converse"])
def test_request_may_be_nested_as_deeply_as_what_is_stored(store, to):
    chat, value = store.create(), 1
    for _ in range(495):
        value = {"a": value}
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": value}}
    chat.append_many([NewMessage("user", "go"), NewMessage("assistant", [call])])
    (file,) = exports.exported_files(store, chat, to)
    assert b"".join(file.chunks).count(b'"a"') == 496


@pytest.mark.parametrize("to", ["jsonl", HTML, "markdown", "claude-code"])
def test_progress_reaches_the_end(store, to):
    chat = store.create()
    chat.append_many([NewMessage("user", f"m{n}") for n in range(250)])
    seen: list[tuple[int, int]] = []
    (file,) = exports.exported_files(store, chat, to, progress=lambda *at: seen.append(at))
    assert b"".join(file.chunks)
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {250}


def test_several_files_need_a_folder(store):
    chat = store.create()
    for options in ({"to": "roo"}, {"to": "claude-code", "family": True}):
        with pytest.raises(InvalidOption, match="needs a folder"):
            exports.exported_files(store, chat, **options)


FOLDERS = ["new", "new/", "new.jsonl/", "there", "there.jsonl"]


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("family", [False, True])
def test_transcript_is_written_into_a_folder(store, tmp_path, name, family):
    chat = store.create()
    for folder in ("there", "there.jsonl"):
        (tmp_path / folder).mkdir()
    files = exports.exported_files(
        store, chat, "claude-code", output=f"{tmp_path}/{name}", family=family
    )
    assert next(files).path.parent == tmp_path / name


def test_transcript_is_the_file_that_is_named(store, tmp_path):
    chat = store.create()
    file = tmp_path / "one.jsonl"
    (found,) = exports.exported_files(store, chat, "claude-code", output=file)
    assert found.path == file
    with pytest.raises(InvalidOption, match="needs a folder"):
        exports.exported_files(store, chat, "claude-code", output=file, family=True)


@pytest.mark.parametrize(
    "to", [HTML, *(one for one in exports.EXPORTERS.values() if one.folder is None)]
)
@pytest.mark.parametrize("name", ["new/", ""])
def test_folder_as_output_of_one_file_is_refused(store, tmp_path, to, name):
    chat = store.create()
    with pytest.raises(InvalidOption, match="name a file, not a folder"):
        exports.exported_files(store, chat, to, output=f"{tmp_path}/{name}")


def test_output_with_nul_in_its_name_is_refused(store):
    chat = store.create()
    with pytest.raises(InvalidOption, match="has no NUL"):
        export(store, chat, "jsonl", output="a\0.jsonl")


@pytest.mark.parametrize("name", ["new", "new/", "new.jsonl"])
def test_task_folders_are_written_into_a_folder(store, tmp_path, name):
    chat = store.create()
    chat.append("user", "Hello.")
    paths = [
        file.path
        for file in exports.exported_files(store, chat, "roo", output=f"{tmp_path}/{name}")
    ]
    assert paths
    assert all((tmp_path / name) in path.parents for path in paths)


def test_session_is_exported_from_python(store, tmp_path):
    chat = store.create()
    chat.append("user", "Hello.")
    done = export(store, chat, "claude-code", output=tmp_path / "new")
    (file,) = done.files
    assert (file.parent, file.stat().st_size, done.left_out) == (tmp_path / "new", done.bytes, ())
    with pytest.raises(FileExistsError):
        export(store, chat, "claude-code", output=tmp_path / "new")


def test_registered_exporter_is_used(store, tmp_path):
    chat = store.create()
    ids = Exporter("ids", lambda sessions: iter([one.id.encode() for one in sessions]))
    done = export(store, chat, ids, output=tmp_path / "ids.txt")
    assert (tmp_path / "ids.txt").read_text() == chat.id
    assert done.bytes == len(chat.id)


def test_output_names_the_file(store, tmp_path):
    chat = store.create()
    (file,) = exports.exported_files(store, chat, HTML, output=tmp_path / "page.html")
    assert file.path == tmp_path / "page.html"
    assert next(exports.exported_files(store, chat, HTML)).path == Path()


def test_output_that_is_no_list_of_blocks_is_written_as_markdown(store):
    output = {"type": "tool_result", "tool_use_id": "c1", "content": [7, None]}
    chat = store.create()
    chat.append("user", [output])
    assert b"Result:" in b"".join(markdown.export_session(chat))
