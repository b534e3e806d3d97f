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
    """The bar of a command. A new one replaces the one before."""

    def __init__(self) -> None:
        self._label, self._done, self._total = "", 0, 0
        self._lock = Lock()  # the timer shows a bar in its own thread
        self._timer: Timer | None = None
        self._display: RichProgress | None = None

    @contextmanager
    def bar(self, label: str) -> Iterator["Progress"]:
        """Show a bar while the block runs. The block calls the function to report progress."""
        if not is_terminal(sys.stderr):
            yield lambda _done, _total: None
            return
        self.hide()
        self._label, self._done, self._total = label, 0, 0
        self._timer = Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._timer.start()
        try:
            yield self._report
        finally:
            self.hide()

    def _report(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        if self._display:
            self._display.update(self._display.task_ids[0], completed=done, total=total or None)
        elif total >= _LONG:
            self._show()

    def hide(self) -> None:
        """Hide the bar, so that something else can be written to the terminal."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            display, self._timer, self._display = self._display, None, None
        if display:
            display.stop()

    def _show(self) -> None:
        """Show the bar, unless it is shown or hidden already."""
        from rich.progress import Progress  # noqa: PLC0415 - rarely needed

        with self._lock:
            if self._timer is None or self._display is not None:
                return
            console, total = Console(stderr=True), self._total or None
            display = Progress(console=console, transient=True, redirect_stdout=False)
            display.add_task(escape(self._label), completed=self._done, total=total)
            display.start()
            self._display = display  # only now: a report updates its task
