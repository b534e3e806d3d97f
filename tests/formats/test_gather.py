"""Importing whole folders: what is found, in which order, and what may go wrong with a file."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roocontext import NewMessage, Store
from roocontext.cli.exit_codes import Code, code_of
from roocontext.errors import InvalidOption, SourceDiverged, StoreUnavailable, UnreadableSource
from roocontext.formats import find, import_paths, jsonl
from roocontext.formats.events import Added, Event, Source
from roocontext.formats.find import places, tools
from roocontext.formats.importer import IMPORTERS, Importer
from roocontext.formats.importers import claude_code, opencode
from roocontext.formats.imports import SkippedSource
from roocontext.formats.writing import SessionImport
from support.examples import TORTURE
from support.transcripts import Transcript

ROO = "globalStorage/rooveterinaryinc.roo-cline/tasks"


def talk(path: Path, *texts: str) -> Transcript:
    file = Transcript(path)
    for text in texts:
        file.user(text)
    return file


def recording(path: Path, session: str, text: str = "hello") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"sessionId": session, "projectHash": "h"},
        {"id": "1", "type": "user", "content": text},
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))


def export_of(path: Path, text: str, *more: str) -> None:
    texts = enumerate([text, *more])
    parts = {f"msg_{n}": {"id": f"prt_{n}", "type": "text", "text": one} for n, one in texts}
    messages = [
        {"info": {"id": name, "role": "user"}, "parts": [part]} for name, part in parts.items()
    ]
    path.write_text(json.dumps({"info": {"id": "ses_1", "version": "1.2.0"}, "messages": messages}))


@pytest.mark.parametrize("error", [ZeroDivisionError, RuntimeError, MemoryError, KeyError])
def test_unexpected_error_in_one_file_does_not_keep_the_others(store, tmp_path, monkeypatch, error):
    for name in ("a", "b", "c"):
        talk(tmp_path / f"{name}.jsonl", "secret")
    real = IMPORTERS["claude-code"]

    def broken(path: Path) -> Any:
        if path.stem == "b":
            raise error("secret")
        return real.sources(path)

    monkeypatch.setitem(IMPORTERS, "claude-code", replace(real, sources=broken))
    first, second, third = import_paths(store, [tmp_path])
    assert isinstance(second, SkippedSource)
    assert (second.path.name, second.is_problem) == ("b.jsonl", True)
    assert second.why == f"its shape is unknown ({error.__name__})"
    assert isinstance(first, SessionImport)
    assert isinstance(third, SessionImport)


def test_unexpected_error_in_one_session_is_reported_with_its_type(store, tmp_path, monkeypatch):
    talk(tmp_path / "a.jsonl", "one", "two")
    events_of = claude_code.events_of

    def broken(step: Any, *rest: Any) -> Any:
        if step.row.line == 2:
            raise ZeroDivisionError("secret")
        return events_of(step, *rest)

    monkeypatch.setattr(claude_code, "events_of", broken)
    (done,) = import_paths(store, [tmp_path])
    assert isinstance(done, SessionImport)
    assert done.failed
    assert [one.content for one in store.session(done.session_id).view().messages] == ["one"]
    assert "ZeroDivisionError" in done.problems[0].what
    assert "secret" not in done.problems[0].what


def test_lost_store_ends_the_import(store, tmp_path, monkeypatch):
    talk(tmp_path / "a.jsonl", "one")

    def broken(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("The database is gone.")

    monkeypatch.setattr(Store, "open_session", broken)
    with pytest.raises(StoreUnavailable):
        list(import_paths(store, [tmp_path]))


def test_errors_of_an_import_have_exit_codes():
    assert code_of(UnreadableSource("x")) == Code.NOT_FOUND
    assert code_of(SourceDiverged("x")) == Code.REFUSED


def test_children_are_imported_after_their_parents(store, tmp_path):
    chats = tmp_path / "chats"
    recording(chats / "g-1" / "g-2.jsonl", "g-2")
    recording(chats / "g-2" / "g-3.jsonl", "g-3")
    recording(chats / "h-1" / "orphan.jsonl", "orphan")
    recording(chats / "session-g1.jsonl", "g-1")
    found = list(import_paths(store, [tmp_path]))
    assert [one.session_id.partition(":")[2] for one in found] == ["g-1", "g-2", "orphan", "g-3"]
    (child,) = store.session("gemini-cli:g-1").children()
    (grandchild,) = store.session(child.session_id).children()
    assert grandchild.session_id == "gemini-cli:g-3"
    assert [one.created for one in import_paths(store, [tmp_path])] == [False] * 4


def test_children_of_purged_and_of_archived_parents_are_imported(store, tmp_path):
    chats = tmp_path / "chats"
    for parent, child in (("g-1", "g-2"), ("h-1", "h-2")):
        recording(chats / f"session-{parent}.jsonl", parent)
        recording(chats / parent / f"{child}.jsonl", child)
    store.create("gemini-cli:g-1")
    store.purge("gemini-cli:g-1")
    list(import_paths(store, [tmp_path]))
    assert store.session("gemini-cli:g-2").info().parent is None
    store.archive(session="gemini-cli:h-1", put=lambda name, _: name)
    recording(chats / "h-1" / "h-2.jsonl", "h-2", "changed")
    assert [one.status for one in import_paths(store, [chats / "h-1"])] == ["rewound"]


def test_title_that_a_source_has_again_is_the_title_again(store, tmp_path):
    file = talk(tmp_path / "s.jsonl", "one")
    for title in ("A", "B", "A", "B"):
        file.line({"type": "custom-title", "customTitle": title, "sessionId": "s"})
        for notes in (2, 0):
            (done,) = import_paths(store, [tmp_path], dry_run=True)
            assert [done] == list(import_paths(store, [tmp_path]))
            assert min(done.notes, 2) == notes
        assert store.session("claude-code:s").info().title == title


def test_session_that_is_named_like_a_fork_is_none(store, tmp_path):
    for name in ("a", "a~2"):
        talk(tmp_path / f"{name}.jsonl", name)
    for status in ("created", "unchanged"):
        assert [one.status for one in import_paths(store, [tmp_path])] == [status] * 2


def test_tool_of_a_shared_importer_is_chosen(store, tmp_path):
    task = tmp_path / "tasks" / "1"
    task.mkdir(parents=True)
    (task / "ui_messages.json").write_text('[{"text": "hello"}]')
    (skipped,) = import_paths(store, [tmp_path], tool="cline")
    assert isinstance(skipped, SkippedSource)
    assert skipped.why == "it belongs to roo-code"
    (done,) = import_paths(store, [tmp_path], tool="roo-code")
    assert done.session_id == "roo-code:1"


def test_session_in_two_files_is_imported_once(store, tmp_path):
    export_of(tmp_path / "a.json", "one", "two")
    export_of(tmp_path / "b.json", "one")
    export_of(tmp_path / "c.json", "another")
    for _ in range(2):
        first, second, third = import_paths(store, [tmp_path])
        assert isinstance(first, SessionImport)
        assert [isinstance(one, SkippedSource) and one.is_problem for one in (second, third)] == [
            *(False, True)
        ]
    assert len(store.session("opencode:ses_1").view().messages) == 2


def test_dry_run_reads_exported_files(store, tmp_path):
    chat = store.create("one")
    chat.append("user", "hello")
    chat.append("assistant", "yes")
    file = tmp_path / "one.jsonl"
    whole = b"".join(jsonl.export_session(chat))
    lines = whole.splitlines(keepends=True)
    file.write_bytes(whole)
    with Store.open(":memory:") as other:
        (done,) = import_paths(other, [file], dry_run=True)
        assert isinstance(done, SessionImport)
        assert (done.messages, done.created, done.problems) == (2, True, ())
        assert other.sessions() == []
        file.write_bytes(b"".join(lines[:2]))
        list(import_paths(other, [file]))
        file.write_bytes(whole)
        (done,) = import_paths(other, [file], dry_run=True)
        assert (done.messages, done.created) == (1, False)
        other.session("one").append("user", "mine")
        (done,) = import_paths(other, [file], dry_run=True)
        assert "entries 1 to 2 differ" in done.problems[0].what
        file.write_bytes(lines[0] + lines[2])
        (done,) = import_paths(other, [file], dry_run=True)
        assert "entry 1 is missing" in done.problems[0].what
        file.write_bytes(whole[:-9])
        (done,) = import_paths(other, [file], dry_run=True)
        assert [problem.line for problem in done.problems] == [3]


def test_restored_entries_are_counted_by_their_kinds(store, tmp_path):
    chat = store.create("one", title="One")
    chat.append("user", "hello")
    file = tmp_path / "one.jsonl"
    with Store.open(":memory:") as other:
        for counts in ((1, 1, 0), (0, 0, 1)):
            file.write_bytes(b"".join(jsonl.export_session(chat)))
            for dry_run in (True, False):
                (done,) = import_paths(other, [file], dry_run=dry_run)
                assert isinstance(done, SessionImport)
                assert (done.messages, done.notes, done.controls) == counts
            chat.rewind(to=0)


def test_progress_is_reported_within_a_file(store, tmp_path):
    talk(tmp_path / "a.jsonl", *("x" * 2_000 for _ in range(600)))
    seen: list[tuple[int, int]] = []
    list(import_paths(store, [tmp_path], progress=lambda done, total: seen.append((done, total))))
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_exports_of_opencode_are_found_in_folders(store, tmp_path):
    export_of(tmp_path / "export.json", "one")
    (tmp_path / "other.json").write_text('{"info": 1}')
    (done,) = import_paths(store, [tmp_path])
    assert done.session_id == "opencode:ses_1"


@pytest.mark.parametrize("first", ["image", "whole recording"])
def test_file_is_recognised_by_a_first_line_of_millions_of_bytes(store, tmp_path, first):
    record: dict[str, Any]
    if first == "image":  # a row of Claude Code has its ids at the end
        source = {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}
        message = {"role": "user", "content": [{"type": "image", "source": source}]}
        record = {"type": "user", "message": message, "uuid": "u-1", "sessionId": "s-1"}
    else:  # a document of Gemini CLI on one line
        messages = [{"id": "1", "type": "user", "content": "x" * 2_000_000}]
        record = {"sessionId": "g", "projectHash": "h", "messages": messages}
    (tmp_path / "session-g.jsonl").write_text(f"{json.dumps(record)}\n")
    (done,) = import_paths(store, [tmp_path])
    assert isinstance(done, SessionImport)
    assert done.messages == 1


def test_folder_with_very_many_files_is_imported(store, tmp_path):
    count = 10_000 if TORTURE else 300
    for number in range(count):
        (tmp_path / f"note-{number}.txt").write_text("no session")
        (tmp_path / f"empty-{number}.jsonl").write_text("")
    talk(tmp_path / "real.jsonl", "one")
    found = list(import_paths(store, [tmp_path]))
    assert len(found) == count + 1
    assert [one.path.name for one in found if isinstance(one, SessionImport)] == ["real.jsonl"]
    assert not any(one.is_problem for one in found if isinstance(one, SkippedSource))


def test_folder_in_place_of_a_file_is_reported(store, tmp_path):
    task = tmp_path / "tasks" / "1"
    task.mkdir(parents=True)
    (task / "ui_messages.json").write_text("[]")
    (task / "api_conversation_history.json").mkdir()
    (tmp_path / "opencode.db").mkdir()
    (tmp_path / "session-x.json").mkdir()
    found = list(import_paths(store, [tmp_path]))
    assert [one.problems[0].what for one in found if isinstance(one, SessionImport)] == [
        "the file is missing"
    ]


def test_source_changed_since_it_was_seen_is_imported_again(tmp_path):
    file = talk(tmp_path / "a.jsonl", "one")
    export_of(tmp_path / "b.json", "one")
    task = tmp_path / "tasks" / "1"
    task.mkdir(parents=True)
    (task / "ui_messages.json").write_text("[]")
    seen: dict[Path, int] = {}
    assert len(find.changed_paths([tmp_path, tmp_path / "nowhere"], seen)) == 3
    assert find.changed_paths([tmp_path], seen) == []
    file.user("two")
    (task / "api_conversation_history.json").write_text("[]")
    (tmp_path / "opencode.db").write_bytes(b"")
    assert find.changed_paths([tmp_path], seen) == [file.path, tmp_path / "opencode.db", task]
    (tmp_path / "opencode.db-wal").write_bytes(b"more")
    assert find.changed_paths([tmp_path], seen) == [tmp_path / "opencode.db"]


def test_parent_with_an_impossible_id_is_reported(store, tmp_path):
    task = tmp_path / "tasks" / "1"
    task.mkdir(parents=True)
    (task / "api_conversation_history.json").write_text('[{"role": "user", "content": "a"}]')
    (task / "history_item.json").write_text(json.dumps({"parentTaskId": "\0"}))
    (done,) = import_paths(store, [tmp_path])
    assert isinstance(done, SessionImport)
    assert (done.created, done.failed) == (True, False)


@pytest.mark.parametrize(
    ("tool", "variable", "place"),
    [
        ("cline", "HOME", ".cline/data/tasks"),
        ("cline", "HOME", ".config/Cursor/User/globalStorage/saoudrizwan.claude-dev/tasks"),
        ("roo-code", "HOME", f".vscode-server/data/User/{ROO}"),
        (
            "roo-code",
            "HOME",
            ".config/VSCodium/User/globalStorage/zoocodeorganization.zoo-code/tasks",
        ),
        ("roo-code", "HOME", f".config/Code - OSS/User/{ROO}"),
        ("claude-code", "HOME", ".claude/projects"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects"),
        ("codex", "CODEX_HOME", "archived_sessions"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/tmp"),
        ("opencode", "XDG_DATA_HOME", "opencode"),
        ("cline", "CLINE_DIR", "data/tasks"),
        ("cline", "XDG_CONFIG_HOME", "Code/User/globalStorage/saoudrizwan.claude-dev/tasks"),
    ],
)
def test_folder_of_a_tool_is_found_at_home_and_where_a_variable_names_it(
    tmp_path, monkeypatch, tool, variable, place
):
    elsewhere = tmp_path / "a [folder] * with $HOME"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    if variable != "HOME":
        monkeypatch.delenv(variable, raising=False)
    (elsewhere / place).mkdir(parents=True)
    assert find.places(tool) == []
    monkeypatch.setenv(variable, str(elsewhere))
    assert find.places(tool) == [elsewhere / place]


def test_database_named_by_a_variable_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENCODE_DB", str(tmp_path / "mine.db"))
    assert find.places("opencode") == []
    for name, table in (("mine", "session"), ("other", "sessions")):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as connection:
            connection.execute(f"CREATE TABLE {table} (id TEXT)")
    assert find.places("opencode") == [tmp_path / "mine.db"]
    assert find.importers_of(tmp_path / "mine.db") == [opencode.IMPORTER]
    assert find.importers_of(tmp_path / "other.db") == []


def test_links_to_folders_are_followed_once(store, tmp_path):
    talk(tmp_path / "elsewhere" / "a.jsonl", "hello")
    top = tmp_path / "top"
    top.mkdir()
    for name, target in (("a", "elsewhere"), ("b", "elsewhere"), ("up", "."), ("self", "top")):
        (top / name).symlink_to(tmp_path / target)
    (done,) = import_paths(store, [top])
    assert isinstance(done, SessionImport)
    assert (done.session_id, done.path) == ("claude-code:a", top / "a" / "a.jsonl")


def test_compressed_transcripts_are_named(store, tmp_path):
    (tmp_path / "rollout-1.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    (tmp_path / "b.jsonl").write_bytes(b"\x1f\x8b...")
    talk(tmp_path / "c.jsonl", "hello")
    (tmp_path / "c.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    found = list(import_paths(store, [tmp_path]))
    why = "it is compressed: unpack it first"
    whys = {one.path.name: getattr(one, "why", "taken") for one in found}
    assert whys == {"b.jsonl": why, "c.jsonl": "taken", "rollout-1.jsonl.zst": why}


def test_empty_file_is_no_problem(store, tmp_path):
    (tmp_path / "a.jsonl").touch()
    (done,) = import_paths(store, [tmp_path])
    assert done == SkippedSource(tmp_path / "a.jsonl", "it is empty", is_problem=False)


@pytest.mark.parametrize(
    "record",
    [
        {"session_id": "0199", "ts": 1_790_000_000, "text": "hello"},
        {"id": "0199", "thread_name": "hello", "updated_at": "2026-03-01T10:00:00Z"},
        {"display": "hello", "pastedContents": {}, "timestamp": 1, "project": "/work"},
    ],
)
def test_list_of_prompts_or_sessions_is_no_problem(store, tmp_path, record):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(record)}\n" * 2)
    (done,) = import_paths(store, [tmp_path])
    why = "it only lists prompts or sessions"
    assert done == SkippedSource(tmp_path / "a.jsonl", why, is_problem=False)


def sources(path: Path) -> Iterator[Source]:
    def events() -> Iterator[Event]:
        for number, text in enumerate(path.read_text().splitlines(), 1):
            yield Added(f"{number}", NewMessage("user", text), number)

    yield Source(f"notebook:{path.stem}", path, {"tool": "notebook"}, events)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Importer:
    """An importer of a tool whose files have one message on each line."""
    is_file = {name: lambda path: path.suffix == ".notes" for name in ("is_file", "is_candidate")}
    importer = Importer(tool="notebook", sources=sources, places=("~/notes",), **is_file)
    monkeypatch.setitem(IMPORTERS, importer.tool, importer)
    return importer


def test_known_tools_are_listed():
    assert tools() == (
        *("adk-sessions", "claude-code", "cline", "codex", "gemini-cli"),
        *("langgraph-saver", "openai-agents", "opencode", "roo-code"),
    )
    with pytest.raises(InvalidOption, match="The tools are adk-sessions, claude-code, cline"):
        places("nonsense")


@pytest.mark.usefixtures("notebook")
def test_new_importer_needs_no_other_change(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.notes").write_text("one\ntwo\n")
    assert places("notebook") == [tmp_path / "notes"]
    (done,) = import_paths(store, places("notebook"), tool="notebook")
    assert (done.session_id, done.messages, done.created) == ("notebook:a", 2, True)
    (again,) = import_paths(store, [tmp_path])
    assert (again.messages, again.notes) == (0, 0)
