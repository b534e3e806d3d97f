"""Codex CLI's rollouts: ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl. docs/formats/codex.md.

What the model sees are the response items; the other lines are the program's own log. A compaction
replaces the items so far, and a rollback drops the last turns of the user.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace as with_fields

from roocontext.formats.events import Added, Event, Noted, Problem, Source, WentBack, source_of
from roocontext.formats.files import iso_ms, name, non_empty, read_lines
from roocontext.formats.importer import Importer
from roocontext.formats.importers.codex_history import (
    ENVELOPES,
    CodexHistory,
    Placed,
    compaction_events,
    is_sent,
    item_message,
    opened_line,
    read_threads,
    text_item,
)
from roocontext.log.readings.blocks import as_dict

NAME = "codex"
_FACTS_WITHIN = 22
"""The number of lines that are searched for the session's facts."""


def _looks_like(record: Any) -> bool:
    """True if a file with this first record is a rollout."""
    if not isinstance(record, dict):
        return False
    if record.get("type") in ENVELOPES and isinstance(record.get("payload"), dict):
        return True
    # Before October 2025 the first line was the session's facts without an envelope.
    return {"id", "timestamp", "instructions"} <= record.keys()


def sources(path: Path) -> Iterator[Source]:
    """The session of a file."""
    first = (opened_line(line.record) for line in islice(read_lines(path, None), _FACTS_WITHIN))
    facts = next((payload for kind, payload in first if kind == "session_meta"), {})
    session = name(facts.get("id")) or path.stem
    yield source_of(
        NAME,
        session,
        path,
        partial(_events, path),
        parent=_parent(facts.get("source")),
        session=session,
        folder=non_empty(facts.get("cwd")),
        version=non_empty(facts.get("cli_version")),
        branch=non_empty(as_dict(facts.get("git")).get("branch")),
        forked_from=name(facts.get("forked_from_id")),
    )


def _parent(source: Any) -> str | None:
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}:
            return name(parent)
    return None


def _events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    history = CodexHistory()
    shown: list[Added] = []
    # The tokens of a reply are reported some lines later, so it waits with the notes after it.
    reply: list[Event] = []
    for at in read_threads(path, problems):
        kind, payload = opened_line(at.line.record)
        for event in _events_of(kind, payload, at, history):
            if reply and not isinstance(event, Noted):
                yield from reply
                reply = []
            if reply or (isinstance(event, Added) and event.message.role == "assistant"):
                reply.append(event)
            else:
                yield event
        if reply and (usage := _usage(payload)):
            first = reply[0]
            assert isinstance(first, Added)
            yield replace(first, message=with_fields(first.message, usage=usage))
            yield from reply[1:]
            reply = []
        if kind == "event_msg" and not history.has_messages:
            shown += _shown(payload, at)
    yield from reply
    # Events repeat what the messages say, so they count only if there are none.
    if not history.has_messages:
        yield from shown


def _events_of(
    kind: str, payload: dict[str, Any], at: Placed, history: CodexHistory
) -> Iterator[Event]:
    record, line = at.line.record, at.line.number
    ts = iso_ms(as_dict(record).get("timestamp"))
    if kind == "response_item" and is_sent(payload):
        message = history.add(payload, ts)
        if payload is not record:
            rest = {key: value for key, value in record.items() if key != "payload"}
            message = with_fields(message, extra={"record": rest, **(message.extra or {})})
        yield Added(message.message_id, message, line)
        return
    if kind == "turn_context":
        history.model = non_empty(payload.get("model"))
    elif kind == "compacted":
        yield from compaction_events(payload, at, ts, history)
    elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
        yield from _rolled_back(payload, at, ts, history)
    elif kind == "event_msg" and payload.get("type") == "task_started":
        history.begun.append(history.said)
    yield Noted(None, kind, record, ts, line)


def _shown(payload: dict[str, Any], at: Placed) -> Iterator[Added]:
    """The message that an event shows."""
    role = {"user_message": "user", "agent_message": "assistant"}.get(str(payload.get("type")))
    text = payload.get("message")
    if role is not None and isinstance(text, str) and text.strip():
        ts = iso_ms(at.line.record.get("timestamp"))
        message = item_message(text_item(role, text), f"event:{at.name}", ts, None)
        yield Added(message.message_id, message, at.line.number)


def _rolled_back(
    payload: dict[str, Any], at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    turns = payload.get("num_turns")
    history.roll_back(turns if type(turns) is int else 1)
    left = history.items
    rollback, line = f"rollback:{at.name}", at.line.number
    if len(left) >= history.compacted or not left:
        history.compacted = min(history.compacted, len(left))
        yield WentBack(rollback, left[-1].name if left else None, line, ts)
        return
    # A part of what a compaction left: nothing before it may come back, so it is written again.
    yield WentBack(rollback, None, line, ts)
    history.items, history.compacted = [], len(left)
    for item in left:
        assert item.payload is not None  # a compaction left it
        message = history.add(item.payload, None, is_left=True)
        yield Added(message.message_id, message, line)


def _usage(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The tokens of the last reply, in the names of the Responses API."""
    match payload:
        case {"type": "token_count", "info": {"last_token_usage": dict(used)}}:
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
