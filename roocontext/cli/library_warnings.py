"""The library's warnings: at most one line on stderr, after the answer.

They are kept until then. A line in the middle of a command would drown its answer, and where the
reader of stderr has gone, it would end the command before it has done anything.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from roocontext.cli.exit_codes import write_error
from roocontext.cli.screens.safe_text import safe
from roocontext.reports.words import quantity


class Warnings(logging.Handler):
    """Keeps the first warning of the library, and counts them all."""

    def __init__(self) -> None:
        super().__init__()
        self._first = ""
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self._count += 1
        self._first = self._first or safe(" ".join(record.getMessage().split()))

    def write(self) -> None:
        """Write the line, if there is anything to warn of."""
        others = self._count - 1
        more = f" ({quantity(others, 'more warning')})" if others else ""
        if self._count:
            write_error(f"roocontext: warning: {self._first}{more}\n")


@contextmanager
def keep_warnings() -> Iterator[None]:
    """Keep the library's warnings until the end."""
    log, kept = logging.getLogger("roocontext"), Warnings()
    before = log.handlers, log.propagate
    log.handlers = [kept]
    log.propagate = False  # else they would come a second time, in another form
    try:
        yield
    finally:
        log.handlers, log.propagate = before  # of a program that calls a command
        kept.write()
