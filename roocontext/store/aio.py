"""The same store for asyncio: one synchronous core, run in threads.

A cancelled call is joined before CancelledError is raised: by then it is done, and nothing changes
afterwards. Names, parameters and documentation are those of Store and Session.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from roocontext.errors import StoreClosed
from roocontext.store.engine.threads import Threads
from roocontext.store.internals import AUDIT_PAGE, SessionInternals
from roocontext.store.session import Session
from roocontext.store.sessions.changes import Change, Feed, FeedReader, deadline, seconds_to
from roocontext.store.store import Store
from roocontext.store.turn import SessionTurn

Params = ParamSpec("Params")
Result = TypeVar("Result")
Plain_co = TypeVar("Plain_co", covariant=True)


class _Threaded(Generic[Plain_co]):
    """A synchronous object, and the threads that its methods run in."""

    def __init__(self, plain: Plain_co, threads: Threads) -> None:
        self._plain = plain
        self._threads = threads


# These make an asynchronous method of a plain one, with its own parameters and docstring.


def _threaded(
    method: Callable[Concatenate[Plain_co, Params], Result],
) -> Callable[Concatenate[_Threaded[Plain_co], Params], Coroutine[Any, Any, Result]]:
    """A method that returns the same."""

    @wraps(method)
    async def call(
        threaded: _Threaded[Plain_co], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        return await threaded._threads.run(method, threaded._plain, *args, **kwargs)  # noqa: SLF001

    return call


def _session(
    method: Callable[Concatenate[Plain_co, Params], Session],
) -> Callable[Concatenate[_Threaded[Plain_co], Params], Coroutine[Any, Any, "AsyncSession"]]:
    """A method that returns the session for asyncio."""

    @wraps(method)
    async def call(
        threaded: _Threaded[Plain_co], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> "AsyncSession":
        threads = threaded._threads  # noqa: SLF001
        session = await threads.run(method, threaded._plain, *args, **kwargs)  # noqa: SLF001
        return AsyncSession(session, threads)

    return call


def _iterated(
    method: Callable[Concatenate[Plain_co, Params], Iterator[Result]], at_once: int
) -> Callable[Concatenate[_Threaded[Plain_co], Params], AsyncIterator[Result]]:
    """An asynchronous generator of the same, so many of which are made in one call of a thread."""

    @wraps(method)
    async def items(
        threaded: _Threaded[Plain_co], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> AsyncIterator[Result]:
        iterator = method(threaded._plain, *args, **kwargs)  # noqa: SLF001
        while some := await threaded._threads.run(lambda: [*islice(iterator, at_once)]):  # noqa: SLF001
            for item in some:
                yield item

    return items


def _opened(
    open_store: Callable[Params, Store],
) -> Callable[Params, Coroutine[Any, Any, "AsyncStore"]]:
    """The function that opens the store for asyncio."""

    @wraps(open_store)
    async def call(*args: Params.args, **kwargs: Params.kwargs) -> "AsyncStore":
        threads = Threads()
        opened: list[Store] = []
        try:
            await threads.run(lambda: opened.append(open_store(*args, **kwargs)))
        except BaseException:
            for store in opened:  # the call was cancelled, but joined: the store is open
                store.close()
            threads.shut_down()
            raise
        return AsyncStore(opened[0], threads)

    return call


class AsyncStore(_Threaded[Store]):
    """A Store for asyncio and trio. Close it, or use it in an `async with`."""

    open = staticmethod(_opened(Store.open))

    def changes(self, after: str | None = None, *, session: str | None = None) -> "AsyncChanges":
        """See Store.changes. Nothing is read before the first change is awaited."""
        changes = self._plain.changes(after, session=session)
        return AsyncChanges(changes._feed, self._threads)  # noqa: SLF001

    async def close(self) -> None:
        """See Store.close."""
        try:
            with suppress(StoreClosed):
                await self._threads.run(self._plain.close)
        finally:
            self._threads.shut_down()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Run a function of several calls over the synchronous store, in one of the threads."""
        return await self._threads.run(work, self._plain)

    create = _session(Store.create)
    open_session = _session(Store.open_session)
    session = _session(Store.session)
    ping = _threaded(Store.ping)
    sessions = _threaded(Store.sessions)
    overview = _threaded(Store.overview)
    change_cursor = _threaded(Store.change_cursor)
    find = _threaded(Store.find)
    usage = _threaded(Store.usage)
    restore = _threaded(Store.restore)
    archive = _threaded(Store.archive)  # `put` and the progress are called in a thread
    purge = _threaded(Store.purge)
    purged = _threaded(Store.purged)
    search = _threaded(Store.search)
    index = _threaded(Store.index)
    drop_index = _threaded(Store.drop_index)


class AsyncChanges(FeedReader):
    """Changes for asyncio and trio. No thread waits for them."""

    def __init__(self, feed: Feed, threads: Threads) -> None:
        super().__init__(feed)
        self._threads = threads

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._batch:
            self._batch.extend(await self.read())
            if not self._batch:
                raise StopAsyncIteration
        return self._batch.popleft()

    async def read(self, timeout: float | None = None) -> list[Change]:
        """See Changes.read. A cancellation ends the wait at once, and no change is lost."""
        if rest := self._rest():
            return rest
        end = deadline(timeout)
        if not self.closed:
            await self._threads.run(self._feed.begin)
        while True:
            waiting = self._feed.waiting()
            try:
                await self._threads.until(waiting, seconds_to(end))
            finally:
                self._feed.forget(waiting)
            if (changes := self._feed.take()) or self.closed or seconds_to(end) == 0:
                return changes

    async def close(self) -> None:
        """See Changes.close."""
        try:
            await self._threads.run(self._feed.close)
        except StoreClosed:
            self._feed.close()  # there is no poller that it could wait for


class AsyncSessionInternals(_Threaded[SessionInternals]):
    """The result of AsyncSession.internals."""

    snapshot = _threaded(SessionInternals.snapshot)
    keep_counts = _threaded(SessionInternals.keep_counts)
    counted = _threaded(SessionInternals.counted)
    restorable = _threaded(SessionInternals.restorable)
    newest_reply = _threaded(SessionInternals.newest_reply)
    uncovered_since = _threaded(SessionInternals.uncovered_since)
    unextracted = _threaded(SessionInternals.unextracted)
    hidden_by = _threaded(SessionInternals.hidden_by)
    keep_extract = _threaded(SessionInternals.keep_extract)
    live = _threaded(SessionInternals.live)
    originals = _threaded(SessionInternals.originals)
    pages = _iterated(SessionInternals.pages, 1)
    family = _threaded(SessionInternals.family)
    calls = _threaded(SessionInternals.calls)
    stored = _iterated(SessionInternals.stored, AUDIT_PAGE)
    stored_content = _threaded(SessionInternals.stored_content)
    outline = _threaded(SessionInternals.outline)
    audit_pages = _iterated(SessionInternals.audit_pages, 1)
    envelopes = _threaded(SessionInternals.envelopes)
    newest_notes = _threaded(SessionInternals.newest_notes)
    noted = _threaded(SessionInternals.noted)
    keep_frame = _threaded(SessionInternals.keep_frame)

    def observed(self, name: str) -> AbstractContextManager[Callable[[Any], None]]:
        """See SessionInternals.observed."""
        return self._plain.observed(name)


class AsyncSession(_Threaded[Session]):
    """A Session for asyncio and trio."""

    def __init__(self, session: Session, threads: Threads) -> None:
        super().__init__(session, threads)
        self.id = session.id
        self.parent = session.parent

    def __repr__(self) -> str:
        return f"AsyncSession({self.id!r})"

    def turn(
        self, lease: float = 60, wait: float = 0, *, holder: str | None = None
    ) -> "AsyncSessionTurn":
        """See Session.turn: `async with chat.turn() as turn`."""
        return AsyncSessionTurn(self._plain.turn(lease, wait, holder=holder), self._threads)

    @property
    def internals(self) -> AsyncSessionInternals:
        """See Session.internals."""
        return AsyncSessionInternals(self._plain.internals, self._threads)

    append = _threaded(Session.append)
    append_many = _threaded(Session.append_many)
    begin = _threaded(Session.begin)
    answer = _threaded(Session.answer)
    write_batch = _threaded(Session.write_batch)
    commit = _threaded(Session.commit)
    rewind = _threaded(Session.rewind)
    undo = _threaded(Session.undo)
    uncover = _threaded(Session.uncover)
    pin = _threaded(Session.pin)
    unpin = _threaded(Session.unpin)
    set_title = _threaded(Session.set_title)
    set_metadata = _threaded(Session.set_metadata)
    update_metadata = _threaded(Session.update_metadata)
    note = _threaded(Session.note)
    fork = _session(Session.fork)
    redact = _threaded(Session.redact)
    request = _threaded(Session.request)
    record = _threaded(Session.record)
    frame = _threaded(Session.frame)
    info = _threaded(Session.info)
    children = _threaded(Session.children)
    head_seq = _threaded(Session.head_seq)
    waits_for = _threaded(Session.waits_for)
    pending = _threaded(Session.pending)
    view = _threaded(Session.view)
    messages = _threaded(Session.messages)
    repairs = _threaded(Session.repairs)
    diff = _threaded(Session.diff)
    message = _threaded(Session.message)
    notes = _threaded(Session.notes)
    newest_note = _threaded(Session.newest_note)
    pins = _threaded(Session.pins)
    audit = _iterated(Session.audit, AUDIT_PAGE)
    stats = _threaded(Session.stats)
    tokens = _threaded(Session.tokens)
    usage = _threaded(Session.usage)
    head = _threaded(Session.head)
    verify = _threaded(Session.verify)  # progress is reported from a thread
    rebuild = _threaded(Session.rebuild)


class AsyncSessionTurn(AsyncSession):
    """A SessionTurn for asyncio and trio: `async with chat.turn() as turn`."""

    def __init__(self, turn: SessionTurn, threads: Threads) -> None:
        super().__init__(turn, threads)
        self._turn = turn

    async def __aenter__(self) -> Self:
        try:
            while seconds := await self._threads.run(self._turn.seconds_to_wait):
                await self._threads.until(Future(), seconds)
        except BaseException:
            # It may have been taken by a call whose result was lost with a cancellation.
            self._threads.start(self._turn.give_back)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(StoreClosed):  # then it ends with its lease
            await self._threads.run(self._turn.give_back)

    @property
    def is_held(self) -> bool:
        """See SessionTurn.is_held."""
        return self._turn.is_held
