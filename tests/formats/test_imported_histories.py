"""Laws of every importer: each record is taken once and whole, also from a file that is cut off."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roocontext.formats.imports import import_paths
from roocontext.formats.writing import SessionImport
from support.examples import TORTURE

ODD = "\ud83d \0 \u6f22"
AT = "2026-03-01T10:00:00.123456Z"
MS = 1_772_359_200_123

Write = Callable[[Path, list[str]], Path]


def lines(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def claude_code(folder: Path, texts: list[str]) -> Path:
    parents = [None, *(f"u{n}" for n in range(len(texts)))]
    records = [
        {"type": "user", "uuid": f"u{n}", "parentUuid": parents[n], "sessionId": "s",
         "timestamp": AT, "message": {"role": "user", "content": text}}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    return lines(folder / "s.jsonl", [*records, {"type": "hologram", "sessionId": "s"}])


def codex(folder: Path, texts: list[str]) -> Path:
    records = [
        {"timestamp": AT, "type": "response_item", "payload": {
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}}
        for text in texts
    ]  # fmt: skip
    meta = {"timestamp": AT, "type": "session_meta", "payload": {"id": "s"}}
    odd = {"timestamp": AT, "type": "hologram", "payload": {"x": 1}}
    return lines(folder / "rollout-s.jsonl", [meta, *records, odd])


def gemini(folder: Path, texts: list[str]) -> Path:
    records = [
        {"id": f"u{n}", "timestamp": AT, "type": "user", "content": text}
        for n, text in enumerate(texts)
    ]
    odd = {"id": "x", "timestamp": AT, "type": "hologram"}
    return lines(
        folder / "session-s.jsonl", [{"sessionId": "s", "projectHash": "h"}, *records, odd]
    )


def opencode(folder: Path, texts: list[str]) -> Path:
    messages = []
    for n, text in enumerate(texts):
        about = {"id": f"msg_{n}", "role": "user", "time": {"created": MS}}
        part = {"id": f"prt_{n}", "type": "text", "text": text}
        messages.append({"info": about, "parts": [part, {"type": "hologram"}]})
    path = folder / "export.json"
    path.write_text(json.dumps({"info": {"id": "s"}, "messages": messages}))
    return path


def roo(folder: Path, texts: list[str]) -> Path:
    task = folder / "tasks" / "s"
    task.mkdir(parents=True)
    rows = [{"role": "user", "content": text, "ts": MS} for text in texts]
    screen = [{"ts": MS, "type": "hologram"}]
    (task / "api_conversation_history.json").write_text(json.dumps(rows))
    (task / "ui_messages.json").write_text(json.dumps(screen))
    return task


BY_LINES = {one.__name__: one for one in (claude_code, codex, gemini)}
SOURCES: dict[str, Write] = {**BY_LINES, "opencode": opencode, "roo": roo}


def take(store: Any, path: Path) -> SessionImport:
    (done,) = import_paths(store, [path])
    assert isinstance(done, SessionImport)
    return done


def said(store: Any) -> list[str]:
    (chat,) = (store.session(one.session_id) for one in store.sessions())
    return [text_in(message.content) for message in chat.view().messages]


def text_in(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else content.get("parts") or content["content"]
    return "".join(block["text"] for block in blocks)


@pytest.mark.parametrize("source", BY_LINES)
def test_incomplete_line_is_reported_and_taken_later(store, tmp_path, source):
    path = SOURCES[source](tmp_path, ["one", "two"])
    whole = b"".join(path.read_bytes().splitlines(keepends=True)[:-1])
    for size in range(len(whole) - 40, len(whole) - 1):
        path.write_bytes(whole[:size])
        done = take(store, path)
        # Half a record is never taken for one; without its newline a record is whole.
        assert said(store) == ["one"]
        cut = len(whole.splitlines()), "the line is cut off"
        assert [(problem.line, problem.what) for problem in done.problems] == [cut]
    for end, messages in ((whole[:-1], 1), (whole, 0)):
        path.write_bytes(end)
        done = take(store, path)
        assert (done.messages, done.rewound, done.problems) == (messages, False, ())
        assert said(store) == ["one", "two"]


@pytest.mark.parametrize("source", SOURCES)
def test_import_has_every_record_once_with_its_time_and_its_text(store, tmp_path, source):
    texts = ["b", "a", "a", ODD, "x" * (10_000_000 if TORTURE else 200_000), "after"]
    path = SOURCES[source](tmp_path, texts)
    done = take(store, path)
    assert (done.messages, done.created, done.problems) == (len(texts), True, ())
    assert said(store) == texts
    (info,) = store.sessions()
    chat = store.session(info.session_id)
    assert [message.ts for message in chat.view().messages] == [MS] * len(texts)
    audit = list(chat.audit())
    assert "hologram" in repr(audit)
    if source in BY_LINES:
        kept = [entry.entry.extra for entry in audit if entry.kind == "message"]
        assert [extra["record"]["timestamp"] for extra in kept] == [AT] * len(texts)
        names = [entry.entry.client_id or "" for entry in audit if entry.entry.note != "metadata"]
        records = len(path.read_text().splitlines())
        assert sum(name.startswith("import#") for name in names) == records
    again = take(store, path)
    assert (again.messages, again.notes, again.controls, again.problems) == (0, 0, 0, ())
