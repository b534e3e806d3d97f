"""Exit codes, and the line on stderr that reports an error.

The line never contains content: errors carry numbers and ids only. Where an error of the library
advises a call, the line names a command instead.
"""

import os
import re
import sys
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import SequenceMatcher, get_close_matches
from enum import IntEnum
from typing import Final

from typer import Exit, TyperException

from roocontext import errors
from roocontext.cli.screens.safe_text import safe


class Code(IntEnum):
    """The exit codes."""

    DONE = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    DATABASE = 5
    UNCERTAIN = 6
    BUG = 70
    INTERRUPTED = 130


_CODES: Mapping[errors.Category, Code] = {
    errors.Category.NOT_FOUND: Code.NOT_FOUND,
    errors.Category.USAGE: Code.USAGE,
    errors.Category.REFUSED: Code.REFUSED,
    errors.Category.CONFLICT: Code.REFUSED,
    errors.Category.DATABASE: Code.DATABASE,
    # A command that writes reports this itself. If it only reads, nothing is uncertain.
    errors.Category.UNCERTAIN: Code.DATABASE,
}

NO_STORE = (
    "Name another with --db or ROOCONTEXT_DB, look at `roocontext demo`, or create an empty one"
    " with `roocontext db upgrade`."
)
_WRONG = "--db and ROOCONTEXT_DB name the database; `roocontext demo` makes one to look at."
_ADVICE: tuple[tuple[type[errors.RooContextError], str], ...] = (
    (errors.SessionPurged, "Only its receipt is left."),
    (errors.SessionArchived, "`roocontext import` with that file brings it back."),
    (errors.SessionNotFound, "`roocontext sessions` lists the sessions."),
    (errors.SessionExists, "Append to it, or choose another id."),
    (errors.MessageNotFound, "`roocontext audit` shows every entry."),
    (errors.InvalidOption, ""),
    (
        errors.UndoRefused,
        "`rewind --to` goes to any entry; `undo --force` hides the newer messages.",
    ),
    (errors.UncoverRefused, "`roocontext tree` lists what can be uncovered."),
    (errors.DuplicateMessage, "Use another --client-id for another message."),
    (errors.VersionConflict, "Look at the session again and decide whether to repeat the command."),
    (errors.StoreNotFound, NO_STORE),
    (errors.SourceDiverged, "`roocontext import --on-conflict fork` continues in a fork."),
    (errors.SchemaMismatch, ""),
    (errors.HistoryCorrupt, "`roocontext verify` names the first bad entry."),
    (errors.StoreUnavailable, "`roocontext doctor` shows more."),
)


class Refusal(Exception):
    """The command line itself refuses, mostly a wrong use. The text is the line that is printed."""

    def __init__(self, line: str, code: Code = Code.USAGE) -> None:
        super().__init__(line)
        self.code = code


def end(error: BaseException, *, debug: bool) -> int:
    """Print the error, if it is one, and return the exit code."""
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):  # the reader of our stdout went away
        return Code.DONE
    if debug:
        write_error(safe("".join(traceback.format_exception(error))))
    else:
        write_error(f"roocontext: {safe(' '.join(_line(error).split()))}\n")
    return code_of(error)


def write_error(text: str) -> None:
    """Write to stderr. If its reader went away, the exit code still tells."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # Python would try again when the process ends, and change the exit code.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    match error:
        case Refusal():
            return error.code
        case errors.NothingToUndo():
            return Code.NO
        case errors.RooContextError():
            return _CODES[error.category]
        case TyperException():
            return error.exit_code
        case OSError():
            return Code.DATABASE
    return Code.BUG


def _line(error: BaseException) -> str:
    match error:
        case errors.RooContextError():
            return f"{error.statement} {advice_of(error)}"
        case TyperException():
            context = getattr(error, "ctx", None)
            helps = f"See `{context.command_path} --help`." if context else ""
            return f"{_mistake(error)} {helps}"
        case Refusal():
            return str(error)
        case OSError():
            return f"The operating system reported an error: {error}."
    return f"A bug in roocontext: {type(error).__name__}. --debug shows the traceback."


def advice_of(error: errors.RooContextError) -> str:
    """The advice that this error gives, or else the command that usually helps."""
    if "advice" in error.facts:
        return (
            f"{error.advice} {_WRONG}" if isinstance(error, errors.StoreNotFound) else error.advice
        )
    return next((advice for kind, advice in _ADVICE if isinstance(error, kind)), error.advice)


_DANGEROUS: Final = frozenset({"redact", "purge", "--yes", "--force"})
"""Commands that erase, and options that answer a question: not offered unless nearly typed."""
_SLIP: Final = 0.85
"""How similar a dangerous name has to be: one letter too many or too few is similar enough."""


def similar(name: str, known: Collection[str]) -> list[str]:
    """The known names that a mistyped name may mean, the most similar first."""
    return [
        match
        for match in get_close_matches(name, known)
        if match not in _DANGEROUS or SequenceMatcher(None, name, match).ratio() >= _SLIP
    ]


def _mistake(error: TyperException) -> str:
    if re.match("-[0-9]", getattr(error, "option_name", "")):
        return (
            "Neither an entry's number nor a time begins with -: entries are counted from 1, and a"
            " time is written as 2026-01-31 or '2h ago'."
        )
    if possible := getattr(error, "possibilities", None):
        error.possibilities = similar(error.option_name, possible)  # type: ignore[attr-defined]  # it has both
    message = error.format_message().replace("Value error, ", "")  # pydantic's own words
    return message if message.endswith((".", "?")) else f"{message}."
