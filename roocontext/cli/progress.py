"""Progress bars for long operations, on stderr and in a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from roocontext.cli.terminal import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from roocontext.store.proof.verify import Progress

PATIENCE = 0.7
"""A bar is shown after this many seconds."""

_LONG = 2_000
"""With this total or more, a bar is shown at once."""


class Bars:
    """The bars of a command. They are nested, and only the innermost is shown."""

    def __init__(self) -> None:
        self._bars: list[_Bar] = []

    @contextmanager
    def bar(self, label: str) -> Iterator["Progress"]:
        """Show a bar for as long as the block runs; the function reports the progress."""
        if not is_terminal(sys.stderr):
            yield lambda _done, _total: None
            return
        with self.hidden():
            bar = _Bar(label)
            self._bars.append(bar)
            try:
                bar.wait()
                yield bar.report
            finally:
                bar.stop()
                self._bars.remove(bar)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar while something else is written to the terminal."""
        outer = self._bars[-1] if self._bars else None
        if outer:
            outer.stop()
        try:
            yield
        finally:
            if outer:
                outer.wait()


class _Bar:
    """A bar that appears after a while."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._done, self._total = 0, 0
        self._lock = Lock()  # the timer shows it in a thread of its own
        self._timer: Timer | None = None
        self._shown: RichProgress | None = None

    def report(self, done: int, total: int) -> None:
        """Redraw the bar with this progress."""
        self._done, self._total = done, total
        if self._shown:
            self._shown.update(self._shown.task_ids[0], completed=done, total=total or None)
        elif total >= _LONG:
            self._show()

    def wait(self) -> None:
        """Show it after a while."""
        self._timer = Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Remove it from the terminal."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            shown, self._timer, self._shown = self._shown, None, None
        if shown:
            shown.stop()

    def _show(self) -> None:
        """Show it, unless it is shown or stopped already."""
        from rich.progress import Progress  # noqa: PLC0415 - rarely needed

        with self._lock:
            if self._timer is None or self._shown is not None:
                return
            bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False)
            bar.add_task(escape(self._label), completed=self._done, total=self._total or None)
            bar.start()
            self._shown = bar
