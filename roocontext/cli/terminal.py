"""The terminal: what is written where, with a pager or without.

Results go to stdout, everything else to stderr. A pager is for a terminal only, and a closed pipe
ends the command quietly.
"""

import codecs
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from roocontext.cli.screens.safe_text import safe, visible_json
from roocontext.cli.screens.screen import Screen
from roocontext.log.values import as_json

_ANY_TEXT = "backslashreplace"
"""A screen holds what any model wrote; an encoding that lacks a character is no error."""


def open_streams() -> None:
    """Open the streams that are closed, and let standard output encode any text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ANY_TEXT)


def flush_or_drop() -> None:
    """Write what is left, or discard it: else Python tries again when the process ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Print a document. It is escaped to ASCII, so that lone surrogates survive."""
    document = json.dumps(as_json(value), indent=indent)
    sys.stdout.write(f"{visible_json(document)}\n")


def write_bytes(chunks: Iterable[bytes]) -> None:
    """Print bytes as they are; on a terminal, what could act on it is escaped."""
    if is_terminal(sys.stdout):
        decoder = codecs.getincrementaldecoder("utf-8")(_ANY_TEXT)
        for chunk in chunks:
            sys.stdout.write(safe(decoder.decode(chunk)))
        return
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def is_terminal(stream: IO[str]) -> bool:
    """Whether the stream is a terminal."""
    return stream.isatty()


@contextmanager
def paged(*, wanted: bool = True, at_end: bool = False) -> Iterator[Screen]:
    """A screen, in a pager if one is wanted and stdout is a terminal.

    With `at_end`, `less` shows the end of it first.
    """
    command = _pager(at_end=at_end) if wanted and is_terminal(sys.stdout) else None
    if command is None:
        yield Screen()
        return
    with (
        _interrupts_ignored(),
        subprocess.Popen(  # noqa: S603 - the pager that the user has chosen
            command, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ}
        ) as process,
    ):
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the user has left the pager
            encoding = sys.stdout.encoding
            with io.TextIOWrapper(process.stdin, encoding=encoding, errors=_ANY_TEXT) as file:
                yield Screen(file, colours=True)
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Leave interrupts to the pager: the terminal is the pager's until it ends."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _pager(*, at_end: bool) -> list[str] | None:
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # an unbalanced quotation mark
        return None
    if not command or not shutil.which(command[0]):
        return None
    if Path(command[0]).name != "less":
        return command
    # Without -R, less shows colours as escapes, whatever LESS says.
    return [*command, "-R", *(["+G"] if at_end else [])]
