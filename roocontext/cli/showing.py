"""The screen: what is written where, how wide, in colour or not, through a pager or not.

Results go to stdout, everything else to stderr. Colours, bars and pagers are for terminals only; a
closed pipe ends the command quietly. Text comes here through `wording`, which makes it harmless.
"""

import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any, Literal, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from roocontext.cli.failing import PipeClosed
from roocontext.cli.wording import ASCII, UNICODE, Signs, shortened

Progress: TypeAlias = Callable[[int, int], None]

NARROW = 56
"""Below this many columns, tables become lists."""

_BELOW = 3
"""How many lines a row may take below its start."""

_BESIDE = 16
"""How many columns there are at least for what is said beside a start."""

PATIENCE = 0.7
"""After how many seconds whoever waits is shown a bar."""

_LONG = 2_000
"""From so many entries on it takes long enough for a bar to be of use."""

_THEME = Theme(
    {
        "said.user": "cyan",
        "said.assistant": "green",
        "acts": "magenta",
        "hidden": "dim",
        "note": "dim",
        "good": "green",
        "warn": "yellow",
        "bad": "bold red",
        "title": "bold",
    }
)


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


class Screen:
    """Where a command shows what it found."""

    def __init__(self, file: IO[str] | None = None, *, colours: bool | None = None) -> None:
        self.console = Console(
            file=file or sys.stdout,
            force_terminal=colours,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            theme=_THEME,
        )
        self.signs: Signs = ASCII if self.console.options.ascii_only else UNICODE
        self.width = self.console.width
        """How many columns there are."""

    @property
    def narrow(self) -> bool:
        """Whether rows of columns would be too narrow to read."""
        return self.width < NARROW

    def line(self, *parts: "str | tuple[str, str] | Text", indent: int = 0) -> None:
        """A line of parts, each with or without a style; it wraps where it must."""
        text = Text.assemble(*parts)
        room = max(1, self.width - indent)
        fits = "\n" not in text.plain and cell_len(text.plain) <= room
        for line in [text] if fits else text.wrap(self.console, room, overflow="fold"):
            whole = Text(" " * indent) + line
            whole.rstrip()
            self._put(whole)

    def beside(self, start: str, said: str, style: str, said_style: str) -> None:
        """A row: its start, and as much of what is said as fits beside it, or below if narrow."""
        if not self.fits_beside(start):
            self._above(start, style)
            few = shortened(said, _BELOW * self.width, self.signs.more)
            self.line((few, said_style), indent=1)
            return
        few = shortened(said, self.width - cell_len(start), self.signs.more)
        self._put(Text.assemble((start, style), (few, said_style)))

    def whole(self, start: str, said: str, style: str) -> None:
        """A row of which nothing is cut: what is said goes on below itself."""
        if not self.fits_beside(start):
            self._above(start, style)
            self.line((said, style), indent=1)
            return
        self.hanging((start, style), " " * cell_len(start), (said, style))

    def hanging(self, start: tuple[str, str], below: str, said: tuple[str, str]) -> None:
        """A start and what is said beside it, which goes on beside what stands below the start."""
        text, style = said
        room = max(1, self.width - max(cell_len(start[0]), cell_len(below)))
        for number, line in enumerate(Text(text).wrap(self.console, room, overflow="fold")):
            line.rstrip()
            self._put(Text.assemble((below, start[1]) if number else start, (line.plain, style)))

    def fits_beside(self, start: str) -> bool:
        """Whether there is room to say something beside it."""
        return not self.narrow and self.width - cell_len(start) >= _BESIDE

    def _above(self, start: str, style: str) -> None:
        if start.strip():
            self.line((" ".join(start.split()), style))

    def raw(self, text: str, *, indent: int = 0) -> None:
        """Lines as they are, neither wrapped nor styled: for programs, and for much text."""
        margin = " " * indent
        for line in text.split("\n"):
            self.console.file.write(f"{margin}{line}\n")

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one to a line."""
        longest = max(len(name) for name, _ in rows)
        for name, value in rows:
            if self.narrow:
                self.line((f"{name} ", "note"), value)
            else:
                self.line((f"{name:<{longest}}  ", "note"), value)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows of columns: the first holds words, the others numbers. A list where it is narrow."""
        if self.narrow:
            for row in rows:
                self.line((row[0], "title"))
                for heading, cell in zip(headings[1:], row[1:], strict=True):
                    self.line((f"{heading} ", "note"), cell, indent=1)
            return
        table = Table(box=None, pad_edge=False, header_style="note", padding=(0, 2, 0, 0))
        for index, heading in enumerate(headings):
            side: Literal["left", "right"] = "right" if index else "left"
            table.add_column(Text(heading), justify=side, overflow="fold", no_wrap=bool(index))
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    def blank(self) -> None:
        """An empty line."""
        self._put(Text())

    def _put(self, line: Text) -> None:
        """Print a line that fits. Without colours there is nothing that rich has to do."""
        if self.console.color_system is None:
            self.raw(line.plain)
        else:
            self.console.print(line, no_wrap=True, overflow="ignore", crop=False)


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


class _Bar:
    """A bar on stderr that shows itself when what it speaks of takes long."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label, self._total, self._done = label, total, 0
        self._lock = Lock()
        self._timer: Timer | None = None
        self._drawn: Callable[[], None] | None = None
        self._hide: Callable[[], None] | None = None

    def told(self, done: int, total: int) -> None:
        """Know how far it has come."""
        self._done, self._total = done, total
        if self._drawn:
            self._drawn()

    def wait(self) -> None:
        """Show it once somebody has waited for a while."""
        self._timer = Timer(PATIENCE, self.show)
        self._timer.daemon = True
        self._timer.start()

    def show(self) -> None:
        """Show it, unless it was stopped before."""
        from rich.progress import Progress as Bar  # noqa: PLC0415 - rarely needed

        with self._lock:
            if self._timer is None or self._hide is not None:
                return
            bar = Bar(console=Console(stderr=True), transient=True, redirect_stdout=False)
            task = bar.add_task(self._label, total=None)
            self._drawn = lambda: bar.update(task, completed=self._done, total=self._total)
            self._drawn()
            bar.start()
            self._hide = bar.stop

    def stop(self) -> None:
        """Take it off the terminal."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            hide, self._timer, self._drawn, self._hide = self._hide, None, None, None
        if hide:
            hide()


_bars: list[_Bar] = []
"""What goes on: each is a part of the one before, and only the last is shown."""


@contextmanager
def progress(label: str, total: int | None, *, least: int = _LONG) -> Iterator[Progress]:
    """A bar on stderr while something long goes on, where somebody may be waiting.

    It shows itself after a while, or at once where the total says that it will be needed. Without a
    total it only shows that something goes on.
    """
    if not is_terminal(sys.stderr):
        yield lambda _done, _of: None
        return
    bar = _Bar(label, total)
    with quiet():
        _bars.append(bar)
        try:
            bar.wait()
            if total is not None and total >= least:
                bar.show()
            yield bar.told
        finally:
            bar.stop()
            _bars.remove(bar)


@contextmanager
def quiet() -> Iterator[None]:
    """No bar meanwhile, because something else is on the terminal."""
    outer = _bars[-1] if _bars else None
    if outer:
        outer.stop()
    try:
        yield
    finally:
        if outer:
            outer.wait()


def _pager() -> list[str] | None:
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # an unbalanced quotation mark
        return None
    return command if command and shutil.which(command[0]) else None
