"""Ctrl-C ends a command at once, whatever it waits in: a lock, a driver, a long count.

Ending the process without any cleaning up is safe: each commit is atomic. Python runs signal
handlers only between its own steps, so a thread listens as well.
"""

import os
import signal
from contextlib import suppress
from threading import Thread
from typing import NoReturn

CODE = 130
_LINE = b"roocontext: Interrupted.\n"
_SHOW_CURSOR = b"\x1b[?25h\n"


def leave() -> NoReturn:
    """End the process now, with the exit code of an interrupt."""
    with suppress(OSError):  # stderr may be closed
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)  # a progress bar may have hidden it
        os.write(2, _LINE)
    os._exit(CODE)


def end_on_interrupt() -> None:
    """Let an interrupt end the process, unless its parent has interrupts ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _ours)
    Thread(target=_listen, args=(reader,), daemon=True).start()


def _ours(*_: object) -> None:
    """Marks interrupts that are for this process: the thread ends it."""


def _listen(reader: int) -> None:
    """Read the numbers of signals as they come; none come while a pager has the terminal."""
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is _ours:
            leave()
