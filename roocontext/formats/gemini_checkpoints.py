"""Gemini CLI's checkpoints, and the prompts that it logs. docs/formats/gemini-cli.md."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roocontext.formats.events import Added, Event, Noted, Problem
from roocontext.formats.lines import read_records
from roocontext.formats.times import iso_ms
from roocontext.formats.typed import Insertions, typed
from roocontext.log.entries import NewMessage

CHECKPOINT = "checkpoint-"
TOOL_CHECKPOINTS = "checkpoints"
PROMPTS = "logs.json"
INSERTIONS = Insertions(
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


def history_of(record: Any) -> Any:
    """The messages of a checkpoint."""
    if not isinstance(record, dict):
        return record
    if isinstance(record.get("clientHistory"), list):
        return record["clientHistory"]
    return None if "toolCall" in record else record.get("history")


def is_history(found: Any) -> bool:
    """Whether this is a list of contents."""
    first = found[0] if isinstance(found, list) and found else None
    return isinstance(first, dict) and first.get("role") in ("user", "model") and "parts" in first


def is_checkpoint(path: Path) -> bool:
    """Whether a file is a checkpoint, by its name or else by what it holds."""
    if path.suffix != ".json" or path.name.startswith("session-"):
        return False
    if path.name.startswith(CHECKPOINT) or path.parent.name == TOOL_CHECKPOINTS:
        return True
    return any(is_history(history_of(record)) for record, _ in read_records(path, None))


def checkpoint_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The messages of a checkpoint."""
    problems.clear()
    for record, _ in read_records(path, problems):
        history = history_of(record)
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
                message = typed(message, INSERTIONS.typed)
                yield Added(name, message, answers=calls.answered_by(name, content))
            else:
                yield Noted(name, "unknown", content)


class _Calls:
    """The calls without an id: their results, which have one, are matched by name and order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str, int]] = []

    def answered_by(self, name: str, content: dict[str, Any]) -> tuple[str, int] | None:
        """The message and the number of the call that a content with one result answers."""
        parts = content.get("parts")
        parts = parts if isinstance(parts, list) else []
        called = [one["functionCall"] for one in parts if _holds(one, "functionCall")]
        answers = [one["functionResponse"] for one in parts if _holds(one, "functionResponse")]
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


def _holds(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and isinstance(part.get(kind), dict)


def prompt_events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """What the user has typed in all sessions of a project. It is no history, so all are notes."""
    problems.clear()
    for record, _ in read_records(path, problems):
        if not isinstance(record, list):
            problems.append(Problem(path, None, "it holds no list"))
            continue
        for prompt in record:
            ts = iso_ms(prompt.get("timestamp")) if isinstance(prompt, dict) else None
            yield Noted(None, "prompt", prompt, ts)
