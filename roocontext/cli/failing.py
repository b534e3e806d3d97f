"""How a command ends: its exit code, and the one line that says what was wrong.

A line never holds content: errors carry numbers and ids only. Advice that speaks of calls of the
library is replaced by what can be typed.
"""

import logging
import re
import sys
import traceback
from contextlib import suppress
from enum import IntEnum

from typer import Exit, TyperException

from roocontext import errors
from roocontext.cli import interrupts
from roocontext.cli.screens.wording import plain


class Code(IntEnum):
    """What an exit code means."""

    DONE = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    DATABASE = 5
    UNTOLD = 6
    BUG = 70
    INTERRUPTED = interrupts.CODE


MEANINGS = {
    Code.DONE: "Done; a closed pipe is no error.",
    Code.NO: "The answer is no: `verify` found something wrong, `doctor` a danger, nothing was left"
    " to hide, there was nothing to undo, or the question was answered with no.",
    Code.USAGE: "The command was written wrongly, or what it was given cannot be stored.",
    Code.NOT_FOUND: "There is no such session, entry, message or database, or more than one"
    " session begins like that, or it was purged. Or a file or folder that was named as an argument"
    " cannot be used.",
    Code.REFUSED: "The session does not allow it as it is now: a conflict, a pin, a context that"
    " would not shrink, a prompt that is too large. Or the demo's folder is not empty.",
    Code.DATABASE: "The database cannot be used: not a store, no permission, newer schema,"
    " damaged, full, no answer. Or the system refused something else.",
    Code.UNTOLD: "It was done, but the answer could not be written; or the connection broke, and it"
    " may have been done. The line says which: look before you repeat it.",
    Code.BUG: "A defect of roocontext; `--debug` shows where.",
    Code.INTERRUPTED: "Interrupted.",
}

_CODES: tuple[tuple[type[errors.RooContextError], Code], ...] = (
    (errors.NothingToUndo, Code.NO),
    (errors.SessionNotFound, Code.NOT_FOUND),
    (errors.MessageNotFound, Code.NOT_FOUND),
    (errors.StoreNotFound, Code.NOT_FOUND),
    (errors.InvalidMessage, Code.USAGE),
    (errors.InvalidOption, Code.USAGE),
    (errors.InvalidIdentifier, Code.USAGE),
    (errors.UnknownPlugin, Code.USAGE),
    (errors.SchemaMismatch, Code.DATABASE),
    (errors.ForeignDatabase, Code.DATABASE),
    (errors.StoreUnavailable, Code.DATABASE),
    (errors.HistoryCorrupt, Code.DATABASE),
)

_ADVICE: tuple[tuple[type[errors.RooContextError], str], ...] = (
    (errors.SessionPurged, "Its receipt is all that is left."),
    (errors.SessionNotFound, "`roocontext sessions` lists them."),
    (errors.SessionExists, "Append to it, or choose another id."),
    (errors.MessageNotFound, "`roocontext audit` shows every entry."),
    (errors.InvalidOption, ""),
    (errors.UndoRefused, "`rewind --to` goes to any entry; `--force` hides what came since."),
    (errors.VersionConflict, "Look at the session again, then decide."),
    (errors.StoreNotFound, "`roocontext db upgrade` makes it."),
    (errors.SchemaMismatch, ""),
    (errors.HistoryCorrupt, "`roocontext verify` names the first bad entry."),
    (errors.StoreUnavailable, "`roocontext doctor` looks closer."),
)


class Refusal(Exception):
    """The command line itself will not go on; its text is the line that says why."""

    def __init__(self, line: str, code: Code) -> None:
        super().__init__(line)
        self.code = code


class PipeClosed(Exception):
    """Nobody reads on. No OSError, which typer and rich would turn into a failure."""


class _Warnings(logging.Handler):
    """What the library warns of, as a line like that of an error: harmless to the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        sys.stderr.write(f"roocontext: {plain(' '.join(record.getMessage().split()))}\n")


def tell_warnings() -> None:
    """Let the library's warnings come out as this command line's own lines."""
    log = logging.getLogger("roocontext")
    log.handlers = [_Warnings()]
    log.propagate = False


def end(error: BaseException, *, debug: bool) -> int:
    """Say what was wrong, if anything, and answer the exit code."""
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, PipeClosed):
        return Code.DONE
    with suppress(OSError):  # the code says it too, if nothing can be written there
        if debug:
            traceback.print_exception(error)
        else:
            sys.stderr.write(f"roocontext: {plain(' '.join(_line(error).split()))}\n")
    return code_of(error)


def code_of(error: BaseException) -> int:
    """The exit code of an error."""
    match error:
        case Refusal():
            return error.code
        case errors.RooContextError():
            return next((code for kind, code in _CODES if isinstance(error, kind)), Code.REFUSED)
        case TyperException():
            return error.exit_code
        case KeyboardInterrupt():
            return Code.INTERRUPTED
        case OSError():
            return Code.DATABASE
    return Code.BUG


def _line(error: BaseException) -> str:
    match error:
        case errors.RooContextError():
            return _told(error)
        case TyperException():
            return f"{_mistake(error)} {_help_of(error)}"
        case KeyboardInterrupt():
            return "Interrupted."
        case Refusal():
            return str(error)
        case OSError():
            return f"The system says: {error}."
    return f"A defect of roocontext: {type(error).__name__}. --debug shows where."


def _told(error: errors.RooContextError) -> str:
    general = (type(error).__doc__ or "").strip().splitlines()[0]
    return f"{error.fact or general} {advice_of(error)}"


def advice_of(error: errors.RooContextError) -> str:
    """What to do: that of the case, else what can be typed in general."""
    if "advice" in error.facts:
        return error.advice
    return next((advice for kind, advice in _ADVICE if isinstance(error, kind)), error.advice)


def _mistake(error: TyperException) -> str:
    if re.match("-[0-9]", getattr(error, "option_name", "")):
        return (
            "Neither an entry's number nor a time begins with -: entries are counted from 1, and a"
            " time is written as 2026-01-31 or '2h ago'."
        )
    return f"{error.format_message().rstrip('.')}."


def _help_of(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path} --help` shows how." if context else ""
