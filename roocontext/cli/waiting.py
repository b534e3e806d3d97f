"""Bars for whoever waits: on stderr, in a terminal only, when something takes long."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TypeAlias

from rich.console import Console
from rich.markup import escape

from roocontext.cli.terminal import is_terminal

Progress: TypeAlias = Callable[[int, int], None]

PATIENCE = 0.7
"""After how many seconds whoever waits is shown a bar."""

_LONG = 2_000
"""From so many entries on it takes long enough for a bar to be of use."""


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
            task = bar.add_task(escape(self._label), total=None)
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
