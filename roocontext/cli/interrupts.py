"""An interrupt ends a command soon, whatever it waits in: a lock, a driver, a long count.

Python hears a signal between two steps of its own only. So a thread hears it too, and ends the
process if the command has not noticed after a while. The log bears an end at any moment.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

PATIENCE = 0.5
"""After how many seconds a command that has not noticed is ended."""

LINE = b"roocontext: Interrupted.\n"
CODE = 130
_SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"


def leave(*_: Any) -> None:
    """End the process where it stands: there is nothing to clear up."""
    os.write(2, LINE)
    os._exit(CODE)


@contextmanager
def heard_anywhere() -> Iterator[None]:
    """Hear interrupts meanwhile, unless whoever started the process has them ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    noticed = Event()

    def interrupt(*_: Any) -> None:
        noticed.set()
        raise KeyboardInterrupt

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, interrupt)
    Thread(target=_watch, args=(reader, interrupt, noticed), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _watch(reader: int, interrupt: Any, noticed: Event) -> None:
    """Wait for interrupts until the other end is closed; a pager's are not this command's."""
    while number := os.read(reader, 1):
        is_ours = number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is interrupt
        if is_ours and not noticed.wait(PATIENCE):
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR)
            leave()
    os.close(reader)
