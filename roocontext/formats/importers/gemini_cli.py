"""Gemini CLI's recordings and checkpoints in ~/.gemini/tmp/PROJECT. docs/formats/gemini-cli.md.

A recording is a list of messages, or the log of changes to such a list. The list is played as it
is before each change that takes something away, and at the end; what was taken away is a rewind.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from roocontext.formats.events import Added, Event, Noted, Problem, Source, TitleSet, WentBack
from roocontext.formats.files import is_removed, iso_ms, non_empty, read_records
from roocontext.formats.files import name as named
from roocontext.formats.importer import Importer
from roocontext.formats.typed import Insertions, typed, with_typed_text
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import dicts

NAME = "gemini-cli"
FORMAT = "gemini"
_SERVER = "a2a-server"
_HASH = re.compile("[0-9a-f]{64}")
_SPEAKERS = ("user", "gemini")
_NOT_SENT = ("/", "?", "<session_context>", "<hook_context>")
"""How the user's texts begin that are for the program."""
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
    """Whether a JSON file with this name is a recording, a checkpoint or a list of prompts."""
    if path.suffix != ".json":
        return False
    beside = path.parent.name == _TOOL_CHECKPOINTS or path.name == _PROMPTS
    return path.name.startswith(("session-", _CHECKPOINT)) or (beside and _is_project(path))


def _is_project(path: Path) -> bool:
    """Whether a file lies in the folder of a project of this tool."""
    folder = path.parent.parent if path.parent.name == _TOOL_CHECKPOINTS else path.parent
    return ".gemini" in path.parts or (folder / "chats").is_dir()


def _looks_like(record: Any) -> bool:
    """Whether a file whose first record is this is a recording or a checkpoint."""
    if not isinstance(record, dict):
        return isinstance(record, list) and _is_history(record)
    is_message = record.get("type") in _SPEAKERS and "content" in record and "id" in record
    is_log = any(name in record for name in ("projectHash", "$set", "$rewindTo", "$patch"))
    is_document = "sessionId" in record and isinstance(record.get("messages"), list)
    return is_message or is_log or is_document or _is_history(_history_of(record))


def sources(path: Path) -> Iterator[Source]:
    """The session of a file."""
    problems: list[Problem] = []
    if path.name == _PROMPTS:
        name = f"{NAME}:{_short_name(path.parent.name)}/prompts"
        events = partial(_prompt_events, path, problems)
        yield Source(name, path, {"tool": NAME, "path": str(path)}, events, problems)
        return
    if _is_checkpoint(path):
        folder, tag = path.parent, unquote(path.stem.removeprefix(_CHECKPOINT))
        if folder.name == _TOOL_CHECKPOINTS:
            folder, tag = folder.parent, f"{_TOOL_CHECKPOINTS}/{path.stem}"
        name = f"{NAME}:{_short_name(folder.name)}/{tag}"
        events = partial(_checkpoint_events, path, problems)
        facts = {"tool": NAME, "path": str(path), "checkpoint": tag}
        yield Source(name, path, facts, events, problems)
        return
    if path.suffix == ".json" and path.with_suffix(".jsonl").exists():
        return  # the program has copied it there, and goes on there
    facts = _facts(path)
    session = facts["session"] or path.stem
    project = facts["project"]
    # All sessions of the server have the same id.
    is_server = session == _SERVER
    name = f"{session}/{_short_name(str(project))}/{path.stem}" if is_server else session
    above = path.parent
    parent = f"{NAME}:{above.name}" if above.parent.name == "chats" else None
    events = partial(_events, path, problems, is_server=is_server)
    facts = {"tool": NAME, "path": str(path), **facts}
    yield Source(f"{NAME}:{name}", path, facts, events, problems, parent)


def _short_name(project: str) -> str:
    """A project's name, or the beginning of the hash that it has in its place."""
    return project[:16] if _HASH.fullmatch(project) else project


def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = dict.fromkeys(("session", "project", "kind", "folder"))
    for record, _ in read_records(path, None):
        if isinstance(record, dict) and isinstance(record.get("sessionId"), str):
            facts["session"] = named(record["sessionId"])
            facts["project"] = record.get("projectHash")
            facts["kind"] = record.get("kind")
            folders = [one for one in _listed(record, "directories") if isinstance(one, str)]
            facts["folder"] = folders[0] if folders else None
            break
    return facts


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
                names = list(self.now)
                kept = names[: names.index(to)] if to in self.now else []
                self.now = {name: self.now[name] for name in kept}
            case {"$set": {"messages": list(messages), **rest}}:
                yield from self.play()
                self.now = {}
                yield from self._take_all(messages, line)
                yield Noted(None, "set", rest, line=line)
                self._learn(rest)
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
                yield from self._take_all(messages, line)
                self._learn(rest)
                yield Noted(None, "session", rest, line=line)
                return
            case {"sessionId": str()}:
                self._learn(record)
        yield Noted(None, "record", record, line=line)

    def play(self) -> Iterator[Event]:
        """What makes the list that was played last the list as it is."""
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

    def _take_all(self, messages: list[Any], line: int | None) -> Iterator[Event]:
        for number, record in enumerate(messages):
            if isinstance(record, dict):
                yield from self._put(named(record.get("id")) or f"#{number}", record, line)
            else:
                yield Noted(None, "unknown", record, line=line)

    def _put(self, name: str, record: dict[str, Any], line: int | None) -> Iterator[Event]:
        """A message takes the place of an older version of it, which becomes a note."""
        old = self.now.get(name, record)
        if old != record:
            yield Noted(None, "superseded", old, iso_ms(old.get("timestamp")), line)
        self.now[name] = record

    def _learn(self, facts: Mapping[Any, Any]) -> None:
        summary = facts.get("summary")
        if isinstance(summary, str) and summary.strip():
            self.title = summary.strip()[:200]

    def _patch(self, patch: dict[str, Any], line: int | None) -> Iterator[Event]:
        for change in (patch, *dicts(patch.get("updates"))):
            name = change.get("id")
            if isinstance(name, str) and name in self.now:
                yield from self._put(name, _merged(self.now[name], change), line)
        removed = {one for one in _listed(patch, "removeIds") if isinstance(one, str)}
        order = [
            one for one in _listed(patch, "orderIds") if isinstance(one, str) and one in self.now
        ]
        if removed or order:
            yield from self.play()
            names = dict.fromkeys([*order, *self.now])
            self.now = {name: self.now[name] for name in names if name not in removed}


def _events(path: Path, problems: list[Problem], *, is_server: bool) -> Iterator[Event]:
    problems.clear()
    recording = _Recording(is_server)
    for record, line in read_records(path, problems):
        yield from recording.apply(record, line)
    yield from recording.play()
    if recording.title:
        yield TitleSet(recording.title)


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
        parts = [part for part in parts if not _is_blank(part)]
        parts = [*_thoughts(record), *parts, *map(_call, calls)]
    if not parts:
        return []
    kept = {key: value for key, value in record.items() if key not in ("content", "toolCalls")}
    kept["toolCalls"] = [
        {k: v for k, v in one.items() if k != "result"} if _result(one) else one for one in calls
    ]
    message = _message("model", parts, name, ts, kept)
    added = [Added(name, message)]
    # Even if a message of the user holds them too: the program sends them twice.
    if results := [part for call in calls for part in _result(call)]:
        back = f"{name}:results"
        added.append(Added(back, _message("user", results, back, ts)))
    return added


def _words(part: dict[str, Any]) -> str:
    """What the program reads of a part to see for whom a message of the user is."""
    text = part.get("text", "")
    return text if isinstance(text, str) and set(part) <= {"text"} else "[part]"


def _is_blank(part: dict[str, Any]) -> bool:
    words = part.get("text")
    return set(part) == {"text"} and isinstance(words, str) and not words.strip()


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
    given = content if isinstance(content, list) else [] if content is None else [content]
    parts = [{"text": one} if isinstance(one, str) else one for one in given]
    return [part for part in parts if isinstance(part, dict)]


def _thoughts(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"text": f"**{one['subject']}** {one.get('description', '')}", "thought": True}
        if one.get("subject")
        else {"text": str(one.get("description", "")), "thought": True}
        for one in dicts(record.get("thoughts"))
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {"name": call.get("name"), "args": call.get("args") or {}}
    return {"functionCall": {**asked, **({"id": call["id"]} if call.get("id") else {})}}


def _result(call: dict[str, Any]) -> list[dict[str, Any]]:
    found = call.get("result")
    if not found:
        return []
    if isinstance(found, str):
        answer = {"id": call.get("id"), "name": call.get("name"), "response": {"output": found}}
        return [{"functionResponse": answer}]
    return _parts(found)


def _merged(record: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = {**record, **({"content": change["content"]} if "content" in change else {})}
    changed = {str(one.get("id")): one for one in dicts(change.get("toolCalls"))}
    if changed:
        calls = dicts(record.get("toolCalls"))
        known = {str(one.get("id")) for one in calls}
        merged["toolCalls"] = [
            *({**one, **changed.get(str(one.get("id")), {})} for one in calls),
            *(one for name, one in changed.items() if name not in known),
        ]
    return merged


def _listed(record: dict[str, Any], name: str) -> list[Any]:
    found = record.get(name)
    return found if isinstance(found, list) else []


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


def _is_history(found: Any) -> bool:
    """Whether this is a list of contents."""
    first = found[0] if isinstance(found, list) and found else None
    return isinstance(first, dict) and first.get("role") in ("user", "model") and "parts" in first


def _is_checkpoint(path: Path) -> bool:
    """Whether a file is a checkpoint, by its name or else by what it holds."""
    if path.suffix != ".json" or path.name.startswith("session-"):
        return False
    if path.name.startswith(_CHECKPOINT) or path.parent.name == _TOOL_CHECKPOINTS:
        return True
    return any(_is_history(_history_of(record)) for record, _ in read_records(path, None))


def _checkpoint_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The messages of a checkpoint."""
    problems.clear()
    for record, _ in read_records(path, problems):
        history = _history_of(record)
        if isinstance(record, dict):
            rest = {name: one for name, one in record.items() if one is not history}
            yield Noted("checkpoint", "checkpoint", rest)
        if not isinstance(history, list):
            if not (isinstance(record, dict) and "toolCall" in record):
                problems.append(Problem(path, None, "it holds no history"))
            return
        calls = _Calls()
        for number, content in enumerate(history):
            role = content.get("role") if isinstance(content, dict) else None
            name = str(number)
            if role in ("user", "model"):
                message = NewMessage(str(role), content, "gemini", message_id=name)
                message = typed(message, _INSERTIONS.typed)
                yield Added(name, message, answers=calls.answered_by(name, content))
            else:
                yield Noted(name, "unknown", content)


class _Calls:
    """The calls without an id: their results, which have one, are matched by name and order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str, int]] = []

    def answered_by(self, name: str, content: dict[str, Any]) -> tuple[str, int] | None:
        """The message and the number of the call that a content with one result answers."""
        parts = dicts(content.get("parts"))
        called = dicts([one.get("functionCall") for one in parts])
        answers = dicts([one.get("functionResponse") for one in parts])
        self._waiting += [
            (str(call.get("name")), name, number)
            for number, call in enumerate(called)
            if not call.get("id")
        ]
        found = None
        for answer in answers:
            waits = (one for one in self._waiting if one[0] == answer.get("name"))
            if answer.get("id") and (one := next(waits, None)):
                self._waiting.remove(one)
                found = one[1:]
        return found if len(answers) == 1 else None


def _prompt_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """What the user has typed in all sessions of a project. It is no history, so all are notes."""
    problems.clear()
    for record, _ in read_records(path, problems):
        if not isinstance(record, list):
            problems.append(Problem(path, None, "it holds no list"))
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
