"""Exit codes, and the one line on stderr that says what went wrong.

A line never contains content: errors carry numbers and ids only. Where an error advises a call of
the library, the line names a command instead.
"""

import os
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum

from typer import Exit, TyperException

from roocontext import errors
from roocontext.cli import interrupts
from roocontext.cli.screens.safe_text import safe
from roocontext.cli.similar_names import similar


class Code(IntEnum):
    """What an exit code means."""

    DONE = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    DATABASE = 5
    UNCERTAIN = 6
    BUG = 70
    INTERRUPTED = interrupts.CODE


MEANINGS = {
    Code.DONE: "Success. A closed pipe is not an error.",
    Code.NO: "The answer is no: `verify` found a problem, `doctor` found a risk, there was"
    " nothing to hide or to undo, the confirmation was declined, `backup` only printed the"
    " command to run, or `import` could not read a file or a line, or"
    " refused to continue a session that was changed here.",
    Code.USAGE: "The command line is wrong, or the input cannot be stored.",
    Code.NOT_FOUND: "There is no such session, entry, message or database; or several session ids"
    " begin like that; or the session was purged; or a file or folder that was named cannot be"
    " used.",
    Code.REFUSED: "The operation was refused: because of a conflict or a pin, because the"
    " context would not shrink or the prompt is too large, or because the demo's folder is not"
    " empty.",
    Code.DATABASE: "The database cannot be used: it is not a store, permission is missing, its"
    " schema is newer, it is damaged or full, or it does not answer. Or the operating system"
    " reported another error.",
    Code.UNCERTAIN: "The change was made, but the output could not be written; or the connection"
    " broke, and the change may have been made. The error says which. Check before you repeat it.",
    Code.BUG: "A bug in roocontext; `--debug` shows the traceback.",
    Code.INTERRUPTED: "Interrupted.",
}

_CODES: Mapping[errors.Category, Code] = {
    errors.Category.NOT_FOUND: Code.NOT_FOUND,
    errors.Category.USAGE: Code.USAGE,
    errors.Category.REFUSED: Code.REFUSED,
    errors.Category.CONFLICT: Code.REFUSED,
    errors.Category.DATABASE: Code.DATABASE,
    # A command that writes reports this itself. For one that reads, nothing is uncertain.
    errors.Category.UNCERTAIN: Code.DATABASE,
}

NO_STORE = (
    "Name another with --db or ROOCONTEXT_DB, look at `roocontext demo`, or create an empty one"
    " with `roocontext db upgrade`."
)
_WRONG = "--db and ROOCONTEXT_DB name the database; `roocontext demo` makes one to look at."
_ADVICE: tuple[tuple[type[errors.RooContextError], str], ...] = (
    (errors.SessionPurged, "Only its receipt is left."),
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
    """The command line itself refuses; the text is the line that is printed."""

    def __init__(self, line: str, code: Code) -> None:
        super().__init__(line)
        self.code = code


class PipeClosed(Exception):
    """The reader of our stdout went away. No OSError, because typer and rich report those."""


def end(error: BaseException, *, debug: bool) -> int:
    """Print what went wrong, if anything, and return the exit code."""
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, PipeClosed):
        return Code.DONE
    if debug:
        write_error(safe("".join(traceback.format_exception(error))))
    else:
        write_error(f"roocontext: {safe(' '.join(_line(error).split()))}\n")
    return code_of(error)


def write_error(text: str) -> None:
    """Write to stderr. If its reader went away, there is still the exit code."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # Python would try once more when the process ends, and change the exit code.
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
            general = (type(error).__doc__ or "").strip().splitlines()[0]
            return f"{error.fact or general} {advice_of(error)}"
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
    """Say what to do: the advice of this case, or the command that usually helps."""
    if "advice" in error.facts:
        return (
            f"{error.advice} {_WRONG}" if isinstance(error, errors.StoreNotFound) else error.advice
        )
    return next((advice for kind, advice in _ADVICE if isinstance(error, kind)), error.advice)


def _mistake(error: TyperException) -> str:
    if re.match("-[0-9]", getattr(error, "option_name", "")):
        return (
            "Neither an entry's number nor a time begins with -: entries are counted from 1, and a"
            " time is written as 2026-01-31 or '2h ago'."
        )
    if possible := getattr(error, "possibilities", None):
        error.possibilities = similar(error.option_name, possible)  # type: ignore[attr-defined]  # it has both
    message = error.format_message()
    return message if message.endswith((".", "?")) else f"{message}."
