"""Damaged and strange sources: no importer raises anything, and what is whole is taken."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Store
from roocontext.formats.gather import Taken, import_paths
from support.examples import examples
from support.transcripts import Transcript, use

STRANGE = [None, True, 7, -1.5, "", "x", [], {}, [None], {"type": 5}, [[]], "\ud83d\0"]


def claude_code(folder: Path) -> Path:
    file = Transcript(folder / "s.jsonl")
    file.user("one")
    file.reply("m1", "let me", use("t1"), stop="tool_use")
    file.result("t1")
    file.row(
        "system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"]}
    )
    file.compact("S", preservedMessages={"uuids": ["u-3"]})
    file.user("side", isSidechain=True, parent=None)
    file.line({"type": "summary", "summary": "T", "leafUuid": "u-1"})
    return file.path


def codex(folder: Path) -> Path:
    def line(kind: str, **payload: Any) -> str:
        return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload})

    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    info = {"last_token_usage": {"input_tokens": 1}}
    lines = [
        line(
            "session_meta", id="x", source={"subagent": {"thread_spawn": {}}}, git={"branch": "b"}
        ),
        line("turn_context", model="m"),
        line("response_item", **said),
        line("response_item", **call),
        line("event_msg", type="token_count", info=info),
        line("compacted", message="S", replacement_history=[said]),
        line("event_msg", type="thread_rolled_back", num_turns=1),
    ]
    path = folder / "rollout-x.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def gemini(folder: Path) -> Path:
    call = {"id": "c", "name": "f", "args": {}, "result": [{"functionResponse": {}}]}
    thought = {"subject": "s", "description": "d"}
    reply = {
        "id": "2",
        "type": "gemini",
        "content": "a",
        "toolCalls": [call],
        "thoughts": [thought],
    }
    lines = [
        {"sessionId": "g", "projectHash": "h"},
        {"id": "1", "type": "user", "content": "one"},
        {**reply, "tokens": {"input": 1}, "model": "m"},
        {"$patch": {"id": "2", "toolCalls": [{"id": "c"}], "updates": [{"id": "1"}]}},
        {"$patch": {"removeIds": ["1"], "orderIds": ["2"]}},
        {"$set": {"messages": [reply], "summary": "T"}},
        {"$rewindTo": "2"},
    ]
    path = folder / "session-g.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    return path


def opencode(folder: Path) -> Path:
    state = {"status": "completed", "input": {}, "output": "o", "time": {"compacted": 1}}
    parts = [
        {"id": "p1", "type": "text", "text": "t"},
        {
            "id": "p2",
            "type": "reasoning",
            "text": "t",
            "metadata": {"anthropic": {"signature": "s"}},
        },
        {"id": "p3", "type": "tool", "callID": "c", "tool": "f", "state": state},
        {"id": "p4", "type": "file", "mime": "image/png", "url": "data:image/png;base64,A"},
    ]
    reply = {"id": "m1", "role": "assistant", "time": {"created": 1}, "tokens": {"cache": {}}}
    asked = {"id": "m2", "role": "user", "time": {"created": 1}}
    summary = {**reply, "id": "m3", "summary": True, "finish": "x", "parentID": "m2"}
    document = {
        "info": {"id": "s", "title": "T", "revert": {"messageID": "m3", "partID": "p2"}},
        "messages": [
            {"info": reply, "parts": parts},
            {"info": asked, "parts": [{"id": "p", "type": "compaction", "tail_start_id": "m1"}]},
            {"info": summary, "parts": parts[:1]},
        ],
    }
    path = folder / "export.json"
    path.write_text(json.dumps(document))
    return path


def roo(folder: Path) -> Path:
    rows: list[Any] = [
        {"role": "user", "content": "a", "ts": 1, "truncationParent": "t"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}], "ts": 2},
        {"role": "user", "content": "m", "isTruncationMarker": True, "truncationId": "t"},
        {"role": "assistant", "content": "S", "isSummary": True, "condenseId": "c"},
        {"type": "reasoning", "role": "assistant", "encrypted_content": "x"},
    ]
    screen = [{"ts": 1, "text": "T", "conversationHistoryDeletedRange": [0, 1]}]
    (folder / "api_conversation_history.json").write_text(json.dumps(rows))
    (folder / "ui_messages.json").write_text(json.dumps(screen))
    (folder / "history_item.json").write_text(json.dumps({"task": "T", "parentTaskId": "p"}))
    return folder


SOURCES = {one.__name__: one for one in (claude_code, codex, gemini, opencode, roo)}


def changed(record: Any, dice: random.Random) -> Any:
    """The record with one value somewhere in it exchanged or missing."""
    if not isinstance(record, dict | list) or not record or dice.random() < 0.15:
        return dice.choice(STRANGE)
    if isinstance(record, list):
        at = dice.randrange(len(record))
        return [changed(one, dice) if n == at else one for n, one in enumerate(record)]
    name = dice.choice(list(record))
    if dice.random() < 0.1:
        return {key: value for key, value in record.items() if key != name}
    return {**record, name: changed(record[name], dice)}


def damage(path: Path, dice: random.Random) -> None:
    text = path.read_text()
    if dice.random() < 0.3:
        raw = bytearray(path.read_bytes())
        at = dice.randrange(len(raw))
        raw[at : at + dice.randrange(9)] = dice.randbytes(dice.randrange(9))
        path.write_bytes(raw)
    elif path.suffix == ".json":
        path.write_text(json.dumps(changed(json.loads(text), dice)))
    else:
        lines = text.splitlines()
        at = dice.randrange(len(lines))
        lines[at] = json.dumps(changed(json.loads(lines[at]), dice))
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 1 << 32))
def test_a_damaged_source_is_reported_and_never_raises(tmp_path_factory, source, seed):
    dice = random.Random(seed)
    folder = tmp_path_factory.mktemp("damaged")
    path = SOURCES[source](folder)
    for _ in range(dice.randint(1, 3)):
        files = [one for one in folder.rglob("*.json*") if one.stat().st_size]
        try:
            damage(dice.choice(files), dice)
        except (ValueError, IndexError):
            break
    with Store.open(":memory:") as store:
        for one in import_paths(store, [path]):
            assert "shape" not in str(one)
        # What was imported once is not imported twice, whatever is wrong with it.
        for one in import_paths(store, [path]):
            if isinstance(one, Taken):
                assert not one.failed
                assert (one.messages, one.notes, one.controls) == (0, 0, 0)
        assert all(store.session(one.session_id).verify().ok for one in store.sessions())


def test_a_strange_folder(tmp_path):
    (tmp_path / "dir.jsonl").mkdir()
    (tmp_path / "a.jsonl").write_bytes(b"\0\xff" * 99)
    (tmp_path / "b.jsonl").write_text("7\n[]\n")
    (tmp_path / "session-x.json").write_text("[1]")
    (tmp_path / "checkpoint-x.json").write_text("7")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with Store.open(":memory:") as store:
        found = list(import_paths(store, [tmp_path, tmp_path / "missing"]))
    assert sum(getattr(one, "is_problem", False) for one in found) == 3
