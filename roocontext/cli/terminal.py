"""The terminal: what is written where, through a pager or not, and what is asked.

Results go to stdout, everything else to stderr. Pagers and questions are for terminals only; a
closed pipe ends the command quietly.
"""

import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from roocontext.cli.failing import PipeClosed
from roocontext.cli.screens.screen import Screen


class _Outlet(io.TextIOWrapper):
    """Standard output that encodes anything, and whose closed end is not taken for a failure."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise PipeClosed from None

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise PipeClosed from None


def take_streams() -> None:
    """Make standard output an outlet for the rest of the process, and open what was closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the end
    old = sys.stdout
    if isinstance(old, io.TextIOWrapper):
        encoding, is_terminal = old.encoding, old.isatty()
        sys.stdout = _Outlet(
            old.detach(), encoding=encoding, errors="backslashreplace", line_buffering=is_terminal
        )


def drop_stdout() -> None:
    """Let what is still to be written go nowhere, because nobody reads it."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_json(document: Any) -> None:
    """One document. Escaped to ASCII, so that lone surrogates survive and nothing acts."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def write_json_line(document: Any) -> None:
    """One document of a stream, on a line."""
    sys.stdout.write(json.dumps(document) + "\n")


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody sits in front of it."""
    return stream.isatty()


def asked(question: str) -> bool:
    """Whether somebody says yes; the end of what is typed is no consent."""
    try:
        sys.stderr.write(question)
        sys.stderr.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer.strip().casefold() in ("y", "yes")


@contextmanager
def paged(*, wanted: bool = True) -> Iterator[Screen]:
    """A screen that stops at each page, where there is somebody to turn them."""
    command = _pager() if wanted and is_terminal(sys.stdout) else None
    if command is None:
        yield Screen()
        return
    with (
        _uninterrupted(),
        subprocess.Popen(  # noqa: S603 - the pager that the user has chosen
            command, stdin=subprocess.PIPE, env={"LESS": "FRX", **os.environ}
        ) as process,
    ):
        assert process.stdin is not None
        with suppress(PipeClosed, BrokenPipeError):  # who leaves the pager has seen enough
            encoding = sys.stdout.encoding
            with _Outlet(process.stdin, encoding=encoding, errors="backslashreplace") as file:
                yield Screen(file, colours=True)
    if process.returncode == -signal.SIGINT:
        raise KeyboardInterrupt


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Leave it to the pager what an interrupt does: the terminal is the pager's until it ends."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _pager() -> list[str] | None:
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # an unbalanced quotation mark
        return None
    if not command or not shutil.which(command[0]):
        return None
    # Whatever LESS says: without it, colours are shown as their escapes.
    return [*command, "-R"] if Path(command[0]).name == "less" else command
