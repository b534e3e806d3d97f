"""The plan: the steps in a call of a todo tool or in a list, with their states."""

import re
from collections.abc import Mapping
from typing import Any, Final

from roocontext.summarisers.transcript import last

_LOOKED_AT: Final = 20_000

_LISTS: Final = ("todos", "todo_list", "plan", "tasks", "steps", "items")
_TEXTS: Final = ("content", "step", "text", "title", "task", "description", "name")
_STATES: Final = {
    **dict.fromkeys(("completed", "complete", "done", "x", "finished"), "[DONE]"),
    **dict.fromkeys(("in_progress", "in progress", "active", "doing", "-", "~"), "[IN PROGRESS]"),
    **dict.fromkeys(("cancelled", "canceled", "skipped"), "[CANCELLED]"),
}
_TO_DO: Final = "[TODO]"

_CHECKED: Final = re.compile(
    r"^[ \t]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]*+)?\[(x|X| |-|~|DONE|IN PROGRESS|TODO)\][ \t]+(\S.*)$",
    re.MULTILINE,
)
_NUMBERED: Final = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+(\S.*)$", re.MULTILINE)


def plan_of_call(call_input: Any) -> list[str]:
    """The steps that a tool call sets, each with its state; empty if the call sets none."""
    if not isinstance(call_input, Mapping):
        return []
    for key in _LISTS:
        if isinstance(call_input.get(key), str):
            steps = checklist(call_input[key])
        elif isinstance(call_input.get(key), list):
            steps = [step for step in map(_step, call_input[key]) if step]
        else:
            continue
        if steps:
            return steps
    return []


def checklist(text: str) -> list[str]:
    """The steps of a list whose entries begin with a checkbox."""
    return [f"{_state(box)} {step}" for box, step in _CHECKED.findall(last(text, _LOOKED_AT))]


def numbered_items(text: str) -> list[str]:
    """The entries of the numbered lists in a text, if there is more than one."""
    entries = _NUMBERED.findall(last(text, _LOOKED_AT))
    return entries if len(entries) > 1 else []


def _step(item: Any) -> str | None:
    if isinstance(item, str) and item.strip():
        return f"{_TO_DO} {item}"
    if not isinstance(item, Mapping):
        return None
    step = next((item[key] for key in _TEXTS if isinstance(item.get(key), str)), "").strip()
    state = item.get("status", item.get("state", "done" if item.get("done") is True else ""))
    return f"{_state(state)} {step}" if step else None


def _state(value: Any) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    return _STATES.get(word, _TO_DO)
