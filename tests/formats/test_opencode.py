"""OpenCode's sessions, imported from an export, both kinds of folders, and the database."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from roocontext.formats import find
from roocontext.formats.importers import opencode
from roocontext.formats.imports import import_paths

INFO = {"id": "ses_1", "projectID": "p", "directory": "/work", "title": "A title"}
INFO["version"] = "1.4.1"


def user(number: int, *parts: Any, **info: Any) -> dict[str, Any]:
    return sent(number, "user", parts, **info)


def reply(number: int, *parts: Any, **info: Any) -> dict[str, Any]:
    tokens = {"input": 9, "output": 2, "reasoning": 0, "cache": {"read": 3, "write": 1}}
    more = {"modelID": "claude-x", "finish": "stop", "tokens": tokens, **info}
    return sent(number, "assistant", parts, **more)


def sent(number: int, role: str, parts: Any, **info: Any) -> dict[str, Any]:
    name = f"msg_{number:03}"
    made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in parts]
    named = [{"id": f"prt_{number:03}{n}", "messageID": name, **one} for n, one in enumerate(made)]
    return {
        "info": {"id": name, "sessionID": "ses_1", "role": role, "time": {"created": 5}, **info},
        "parts": named,
    }


def tool(call: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    done = {"completed": {"output": f"out {call}"}, "error": {"error": "no"}}.get(status, {})
    state = {"status": status, "input": {"command": "ls"}, **done, **state}
    return {"type": "tool", "callID": call, "tool": "bash", "state": state}


def as_export(folder: Path, info: Any, messages: list[Any]) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps({"info": info, "messages": messages}))
    return path


def as_storage(folder: Path, info: Any, messages: list[Any]) -> Path:
    root = folder / "storage"
    put(root / "session" / "p" / "ses_1.json", info)
    (root / "message").mkdir(exist_ok=True)
    put_messages(root, root / "part", messages)
    return root


def as_first_storage(folder: Path, info: Any, messages: list[Any]) -> Path:
    root = folder / "project" / "work" / "storage" / "session"
    put(root / "info" / "ses_1.json", info)
    put_messages(root, root / "part" / "ses_1", messages)
    return root.parent


def put_messages(root: Path, parts: Path, messages: list[Any]) -> None:
    for one in messages:
        name = one["info"]["id"]
        put(root / "message" / "ses_1" / f"{name}.json", one["info"])
        for part in one["parts"]:
            put(parts / name / f"{part['id']}.json", part)


def as_database(folder: Path, info: Any, messages: list[Any]) -> Path:
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL;"
            "CREATE TABLE IF NOT EXISTS session (id, project_id, parent_id, directory, title,"
            " version, revert);"
            "CREATE TABLE IF NOT EXISTS message (id, session_id, time_created, data);"
            "CREATE TABLE IF NOT EXISTS part (id, message_id, session_id, data);"
            "CREATE TABLE IF NOT EXISTS credential (secret);"
            "DELETE FROM session; DELETE FROM message; DELETE FROM part;"
        )
        revert = json.dumps(info["revert"]) if "revert" in info else None
        values = (info["id"], "p", None, "/work", info["title"], "1", revert)
        connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        for one in messages:
            insert(connection, one)
        connection.commit()
    return path


def insert(connection: sqlite3.Connection, one: Any) -> None:
    head = {k: v for k, v in one["info"].items() if k not in ("id", "sessionID")}
    row = (one["info"]["id"], "ses_1", 5, json.dumps(head))
    connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
    for part in one["parts"]:
        rest = {k: v for k, v in part.items() if k not in ("id", "messageID")}
        values = (part["id"], one["info"]["id"], "ses_1", json.dumps(rest))
        connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", values)


def put(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


@pytest.fixture(params=[as_export, as_storage, as_first_storage, as_database])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Writes the messages in one of the ways; the path to import."""

    def write(*messages: Any, **info: Any) -> Path:
        return request.param(tmp_path, {**INFO, **info}, list(messages))

    return write


def take(store: Any, path: Path) -> Any:
    """Import a session. A second import, which changes nothing, follows each."""
    (done,) = import_paths(store, [path])
    (again,) = import_paths(store, [path])
    assert (again.messages, again.notes, again.controls) == (0, 0, 0)
    return done


def seen(store: Any) -> list[str]:
    def short(block: Any) -> str:
        return block.get("text") or block.get("id") or str(block.get("content"))

    view = store.session("opencode:ses_1").view()
    return [short(block) for message in view.messages for block in message.content]


def test_session_becomes_messages(store, kept):
    path = kept(
        user(1, "hello"),
        reply(2, "let me", tool("c1"), {"type": "step-start"}, tool("c2", "error"), "done"),
        reply(3, tool("c3", "running")),
        reply(4, error={"name": "APIError", "data": {}}),
        user(5, {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA"}, "more"),
    )
    done = take(store, path)
    assert (done.problems, done.session_id) == ((), "opencode:ses_1")
    chat = store.session(done.session_id)
    roles = [message.role[0] for message in chat.view().messages]
    assert roles == ["u", "a", "u", "a", "u", "a", "u", "u"]
    assert seen(store)[:7] == ["hello", "let me", "c1", "out c1", "c2", "done", "no"]
    assert (chat.info().title, chat.info().metadata["folder"]) == ("A title", "/work")
    one, *_ = chat.usage()
    assert one.usage["cache_read_input_tokens"] == 3
    assert chat.messages()


ASKED = user(3, {"type": "compaction", "auto": True})
SUMMARY = reply(4, "S", summary=True, parentID="msg_003")


def test_compaction_becomes_a_summary(store, kept):
    take(store, kept(user(1, "one"), reply(2, "two"), ASKED, SUMMARY, user(5, "go on")))
    assert seen(store) == ["What did we do so far?", "S", "go on"]


def test_compaction_that_keeps_a_tail_leaves_it_visible(store, kept):
    asked = user(3, {"type": "compaction", "auto": True, "tail_start_id": "msg_002"})
    take(store, kept(user(1, "one"), user(2, "two"), asked, SUMMARY, user(5, "go on")))
    assert seen(store) == ["What did we do so far?", "S", "two", "go on"]


def test_text_typed_while_a_summary_is_made_stands_before_it(store, kept):
    asked = user(3, {"type": "compaction", "auto": True, "tail_start_id": "msg_002"})
    summary = reply(5, "S", summary=True, parentID="msg_003")
    take(store, kept(user(1, "one"), user(2, "two"), asked, user(4, "wait"), summary))
    assert seen(store) == ["What did we do so far?", "wait", "S", "two"]
    (chat,) = (store.session(one.session_id) for one in store.sessions())
    (compaction,) = [entry for entry in chat.audit() if entry.kind == "summary"]
    assert compaction.content[0]["text"] == "S"


@pytest.mark.parametrize(
    "damage", [{"finish": None}, {"error": {"name": "X"}}, {"parentID": "?"}, {"parentID": "msg_9"}]
)
def test_unfinished_or_failed_summary_hides_nothing(store, kept, damage):
    summary = {**SUMMARY, "info": {**SUMMARY["info"], **damage}}
    take(store, kept(user(1, "one"), ASKED, summary))
    assert seen(store)[:2] == ["one", "What did we do so far?"]


def test_cleared_outputs_become_a_clearing(store, kept):
    cleared = tool("c1", time={"start": 1, "end": 2, "compacted": 3})
    take(store, kept(user(1, "one"), reply(2, cleared, tool("c2"))))
    assert seen(store) == ["one", "c1", "c2", "[Old tool result content cleared]", "out c2"]
    take(store, kept(user(1, "one"), reply(2, cleared, tool("c2")), user(3, "more")))
    assert seen(store)[-1] == "more"
    assert "[Old tool result content cleared]" in seen(store)


def test_revert_becomes_a_rewind(store, kept):
    messages = (user(1, "one"), reply(2, "two", "three"), user(3, "four"))
    take(store, kept(*messages, revert={"messageID": "msg_003"}))
    assert seen(store) == ["one", "two", "three"]
    take(store, kept(*messages, revert={"messageID": "msg_002", "partID": "prt_0021"}))
    assert seen(store) == ["one", "two"]
    take(store, kept(*messages))
    assert seen(store) == ["one", "two", "three", "four"]


def test_revert_whose_deletion_was_interrupted_becomes_a_rewind(store, kept):
    revert = {"messageID": "msg_002", "partID": "prt_0021"}
    take(store, kept(user(1, "one"), user(3, "three"), revert=revert))
    assert seen(store) == ["one"]


def test_only_the_tables_of_sessions_are_read(tmp_path, monkeypatch):
    path = as_database(tmp_path, INFO, [user(1, "one")])
    asked: list[str] = []
    real = sqlite3.connect

    def watched(*args: Any, **options: Any) -> Any:
        connection = real(*args, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    for source in opencode.sources(path):
        list(source.events())
    rows = [query for query in asked if "table_info" not in query]  # the names of columns
    assert rows
    assert not any("credential" in query or "account" in query for query in rows)


def test_message_that_is_written_while_its_database_is_read_comes_whole(
    store, tmp_path, monkeypatch
):
    path = as_database(tmp_path, INFO, [user(1, "one")])
    real, waiting = sqlite3.connect, [user(2, "two")]

    def write(query: str) -> None:
        if waiting and "FROM message" in query:  # the parts were read already
            with closing(real(path)) as connection:
                insert(connection, waiting.pop())
                connection.commit()

    def watched(*args: Any, **options: Any) -> Any:
        connection = real(*args, **options)
        connection.set_trace_callback(write)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    list(import_paths(store, [path]))
    assert (seen(store), waiting) == (["one"], [])
    session = store.session("opencode:ses_1")
    assert not any("msg_002" in json.dumps(entry.content) for entry in session.audit())
    done = take(store, path)
    assert (seen(store), done.messages, done.rewound) == (["one", "two"], 1, False)


def test_session_of_which_there_are_only_events_is_reported(store, tmp_path):
    path = as_database(tmp_path, INFO, [])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE event (aggregate_id, seq, type, data)")
        connection.execute(
            "INSERT INTO event VALUES (?, 1, 'message.updated.1', '{}')", [INFO["id"]]
        )
        connection.commit()
    done = take(store, path)
    assert [str(problem).partition(": ")[2] for problem in done.problems] == [
        f"session {INFO['id']} has no messages, only events, which are not read: 1"
    ]


def test_damaged_rows_are_reported_and_not_quoted(store, tmp_path):
    path = as_database(tmp_path, INFO, [user(1, "one"), user(2, "two"), user(3, "three")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE session SET title = CAST(x'41ff' AS TEXT)")
        connection.execute("UPDATE message SET data = substr(data, 2) WHERE id = 'msg_001'")
        connection.execute("UPDATE part SET data = '[]' WHERE message_id = 'msg_002'")
        connection.commit()
    done = take(store, path)
    assert seen(store) == ["three"]
    assert store.session(done.session_id).info().title == "A\ufffd"
    told = [f"the data of {name} is no JSON object" for name in ("prt_0020", "msg_001")]
    assert [problem.what for problem in done.problems] == told


def test_database_of_another_tool_is_left_alone(tmp_path):
    path = tmp_path / ".opencode" / "opencode.db"
    path.parent.mkdir()
    path.write_bytes(b"")
    assert list(find.possible_sources(tmp_path, [])) == []


def test_old_summary_without_a_request_hides_nothing(store, tmp_path):
    messages = [user(1, "one"), reply(2, "S", summary=True), user(3, "two")]
    take(store, as_export(tmp_path, {**INFO, "version": "0.3.50"}, messages))
    assert seen(store) == ["one", "S", "two"]


def test_attachments_of_outputs_are_kept(store, tmp_path):
    picture = {"mime": "image/png", "url": "data:image/png;base64,AA"}
    messages = [user(1, "go"), reply(2, tool("c1", attachments=[picture]), tool("c2"))]
    take(store, as_export(tmp_path, INFO, messages))
    results = store.session("opencode:ses_1").view().messages[-1].content
    assert [block["type"] for block in results[0]["content"]] == ["text", "image"]
    assert results[1]["content"] == "out c2"


def test_stopped_call_has_a_result(store, tmp_path):
    metadata = {"interrupted": True, "output": "half"}
    messages = [
        user(1, "go"),
        reply(2, tool("c1", "error", metadata=metadata), tool("c2", "pending")),
    ]
    take(store, as_export(tmp_path, INFO, messages))
    first, second = store.session("opencode:ses_1").view().messages[-1].content
    assert (first["content"], first.get("is_error")) == ("half", None)
    assert (second["content"], second["is_error"]) == ("[Tool execution was interrupted]", True)


def test_tail_that_begins_before_the_last_compaction_is_kept(store, tmp_path):
    kept = {"type": "compaction", "tail_start_id": "msg_002"}
    first, second = (
        (user(n, kept), reply(n + 1, summary, summary=True, parentID=f"msg_{n:03}"))
        for n, summary in ((3, "S1"), (6, "S2"))
    )
    messages = [user(1, "one"), user(2, "two"), *first, user(5, "three"), *second, user(8, "four")]
    take(store, as_export(tmp_path, INFO, messages))
    asked = "What did we do so far?"
    assert seen(store) == [asked, "S2", "two", asked, "S1", "three", "four"]


def test_revert_to_before_a_compaction_that_kept_everything_takes_it_back(store, tmp_path):
    """The messages that it kept were written again: the copies are gone with it."""
    cleared = tool("c1", time={"start": 1, "end": 2, "compacted": 3})
    asked = user(4, {"type": "compaction", "tail_start_id": "msg_001"})
    summary = reply(5, "S", summary=True, parentID="msg_004")
    messages = [user(1, "one"), reply(2, cleared), user(3, "two"), asked, summary, user(6, "three")]
    take(store, as_export(tmp_path, INFO, messages))
    assert seen(store)[1:3] == ["S", "one"]
    take(store, as_export(tmp_path, {**INFO, "revert": {"messageID": "msg_003"}}, messages))
    assert seen(store) == ["one", "c1", "[Old tool result content cleared]"]
    take(store, as_export(tmp_path, {**INFO, "revert": {"messageID": "msg_006"}}, messages))
    assert seen(store)[1:] == ["S", "one", "c1", "[Old tool result content cleared]", "two"]


def test_prunes_of_a_reverted_session_are_kept(store, tmp_path):
    cleared = tool("c1", time={"start": 1, "end": 2, "compacted": 3})
    messages = [user(1, "one"), reply(2, cleared), user(3, "two"), user(4, "three")]
    take(store, as_export(tmp_path, {**INFO, "revert": {"messageID": "msg_004"}}, messages))
    assert seen(store) == ["one", "c1", "[Old tool result content cleared]", "two"]


def test_prune_of_what_a_reverted_compaction_hid_is_kept(store, tmp_path):
    cleared = tool("c1", time={"start": 1, "end": 2, "compacted": 3})
    before = [user(1, "one"), reply(2, cleared)]
    take(store, as_export(tmp_path, INFO, [*before, ASKED, SUMMARY]))
    assert seen(store)[-1] == "S"
    take(store, as_export(tmp_path, INFO, before))
    assert seen(store) == ["one", "c1", "[Old tool result content cleared]"]
    assert store.session("opencode:ses_1").verify().ok


def test_messages_of_the_first_schema_are_read(store, tmp_path):
    invocation = {"toolCallId": "c1", "toolName": "bash", "args": {}, "result": "out"}
    metadata = {
        "time": {"created": 5},
        "tool": {"c1": {"title": "t", "time": {"start": 1, "end": 2}}},
        "assistant": {"modelID": "claude-x", "tokens": {"input": 1, "output": 2}},
    }
    folder = as_first_storage(tmp_path, {**INFO, "version": "0.1.100"}, [])
    put(folder / "session" / "message" / "ses_1" / "msg_001.json", {
        "id": "msg_001", "role": "user", "metadata": {"time": {"created": 4}},
        "parts": [{"type": "text", "text": "hello"}],
    })  # fmt: skip
    put(folder / "session" / "message" / "ses_1" / "msg_002.json", {
        "id": "msg_002", "role": "assistant", "metadata": metadata,
        "parts": [
            {"type": "step-start"},
            {"type": "tool-invocation", "toolInvocation": {"state": "result", **invocation}},
            {"type": "tool-invocation", "toolInvocation": {"state": "call", "toolCallId": "c2"}},
            {"type": "text", "text": "done"},
        ],
    })  # fmt: skip
    take(store, folder)
    *said, stopped = seen(store)
    assert said == ["hello", "c1", "c2", "done", "out"]
    assert stopped == "[Tool execution was interrupted]"
    messages = store.session("opencode:ses_1").view().messages
    assert (messages[0].ts, messages[1].model) == (4, "claude-x")


def test_messages_of_the_second_schema_are_read(store, tmp_path):
    path = tmp_path / "opencode.db"
    done = {"status": "completed", "input": {"a": 1}, "content": [{"type": "text", "text": "out"}]}
    failed = {"status": "error", "input": {}, "error": {"message": "no"}}
    content = [
        {"type": "text", "text": "let me"},
        {"type": "tool", "id": "c1", "name": "bash", "state": done},
        {"type": "tool", "id": "c2", "name": "bash", "state": failed},
    ]
    unreadable = {"mime": "text/plain", "data": "abcde"}
    rows = [
        ("msg_9", "user", {"text": "gone"}),
        ("msg_8", "compaction", {"reason": "auto", "summary": "S", "recent": "R"}),
        ("msg_7", "model-switched", {"model": {"id": "claude-x"}}),
        ("msg_6", "user", {"text": "hello", "time": {"created": 7}, "files": [unreadable]}),
        ("msg_5", "assistant", {"content": content, "model": {"id": "claude-x"}}),
        ("msg_4", "shell", {"command": "ls", "output": "a"}),
        ("msg_3", "synthetic", {"text": "go on"}),
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE session_v2 (id, parent_id, title)")
        connection.execute("INSERT INTO session_v2 VALUES ('ses_1', NULL, 'A title')")
        connection.execute("CREATE TABLE session_message (id, session_id, type, seq, data)")
        for seq, (name, kind, data) in enumerate(rows):
            values = (name, "ses_1", kind, seq, json.dumps(data))
            connection.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", values)
        connection.commit()
    take(store, path)
    summary, *said = seen(store)
    assert "<summary>\nS\n</summary>" in summary
    assert said == ["hello", "let me", "c1", "c2", "out", "no", "Shell command: ls\n\na", "go on"]


def without_ids(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    names = {"id", "parentID", "sessionID", "messageID"}.intersection(record)
    rest = {key: without_ids(value) for key, value in record.items()}
    return {**rest, **dict.fromkeys(names, "REDACTED")}


@pytest.mark.parametrize("form", [as_export, as_storage, as_first_storage])
def test_removed_ids_do_not_merge_messages(store, tmp_path, form):
    messages = [user(1, "one"), reply(2, "two"), ASKED, SUMMARY, user(5, "go on")]
    if form is as_export:
        messages = [*map(without_ids, messages)]
    path = form(tmp_path, INFO, messages)
    for file in path.rglob("*.json"):
        put(file, without_ids(json.loads(file.read_text())))
    assert take(store, path).messages == 3
    assert seen(store) == ["What did we do so far?", "S", "go on"]


def test_export_without_texts_is_read(store, tmp_path):
    messages = [user(1, "[redacted:text:prt_1]"), user(2), reply(3, tool("c1", "running"))]
    assert take(store, as_export(tmp_path, INFO, messages)).problems == ()
    assert seen(store) == ["[redacted:text:prt_1]", "c1", "[Tool execution was interrupted]"]


def test_id_with_a_path_is_not_followed(store, tmp_path):
    folder = as_storage(tmp_path, {**INFO, "id": "../../elsewhere"}, [])
    put(tmp_path / "elsewhere" / "msg_001.json", user(1, "secret")["info"])
    take(store, folder)
    assert store.session("opencode:../../elsewhere").view().messages == ()
