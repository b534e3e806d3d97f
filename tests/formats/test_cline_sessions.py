"""Sessions of Cline's command line since 3.0: what it sends next, as 3.0.65 wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext import Store
from roocontext.formats import find
from roocontext.formats.imports import import_paths
from roocontext.formats.writing import SessionImport
from support.transcripts import say


def asked(name: str, text: str) -> dict[str, Any]:
    wrapped = say(f'<user_input mode="act">{text}</user_input>')
    return {"id": name, "role": "user", "content": [wrapped], "ts": 1_795_456_893_000}


def replied(name: str, *content: Any) -> dict[str, Any]:
    metrics = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 0, "cacheWriteTokens": 0}
    info = {"id": "gpt-4o", "provider": "openai-compatible"}
    reply = {"id": name, "role": "assistant", "content": list(content), "ts": 1_795_456_894_000}
    return {**reply, "modelInfo": info, "metrics": metrics}


CALL = {"type": "tool_use", "id": "c1", "name": "run_commands", "input": {"commands": ["ls"]}}
ANSWER = {"query": "ls", "result": "one\\n", "success": True}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "name": "run_commands", "content": [ANSWER]}
ROWS = [
    asked("u1", "First"),
    replied("a1", say("I will look."), CALL),
    {"id": "u2", "role": "user", "content": [RESULT], "ts": 1_795_456_895_000},
    {"id": "d", "role": "user", "content": [say("shown")], "metadata": {"displayOnly": True}},
    replied("a2", say("done")),
    asked("u3", "Second"),
    replied("a3", say("fine")),
]
ABOUT = {"metadata": {"kind": "compaction_summary"}}
SUMMARY = {"role": "user", "content": [say("Context summary:")], **ABOUT}


def session(folder: Path, rows: Any, name: str = "s1", **compaction: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"source": "cli", "version": "3.0.65"}
    document = {"version": 1, "sessionId": name, "origin": origin, "messages": rows}
    (folder / f"{name}.messages.json").write_text(json.dumps(document))
    about = {"session_id": name, "cwd": "/my work", "metadata": {"title": "First"}}
    (folder / f"{name}.json").write_text(json.dumps(about))
    if compaction:
        (folder / f"{name}.compaction.json").write_text(json.dumps({"version": 1, **compaction}))
    return folder


def take(store: Any, path: Path) -> list[SessionImport]:
    found = list(import_paths(store, [path]))
    assert all(isinstance(one, SessionImport) for one in found)
    return [one for one in found if isinstance(one, SessionImport)]


def seen(store: Any, name: str = "cline:s1") -> list[Any]:
    messages = store.session(name).view().messages
    blocks = [block for message in messages for block in message.content]
    return [block.get("text") or block["type"] for block in blocks]


def test_session_becomes_messages(store, tmp_path):
    folder = session(tmp_path / "sessions" / "s1", ROWS)
    (done,) = take(store, folder)
    assert (done.tool, done.messages, done.problems) == ("cline", 6, ())
    assert seen(store) == [
        *("First", "I will look.", "tool_use", "tool_result", "done", "Second", "fine")
    ]
    chat = store.session("cline:s1")
    messages = chat.view().messages
    assert messages[2].content[0]["content"] == json.dumps([ANSWER], separators=(",", ":"))
    assert (messages[1].model, messages[1].ts) == ("gpt-4o", 1_795_456_894_000)
    info = chat.info()
    assert (info.title, info.metadata["folder"]) == ("First", "/my work")
    assert info.metadata["version"] == "3.0.65"
    records = [entry.entry.extra for entry in chat.audit() if entry.kind == "message"]
    assert records[0]["record"]["content"] == ROWS[0]["content"]
    assert "content" not in records[1]["record"]
    chat.request("anthropic", as_of=chat.head().seq, prefill=True)
    (again,) = take(store, folder)
    assert (again.messages, again.notes, again.controls) == (0, 0, 0)


def test_compaction_becomes_a_summary(store, tmp_path):
    folder = session(tmp_path / "s1", ROWS)
    take(store, folder)
    kept = [SUMMARY, ROWS[4]]
    session(folder, ROWS, source_message_count=4, messages=kept)
    (done,) = take(store, folder)
    assert done.rewound
    assert seen(store) == ["Context summary:", "done", "Second", "fine"]
    with Store.open(":memory:") as fresh:
        take(fresh, folder)
        assert seen(fresh) == seen(store)
    session(folder, [*ROWS, asked("u4", "Third")], source_message_count=4, messages=kept)
    (done,) = take(store, folder)
    assert (done.messages, done.rewound) == (1, False)
    assert seen(store)[-1] == "Third"


def test_compaction_without_a_summary_keeps_its_messages(store, tmp_path):
    take(store, session(tmp_path / "s1", ROWS, source_message_count=4, messages=[ROWS[4]]))
    assert seen(store) == ["done", "Second", "fine"]


@pytest.mark.parametrize("count", [7, -1, "4", None])
def test_compaction_of_other_messages_hides_nothing(store, tmp_path, count):
    take(store, session(tmp_path / "s1", ROWS, source_message_count=count, messages=[SUMMARY]))
    assert seen(store)[0] == "First"


def test_sub_agent_is_a_child(store, tmp_path):
    folder = session(tmp_path / "s1", ROWS)
    session(folder, ROWS[:1], "agent-2")
    take(store, folder)
    assert [one.session_id for one in store.session("cline:s1").children()] == ["cline:agent-2"]


def test_odd_records_and_damaged_files_are_reported(store, tmp_path):
    folder = session(tmp_path / "s1", [*ROWS, 7, {"role": "robot"}, {"role": "user"}])
    (done,) = take(store, folder)
    assert len(done.problems) == 1  # a message without content
    file = folder / "s1.messages.json"
    file.write_text(file.read_text()[:-20])
    (done,) = take(store, folder)
    assert (len(done.problems), done.rewound) == (1, False)
    file.write_text(json.dumps(ROWS[:1]))
    take(store, folder)
    assert seen(store) == ["First"]


def test_default_folder_is_found(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(tmp_path / ".cline" / "data" / "sessions" / "s1", ROWS)
    assert find.places("cline") == [tmp_path / ".cline" / "data" / "sessions"]
