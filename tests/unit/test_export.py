"""What every export does: it knows its formats, and reports its progress."""

from pathlib import Path

import pytest

from roocontext import NewMessage
from roocontext.errors import InvalidOption
from roocontext.formats import export


def test_an_unknown_format_is_refused_with_all_names(store):
    chat = store.create()
    with pytest.raises(InvalidOption, match=r"jsonl, html, markdown, claude-code, .*, roo"):
        export.files(store, chat, "nonsense")


@pytest.mark.parametrize("to", ["jsonl", "html", "markdown", "claude-code"])
def test_the_progress_reaches_the_end(store, to):
    chat = store.create()
    chat.append_many([NewMessage("user", f"m{n}") for n in range(250)])
    seen: list[tuple[int, int]] = []
    (file,) = export.files(store, chat, to, progress=lambda *at: seen.append(at))
    assert b"".join(file.chunks)
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {250}


def test_several_files_need_a_folder(store):
    chat = store.create()
    for options in ({"to": "roo"}, {"to": "claude-code", "family": True}):
        with pytest.raises(InvalidOption, match="needs a folder"):
            export.files(store, chat, **options)


def test_a_file_is_where_the_output_says(store, tmp_path):
    chat = store.create()
    (file,) = export.files(store, chat, "html", output=tmp_path / "page.html")
    assert file.path == tmp_path / "page.html"
    assert next(export.files(store, chat, "html")).path == Path()
