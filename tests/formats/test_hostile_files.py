"""Files and folders in a bad state: what is wrong is named, and all others are taken."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from formats.test_damaged_files import claude_code, codex, gemini, opencode, roo
from roocontext import Store
from roocontext.errors import InvalidOption
from roocontext.formats import find, jsonl
from roocontext.formats.imports import Outcome, SkippedSource, import_paths
from roocontext.formats.writing import SessionImport
from support.codex_rollouts import item, line, write
from support.transcripts import Transcript


def taken(found: list[Outcome]) -> list[str]:
    return [one.session_id for one in found if isinstance(one, SessionImport)]


def told(found: list[Outcome]) -> list[str]:
    problems = [str(p) for one in found if isinstance(one, SessionImport) for p in one.problems]
    return problems + [f"{one.path}: {one.why}" for one in found if isinstance(one, SkippedSource)]


def talk(path: Path, text: str = "hello") -> Path:
    file = Transcript(path)
    file.user(text)
    return file.path


@pytest.mark.parametrize("names", [["."], ["loop", "a.jsonl", "z"]])
def test_link_to_itself_found_or_named_does_not_end_the_import(store, tmp_path, names):
    talk(tmp_path / "a.jsonl")
    talk(tmp_path / "z" / "z.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    found = list(import_paths(store, [tmp_path / name for name in names]))
    assert taken(found) == ["claude-code:a", "claude-code:z"]
    assert told(found) == [f"{tmp_path / 'loop'}: Too many levels of symbolic links"]


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may read everything, so somebody else tries."""
    if os.geteuid():
        yield
        return
    try:
        os.seteuid(65534)
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: they may not enter those above `tmp_path`."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def inside(open_folder: Path) -> Callable[..., list[Outcome]]:
    """Imports a folder here as somebody else."""

    def imported(name: str, closed: Path, **options: Any) -> list[Outcome]:
        with Store.open(":memory:") as other:
            list(import_paths(other, [open_folder / name]))  # what is loaded late is loaded now
        closed.chmod(0)
        try:
            with Store.open(":memory:") as other, somebody_else():
                return list(import_paths(other, [open_folder / name], **options))
        finally:
            closed.chmod(0o755)

    return imported


def test_files_without_permission_are_named_and_the_rest_is_taken(inside, open_folder):
    for name in ("a", "b", "closed/c"):
        talk(open_folder / "home" / f"{name}.jsonl")
    (open_folder / "home" / "a.jsonl").chmod(0)
    found = inside("home", open_folder / "home" / "closed")
    assert taken(found) == ["claude-code:b"]
    denied = [f"{open_folder}/home/{name}: Permission denied" for name in ("a.jsonl", "closed")]
    assert sorted(told(found)) == denied


def closed_link(tmp_path: Path, link: Path) -> Path:
    """A link into a folder that only its owner may look into."""
    closed = tmp_path / "closed"
    (closed / "inside").mkdir(parents=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(closed / "inside")
    return closed


def storage(top: Path) -> Path:
    """A folder of OpenCode's with a session of one message."""
    for name, record in (
        ("session/p/ses_1", {"id": "ses_1"}),
        ("message/ses_1/msg_1", {"id": "msg_1", "role": "user"}),
        ("part/msg_1/prt_1", {"id": "prt_1", "type": "text", "text": "one"}),
    ):
        file = top / "storage" / f"{name}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(record))
    return top / "storage"


def test_link_into_a_closed_folder_does_not_end_the_import(inside, open_folder):
    top = open_folder / "top"
    talk(top / "a.jsonl")
    talk(top / "z" / "z.jsonl")
    sessions = storage(top) / "session"
    closed = closed_link(open_folder, top / "link")
    (sessions / "b").symlink_to(closed / "inside")
    found = inside("top", closed)
    assert sorted(taken(found)) == ["claude-code:a", "claude-code:z", "opencode:ses_1"]
    denied = [
        f"{open_folder}/top/{name}: Permission denied" for name in ("link", "storage/session/b")
    ]
    assert sorted(told(found)) == denied


@pytest.mark.parametrize("closed", ["message/ses_1", "part/msg_1"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_messages_in_an_unreadable_folder_are_reported(inside, open_folder, closed, dry_run):
    found = inside("storage", storage(open_folder) / closed, dry_run=dry_run)
    assert told(found) == [f"{open_folder}/storage/{closed}: Permission denied"]


def test_document_that_may_not_be_read_is_reported(inside, open_folder):
    (open_folder / "top").mkdir()
    file = open_folder / "top" / "export.json"
    file.write_text("{}")
    (skipped,) = inside("top", file)
    assert (skipped.why, skipped.is_problem) == ("Permission denied", True)


def test_unreadable_folder_of_a_tool_is_reported(monkeypatch):
    for name in ("XDG_CONFIG_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    with TemporaryDirectory() as home:
        top = Path(home)
        closed = closed_link(top, top / ".config" / "Editor")
        tasks = top / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
        tasks.mkdir(parents=True)
        (top / ".gemini").symlink_to(closed / "inside")
        top.chmod(0o755)
        closed.chmod(0)
        monkeypatch.setenv("HOME", home)
        with somebody_else():
            found = find.places("roo-code"), find.places("gemini-cli")
        closed.chmod(0o755)
    assert found == ([tasks], [top / ".gemini" / "tmp"])


@pytest.mark.parametrize(
    "name",
    [
        *("api_conversation_history.json", "agent-a.meta.json", "s.messages.json", "s.json"),
        *("storage/session/info/ses_1.json", "session-1.json", "opencode.db", "b.jsonl"),
    ],
)
def test_pipe_is_reported_and_not_read(store, tmp_path, name):
    talk(tmp_path / "a.jsonl")
    if name == "s.json":
        (tmp_path / "s.messages.json").write_text(
            '{"messages": [{"role": "user", "content": "x"}]}'
        )
    if name.startswith("storage"):
        (tmp_path / "storage" / "message").mkdir(parents=True)
    pipe = tmp_path / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    found = list(import_paths(store, [tmp_path]))
    assert "claude-code:a" in taken(found)
    assert told(found) in ([], [f"{pipe}: it is not a regular file"])
    (alone,) = import_paths(store, [pipe])
    assert isinstance(alone, SkippedSource)
    assert alone.why == "it is not a regular file"


def test_pipe_in_place_of_a_part_is_reported(store, tmp_path):
    message = storage(tmp_path) / "message" / "ses_1" / "msg_1.json"
    message.unlink()
    os.mkfifo(message)
    (done,) = import_paths(store, [tmp_path])
    assert told([done]) == [f"{message}: it is not a regular file"]


ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-16-be with a mark")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("made", [claude_code, codex, gemini, opencode, roo])
def test_other_encodings_are_read(tmp_path, made, encoding):
    path = made(tmp_path)

    def imported() -> Any:
        with Store.open(":memory:") as store:
            done = [one for one in import_paths(store, [path]) if isinstance(one, SessionImport)]
            views = [store.session(one.session_id).view().messages for one in done]
            return [[one.content for one in view] for view in views], told([*done])

    wanted = imported()
    assert wanted[0]
    for file in [path] if path.is_file() else path.iterdir():
        data = ("\ufeff" if "mark" in encoding else "") + file.read_text("utf-8")
        file.write_bytes(data.encode(encoding.split(" ")[0]))
    assert imported() == wanted


def test_exported_files_in_other_encodings_are_read(store, tmp_path):
    chat = store.create()
    chat.append("user", "é \ud83d")
    lines = b"".join(jsonl.export_session(chat)).decode()
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "a.jsonl").write_bytes(lines.encode(encoding))
        with Store.open(":memory:") as other:
            (done,) = import_paths(other, [tmp_path])
            assert (taken([done]), told([done])) == ([chat.id], [])


def test_lone_surrogate_that_is_not_escaped_is_read(store, tmp_path):
    path = talk(tmp_path / "a.jsonl", "MARK")
    path.write_bytes(path.read_bytes().replace(b"MARK", b"\xed\xa0\xbd"))
    (done,) = import_paths(store, [path])
    assert [one.content for one in store.session(done.session_id).view().messages] == ["\ud83d"]


def test_half_a_character_at_the_end_is_taken_later(store, tmp_path):
    path = talk(tmp_path / "a.jsonl")
    path.write_bytes((path.read_text() * 2 + '{"ty').encode("utf-16")[:-1])
    (done,) = import_paths(store, [tmp_path])
    assert told([done]) == [f"{path}:3: the line is cut off"]


def test_each_recording_of_a_server_is_a_session(store, tmp_path):
    for name in ("session-1", "session-2"):
        about = {"sessionId": "a2a-server", "projectHash": "h"}
        write(tmp_path / f"{name}.jsonl", about, {"id": "1", "type": "user", "content": name})
    found = list(import_paths(store, [tmp_path]))
    names = [f"gemini-cli:a2a-server/h/session-{number}" for number in (1, 2)]
    assert (taken(found), told(found)) == (names, [])


def test_projects_with_long_common_prefixes_are_kept_apart(store, tmp_path):
    for project in ("a-project-with-a-name", "a-project-with-another", "0123456789abcdef" * 4):
        folder = tmp_path / project
        folder.mkdir()
        saved = [{"role": "user", "parts": [{"text": project}]}]
        (folder / "checkpoint-x.json").write_text(json.dumps(saved))
    found = list(import_paths(store, [tmp_path]))
    assert taken(found) == [
        f"gemini-cli:{one}/x"
        for one in ("0123456789abcdef", "a-project-with-a-name", "a-project-with-another")
    ]


def test_databases_of_others_and_empty_ones_hold_no_sessions(store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "opencode-cache.db")) as connection:
        connection.execute("CREATE TABLE cache (id TEXT)")
    (tmp_path / "opencode.db").touch()
    (tmp_path / "opencode-old.db").write_bytes(b"damaged")
    found = {one.path.name: one for one in import_paths(store, [tmp_path])}
    skipped = [one for one in found.values() if isinstance(one, SkippedSource)]
    assert [one.why for one in skipped] == ["it is another program's database", "it is empty"]
    assert not any(one.is_problem for one in skipped)
    damaged = found["opencode-old.db"]
    assert isinstance(damaged, SessionImport)
    assert [one.what for one in damaged.problems] == [
        f"The database {damaged.path} could not be read (DatabaseError, SQLITE_NOTADB)"
    ]
    assert (damaged.failed, store.sessions()) == (True, [])


@pytest.mark.parametrize("made", [claude_code, codex, gemini, opencode, roo])
def test_name_that_an_object_has_twice_is_reported(store, tmp_path, made):
    path = made(tmp_path)
    file = path if path.is_file() else path / "api_conversation_history.json"
    file.write_text(file.read_text().replace('"role":', '"role": "x", "role":', 1))
    if made is gemini:
        file.write_text(file.read_text().replace('"type":', '"type": "x", "type":', 1))
    (done,) = [one for one in import_paths(store, [path]) if one.path in (path, file)][:1]
    what = "an object has the same name twice: the last value was taken"
    assert [one.what for one in done.problems].count(what) == 1
    (again,) = [one for one in import_paths(store, [path]) if one.path in (path, file)][:1]
    assert again.messages == 0


def test_database_whose_name_is_not_utf8_is_read(store, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/opencode-\xff.db"))
    with closing(sqlite3.connect(os.fsencode(path))) as connection, connection:
        connection.execute("CREATE TABLE session (id)")
        connection.execute("INSERT INTO session VALUES ('ses_1')")
    found = list(import_paths(store, [path]))
    assert (taken(found), told(found)) == (["opencode:ses_1"], [])


def test_repeated_name_in_a_database_is_reported(store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as connection:
        for table in ("session", "message", "part"):
            columns = "id TEXT, session_id TEXT, message_id TEXT, data TEXT"
            connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute("INSERT INTO session (id) VALUES ('ses_1')")
        twice = '{"role": "assistant", "role": "user"}'
        connection.execute("INSERT INTO message VALUES ('msg_1', 'ses_1', NULL, ?)", (twice,))
        connection.commit()
    (done,) = import_paths(store, [tmp_path])
    path = tmp_path / "opencode.db"
    assert told([done]) == [f"{path}: an object has the same name twice: the last value was taken"]


def test_refusals_are_short_and_quote_nothing(store, tmp_path):
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    file = Transcript(tmp_path / "a.jsonl")
    file.user([{"type": "text", "text": "x", "deep": deep}])
    file.user("x", deep=deep)
    file.user("x", number="N")
    file.path.write_text(file.path.read_text().replace('"N"', "9" * 5_000))
    (done,) = import_paths(store, [tmp_path])
    whats = [one.what for one in done.problems]
    assert whats[2] == "a number in it has too many digits"
    assert all(len(one) < 160 for one in whats)
    assert all(one.endswith("...: is nested deeper than 500 levels") for one in whats[:2])


def test_pipe_as_the_base_of_a_rollout_is_reported(store, tmp_path):
    os.mkfifo(tmp_path / "rollout-1-base.jsonl")
    base = {"thread_id": "base", "end_ordinal_exclusive": 3}
    write(tmp_path / "rollout-2-x.jsonl", line("session_meta", id="x", history_base=base))
    write(tmp_path / "rollout-2-x.jsonl", item("user", "hello"))
    (done,) = import_paths(store, [tmp_path])
    assert [one.what for one in done.problems] == ["it is not a regular file"]


@pytest.mark.parametrize("cut", [b'{"seq":1,', b""])
def test_file_that_is_cut_before_its_first_entry_leaves_no_session(store, tmp_path, cut):
    with Store.open(":memory:") as other:
        chat = other.create("cut")
        chat.append("user", "x")
        header = next(iter(jsonl.export_session(chat)))
    file = tmp_path / "cut.jsonl"
    file.write_bytes(header + cut)
    (would,) = import_paths(store, [file], dry_run=True)
    (done,) = import_paths(store, [file])
    assert would == done
    assert done.failed
    assert not store.sessions()


def test_line_that_is_nested_too_deeply_does_not_keep_the_other_sessions(store, tmp_path):
    file = tmp_path / "a.jsonl"
    with Store.open(":memory:") as other:
        for name in ("one", "two"):
            other.create(name).append("user", name)
        lines = [b"".join(jsonl.export_session(other.session(name))) for name in ("one", "two")]
    deep = b'{"seq":2,"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    file.write_bytes(deep.join(lines) + b'{"roocontext":' + deep)
    found = list(import_paths(store, [file]))
    assert taken(found) == ["one", "two", ""]
    assert [problem.line for one in found for problem in one.problems] == [3, 6]


@pytest.mark.parametrize("value", ["1e999", f"{'[' * 600}{']' * 600}"])
def test_fact_of_a_wrong_type_does_not_keep_the_messages(store, tmp_path, value):
    facts = roo(tmp_path) / "history_item.json"
    facts.write_text(f'{{"workspace": {value}, "mode": {value}}}')
    (done,) = import_paths(store, [tmp_path])
    assert (done.failed, done.messages > 0) == (False, True)


def test_path_with_nul_is_refused(store):
    with pytest.raises(InvalidOption, match="NUL"):
        list(import_paths(store, ["a\0b"]))


def test_relative_paths_give_the_same_ids(store, tmp_path, monkeypatch):
    names = ("zoo-code/1", "s/subagents", "p/chats")
    task, agents, chats = (tmp_path / name for name in names)
    for folder in (task, agents, chats):
        folder.mkdir(parents=True)
    roo(task)
    talk(agents / "agent-a.jsonl")
    (chats.parent / "logs.json").write_text('[{"message": "x"}]')
    (chats.parent / "checkpoint-x.json").write_text('[{"role": "user", "parts": []}]')
    found = []
    for folder in (task, agents, chats.parent):
        monkeypatch.chdir(folder)
        found += taken(list(import_paths(store, [Path()])))
    assert found == ["roo-code:1", "claude-code:s/a", "gemini-cli:p/x", "gemini-cli:p/prompts"]
    sources = (
        *(task, agents / "agent-a.jsonl"),
        *(chats.parent / "checkpoint-x.json", chats.parent / "logs.json"),
    )
    assert [store.session(name).info().metadata["path"] for name in found] == [*map(str, sources)]


def test_message_whose_usage_is_refused_is_imported_without_it(store, tmp_path):
    file = Transcript(tmp_path / "a.jsonl")
    file.user("one")
    file.reply("m1", "two", stop="end_turn")
    file.path.write_text(
        file.path.read_text().replace('"input_tokens": 10', '"input_tokens": 1e999')
    )
    (done,) = import_paths(store, [file.path])
    assert (done.messages, done.problems[0].what[:35]) == (2, "it was imported without its usage: ")
    (again,) = import_paths(store, [file.path])
    assert again.status == "unchanged"


def test_summary_whose_record_is_refused_hides_what_it_stands_for(store, tmp_path):
    summary = (
        '{"role": "user", "content": "S", "isSummary": true, "condenseId": "c", "cost": 1e999}'
    )
    first = '{"role": "user", "content": "one", "condenseParent": "c"}'
    (tmp_path / "ui_messages.json").write_text("[]")
    (tmp_path / "api_conversation_history.json").write_text(f"[{first}, {summary}]")
    (done,) = import_paths(store, [tmp_path])
    assert "only its content was taken" in done.problems[0].what
    assert [one.content for one in store.session(done.session_id).view().messages] == ["S"]
    (again,) = import_paths(store, [tmp_path])
    assert again.status == "unchanged"


@pytest.mark.parametrize(
    ("paths", "options", "name"),
    [
        *((paths, {}, "paths") for paths in ("/", b"/", None, 7, [None], [7], [b"a"])),
        *(([], {"on_conflict": value}, "on_conflict") for value in (None, "forks", ["fork"])),
    ],
    ids=str,
)
def test_wrong_argument_is_refused_before_a_file_is_read(store, paths, options, name):
    with pytest.raises(InvalidOption) as caught:
        next(import_paths(store, paths, **options))
    assert caught.value.name == name
