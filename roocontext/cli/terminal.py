"""Standard output and the pager.

Results go to stdout, everything else to stderr. Only a terminal gets a pager. If the reader of a
pipe goes away, the command ends without an error.
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

from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.screens.safe_text import safe, visible_json
from roocontext.cli.screens.screen import Screen
from roocontext.log.values import as_json

_ANY_TEXT = "backslashreplace"
"""A screen may show any character. If the encoding of the output lacks one, it is escaped."""


def open_streams() -> None:
    """Open the standard streams that are closed, and let stdout encode any text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ANY_TEXT)


def flush_or_drop() -> None:
    """Write the buffered output, or discard it. Python would try again when the process ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Print a document. It is escaped to ASCII, so that lone surrogates are kept."""
    document = json.dumps(as_json(value), indent=indent)
    sys.stdout.write(f"{visible_json(document)}\n")


def write_bytes(chunks: Iterable[bytes]) -> None:
    """Print bytes unchanged. On a terminal, escape the characters that could act on it."""
    if is_terminal(sys.stdout):
        decoder = codecs.getincrementaldecoder("utf-8")(_ANY_TEXT)
        for chunk in chunks:
            sys.stdout.write(safe(decoder.decode(chunk)))
        return
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def read_input(name: str, file: Path | None) -> str:
    """Read a file, or standard input if there is none. `name` is its name in errors."""
    try:
        return (sys.stdin.buffer.read() if file is None else file.read_bytes()).decode()
    except UnicodeDecodeError as error:
        raise Refusal(f"{name} is not UTF-8 at byte {error.start}.") from None
    except OSError as error:
        raise Refusal(f"{name} cannot be read: {error.strerror}.", Code.NOT_FOUND) from None


def is_terminal(stream: IO[str]) -> bool:
    """Check if the stream is a terminal."""
    return stream.isatty()


@contextmanager
def paged(*, wanted: bool = True, at_end: bool = False) -> Iterator[Screen]:
    """A screen, in a pager if one is wanted and stdout is a terminal.

    With `at_end`, `less` starts at the end.
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
    """Leave interrupts to the pager, which owns the terminal until it ends."""
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
    # LESS may lack -R, and then less would show the escapes of colours as text.
    return [*command, "-R", *(["+G"] if at_end else [])]
