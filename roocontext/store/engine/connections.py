"""The connections of one database, and whose turn it is to write to an SQLite file.

The pool is SQLAlchemy's. An operation holds a connection and, if it writes to a file, the lock of
that file: one for each file and process, because SQLite's own waiting sleeps between two looks.
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import SQLITE_BUSY
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool
from sqlalchemy.util.queue import Empty, Full, QueueCommon

from roocontext.errors import PoolExhausted, StoreClosed, StoreForked, StoreUnavailable
from roocontext.store.engine import forks
from roocontext.store.engine.check_arguments import check_seconds, check_whole
from roocontext.store.engine.engines import Engine
from roocontext.store.engine.observing import current_operation
from roocontext.store.engine.statements import StoreScope
from roocontext.store.engine.transaction import Transaction, TransactionMode

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options of SQLAlchemy's pool: the number of connections to keep and to open."""

    pool_size: int = 16
    max_overflow: int = 16
    pool_timeout: float = 30
    pool_recycle: float | None = None

    def __post_init__(self) -> None:
        check_whole("pool_size", self.pool_size, least=1)
        check_whole("max_overflow", self.max_overflow, least=-1)
        check_seconds("pool_timeout", self.pool_timeout)
        if self.pool_recycle is not None:
            check_seconds("pool_recycle", self.pool_recycle)


_LOOK_S = 0.05
"""How long a thread waits for a connection before it looks again: an interrupt may end one that was
woken for it."""

# By the file itself, whatever name a store was opened by.
_turns: "weakref.WeakValueDictionary[Path, Any]" = weakref.WeakValueDictionary()


class _Idle(QueueCommon["ConnectionPoolEntry"]):
    """The idle connections of a pool, the last one that came back first.

    SQLAlchemy's own queue has a lock in Python: an interrupt that comes right after it was taken
    would leave it locked for ever. Here each step is one operation on a deque.
    """

    def __init__(self, maxsize: int = 0, use_lifo: bool = True) -> None:  # noqa: FBT001, FBT002
        self.maxsize, self.use_lifo = maxsize, use_lifo
        self._idle: deque[ConnectionPoolEntry] = deque()
        self._waiting: deque[Any] = deque()

    def qsize(self) -> int:
        """The number of idle connections."""
        return len(self._idle)

    def put(
        self,
        item: "ConnectionPoolEntry",
        block: bool = True,  # noqa: ARG002, FBT001, FBT002 - the pool never waits for room
        timeout: float | None = None,  # noqa: ARG002
    ) -> None:
        """Take a connection back, or raise Full, and wake who waits for one."""
        if 0 < self.maxsize <= len(self._idle):
            raise Full
        self._idle.append(item)
        with suppress(IndexError):
            self._waiting.popleft().release()

    def get(self, block: bool = True, timeout: float | None = None) -> "ConnectionPoolEntry":  # noqa: FBT001, FBT002
        """An idle connection, or raise Empty."""
        end = time.monotonic() + (timeout or 0)
        while True:
            with suppress(IndexError):
                return self._idle.pop()
            left = end - time.monotonic()
            if not block or left <= 0:
                raise Empty
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
            if not self._idle:  # none came back in between
                turn.acquire(timeout=min(left, _LOOK_S))
            with suppress(ValueError):
                self._waiting.remove(turn)


class _Place:
    """A place among the most connections of a pool, taken for as long as a connection has it."""

    __slots__ = ("__weakref__",)


class _Pool(QueuePool):
    """A pool that counts the connections that exist.

    SQLAlchemy adds up how many were lent and given back: an interrupt between two of its steps
    would make that sum wrong for ever, and the pool smaller by one.
    """

    _queue_class = _Idle
    _places: Sequence["weakref.ref[_Place]"] = ()

    @property
    def _overflow(self) -> int:
        return sum(place() is not None for place in self._places) - self.size()

    @_overflow.setter
    def _overflow(self, _: int) -> None:
        """Ignore the sum."""

    def _inc_overflow(self) -> bool:
        return True  # a place is taken when a connection is made

    def _dec_overflow(self) -> Literal[True]:
        return True

    def _create_connection(self) -> "ConnectionPoolEntry":
        place = _Place()
        with self._overflow_lock:
            is_full = -1 < self._max_overflow <= self._overflow
            if not is_full:
                taken = [other for other in self._places if other() is not None]
                self._places = [*taken, weakref.ref(place)]
        if is_full:  # another thread was faster
            return self._do_get()
        try:
            record = super()._create_connection()
            assert record.record_info is not None
            record.record_info["place"] = place
        finally:
            del place  # an error that is kept refers to this frame, and would keep the place taken
        return record


class Connections:
    """A pool of connections. A forked child begins with a new one."""

    def __init__(self, engine: Engine, options: PoolOptions) -> None:
        self._engine = engine
        self._options = options
        # Of the kind that only its owner can release: an interrupt may come before it is taken or
        # after it, and who cleans up cannot know which.
        own = threading.RLock()
        self._turn = own if engine.path is None else _turns.setdefault(engine.path, own)
        self._files: set[forks.Identity] = set()
        self._is_closed = False
        self._is_lost = False
        self._begin_life()
        forks.watch(self)

    def _begin_life(self) -> None:
        options = self._options
        self._transactions: weakref.WeakSet[Transaction] = weakref.WeakSet()
        # The connection used last is taken first, with its statements prepared and pages cached.
        creator: Any = self._connect
        self._pool = _Pool(
            creator,
            pool_size=options.pool_size,
            max_overflow=-1 if self._engine.server is None else options.max_overflow,
            timeout=options.pool_timeout,
            recycle=-1 if options.pool_recycle is None else options.pool_recycle,
        )

    def hold(self, *, writes: bool) -> "Hold":
        """The connection and the turn that an operation will take."""
        engine = self._engine
        # On a server writers wait for the row lock of their session, and only for that. In memory
        # there is one connection, and a reader would see the uncommitted half of a write.
        in_turn = engine.server is None and (writes or engine.path is None)
        # Before the turn: a child may have inherited it from a thread that it does not have.
        self._check_usable()
        return Hold(self, self._turn if in_turn else None, engine.patience_s)

    def take(self) -> "PoolProxiedConnection":
        """A connection that works; its `info` holds the transaction that runs on it."""
        self._check_usable()
        while True:
            try:
                lent = self._pool.connect()
            except PoolTimeoutError:
                raise self._exhausted() from None
            if self._is_in_place() and self._engine.is_alive(lent.driver_connection):
                return lent
            lent.invalidate()  # the next one is a new connection in its place

    def give_back(self, lent: "PoolProxiedConnection", *, is_sound: bool) -> None:
        """Take a connection back; close it if it cannot be used again."""
        if is_sound:
            lent.close()
        else:
            lent.invalidate()
        if self._is_closed:
            self._pool.dispose()

    def close(self) -> None:
        """Close every connection; those in use when they are given back."""
        forks.notice()
        self._is_closed = True
        self._pool.dispose()
        if self._is_lost or self._engine.path is not None:
            return
        # Threads share the connection of a database in memory: closing it during a statement of
        # another one crashes the process. If that never ends, it is left open.
        if self._turn.acquire(timeout=self._engine.patience_s):
            try:
                self._engine.close()
            finally:
                self._turn.release()

    def begin_anew(self) -> set[forks.Identity]:
        """See Forkable."""
        left = tuple(self._transactions)
        for tx in left:
            forks.keep_open(tx.connection)
            tx.disown()
        self._begin_life()
        if self._is_closed and not left:
            return set()
        if self._engine.path is not None:
            _turns.pop(self._engine.path, None)
        self._is_lost = self._engine.server is None
        return self._files

    def _check_usable(self) -> None:
        forks.notice()
        if self._is_closed:
            raise StoreClosed("The store is closed.")
        if self._is_lost:
            raise StoreForked("The store was open when this process was forked.")

    def _is_in_place(self) -> bool:
        """False if the file was deleted, renamed or replaced: what is written would be lost."""
        path = self._engine.path
        return path is None or forks.identity(path) in self._files

    def _connect(self, record: "ConnectionPoolEntry") -> Any:
        path = self._engine.path
        if path is not None:
            forks.refuse_inherited(path)
            # Before it is opened: a fork may come in between.
            if (file := forks.identity(path)) is not None:
                if self._files and file not in self._files:
                    raise StoreUnavailable(
                        f"{str(path)!r} was replaced by another file while the store was open.",
                        advice="Close the store and open it again.",
                    )
                self._files.add(file)
        connection = self._engine.connect()
        if path is not None:
            # The file system of a container may copy a file that is opened.
            self._files.update(filter(None, [forks.identity(path)]))
        assert record.info is not None
        tx = record.info["transaction"] = self._engine.transaction(connection)
        self._transactions.add(tx)
        return connection

    def _exhausted(self) -> PoolExhausted:
        options = self._options
        most = options.pool_size + options.max_overflow
        return PoolExhausted(
            f"All {most} connections of the store's pool are in use, and none was given back within"
            f" {options.pool_timeout:g} seconds.",
            pool_size=options.pool_size,
            max_overflow=options.max_overflow,
            pool_timeout=options.pool_timeout,
        )


class Hold:
    """The resources of one operation: a connection and, for a write to a file, the turn.

    Both are given back in a `finally` by two calls of `give_back`, because an interrupt may cut the
    first one short. See decision 0023.
    """

    def __init__(self, connections: Connections, turn: Any, patience_s: float) -> None:
        self._connections = connections
        self._turn = turn
        self._patience_s = patience_s
        self._lent: PoolProxiedConnection | None = None

    def begin(self, mode: TransactionMode, scope: StoreScope) -> Transaction:
        """Wait for the turn, take a connection and begin."""
        asked = perf_counter()
        if self._turn is not None and not self._turn.acquire(timeout=self._patience_s):
            raise StoreUnavailable(
                "Another thread of this process holds the write lock on the database.",
                code=SQLITE_BUSY,
            )
        got_turn = perf_counter()
        self._lent = lent = self._connections.take()
        got_connection = perf_counter()
        tx = transaction_on(lent)
        tx.begin(mode, scope)
        if (operation := current_operation()) is not None:
            operation.connection_wait += got_connection - got_turn
            # On a file the beginning waits for the writers of other processes.
            operation.lock_wait += got_turn - asked + perf_counter() - got_connection
        return tx

    def failed(self, error: BaseException) -> None:
        """Note what an operation ended with. An interrupt may have come within a statement."""
        if self._lent is not None and not isinstance(error, Exception):
            transaction_on(self._lent).is_sound = False

    def give_back(self) -> None:
        """Give everything back, and roll back what was not committed."""
        if (lent := self._lent) is not None:
            tx = transaction_on(lent)
            is_sound = not tx.is_inherited and tx.reset()
            self._lent = None  # first: from here on it may be another's
            if tx.is_inherited:
                forks.keep_open(lent)
            else:
                self._connections.give_back(lent, is_sound=is_sound)
        if self._turn is not None:
            try:  # noqa: SIM105 - an interrupt could come in `suppress` and keep it from releasing
                self._turn.release()
            except RuntimeError:  # it was not taken, or is released already
                pass
            self._turn = None


def transaction_on(lent: "PoolProxiedConnection") -> Transaction:
    """The transaction that runs statements on a connection of the pool."""
    assert lent.info is not None
    transaction: Transaction = lent.info["transaction"]
    return transaction
