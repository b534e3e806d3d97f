"""Which files a tool call touches, and how, judged by the tool's name and arguments.

Agents name tools and arguments differently. So this looks at the words in the name, the usual keys
for a path, the headers of patches, and the first words of shell commands.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from roocontext.summarisers.shorten import first

Touch: TypeAlias = tuple[str, str]
"""A path, and what was done to it."""

_LOOKED_AT: Final = 20_000

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


def touched(name: str, given: Any) -> list[Touch]:
    """The files that a call of this tool with these arguments touches."""
    arguments = given if isinstance(given, Mapping) else {"command": given}
    found = [*_named(name, arguments), *_patched(arguments), *_in_shell(arguments)]
    return list(dict.fromkeys(found))


def command_of(given: Any) -> str | None:
    """The shell command among the arguments, if there is one."""
    if isinstance(given, str):
        return given
    return next(_commands(given), None) if isinstance(given, Mapping) else None


def _named(name: str, arguments: Mapping[str, Any]) -> Iterator[Touch]:
    """The paths under the usual keys."""
    verb = _verb(_subcommand(arguments) or name)
    if verb:
        for key in _PATHS:
            yield from ((path, verb) for path in _paths(arguments.get(key)))


def _verb(name: str) -> str:
    return next((verb for verb, words in _VERBS.items() if words.search(name)), "used")


def _subcommand(arguments: Mapping[str, Any]) -> str | None:
    """The subcommand of an editor tool such as `str_replace`; None for shell commands."""
    command = arguments.get("command")
    if isinstance(command, str) and command.replace("_", "").isalpha():
        return command if any(key in arguments for key in _PATHS) else None
    return None


def _paths(given: Any) -> Iterator[str]:
    if isinstance(given, str) and given.strip() and "\n" not in given:
        yield given.strip()
    elif isinstance(given, list):
        for item in given:
            yield from _paths(item.get("path") if isinstance(item, Mapping) else item)


def _patched(arguments: Mapping[str, Any]) -> Iterator[Touch]:
    for value in arguments.values():
        if isinstance(value, str):
            for header in _PATCH.finditer(first(value, _LOOKED_AT)):
                yield header["path"].strip(), _PATCHED[header["verb"]]


def _in_shell(arguments: Mapping[str, Any]) -> Iterator[Touch]:
    for command in _commands(arguments):
        for step in _STEPS.split(first(command, _LOOKED_AT)):
            yield from ((path, "written") for path in _TO.findall(step) if _PATH.fullmatch(path))
            verb = _shell_verb(step.split())
            if verb:
                named = (word.strip("'\"") for word in _TO.sub("", step).split()[1:])
                yield from ((word, verb) for word in named if _PATH.fullmatch(word))


def _shell_verb(words: list[str]) -> str | None:
    return _SHELL.get(" ".join(words[:2])) or _SHELL.get(words[0]) if words else None


def _commands(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _COMMANDS:
        given = arguments.get(key)
        if isinstance(given, list):
            given = " ".join(part for part in given if isinstance(part, str))
        if isinstance(given, str) and given != _subcommand(arguments):
            yield given
