"""The change feed: which sessions were written, found by the minute of recording in their rows.

A cursor is a minute: everything that was committed before it has been reported, whatever the
writers do. What is reported is read again from there on, and what is known is dropped (0070).
"""

import os
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple, Self
from weakref import WeakSet

import msgspec
from sqlalchemy import and_, bindparam, select

from roocontext.errors import RooContextError
from roocontext.log.encoding import check_id
from roocontext.log.values import Value
from roocontext.store.engine.check_arguments import check_seconds
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import FollowedMinute, of_session, sessions
from roocontext.store.engine.statements import crossing
from roocontext.store.engine.threads import started
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.pages import read_cursor, write_cursor


class Change(msgspec.Struct, Value, frozen=True):
    """A session that was written, with the seq of its last entry, or purged.

    The `cursor` continues after this change.
    """

    session_id: str
    last_seq: int
    purged: bool
    cursor: str


class _Row(NamedTuple):
    session_id: str
    last_seq: int
    minute: int
    is_purged: bool


_LIST: Final = "changes"
_BEGINNING: Final = 0
_COLUMNS = (
    sessions.c.session_id,
    sessions.c.last_seq,
    sessions.c.changed_minute,
    sessions.c.purged_at.is_not(None),
)
_NOW = select(FollowedMinute())
# An archive changes no log. The session is reported again when it has come back.
_changed = and_(sessions.c.changed_minute >= bindparam("minute"), sessions.c.archived_at.is_(None))
_SINCE = crossing(
    select(*_COLUMNS).where(_changed).order_by(sessions.c.changed_minute, sessions.c.session_id)
)
_ONE = select(*_COLUMNS).where(of_session(sessions), _changed)


def _clock(tx: Transaction) -> int:
    """The minute from which a reader that begins now reads on."""
    [(now,)] = tx.rows(_NOW)
    return int(now)


def _read(tx: Transaction, minute: int, session_id: str | None) -> tuple[int, list[_Row]]:
    """The clock's minute, and the sessions that were written since a minute."""
    params = {"minute": minute, "session_id": session_id}
    # The clock is asked first: what is committed in between is in the rows.
    [(now,)], rows = tx.all([(_NOW, {}), (_ONE if session_id else _SINCE, params)])
    return now, [_Row(name, seq, at, bool(purged)) for name, seq, at, purged in rows]


class Feed:
    """Changes that a reader has not taken yet. The poller adds them, in another thread."""

    def __init__(self, poller: "Poller", after: str | None, session: str | None) -> None:
        if session is not None:
            check_id("session", session)
        self._poller = poller
        self._session = session
        self._minute: int = _BEGINNING if after is None else read_cursor(_LIST, after, int)[0]
        self._reported = self._minute
        self._lock = threading.Lock()
        self._pending: dict[str, _Row] = {}
        self._known: _Row | None = None
        self._error: RooContextError | None = None
        self._waiting: set[Future[None]] = set()
        self.closed = False

    def begin(self) -> None:
        """Read what changed before now, with the first call."""
        if not self.closed:
            self._poller.join(self)

    def close(self) -> None:
        """Wake what waits: there is nothing more to come."""
        self._poller.leave(self)
        self.closed = True
        self._wake()

    @property
    def place(self) -> tuple[int, str | None]:
        """The minute from which this feed is to be read, and the one session that it is about."""
        return self._minute, self._session

    def waiting(self) -> "Future[None]":
        """A future that is done when there is something to take."""
        future: Future[None] = Future()
        with self._lock:
            if self._pending or self._error or self.closed:
                future.set_result(None)
            else:
                self._waiting.add(future)
        return future

    def forget(self, waiting: "Future[None]") -> None:
        """Take back a future that nothing waits for any more."""
        with self._lock:
            self._waiting.discard(waiting)

    def take(self) -> list[Change]:
        """Take the changes since the last call; raises the error if they could not be read."""
        with self._lock:
            error, self._error = self._error, None
            if error is not None:
                raise error
            rows, self._pending = list(self._pending.values()), {}
            # Only the last one continues after all of them.
            cursors = [self._reported] * (len(rows) - 1) + [self._minute]
            if rows:
                self._reported = self._minute
        return [
            Change(row.session_id, row.last_seq, row.is_purged, write_cursor(_LIST, minute))
            for row, minute in zip(rows, cursors, strict=False)
        ]

    def put(self, rows: Mapping[str, _Row], minute: int) -> None:
        """Add what changed, and the minute from which everything else is to be read."""
        with self._lock:
            if self._session is not None:
                # Not row by row: there may be thousands of feeds of one session each.
                row = rows.get(self._session, self._known)
                rows = {} if row is None or row == self._known else {row.session_id: row}
                self._known = row
            for name, row in rows.items():
                self._pending.pop(name, None)
                self._pending[name] = row
            self._minute = minute
        if self._pending:
            self._wake()

    def fail(self, error: RooContextError) -> None:
        """Let the next call raise an error."""
        with self._lock:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_result(None)


class FeedReader:
    """A feed, and the changes of it that an iteration has read but not returned."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._batch: deque[Change] = deque()

    @property
    def closed(self) -> bool:
        """True if nothing more will come."""
        return self._feed.closed

    def _rest(self) -> list[Change]:
        """Take what was read but not returned: later changes come after it."""
        rest = [*self._batch]
        self._batch.clear()
        return rest


class Changes(FeedReader):
    """The sessions that are written: an iterator that waits for the next one.

    One thread may read it at a time. It ends when it is closed, or the store.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        while not self._batch:
            self._batch.extend(self.read())
            if not self._batch:
                raise StopIteration
        return self._batch.popleft()

    def read(self, timeout: float | None = None) -> list[Change]:
        """Wait until something changed, and return all that did; nothing after `timeout` seconds.

        Several changes of one session are returned as one. After `close` nothing is returned. If
        the database cannot be read, its error is raised, and the next call continues.
        """
        if rest := self._rest():
            return rest
        end = deadline(timeout)
        self._feed.begin()
        while True:
            waiting = self._feed.waiting()
            try:
                with suppress(TimeoutError):
                    waiting.result(seconds_to(end))
            finally:
                self._feed.forget(waiting)
            if (changes := self._feed.take()) or self.closed or seconds_to(end) == 0:
                return changes

    def close(self) -> None:
        """End the iteration, also that of a thread which waits for the next change."""
        self._feed.close()


def deadline(timeout: float | None) -> float | None:
    """The end of a wait, as `monotonic` counts; None if there is none."""
    if timeout is None:
        return None
    check_seconds("timeout", timeout)
    return monotonic() + timeout


def seconds_to(end: float | None) -> float | None:
    """The seconds until then; None if it never comes."""
    return None if end is None else max(0.0, end - monotonic())


class Poller:
    """Reads what changed, once for all feeds of a store. Its thread runs while there are feeds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lag = database.polling.lag_minutes
        self._begin_life()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._feeds: WeakSet[Feed] = WeakSet()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._minute = _BEGINNING
        self._known: dict[str, _Row] = {}

    def now(self) -> str:
        """The cursor of now."""
        return write_cursor(_LIST, self._database.lookup(_clock) - self._lag)

    def join(self, feed: Feed) -> None:
        """Bring a new feed up to date; from then on the thread does it."""
        if self._process != os.getpid():  # a fork copies no threads
            self._begin_life()
        with self._lock:
            if feed in self._feeds:
                return
            minute, session = feed.place
            settled = self._database.lookup(_clock) - self._lag
            # The clock may have been set back since the cursor was made.
            minute = min(minute, settled)
            if self._thread is None:
                # Nobody asks for what other sessions did before.
                self._minute, self._known = settled if session else minute, {}
            start = minute if session else min(minute, self._minute)
            now, rows = self._database.lookup(_read, start, session)
            if session is None:
                self._report(now, [row for row in rows if row.minute >= self._minute])
            later = {row.session_id: row for row in rows if row.minute >= minute}
            feed.put(later, self._place(now, rows, minute))
            if self._thread is None:
                self._stop = threading.Event()
                self._thread = started(self._run, self._stop, name="changes")
            self._feeds.add(feed)

    def leave(self, feed: Feed) -> None:
        """Read no more for a feed."""
        if self._process == os.getpid():
            with self._lock:
                self._feeds.discard(feed)

    def close(self) -> None:
        """Close all feeds, and wait for the thread to give its connection back."""
        if self._process != os.getpid():
            return
        self._stop.set()
        for feed in list(self._feeds):
            feed.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        """Poll until no feed is left."""
        while not stop.wait(self._database.polling.every_s):
            with self._lock:
                if not self._feeds:
                    self._thread = None
                    return
                try:
                    self._report(*self._database.lookup(_read, self._minute, None))
                except RooContextError as error:
                    for feed in list(self._feeds):
                        feed.fail(error)

    def _report(self, now: int, rows: list[_Row]) -> None:
        """Give the feeds what they do not know, and move on."""
        new = {row.session_id: row for row in rows if self._known.get(row.session_id) != row}
        self._minute = self._place(now, rows, self._minute)
        self._known |= new
        self._known = {name: row for name, row in self._known.items() if row.minute >= self._minute}
        for feed in list(self._feeds):
            feed.put(new, self._minute)

    def _place(self, now: int, rows: list[_Row], minute: int) -> int:
        """The minute from which changes may be unknown, after these rows were read from `minute`.

        What is not committed yet was begun less than a lag before. A clock that was set back takes
        the place back with it.
        """
        newest = max((row.minute for row in rows), default=minute)
        return min(max(minute, newest - self._lag), now - self._lag)
