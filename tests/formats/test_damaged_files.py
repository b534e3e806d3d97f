"""Damaged and strange sources: no importer raises anything, and what is whole is taken."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Store
from roocontext.formats.imports import import_paths
from roocontext.formats.writing import SessionImport
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
    spawned = {"subagent": {"thread_spawn": {}}}
    lines = [
        line("session_meta", id="x", source=spawned, git={"branch": "b"}),
        line("turn_context", model="m"),
        *(line("response_item", **one) for one in (said, call)),
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
    reply: Any = {"id": "2", "type": "gemini", "content": "a", "toolCalls": [call]}
    reply |= {"thoughts": [thought]}
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
    signed = {"anthropic": {"signature": "s"}}
    parts = [
        {"id": "p1", "type": "text", "text": "t"},
        {"id": "p2", "type": "reasoning", "text": "t", "metadata": signed},
        {"id": "p3", "type": "tool", "callID": "c", "tool": "f", "state": state},
        {"id": "p4", "type": "file", "mime": "image/png", "url": "data:image/png;base64,A"},
    ]
    reply = {"id": "m1", "role": "assistant", "time": {"created": 1}, "tokens": {"cache": {}}}
    asked = {"id": "m2", "role": "user", "time": {"created": 1}}
    summary = {**reply, "id": "m3", "summary": True, "finish": "x", "parentID": "m2"}
    compaction = {"id": "p", "type": "compaction", "tail_start_id": "m1"}
    messages = [(reply, parts), (asked, [compaction]), (summary, parts[:1])]
    document = {
        "info": {"id": "s", "title": "T", "revert": {"messageID": "m3", "partID": "p2"}},
        "messages": [{"info": about, "parts": some} for about, some in messages],
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
def test_damaged_source_is_reported_and_never_raises(tmp_path_factory, source, seed):
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
            if isinstance(one, SessionImport):
                assert not one.failed
                assert (one.messages, one.notes, one.controls) == (0, 0, 0)
        assert all(store.session(one.session_id).verify().ok for one in store.sessions())


def test_strange_folder_is_reported(tmp_path):
    (tmp_path / "dir.jsonl").mkdir()
    (tmp_path / "a.jsonl").write_bytes(b"\0\xff" * 99)
    (tmp_path / "b.jsonl").write_text("7\n[]\n")
    (tmp_path / "session-x.json").write_text("[1]")
    (tmp_path / "checkpoint-x.json").write_text("7")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    with Store.open(":memory:") as store:
        found = list(import_paths(store, [tmp_path, tmp_path / "missing"]))
    assert sum(getattr(one, "is_problem", False) for one in found) == 3


# A good line is one whose text is as the tool wrote it, wherever in the file it is. Its record has
# to be in the log, as a message, in its extra data, or as a note.


def marked(record: Any, mark: str) -> Any:
    """A record with a mark that no other has, where its importer keeps what it does not know."""
    for inner in ("$set", "$patch"):
        if inner in record:
            return {inner: {**record[inner], "mark": mark}}
    return {**record, "mark": mark}


def spoil(lines: list[str], good: list[bool], dice: random.Random) -> None:
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.choice(["flip", "cut", "change", "swap", "repeat", "name"]):
        case "flip":
            place = dice.randrange(len(lines[at]))
            lines[at] = f"{lines[at][:place]}{chr(dice.randrange(1, 128))}{lines[at][place + 1 :]}"
            good[at] = False
        case "cut":
            lines[at], good[at] = lines[at][: dice.randrange(len(lines[at]))], False
        case "change":
            lines[at] = json.dumps(changed(json.loads(lines[at]), dice)) if good[at] else "-"
            good[at] = False
        case "swap":
            lines[at], lines[other] = lines[other], lines[at]
            good[at], good[other] = good[other], good[at]
        case "repeat":
            lines.insert(other, lines[at])
            good.insert(other, good[at])
        case "name":
            # The ids and the parents of other rows: cycles, and twice the same.
            if good[at] and good[other]:
                there = json.loads(lines[other])
                ids = {name: there[name] for name in ("uuid", "parentUuid", "id") if name in there}
                lines[at], good[at] = json.dumps({**json.loads(lines[at]), **ids}), False


@pytest.mark.parametrize("source", ["claude_code", "codex", "gemini"])
@settings(max_examples=examples(6))
@given(seed=st.integers(0, 1 << 32))
def test_no_good_line_is_lost(tmp_path_factory, source, seed):
    dice = random.Random(seed)
    path = SOURCES[source](tmp_path_factory.mktemp("spoilt"))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [json.dumps(marked(one, f"mark-{n:02}-")) for n, one in enumerate(records)]
    good = [True] * len(lines)
    for _ in range(dice.randint(1, 4)):
        spoil(lines, good, dice)
    at = dice.randrange(len(lines))
    if at and good[at - 1] and good[at] and dice.random() < 0.3:
        lines[at - 1 : at + 1], good[at - 1 : at + 1] = [lines[at - 1] + lines[at]], [True]
    path.write_text("\n".join(lines) + "\n")
    marks = {mark for text, is_good in zip(lines, good, strict=True) if is_good
             for mark in re.findall("mark-..-", text)}  # fmt: skip
    with Store.open(":memory:") as store:
        found = list(import_paths(store, [path]))
        assert "shape" not in str(found)
        if not any(isinstance(one, SessionImport) for one in found):
            return  # nothing that is left of it speaks, and that is reported
        logs = "".join(
            repr(list(store.session(one.session_id).audit())) for one in store.sessions()
        )
        assert [mark for mark in sorted(marks) if mark not in logs] == []
        for one in import_paths(store, [path]):
            assert isinstance(one, SessionImport)
            assert (one.messages, one.notes, one.controls) == (0, 0, 0)


@pytest.mark.parametrize("source", ["opencode", "roo"])
@settings(max_examples=examples(4))
@given(seed=st.integers(0, 1 << 32))
def test_no_good_message_of_a_document_is_lost(tmp_path_factory, source, seed):
    dice = random.Random(seed)
    path = SOURCES[source](tmp_path_factory.mktemp("spoilt"))
    file = path / "api_conversation_history.json" if path.is_dir() else path
    document = json.loads(file.read_text())
    rows = document if source == "roo" else document["messages"]
    at = dice.randrange(len(rows))
    for number, row in enumerate(rows):
        row.setdefault("info", row)["mark"] = f"mark-{number:02}-"
        if source == "roo":
            del row["info"]
    rows[at] = changed(rows[at], dice)
    rows.insert(dice.randrange(len(rows)), rows[dice.randrange(len(rows))])
    file.write_text(json.dumps(document))
    with Store.open(":memory:") as store:
        assert "shape" not in str(list(import_paths(store, [path])))
        logs = "".join(
            repr(list(store.session(one.session_id).audit())) for one in store.sessions()
        )
        whole = [n for n in range(len(rows) - 1) if n != at]
        assert [n for n in whole if f"mark-{n:02}-" not in logs] == []


@pytest.mark.parametrize("source", ["claude_code", "codex", "gemini"])
def test_growing_file_equals_the_whole(tmp_path, source):
    path = SOURCES[source](tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    with Store.open(":memory:") as store:
        for number in range(1, len(lines) + 1):
            path.write_text("".join(lines[:number]))
            list(import_paths(store, [path]))
            with Store.open(":memory:") as fresh:
                list(import_paths(fresh, [path]))
                assert views(store) == views(fresh)


def views(store: Store) -> dict[str, list[Any]]:
    """The view of each session."""
    return {
        one.session_id: [m.content for m in store.session(one.session_id).view().messages]
        for one in store.sessions()
    }


def test_document_being_rewritten_rewinds_nothing(tmp_path):
    task = tmp_path / "tasks" / "1"
    task.mkdir(parents=True)
    contents = [{"role": role, "parts": [{"text": role}]} for role in ("user", "model", "user")]
    rows = [{"role": role, "content": role, "ts": 1} for role in ("user", "assistant", "user")]
    documents: dict[Path, Any] = {
        task / "api_conversation_history.json": rows,
        tmp_path / "checkpoint-a.json": {"history": contents},
    }
    (task / "ui_messages.json").write_text("[]")
    with Store.open(":memory:") as store:
        for path, content in documents.items():
            text = json.dumps(content)
            for end in (len(text), 0, 10, len(text) // 2, len(text) - 1, len(text)):
                path.write_text(text[:end])
                (done,) = import_paths(store, [task if path.parent == task else path])
                assert isinstance(done, SessionImport)
                assert (bool(done.problems), done.rewound) == (end < len(text), False)
                assert len(store.session(done.session_id).view().messages) == 3


def test_lines_being_rewritten_rewind_nothing(tmp_path):
    file = Transcript(tmp_path / "s.jsonl")
    for text in ("one", "two", "three"):
        file.user(text)
    whole = file.path.read_bytes()
    first = whole.index(b"\n") + 1
    with Store.open(":memory:") as store:
        for end, visible in ((len(whole), 3), (first + 20, 3), (len(whole), 3), (first, 1)):
            file.path.write_bytes(whole[:end])
            list(import_paths(store, [file.path]))
            assert len(store.session("claude-code:s").view().messages) == visible
