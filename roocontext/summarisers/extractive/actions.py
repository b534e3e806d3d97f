"""The agent's tool calls, one line each: the call, its outcome, and the error if it failed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roocontext.log.pairs import RoleAndBlocks, pairs
from roocontext.log.readings import Block
from roocontext.summarisers.extractive.files_touched import Touch, command_of, touched
from roocontext.summarisers.extractive.todos import plan_of_call
from roocontext.summarisers.shorten import clean, last, line
from roocontext.summarisers.transcript import as_text, output_of

_LOOKED_AT: Final = 4_000
_CALL: Final = 120
_OUTCOME: Final = 110
_ERROR: Final = 170

_ARGUMENTS: Final = (
    *("command", "cmd", "pattern", "regex", "query", "path", "file_path", "filePath", "url"),
    *("target_file", "filename", "prompt", "description", "code", "script"),
)

_EXIT: Final = re.compile(
    r"exit(?:ed)?(?: with)?(?:[ _]?(?:code|status))?\"?\s*[:=]?\s*(\d+)", re.IGNORECASE
)
_WRONG: Final = re.compile(
    r"^(?:\w[\w.]*(?:Error|Exception)\b|error\b|fatal:|FAIL(?:ED)?\b|npm ERR!|panic:)"
    r"|: command not found|No such file or directory|\b[1-9]\d* (?:failed|errors?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolAction:
    """A tool call and its outcome; `error` is set if it failed."""

    call: str
    outcome: str
    error: str | None = None
    touches: tuple[Touch, ...] = ()


def actions(read: Sequence[RoleAndBlocks]) -> list[ToolAction]:
    """Every tool call in order, except those that only set the plan."""
    answers = {pair.call: pair.result for pair in pairs(read)}
    found = []
    for index, (_, blocks) in enumerate(read):
        for place, block in enumerate(blocks):
            if block.get("type") == "tool_use" and not plan_of_call(block.get("input")):
                at = answers.get((index, place))
                found.append(_action(block, None if at is None else read[at[0]][1][at[1]]))
    return found


def _action(call: Block, result: Block | None) -> ToolAction:
    name, given = as_text(call.get("name", "a tool")), call.get("input")
    summary = line(clean(f"`{name}` {_argument(given)}"), _CALL)
    if result is None:
        return ToolAction(summary, "no result yet")
    output = output_of(result)
    in_shell, refused = command_of(given) is not None, result.get("is_error") is True
    lines = [text for text in map(str.strip, clean(last(output, _LOOKED_AT)).split("\n")) if text]
    wrong = _complaint(lines) if in_shell else None
    if refused and wrong is None:
        wrong = lines[0] if lines else "error"
    # A shell command that fails may have changed files before it did. Other tools change nothing.
    touches = () if refused and not in_shell else tuple(touched(name, given))
    if wrong is not None:
        return ToolAction(summary, f"failed: {line(wrong, _OUTCOME)}", line(wrong, _ERROR), touches)
    count = output.count("\n") + 1
    brief = in_shell or count == 1
    return ToolAction(
        summary, line(lines[-1], _OUTCOME) if lines and brief else f"{count} lines", None, touches
    )


def _argument(given: Any) -> str:
    """The argument that best identifies a call."""
    if not isinstance(given, Mapping):
        return as_text(given) if given else ""
    named = (given[key] for key in _ARGUMENTS if isinstance(given.get(key), str | list))
    return as_text(next(named, next((it for it in given.values() if isinstance(it, str)), "")))


def _complaint(lines: Sequence[str]) -> str | None:
    """The line in which a command reports its error, or None."""
    seen = [*lines[:3], *lines[3:][-5:]]
    codes = [int(found[1]) for found in map(_EXIT.search, seen) if found]
    wrong = [text for text in seen if _WRONG.search(text)]
    if codes and not any(codes):
        return None
    if not codes or wrong:
        return wrong[-1] if wrong else None
    others = [text for text in seen if not _EXIT.search(text)]
    return others[-1] if others else seen[-1]
