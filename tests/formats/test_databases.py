"""Sessions that frameworks keep in databases, imported with none of the frameworks installed."""

import gzip
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

from roocontext import Store
from roocontext.errors import InvalidOption
from roocontext.formats import import_paths
from roocontext.formats.databases import place_of
from roocontext.formats.events import Added, ServerUrl
from roocontext.formats.importers import google_adk
from roocontext.formats.imports import SkippedSource
from roocontext.formats.writing import SessionImport

GOLDEN = Path(__file__).parent / "golden"
MODULES = {"langgraph": "langgraph", "openai_agents": "agents", "google_adk": "google.adk"}
IDS = {
    "langgraph": "langgraph-saver:golden",
    "openai_agents": "openai-agents:golden",
    "google_adk": "adk-sessions:app/user/golden",
}
SHOWN: dict[str, list[str]] = {
    "langgraph": ["What is here?", "One file.", "Another way.", "One file."],
    "openai_agents": ["What is here?", "One file.", "Another way."],
    "google_adk": ["[The conversation continues from here.]", "There is one file.", "Another way."],
}
CONTROLS = {"langgraph": 1, "openai_agents": 1, "google_adk": 2}


@pytest.fixture(params=[*IDS])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The database of a framework."""
    path = tmp_path / "agent.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{request.param}.sqlite.gz").read_bytes()))
    return request.param, path


def imported(store: Store, place: Any, **options: Any) -> SessionImport:
    (one,) = import_paths(store, [place], **options)
    assert isinstance(one, SessionImport)
    return one


def shown(store: Store, name: str) -> list[str]:
    contents = [one["content"] for one in store.session(name).messages(form="anthropic")]
    blocks = [
        block
        for content in contents
        for block in ([{"text": content}] if isinstance(content, str) else content)
    ]
    return [block["text"] for block in blocks if "text" in block]


def test_stored_database_of_a_framework_is_imported_without_it(store, golden):
    framework, path = golden
    before = path.read_bytes()
    would = imported(store, path, dry_run=True)
    assert store.sessions() == []
    one = imported(store, path)
    assert one == would
    assert (one.session_id, one.status, one.problems) == (IDS[framework], "created", ())
    assert one.controls == CONTROLS[framework]
    assert shown(store, one.session_id) == SHOWN[framework]
    assert imported(store, path).status == "unchanged"
    store.session(one.session_id).verify()
    assert MODULES[framework] not in sys.modules
    assert path.read_bytes() == before


def test_calls_are_answered_and_dated(store, golden):
    _, path = golden
    chat = store.session(imported(store, path).session_id)
    messages = [row.entry for row in chat.audit() if row.kind.value == "message"]
    assert all(row.ts is not None for row in messages)
    contents = [one["content"] for one in chat.messages(form="anthropic")]
    blocks = [block for one in contents if not isinstance(one, str) for block in one]
    calls = [block["name"] for block in blocks if block["type"] == "tool_use"]
    assert calls in (["ls"], ["ls", "ls"], [])
    assert chat.pending() == []


ITEM = json.dumps({"role": "user", "content": "hi"})
EVENT = json.dumps({"author": "user", "content": {"parts": [{"text": "hi"}]}})


def make_items(run: Any) -> None:
    columns = "id integer, session_id text, message_data text, created_at text"
    run(f"CREATE TABLE agent_messages ({columns})")


def make_events(run: Any, *, state: str = "text") -> None:
    run(f"CREATE TABLE sessions (app_name text, user_id text, id text, state {state})")
    run(
        "CREATE TABLE events (id text, app_name text, user_id text, session_id text,"
        f" invocation_id text, timestamp text, event_data {state})"
    )
    run("INSERT INTO sessions VALUES ('app', 'user', 's', '{}')")


def write_items(path: Path, *rows: tuple[Any, ...]) -> Path:
    """A database of the OpenAI Agents SDK with these numbers, sessions and items."""
    with closing(sqlite3.connect(path)) as file, file:
        make_items(file.execute)
        file.executemany("INSERT INTO agent_messages VALUES (?, ?, ?, NULL)", rows)
    return path


def write_events(path: Path, *events: tuple[str, str]) -> Path:
    """A database of Google ADK with these events, by their ids, all of one time."""
    with closing(sqlite3.connect(path)) as file, file:
        make_events(file.execute)
        file.executemany("INSERT INTO events VALUES (?, 'app', 'user', 's', 'i', 1, ?)", events)
    return path


def test_database_on_a_server_is_read_by_its_url(store, server_url):
    item = json.dumps({"role": "user", "content": "100 % sure?"})
    with psycopg.connect(server_url) as server:
        make_items(server.execute)
        insert = "INSERT INTO agent_messages VALUES (1, 'one', %s, '2026-01-02 03:04:05')"
        server.execute(insert, [item])
    url = server_url.replace("postgresql://", "postgresql+asyncpg://")
    one = imported(store, url)
    assert (one.session_id, one.messages) == ("openai-agents:one", 1)
    assert store.session(one.session_id).info().metadata["path"] == str(place_of(url))
    (row,) = (row for row in store.session(one.session_id).audit() if row.visible)
    assert row.entry.ts == 1_767_323_045_000
    assert imported(store, url).status == "unchanged"


def test_tables_of_several_frameworks_are_all_read(store, server_url):
    with psycopg.connect(server_url) as server:
        make_items(server.execute)
        make_events(server.execute, state="jsonb")
        server.execute("INSERT INTO agent_messages VALUES (1, 'one', '7', NULL)")
        insert = "INSERT INTO events VALUES ('e', 'app', 'user', 's', 'i', '2026-01-02', %s)"
        server.execute(insert, [EVENT])
    found = import_paths(store, [server_url])
    ids = [one.session_id for one in found if isinstance(one, SessionImport)]
    assert ids == ["adk-sessions:app/user/s", "openai-agents:one"]
    assert imported(store, server_url, tool="openai-agents").status == "unchanged"


def test_password_and_options_of_a_url_are_not_shown():
    place = place_of("postgresql+psycopg://me:secret@db.example:5433/app?sslkey=hidden")
    assert str(place) == "postgresql://me@db.example:5433/app"
    assert "secret" not in repr(place)


def skipped(store: Store, place: Any) -> str:
    """Why a database is a problem."""
    (one,) = import_paths(store, [place])
    assert isinstance(one, SkippedSource)
    assert one.is_problem
    return one.why


def test_server_without_known_tables_is_a_problem(store, server_url):
    assert "none of its tables" in skipped(store, server_url)


def test_server_that_does_not_answer_is_a_problem(store):
    why = skipped(store, "postgresql://me:secret@127.0.0.1:1/app")
    assert "127.0.0.1:1/app could not be read" in why
    assert "secret" not in why


@pytest.mark.parametrize("url", ["mysql://here/app", "sqlite://memory", "http://a/b"])
def test_other_databases_are_refused(store, url):
    with pytest.raises(InvalidOption, match="SQLite file or a PostgreSQL server"):
        list(import_paths(store, [url]))


def test_url_of_a_file_is_a_path(tmp_path):
    assert place_of(f"sqlite+aiosqlite:///{tmp_path}/a.db?cache=shared") == tmp_path / "a.db"
    assert not isinstance(place_of("a.db"), ServerUrl)


of_langgraph = pytest.mark.parametrize("golden", ["langgraph"], indirect=True)


def test_items_that_are_not_json_are_reported(store, tmp_path):
    items = enumerate((ITEM, "{", '"loose"', "7"), 1)
    path = write_items(tmp_path / "agents.db", *((n, "one", item) for n, item in items))
    one = imported(store, path)
    assert [problem.what for problem in one.problems] == ["item 2 is not JSON"]
    assert one.messages == 2  # what is no item is kept as it is
    assert imported(store, path).status == "unchanged"


def taken_with_other_messages(other: Any, session: str, path: Path) -> bool:
    """True if this tells that the session was taken from another place."""
    what = f"its session openai-agents:{session} was taken with other messages from {path}"
    return isinstance(other, SkippedSource) and (other.why, other.is_problem) == (what, True)


def test_session_that_another_table_names_too_is_reported(store, tmp_path):
    path = write_items(tmp_path / "agents.db", (1, "t:1", ITEM))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE t AS SELECT * FROM agent_messages")
        file.execute(
            "UPDATE t SET session_id = '1', message_data = replace(message_data, 'h', 'x')"
        )
    for status in ("created", "unchanged"):
        one, other = import_paths(store, [path])
        assert one.status == status
        assert taken_with_other_messages(other, "t:1", path)
    assert shown(store, "openai-agents:t:1") == ["hi"]


def test_copy_is_reported_also_if_the_first_file_no_longer_has_its_session(store, tmp_path):
    first, copy = (write_items(tmp_path / name, (1, "one", ITEM)) for name in ("a.db", "b.db"))
    outcomes = iter(import_paths(store, [first, copy]))
    assert isinstance(next(outcomes), SessionImport)
    with closing(sqlite3.connect(first)) as file, file:
        file.execute("UPDATE agent_messages SET session_id = 'other'")
    (other,) = outcomes
    assert taken_with_other_messages(other, "one", first)
    assert other.path == copy


def test_pickled_events_of_google_adk_are_refused(store, tmp_path):
    path = write_events(tmp_path / "adk.db")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("ALTER TABLE events RENAME COLUMN event_data TO actions")
    assert "adk migrate session" in skipped(store, path)


@pytest.mark.parametrize(
    ("has_version", "order"), [(True, ["later", "first"]), (False, ["first", "later"])]
)
def test_adk_events_of_one_time_have_the_order_of_their_service(
    store, tmp_path, has_version, order
):
    words = {"b": "first", "a": "later"}
    events = ((name, EVENT.replace("hi", word)) for name, word in words.items())
    path = write_events(tmp_path / "adk.db", *events)
    if has_version:  # as DatabaseSessionService has it
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("CREATE TABLE adk_internal_metadata (key, value)")
            file.execute("INSERT INTO adk_internal_metadata VALUES ('schema_version', '1')")
    assert shown(store, imported(store, path).session_id) == order


def test_adk_event_is_not_compared_with_all_before_it(tmp_path):
    def steps(count: int) -> int:
        """The lines of the importer that run for a session of so many events."""
        events = ((f"{number:04}", EVENT) for number in range(count))
        path = write_events(tmp_path / f"{count}.db", *events)
        run = 0

        def trace(frame: FrameType, _event: str, _: object) -> Any:
            nonlocal run
            run += frame.f_code.co_filename == google_adk.__file__
            return trace

        (source,) = google_adk.IMPORTER.read(path)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert sum(isinstance(one, Added) for one in source.events()) == count
        finally:
            sys.settrace(before)
        return run

    assert steps(400) < 5 * steps(100)


@of_langgraph
@pytest.mark.parametrize("kind", ["pickle", "yaml"])
def test_values_that_would_run_code_are_refused(store, golden, kind):
    _, path = golden
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE checkpoints SET type = ?", [kind])
    one = imported(store, path)
    assert one.failed
    assert f"a value is stored as '{kind}'" in one.problems[0].what


@of_langgraph
def test_object_of_any_class_is_read_without_its_class(store, golden):
    _, path = golden
    with closing(sqlite3.connect(path)) as file, file:
        for name, data in file.execute("SELECT checkpoint_id, checkpoint FROM checkpoints"):
            evil = data.replace(b"langchain_core.messages.ai", b"os_that_does_not_exist_at_")
            change = "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?"
            file.execute(change, [evil, name])
    one = imported(store, path)
    assert (one.problems, shown(store, one.session_id)) == ((), SHOWN["langgraph"])


@of_langgraph
@pytest.mark.parametrize(
    "damage",
    [
        *(
            f"{name} = substr({name}, 1, {n})"
            for name, n in (("checkpoint", 100), ("metadata", 10))
        ),
        "type = 'json'",
    ],
)
def test_checkpoint_that_is_cut_ends_the_thread(store, golden, damage):
    _, path = golden
    with closing(sqlite3.connect(path)) as file, file:
        newest = "SELECT max(checkpoint_id) FROM checkpoints"
        file.execute(f"UPDATE checkpoints SET {damage} WHERE checkpoint_id = ({newest})")
    one = imported(store, path)
    assert [problem.what for problem in one.problems] == ["a value is damaged"]
    assert shown(store, one.session_id)[-1] == "Another way."
    assert one.messages == store.session(one.session_id).info().messages


def test_json_of_older_releases_is_read(store, tmp_path):
    def message(named: str, **fields: Any) -> Any:
        path = ["langchain", "schema", "messages", named]
        return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}

    said = [message("HumanMessage", content="hi"), message("AIMessage", content="hello", id="a")]
    checkpoint = {"v": 1, "ts": "2024-01-02T03:04:05+00:00", "channel_values": {"messages": said}}
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id,"
            " parent_checkpoint_id, type, checkpoint BLOB, metadata BLOB)"
        )
        insert = "INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'json', ?, '{}')"
        file.execute(insert, [json.dumps(checkpoint).encode()])
    one = imported(store, path)
    assert (one.messages, one.problems) == (2, ())
    assert shown(store, one.session_id) == ["hi", "hello"]
