"""Codex CLI's rollouts: ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl. docs/formats/codex.md.

What the model sees are the response items; the other lines are the program's own log. A compaction
replaces the items so far, and a rollback drops the last turns of the user.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace as with_fields

from roocontext.formats.codex_bridge import bridge, is_bridged, is_taken_for_the_users
from roocontext.formats.codex_items import Item, Items
from roocontext.formats.codex_lines import Placed, read_threads
from roocontext.formats.events import Added, Event, Hid, Noted, Problem, Source, WentBack
from roocontext.formats.lines import Line, read_at, read_lines
from roocontext.formats.names import name as named
from roocontext.formats.names import text as _text
from roocontext.formats.times import iso_ms
from roocontext.log.entries import NewMessage
from roocontext.log.readings import reader, text_of

NAME = "codex"
FOLDERS = tuple(
    f"{home}/{folder}"
    for home in ("$CODEX_HOME", "~/.codex")
    for folder in ("sessions", "archived_sessions")
)
FORMAT = "openai-responses"

# Tuples: what a damaged record holds in the place of a name need not be hashable.
_ENVELOPES = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")
_NOT_SENT = ("ghost_snapshot",)
_LEAVES_CONTEXT = ((0, 77), (0, 105))
"""From the release with the first rollbacks to the one since which a rollback also drops the
context that was written for the turn."""
NO_SUMMARY = "(no summary available)"
_CONTEXT = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md"),
    *("<turn_aborted>", "<user_shell_command>", "<skill>", "<subagent_notification>"),
)
"""How the program's own words begin that it says as the user."""


def looks_like(record: Any) -> bool:
    """Whether a file whose first record is this is a rollout."""
    if not isinstance(record, dict):
        return False
    if record.get("type") in _ENVELOPES and isinstance(record.get("payload"), dict):
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
    for number, line in enumerate(read_lines(path, [])):
        kind, payload = _opened(line.record)
        if kind == "session_meta":
            git = payload.get("git")
            branch = git.get("branch") if isinstance(git, dict) else None
            return {
                "session": named(payload.get("id")),
                "folder": _text(payload.get("cwd")),
                "version": _text(payload.get("cli_version")),
                "branch": _text(branch),
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


@dataclass(slots=True)
class _History:
    """The items that the program would send now, and the reply whose usage may still come.

    The first `compacted` ones are what the last compaction left. `events` are the texts of events,
    as long as no item is a message.
    """

    items: Items = field(default_factory=Items)
    compacted: int = 0
    count: int = 0
    version: tuple[int, ...] = ()
    bridged: dict[int, str] = field(default_factory=dict)
    model: str | None = None
    reply: Added | None = None
    behind: list[Event] = field(default_factory=list)
    events: list[Added] | None = field(default_factory=list)

    def add(
        self, payload: dict[str, Any], at: Placed, ts: int | None, place: int | None = None
    ) -> NewMessage:
        """The next item as a message."""
        self.count += 1
        name = _name(self.count, payload)
        message = _message(payload, name, ts, self.model)
        words = _words(message)
        speaks = payload.get("type", "message") == "message"
        is_user = speaks and payload.get("role") == "user"
        is_own = is_user and words.lstrip().startswith(_CONTEXT)
        is_context = is_own or (speaks and payload.get("role") in ("developer", "system"))
        # Without the record, which may be long, and is read again where it is needed.
        where = (at.line.start, at.line.end, at.line.number, self.count, place)
        self.items.append(Item(*where, is_user and not is_own, is_context, at.path))
        if speaks:
            self.events = None
        return message

    def cut(self, turns: int) -> None:
        """Drop the last turns of the user."""
        starts = [index for index, item in enumerate(self.items) if item.is_turn]
        if not starts or turns <= 0:
            return
        first = max(len(starts) - turns, 0)
        at = starts[first]
        # A dropped turn takes its prompt with it, but the first turn's prompt is the session's.
        since, until = _LEAVES_CONTEXT
        takes = first > 0 and not since <= self.version < until
        while takes and at and self.items[at - 1].is_context:
            at -= 1
        self.items.cut(at)


def _events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    problems.clear()
    history = _History()
    for placed in read_threads(path, problems):
        for event in _events_of(placed, history):
            # The tokens of a reply are reported some lines behind it.
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


def _released(history: _History) -> Iterator[Event]:
    if history.reply is not None:
        yield history.reply
    yield from history.behind
    history.reply, history.behind = None, []


def _events_of(at: Placed, history: _History) -> Iterator[Event]:
    line, record = at.line, at.line.record
    kind, payload = _opened(record)
    ts = iso_ms(record.get("timestamp")) if isinstance(record, dict) else None
    if kind == "response_item" and payload.get("type") not in _NOT_SENT:
        message = history.add(payload, at, ts)
        if payload is not record:
            rest = {name: value for name, value in record.items() if name != "payload"}
            message = with_fields(message, extra={"record": rest})
        yield Added(message.message_id, message, line.number)
        return
    if kind == "session_meta":
        history.version = _version(payload.get("cli_version"))
    if kind == "turn_context":
        history.model = _text(payload.get("model"))
    if kind == "compacted":
        yield from _compacted(payload, at, ts, history)
    if kind == "event_msg":
        if history.events is not None and (shown := _event_text(payload, at, ts)):
            history.events.append(shown)
        if payload.get("type") == "thread_rolled_back":
            yield from _rolled_back(payload, at, history)
    yield Noted(None, kind, record, ts, line.number)


def _event_text(payload: dict[str, Any], at: Placed, ts: int | None) -> Added | None:
    """What an event says that a message would say."""
    role = {"user_message": "user", "agent_message": "assistant"}.get(str(payload.get("type")))
    text = payload.get("message")
    if role is None or not isinstance(text, str) or not text.strip():
        return None
    name = f"event:{at.name}"
    return Added(name, _message(_spoken(role, text), name, ts, None), at.line.number)


def _spoken(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _rolled_back(payload: dict[str, Any], at: Placed, history: _History) -> Iterator[Event]:
    turns = payload.get("num_turns")
    history.cut(turns if type(turns) is int else 1)
    left = history.items
    name, line = f"rollback:{at.name}", at.line.number
    if len(left) >= history.compacted or not left:
        yield WentBack(name, _id_of(left[-1]) if left else None, line)
        return
    # A part of what a compaction left: nothing before it may come back, so it is written again.
    yield WentBack(name, None, line)
    history.items, history.compacted = Items(), len(left)
    for item in left:
        at = Placed(item.path, Line(item.line, None, item.start, item.end), "")
        message = history.add(_read_item(item), at, None, item.place)
        yield Added(message.message_id, message, line)


def _name(number: int, payload: dict[str, Any]) -> str:
    return f"{number}:{payload.get('id') or payload.get('call_id') or '-'}"


def _id_of(item: Item) -> str:
    return _name(item.number, _read_item(item))


def _read_item(item: Item) -> dict[str, Any]:
    with item.path.open("rb") as file:
        _, payload = _opened(read_at(file, item.start, item.end))
    if item.place is None:
        return payload
    replaced = payload.get("replacement_history")
    return replaced[item.place] if isinstance(replaced, list) else _summary(payload)


def _summary(payload: dict[str, Any]) -> dict[str, Any]:
    """The prompt that holds the summary of a compaction without a list."""
    text = payload.get("message")
    return _spoken("user", text if isinstance(text, str) and text.strip() else NO_SUMMARY)


def _compacted(
    payload: dict[str, Any], at: Placed, ts: int | None, history: _History
) -> Iterator[Event]:
    name, line = f"compacted:{at.name}", at.line.number
    text = payload.get("message") if isinstance(payload.get("message"), str) else ""
    replaced = payload.get("replacement_history")
    record = {"compacted": True}
    if isinstance(replaced, list):
        history.items = Items()
        rows = [
            history.add(item, at, ts, place)
            for place, item in enumerate(replaced)
            if isinstance(item, dict) and item.get("type") not in _NOT_SENT
        ]
        history.compacted = len(rows)
        lead = _summary_among(rows, str(text))
        if lead is not None:
            yield Hid(name, tuple(rows), lead=lead, record=record, line=line)
            return
        # Nothing that can be read stands for what was replaced: these items are all there is.
        yield WentBack(name, None, line)
        for row in rows:
            yield Added(row.message_id, row, line)
        return
    # What the session began with, all that the user has written, and the summary.
    prompt = next((n for n, item in enumerate(history.items) if not item.is_context), None)
    history.items = Items(
        item
        for number, item in enumerate(history.items)
        if item.is_turn or (item.is_context and (prompt is None or number < prompt))
    )
    summary = _summary(payload)
    if is_bridged(history.version):
        turns = [item for item in history.items if item.is_turn]
        history.items = Items(item for item in history.items if item.is_context)
        texts = [history.bridged.get(item.number) or _text_of(_read_item(item)) for item in turns]
        summary = _spoken("user", bridge(texts, _text_of(summary)))
    keeps = frozenset(map(_id_of, history.items))
    row = history.add(summary, at, ts, 0)
    is_turn = is_taken_for_the_users(_words(row), history.version)
    last = history.items[-1]._replace(is_turn=is_turn)
    history.items.cut(len(history.items) - 1)
    history.items.append(last)
    history.bridged = {last.number: _words(row)}
    history.compacted = len(history.items)
    yield Hid(name, (row,), keeps=keeps, at_end=True, record=record, line=line)


def _text_of(payload: dict[str, Any]) -> str:
    return _words(_message(payload, "-", None, None))


def _summary_among(rows: list[NewMessage], text: str) -> int | None:
    """The row that holds the summary; else the last one that has words."""
    texts = [_words(row) for row in rows]
    holds = [index for index, words in enumerate(texts) if text.strip() and text.strip() in words]
    speaks = [index for index, words in enumerate(texts) if words.strip()]
    found = holds or speaks
    return found[-1] if found else None


def _opened(record: Any) -> tuple[str, dict[str, Any]]:
    """The type and the payload of a line, of those without an envelope too."""
    if not isinstance(record, dict):
        return "unknown", {}
    payload = record.get("payload")
    if isinstance(payload, dict):
        return str(record.get("type") or "unknown"), payload
    if "payload" in record or record.get("type") in _ENVELOPES:
        return "unknown", {}
    if "record_type" in record:
        return "state", record
    if "type" in record:
        return "response_item", record
    return "session_meta", record


def _version(found: Any) -> tuple[int, ...]:
    """The first two numbers of a release."""
    numbers = re.findall(r"[0-9]{1,9}", found)[:2] if isinstance(found, str) else []
    return tuple(map(int, numbers))


def _message(payload: dict[str, Any], name: str, ts: int | None, model: str | None) -> NewMessage:
    kind = str(payload.get("type") or "message")
    role = payload.get("role")
    if kind != "message" or not isinstance(role, str):
        role = "user" if kind.endswith("output") else "assistant"
    is_reply = role == "assistant"
    return NewMessage(
        role, payload, FORMAT, ts=ts, message_id=name, model=model if is_reply else None
    )


def _words(message: NewMessage) -> str:
    try:
        return text_of(reader(FORMAT).blocks(message.role, message.content)[1])
    except (AttributeError, TypeError, ValueError):
        return ""


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
