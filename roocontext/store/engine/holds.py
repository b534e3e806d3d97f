"""What an operation holds: a connection and, if it writes, a place in the queue.

A signal or another thread can raise an exception inside any Python function, also inside the one
that gives a hold back. So nothing depends on that function: every hold shows whether its `with`
block is still running, and the next caller takes back what an interrupted one left.
See decision 0023.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from roocontext.store.engine.transaction import Transaction

Leave: TypeAlias = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], None
]

PATIENCE_S = 0.05
"""How long a waiting writer sleeps before it checks that the one in front of it still runs."""


class Lender(Protocol):
    """Who lends connections and takes them back: the database."""

    def arrive(self, use: "Use", /) -> None:
        """Register a use, after the forks that run now."""

    def begin(self, hold: "Hold", /) -> "Transaction":
        """Wait for the hold's turn, and lend it a connection."""

    def end(self, use: "Use", error: BaseException | None, /) -> None:
        """Take back everything that a use holds; safe to repeat."""

    def check_read(self, tx: "Transaction", /) -> None:
        """Raise if what was just read may be torn."""


class Use:
    """The time of a `with` block in which a thread uses SQLite: a fork waits for its end.

    It has no connection. Closing the idle ones is such a use.
    """

    __slots__ = ("_lender", "_running", "thread", "tx")

    def __init__(self, lender: Lender) -> None:
        self._lender = lender
        self.thread = threading.get_ident()
        self.tx: Transaction | None = None

    def __enter__(self) -> "Transaction | None":
        self._lender.arrive(self)
        return None

    @property
    def __exit__(self) -> Leave:  # noqa: PLE0302, PYI036
        # Python keeps this bound method for as long as the `with` block runs, and nothing else
        # does: no traceback, no frame. So it is alive exactly as long as the block is.
        leave = self._leave
        self._running = weakref.ref(leave)
        return leave

    def is_over(self) -> bool:
        """Whether the block has ended, also if an interrupt kept it from giving the hold back."""
        return self._running() is None

    def recover(self) -> None:
        """Give back what a block that is over still holds."""
        self._lender.end(self, InterruptedError())

    def _leave(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._lender.end(self, error)


class Hold(Use):
    """A connection for the time of a `with` block.

    With `begin`, the block is a transaction. With `checked`, the block ends with a check
    that the file did not change while it was read.
    """

    __slots__ = ("begin", "checked", "queue", "turn")

    def __init__(
        self, lender: Lender, queue: "Queue | None", begin: str | None, *, checked: bool
    ) -> None:
        super().__init__(lender)
        self.queue = queue
        self.begin = begin
        self.checked = checked
        self.turn: threading.Lock | None = None

    def __enter__(self) -> "Transaction":
        try:
            return self._lender.begin(self)
        except BaseException as error:
            self._lender.end(self, error)
            raise

    def _leave(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        tx = self.tx
        if error is None and self.begin is not None and tx is not None:
            try:
                tx.commit()
            except BaseException as failed:
                self._end(tx, failed)
                raise
        self._end(tx, error)

    def _end(self, tx: "Transaction | None", error: BaseException | None) -> None:
        self._lender.end(self, error)
        is_interrupt = error is not None and not isinstance(error, Exception)
        if self.checked and tx is not None and not is_interrupt:
            self._lender.check_read(tx)


class Queue:
    """Lets one hold at a time go on, in the order of asking: the first in the line.

    It has no lock that an interrupt could leave locked: each step is one operation on a deque,
    which no interrupt can divide.
    """

    def __init__(self) -> None:
        self._line: deque[Hold] = deque()

    def enter(self, hold: Hold) -> None:
        """Wait until this hold is the first."""
        line = self._line
        line.append(hold)
        if line[0] is hold:
            return
        # A lock of one's own, because a shared condition would wake every waiting writer for one
        # turn.
        turn = threading.Lock()
        turn.acquire()
        hold.turn = turn
        # The turn only shortens the wait: the first in the line goes on, even if nobody wakes it.
        while line[0] is not hold:
            if not turn.acquire(timeout=PATIENCE_S):
                self._recover_before(hold)

    def leave(self, hold: Hold) -> None:
        """Let the next one go on."""
        line = self._line
        try:
            # Anywhere in the line, not only the first: an interrupt may end a hold that still
            # waits.
            line.remove(hold)
            turn = line[0].turn if line else None
        except (ValueError, IndexError):  # it has left before; nobody waits any more
            return
        if turn is not None:
            with suppress(RuntimeError):  # awake already
                turn.release()

    def _recover_before(self, hold: Hold) -> None:
        # Each hold has one successor, so no two threads recover the same hold at once.
        line = list(self._line)
        position = line.index(hold)
        if position and line[position - 1].is_over():
            line[position - 1].recover()
