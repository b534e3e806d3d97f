"""Codex CLI's rollouts: ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl. docs/formats/codex.md.

What the model sees are the response items; the other lines are the program's own log. A compaction
replaces the items so far, and a rollback drops the last turns of the user.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace as with_fields

from roocontext.formats.events import Added, Event, Noted, Problem, Source, WentBack
from roocontext.formats.files import iso_ms, read_lines
from roocontext.formats.files import name as named
from roocontext.formats.files import non_empty as _text
from roocontext.formats.importer import Importer
from roocontext.formats.importers.codex_history import (
    ENVELOPES,
    NOT_SENT,
    CodexHistory,
    Placed,
    compaction_events,
    item_message,
    opened_line,
    read_threads,
    text_item,
)
from roocontext.log.readings.blocks import as_dict

NAME = "codex"


def _looks_like(record: Any) -> bool:
    """Whether a file whose first record is this is a rollout."""
    if not isinstance(record, dict):
        return False
    if record.get("type") in ENVELOPES and isinstance(record.get("payload"), dict):
        return True
    # Before October 2025 the first line was the session's facts without an envelope.
    return {"id", "timestamp", "instructions"} <= record.keys()


def sources(path: Path) -> Iterator[Source]:
    """The session of a file."""
    problems: list[Problem] = []
    facts = _facts(path)
    identity = facts.pop("session", None) or path.stem
    parent = facts.pop("parent", None)
    yield Source(
        f"{NAME}:{identity}",
        path,
        {"tool": NAME, "path": str(path), "session": identity, **facts},
        partial(_events, path, problems),
        problems,
        f"{NAME}:{parent}" if parent else None,
    )


def _facts(path: Path) -> dict[str, Any]:
    """What the first lines say of the session."""
    for number, line in enumerate(read_lines(path, None)):
        kind, payload = opened_line(line.record)
        if kind == "session_meta":
            return {
                "session": named(payload.get("id")),
                "folder": _text(payload.get("cwd")),
                "version": _text(payload.get("cli_version")),
                "branch": _text(as_dict(payload.get("git")).get("branch")),
                "parent": _parent(payload.get("source")),
                "forked_from": named(payload.get("forked_from_id")),
            }
        if number > 20:
            break
    return {}


def _parent(source: Any) -> str | None:
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}:
            return named(parent)
    return None


def _events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    problems.clear()
    history = CodexHistory()
    for placed in read_threads(path, problems):
        for event in _events_of(placed, history):
            # The tokens of a reply are reported some lines later.
            if history.reply is not None:
                if not isinstance(event, Noted):
                    yield from _released(history)
                else:
                    history.behind.append(event)
                    continue
            if isinstance(event, Added) and event.message.role == "assistant":
                history.reply = event
            else:
                yield event
        if (usage := _usage(placed.line.record)) and history.reply is not None:
            message = with_fields(history.reply.message, usage=usage)
            history.reply = replace(history.reply, message=message)
            yield from _released(history)
    yield from _released(history)
    # Events repeat what the items say. Only without items are they all that there is.
    yield from history.events or ()


def _released(history: CodexHistory) -> Iterator[Event]:
    if history.reply is not None:
        yield history.reply
    yield from history.behind
    history.reply, history.behind = None, []


def _events_of(at: Placed, history: CodexHistory) -> Iterator[Event]:
    line, record = at.line, at.line.record
    kind, payload = opened_line(record)
    ts = iso_ms(as_dict(record).get("timestamp"))
    if kind == "response_item" and payload.get("type") not in NOT_SENT:
        message = history.add(payload, at, ts)
        if payload is not record:
            rest = {name: value for name, value in record.items() if name != "payload"}
            message = with_fields(message, extra={"record": rest, **(message.extra or {})})
        yield Added(message.message_id, message, line.number)
        return
    if kind == "turn_context":
        history.model = _text(payload.get("model"))
    if kind == "compacted":
        yield from compaction_events(payload, at, ts, history)
    if kind == "event_msg":
        if history.events is not None and (shown := _event_text(payload, at, ts)):
            history.events.append(shown)
        if payload.get("type") == "thread_rolled_back":
            yield from _rolled_back(payload, at, ts, history)
    yield Noted(None, kind, record, ts, line.number)


def _event_text(payload: dict[str, Any], at: Placed, ts: int | None) -> Added | None:
    """What an event says that a message would say."""
    role = {"user_message": "user", "agent_message": "assistant"}.get(str(payload.get("type")))
    text = payload.get("message")
    if role is None or not isinstance(text, str) or not text.strip():
        return None
    name = f"event:{at.name}"
    return Added(name, item_message(text_item(role, text), name, ts, None), at.line.number)


def _rolled_back(
    payload: dict[str, Any], at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    turns = payload.get("num_turns")
    history.cut(turns if type(turns) is int else 1)
    left = history.items
    name, line = f"rollback:{at.name}", at.line.number
    if len(left) >= history.compacted or not left:
        yield WentBack(name, left[-1].name if left else None, line, ts)
        return
    # A part of what a compaction left: nothing before it may come back, so it is written again.
    yield WentBack(name, None, line, ts)
    history.items, history.compacted = [], len(left)
    for item in left:
        message = history.again(item)
        yield Added(message.message_id, message, line)


def _usage(record: Any) -> dict[str, Any] | None:
    """The tokens of the last reply, in the names of the Responses API."""
    match record:
        case {"payload": {"type": "token_count", "info": {"last_token_usage": dict(used)}}}:
            return {
                "input_tokens": used.get("input_tokens"),
                "input_tokens_details": {"cached_tokens": used.get("cached_input_tokens")},
                "output_tokens": used.get("output_tokens"),
                "output_tokens_details": {"reasoning_tokens": used.get("reasoning_output_tokens")},
            }
    return None


IMPORTER: Final = Importer(
    tool=NAME,
    sources=sources,
    places=tuple(
        f"{home}/{folder}"
        for home in ("$CODEX_HOME", "~/.codex")
        for folder in ("sessions", "archived_sessions")
    ),
    looks_like=_looks_like,
    marks=(b'"payload"',),
    lists=(
        frozenset({"session_id", "ts", "text"}),
        frozenset({"id", "thread_name", "updated_at"}),
    ),
)
