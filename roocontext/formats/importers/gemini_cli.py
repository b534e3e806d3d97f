"""Gemini CLI's recordings and checkpoints in ~/.gemini/tmp/PROJECT. docs/formats/gemini-cli.md.

A recording is a list of messages, or the log of changes to such a list. The list is played before
each change that removes something, and at the end; a removal is a rewind.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from roocontext.formats.events import (
    Added,
    Event,
    Noted,
    Problem,
    Source,
    WentBack,
    source_of,
    titled,
)
from roocontext.formats.files import is_removed, iso_ms, list_at, non_empty, read_records, report
from roocontext.formats.files import name as named
from roocontext.formats.importer import Importer
from roocontext.formats.typed import Insertions, typed, with_typed_text
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, dicts

NAME = "gemini-cli"
FORMAT = "gemini"
_SERVER = "a2a-server"
_HASH = re.compile("[0-9a-f]{64}")
_SPEAKERS = ("user", "gemini")
_NOT_SENT = ("/", "?", "<session_context>", "<hook_context>")
"""The beginnings of user texts that are not for the model."""
_CHECKPOINT = "checkpoint-"
_TOOL_CHECKPOINTS = "checkpoints"
_PROMPTS = "logs.json"
_INSERTIONS = Insertions(
    openings=(
        "This is the Gemini CLI.",
        "Here is the user's editor context",
        "Here is a summary of changes in the user's editor context",
        "System: Please continue.",
    ),
    tags=("session_context", "hook_context", "state_snapshot", "system-reminder"),
    ending="--- Content from referenced files ---",
)
"""The program's own texts in the user's messages."""


def is_name(path: Path) -> bool:
    """True if a JSON file with this name is a recording, a checkpoint or a list of prompts."""
    if path.suffix != ".json":
        return False
    is_other = path.parent.name == _TOOL_CHECKPOINTS or path.name == _PROMPTS
    return path.name.startswith(("session-", _CHECKPOINT)) or (is_other and _is_project(path))


def _is_project(path: Path) -> bool:
    """True if a file lies in the folder of a project of this tool."""
    folder = path.parent.parent if path.parent.name == _TOOL_CHECKPOINTS else path.parent
    return ".gemini" in path.parts or (folder / "chats").is_dir()


def _looks_like(record: Any) -> bool:
    """True if a file with this first record is a recording or a checkpoint."""
    if not isinstance(record, dict):
        return isinstance(record, list) and _is_history(record)
    is_message = record.get("type") in _SPEAKERS and "content" in record and "id" in record
    is_log = any(name in record for name in ("projectHash", "$set", "$rewindTo", "$patch"))
    is_document = "sessionId" in record and isinstance(record.get("messages"), list)
    return is_message or is_log or is_document or _is_history(_history_of(record))


def sources(path: Path) -> Iterator[Source]:
    """The session of a file."""
    folder = path.parent
    if path.name == _PROMPTS:
        name = f"{_short_name(folder.name)}/prompts"
        yield source_of(NAME, name, path, partial(_prompt_events, path))
    elif _is_checkpoint(path):
        tag = unquote(path.stem.removeprefix(_CHECKPOINT))
        if folder.name == _TOOL_CHECKPOINTS:
            folder, tag = folder.parent, f"{_TOOL_CHECKPOINTS}/{path.stem}"
        name = f"{_short_name(folder.name)}/{tag}"
        yield source_of(NAME, name, path, partial(_checkpoint_events, path), checkpoint=tag)
    elif path.suffix != ".json" or not path.with_suffix(".jsonl").exists():
        # The program copies a document to JSONL, and continues there.
        yield _recording_source(path)


def _recording_source(path: Path) -> Source:
    records = (as_dict(record) for record, _ in read_records(path, None))
    first = next((record for record in records if isinstance(record.get("sessionId"), str)), {})
    session, project = named(first.get("sessionId")), non_empty(first.get("projectHash"))
    name = session or path.stem
    is_server = session == _SERVER
    if is_server:  # all sessions of the server have the same id
        name = f"{name}/{_short_name(str(project))}/{path.stem}"
    above = path.parent
    return source_of(
        NAME,
        name,
        path,
        partial(_events, path, is_server=is_server),
        parent=above.name if above.parent.name == "chats" else None,
        session=session,
        project=project,
        kind=non_empty(first.get("kind")),
        folder=next(
            (folder for folder in list_at(first, "directories") if isinstance(folder, str)), None
        ),
    )


def _short_name(project: str) -> str:
    """A project's name, or the beginning of the hash that it has in its place."""
    return project[:16] if _HASH.fullmatch(project) else project


@dataclass(slots=True)
class _Recording:
    """The list of messages by their ids as it is, and as it was played last."""

    is_server: bool
    now: dict[str, dict[str, Any]] = field(default_factory=dict)
    played: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)
    noted: set[str] = field(default_factory=set)
    backs: int = 0
    title: str | None = None

    def apply(self, record: Any, line: int | None) -> Iterator[Event]:
        """Take one line of the recording."""
        match record:
            case {"$rewindTo": str(to)}:
                yield from self.play()
                # The program clears the list if it does not know the message.
                before = takewhile(lambda item: item[0] != to, self.now.items())
                self.now = dict(before) if to in self.now else {}
            case {"$set": {"messages": list(messages), **rest}}:
                yield from self.play()
                self.now = {}
                yield from self._take_all("set", messages, rest, line)
                return
            case {"$set": dict(facts)}:
                self._learn(facts)
            case {"$patch": dict(patch)}:
                yield from self._patch(patch, line)
            case {"id": str(name), "type": str()}:
                # Where ids were removed, each is a message of its own.
                yield from self._put(f"line {line}" if is_removed(name) else name, record, line)
                return
            case {"messages": list(messages), **rest}:
                yield from self._take_all("session", messages, rest, line)
                return
            case {"sessionId": str()}:
                self._learn(record)
        yield Noted(None, "record", record, line=line)

    def play(self) -> Iterator[Event]:
        """Make the list that was played last the list as it is."""
        same = 0
        for (name, record, _), new in zip(self.played, self.now.items(), strict=False):
            if (name, record) != new:
                break
            same += 1
        if any(last is not None for _, _, last in self.played[same:]):
            self.backs += 1
            ends = [last for _, _, last in self.played[:same] if last is not None]
            yield WentBack(f"back:{self.backs}", ends[-1] if ends else None)
        del self.played[same:]
        for name, record in islice(self.now.items(), same, None):
            last = None
            for event in self._events_of(name, record):
                if isinstance(event, Added):
                    last = event.id
                yield event
            self.played.append((name, record, last))

    def _events_of(self, name: str, record: dict[str, Any]) -> Iterator[Event]:
        ts = iso_ms(record.get("timestamp"))
        added = [] if self.is_server else _messages(name, record, ts)
        yield from added
        if not added:
            mark = json.dumps([name, record], sort_keys=True)
            if mark not in self.noted:
                self.noted.add(mark)
                yield Noted(name, str(record.get("type")), record, ts)

    def _take_all(
        self, kind: str, messages: list[Any], rest: dict[Any, Any], line: int | None
    ) -> Iterator[Event]:
        for number, record in enumerate(messages):
            if isinstance(record, dict):
                yield from self._put(named(record.get("id")) or f"#{number}", record, line)
            else:
                yield Noted(None, "unknown", record, line=line)
        self._learn(rest)
        yield Noted(None, kind, rest, line=line)

    def _put(self, name: str, record: dict[str, Any], line: int | None) -> Iterator[Event]:
        """A message takes the place of an older version of it, which becomes a note."""
        old = self.now.get(name, record)
        if old != record:
            yield Noted(None, "superseded", old, iso_ms(old.get("timestamp")), line)
        self.now[name] = record

    def _learn(self, facts: Mapping[Any, Any]) -> None:
        summary = facts.get("summary")
        if isinstance(summary, str) and summary.strip():
            self.title = summary

    def _patch(self, patch: dict[str, Any], line: int | None) -> Iterator[Event]:
        for change in (patch, *dicts(patch.get("updates"))):
            if self._knows(name := change.get("id")):
                yield from self._put(name, _merged(self.now[name], change), line)
        removed = list_at(patch, "removeIds")
        order = list(filter(self._knows, list_at(patch, "orderIds")))
        if removed or order:
            yield from self.play()
            names = dict.fromkeys([*order, *self.now])
            self.now = {name: self.now[name] for name in names if name not in removed}

    def _knows(self, name: Any) -> TypeGuard[str]:
        return isinstance(name, str) and name in self.now


def _events(path: Path, problems: list[Problem], *, is_server: bool) -> Iterator[Event]:
    recording = _Recording(is_server)
    for record, line in read_records(path, problems):
        yield from recording.apply(record, line)
    yield from recording.play()
    yield from titled(recording.title)


def _messages(name: str, record: dict[str, Any], ts: int | None) -> list[Added]:
    """A record as the messages that the program sends: none, one, or a reply and its results."""
    parts = _parts(record.get("content"))
    if record.get("type") == "user":
        words = "".join(map(_words, parts)).strip()
        if not words or words.startswith(_NOT_SENT):
            return []
        rest = {key: value for key, value in record.items() if key != "content"}
        message = _message("user", parts, name, ts, rest)
        if shown := _parts(record.get("displayContent")):
            return [Added(name, with_typed_text(message, "\n".join(map(_words, shown))))]
        return [Added(name, typed(message, _INSERTIONS.typed))]
    if record.get("type") != "gemini":
        return []
    calls = dicts(record.get("toolCalls"))
    is_whole = any("functionCall" in part or part.get("thought") for part in parts)
    if not is_whole:
        parts = [part for part in parts if part != {"text": ""}]
        parts = [*_thoughts(record), *parts, *map(_call, calls)]
    if not parts:
        return []
    fields = {key: value for key, value in record.items() if key not in ("content", "toolCalls")}
    fields["toolCalls"] = [
        {k: v for k, v in call.items() if k != "result"} if _result(call) else call
        for call in calls
    ]
    message = _message("model", parts, name, ts, fields)
    # Even if a message of the user holds them too: the program sends them twice.
    results, back = [part for call in calls for part in _result(call)], f"{name}:results"
    answer = [Added(back, _message("user", results, back, ts))] if results else []
    return [Added(name, message), *answer]


def _words(part: dict[str, Any]) -> str:
    """The text by which the program sees whether a user's message is for the model."""
    text = part.get("text", "")
    return text if isinstance(text, str) and set(part) <= {"text"} else "[part]"


def _message(
    role: str, parts: list[dict[str, Any]], name: str, ts: int | None, rest: Any = None
) -> NewMessage:
    return NewMessage(
        role,
        {"role": role, "parts": parts},
        FORMAT,
        ts=ts,
        message_id=name,
        model=non_empty((rest or {}).get("model")),
        usage=_usage((rest or {}).get("tokens")),
        extra=None if rest is None else {"record": rest},
    )


def _parts(content: Any) -> list[dict[str, Any]]:
    values = content if isinstance(content, list) else [] if content is None else [content]
    parts = [{"text": part} if isinstance(part, str) else part for part in values]
    return [part for part in parts if isinstance(part, dict)]


def _thoughts(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"text": f"**{thought['subject']}** {thought.get('description', '')}", "thought": True}
        if thought.get("subject")
        else {"text": str(thought.get("description", "")), "thought": True}
        for thought in dicts(record.get("thoughts"))
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    named = {"id": call["id"]} if call.get("id") else {}
    return {"functionCall": {"name": call.get("name"), "args": call.get("args") or {}, **named}}


def _result(call: dict[str, Any]) -> list[dict[str, Any]]:
    result = call.get("result")
    if not result:
        return []
    if isinstance(result, str):
        answer = {"id": call.get("id"), "name": call.get("name"), "response": {"output": result}}
        return [{"functionResponse": answer}]
    return _parts(result)


def _merged(record: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = {**record, **({"content": change["content"]} if "content" in change else {})}
    changed = {str(call.get("id")): call for call in dicts(change.get("toolCalls"))}
    if changed:
        calls = dicts(record.get("toolCalls"))
        known = {str(call.get("id")) for call in calls}
        merged["toolCalls"] = [
            *({**call, **changed.get(str(call.get("id")), {})} for call in calls),
            *(call for name, call in changed.items() if name not in known),
        ]
    return merged


def _usage(tokens: Any) -> dict[str, Any] | None:
    if not isinstance(tokens, dict):
        return None
    names = {
        "input": "promptTokenCount",
        "output": "candidatesTokenCount",
        "cached": "cachedContentTokenCount",
        "thoughts": "thoughtsTokenCount",
        "tool": "toolUsePromptTokenCount",
        "total": "totalTokenCount",
    }
    return {name: tokens[key] for key, name in names.items() if type(tokens.get(key)) is int}


def _history_of(record: Any) -> Any:
    """The messages of a checkpoint."""
    if not isinstance(record, dict):
        return record
    if isinstance(record.get("clientHistory"), list):
        return record["clientHistory"]
    return None if "toolCall" in record else record.get("history")


def _is_history(value: Any) -> bool:
    """True if this is a list of contents."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and first.get("role") in ("user", "model") and "parts" in first


def _is_checkpoint(path: Path) -> bool:
    """True if a file is a checkpoint, by its name or else by its content."""
    if path.suffix != ".json" or path.name.startswith("session-"):
        return False
    if path.name.startswith(_CHECKPOINT) or path.parent.name == _TOOL_CHECKPOINTS:
        return True
    return any(_is_history(_history_of(record)) for record, _ in read_records(path, None))


def _checkpoint_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The messages of a checkpoint."""
    for record, _ in read_records(path, problems):
        history = _history_of(record)
        if isinstance(record, dict):
            rest = {name: value for name, value in record.items() if value is not history}
            yield Noted("checkpoint", "checkpoint", rest)
        if not isinstance(history, list):
            if not (isinstance(record, dict) and "toolCall" in record):
                report(problems, Problem(path, None, "it holds no history"))
            return
        waiting: dict[str, list[tuple[str, int]]] = {}
        for number, content in enumerate(history):
            if as_dict(content).get("role") in ("user", "model"):
                yield from _contents(str(number), content, waiting)
            else:
                yield Noted(str(number), "unknown", content)


def _contents(
    name: str, content: dict[str, Any], waiting: dict[str, list[tuple[str, int]]]
) -> Iterator[Added]:
    """A content of a checkpoint as a message.

    Old checkpoints have ids in results, but not in calls: results answer calls by name and order.
    A message can name only one call, so each of several such results becomes a message. `waiting`
    are these calls by tool: each by its message and its number there.
    """
    parts = list_at(content, "parts")
    calls = dicts([as_dict(part).get("functionCall") for part in parts])
    for number, call in enumerate(calls):
        if not call.get("id"):
            waiting.setdefault(str(call.get("name")), []).append((name, number))
    groups: list[tuple[list[Any], tuple[str, int] | None]] = []
    for part in parts:
        result = as_dict(as_dict(part).get("functionResponse"))
        if result or not groups:
            asked = waiting.get(str(result.get("name"))) if result.get("id") else None
            groups.append(([part], asked.pop(0) if asked else None))
        else:
            groups[-1][0].append(part)
    links = [link for _, link in groups if link]
    if (
        len(groups) == 1
        or not links
        or sum("functionResponse" in as_dict(part) for part in parts) == 1
    ):
        yield _content(name, content, links[0] if links else None)
        return
    for number, (group, link) in enumerate(groups):
        yield _content(f"{name}:{number}" if number else name, {**content, "parts": group}, link)


def _content(name: str, content: dict[str, Any], answers: tuple[str, int] | None) -> Added:
    message = NewMessage(content["role"], content, FORMAT, message_id=name)
    return Added(name, typed(message, _INSERTIONS.typed), answers=answers)


def _prompt_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The prompts of all sessions of a project: notes, because they are no history."""
    for record, _ in read_records(path, problems):
        if not isinstance(record, list):
            report(problems, Problem(path, None, "it holds no list"))
            continue
        for prompt in record:
            ts = iso_ms(prompt.get("timestamp")) if isinstance(prompt, dict) else None
            yield Noted(None, "prompt", prompt, ts)


IMPORTER: Final = Importer(
    tool=NAME,
    sources=sources,
    places=("$GEMINI_CLI_HOME/.gemini/tmp", "~/.gemini/tmp"),
    is_file=is_name,
    is_candidate=is_name,
    looks_like=_looks_like,
    looks_like_document=_looks_like,
)
