"""The agent's tool calls, one line each, and the files that they touch.

Agents name tools and arguments differently. So the files are recognised by the words in the tool's
name, the usual keys for a path, the headers of patches, and the first words of shell commands.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from roocontext.log.pairs import pairs
from roocontext.log.readings import Block, RoleAndBlocks
from roocontext.summarisers.extractive.todos import plan_of_call
from roocontext.summarisers.transcript import as_text, clean, first, last, output_of, shorten_line

Touch: TypeAlias = tuple[str, str]
"""A path, and what was done to it."""

_READING_TOOLS: Final = 20_000

_VERBS: Final = {
    "deleted": re.compile(r"delete|remove|unlink|trash", re.IGNORECASE),
    "moved": re.compile(r"rename|move", re.IGNORECASE),
    "changed": re.compile(
        r"edit|replace|patch|apply|insert|update|modify|diff|append", re.IGNORECASE
    ),
    "written": re.compile(r"write|create|save|new", re.IGNORECASE),
    "": re.compile(r"list|glob|grep|search|find|\bls\b", re.IGNORECASE),
    "read": re.compile(r"read|view|open|cat|load|show", re.IGNORECASE),
}
"""Verbs in tool names; searching counts as touching nothing."""

_PATHS: Final = (
    *("path", "file_path", "filepath", "filePath", "absolute_path", "notebook_path"),
    *("target_file", "filename", "file", "paths", "files", "file_paths"),
)
_COMMANDS: Final = ("command", "cmd", "script", "code", "commands")

_PATCH: Final = re.compile(
    r"^(?:\*\*\* (?P<verb>Add|Update|Delete) File: |(?:\+\+\+|---) [ab]/)(?P<path>\S.*)$",
    re.MULTILINE,
)
_PATCHED: Final = {"Add": "written", "Update": "changed", "Delete": "deleted", None: "changed"}

_STEPS: Final = re.compile(r"&&|\|\||[;|\n]")
_TO: Final = re.compile(r"(?<![0-9&>])>{1,2}\s*([^\s&>]+)")
_PATH: Final = re.compile(r"(?!-|\w+://)[\w.~@+/-]*(?:/[\w.@+-]+|\w\.[A-Za-z]\w{0,7})")
_SHELL: Final = {
    **dict.fromkeys(("cat", "head", "tail", "less", "more", "bat", "nl", "wc", "diff"), "read"),
    **dict.fromkeys(("rm", "unlink", "git rm"), "deleted"),
    **dict.fromkeys(("mv", "git mv"), "moved"),
    **dict.fromkeys(("touch", "tee", "cp"), "written"),
    **dict.fromkeys(("sed -i", "patch", "git apply"), "changed"),
    "sed": "read",
}


def touched(name: str, call_input: Any) -> list[Touch]:
    """The files that a call of this tool with this input touches."""
    arguments = call_input if isinstance(call_input, Mapping) else {"command": call_input}
    touches = [*_named(name, arguments), *_patched(arguments), *_in_shell(arguments)]
    return list(dict.fromkeys(touches))


def command_of(call_input: Any) -> str | None:
    """The shell command among the arguments, if there is one."""
    if isinstance(call_input, str):
        return call_input
    return next(_commands(call_input), None) if isinstance(call_input, Mapping) else None


def _named(name: str, arguments: Mapping[str, Any]) -> Iterator[Touch]:
    """The paths under the usual keys."""
    action = _subcommand(arguments) or name
    verb = next((verb for verb, words in _VERBS.items() if words.search(action)), "used")
    if verb:
        for key in _PATHS:
            yield from ((path, verb) for path in _paths(arguments.get(key)))


def _subcommand(arguments: Mapping[str, Any]) -> str | None:
    """The subcommand of an editor tool such as `str_replace`; None for shell commands."""
    command = arguments.get("command")
    if isinstance(command, str) and command.replace("_", "").isalpha():
        return command if any(key in arguments for key in _PATHS) else None
    return None


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.strip() and "\n" not in value:
        yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item.get("path") if isinstance(item, Mapping) else item)


def _patched(arguments: Mapping[str, Any]) -> Iterator[Touch]:
    for value in arguments.values():
        if isinstance(value, str):
            for header in _PATCH.finditer(first(value, _READING_TOOLS)):
                yield header["path"].strip(), _PATCHED[header["verb"]]


def _in_shell(arguments: Mapping[str, Any]) -> Iterator[Touch]:
    for command in _commands(arguments):
        for step in _STEPS.split(first(command, _READING_TOOLS)):
            yield from ((path, "written") for path in _TO.findall(step) if _PATH.fullmatch(path))
            words = step.split()
            verb = _SHELL.get(" ".join(words[:2])) or _SHELL.get(" ".join(words[:1]))
            if verb:
                named = (word.strip("'\"") for word in _TO.sub("", step).split()[1:])
                yield from ((word, verb) for word in named if _PATH.fullmatch(word))


def _commands(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _COMMANDS:
        command = arguments.get(key)
        if isinstance(command, list):
            command = " ".join(part for part in command if isinstance(part, str))
        if isinstance(command, str) and command != _subcommand(arguments):
            yield command


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
    done = []
    for index, (_, blocks) in enumerate(read):
        for place, block in enumerate(blocks):
            if block.get("type") == "tool_use" and not plan_of_call(block.get("input")):
                at = answers.get((index, place))
                done.append(_action(block, None if at is None else read[at[0]][1][at[1]]))
    return done


def _action(call: Block, result: Block | None) -> ToolAction:
    name, call_input = as_text(call.get("name", "a tool")), call.get("input")
    summary = shorten_line(clean(f"`{name}` {_argument(call_input)}"), _CALL)
    if result is None:
        return ToolAction(summary, "no result yet")
    output = output_of(result)
    in_shell, refused = command_of(call_input) is not None, result.get("is_error") is True
    lines = [text for text in map(str.strip, clean(last(output, _LOOKED_AT)).split("\n")) if text]
    wrong = _complaint(lines) if in_shell else None
    if refused and wrong is None:
        wrong = lines[0] if lines else "error"
    # A shell command that fails may have changed files before it did. Other tools change nothing.
    touches = () if refused and not in_shell else tuple(touched(name, call_input))
    if wrong is not None:
        return ToolAction(
            summary,
            f"failed: {shorten_line(wrong, _OUTCOME)}",
            shorten_line(wrong, _ERROR),
            touches,
        )
    count = output.count("\n") + 1
    brief = in_shell or count == 1
    return ToolAction(
        summary,
        shorten_line(lines[-1], _OUTCOME) if lines and brief else f"{count} lines",
        None,
        touches,
    )


def _argument(call_input: Any) -> str:
    """The argument that best identifies a call."""
    if not isinstance(call_input, Mapping):
        return as_text(call_input) if call_input else ""
    named = (call_input[key] for key in _ARGUMENTS if isinstance(call_input.get(key), str | list))
    return as_text(
        next(named, next((value for value in call_input.values() if isinstance(value, str)), ""))
    )


def _complaint(lines: Sequence[str]) -> str | None:
    """The line in which a command reports its error, or None."""
    seen = [*lines[:3], *lines[3:][-5:]]
    codes = [int(match[1]) for match in map(_EXIT.search, seen) if match]
    wrong = [text for text in seen if _WRONG.search(text)]
    if codes and not any(codes):
        return None
    if not codes or wrong:
        return wrong[-1] if wrong else None
    others = [text for text in seen if not _EXIT.search(text)]
    return others[-1] if others else seen[-1]
