"""The same store for asyncio: one synchronous core, run in threads.

A cancelled call is joined before CancelledError is raised: by then it is done, and nothing changes
afterwards. Names, parameters and documentation are those of Store and Session.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from sqlalchemy import URL

from roocontext.log.entries import View
from roocontext.store.engine.clock_and_ids import Clock, Ids, system_clock
from roocontext.store.engine.engines import Durability
from roocontext.store.engine.threads import Threads
from roocontext.store.internals import AUDIT_PAGE, SessionInternals
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.store import Store

Params = ParamSpec("Params")
Result = TypeVar("Result")
Plain_co = TypeVar("Plain_co", covariant=True)


class _Threaded(Generic[Plain_co]):
    """A synchronous object, and the threads that its methods run in."""

    def __init__(self, plain: Plain_co, threads: Threads) -> None:
        self._plain = plain
        self._threads = threads


def _threaded(
    method: Callable[Concatenate[Plain_co, Params], Result],
) -> Callable[Concatenate[_Threaded[Plain_co], Params], Coroutine[Any, Any, Result]]:
    """The method as a coroutine function, with its own parameters, result and docstring."""

    @wraps(method)
    async def call(
        threaded: _Threaded[Plain_co], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        return await threaded._threads.run(method, threaded._plain, *args, **kwargs)  # noqa: SLF001

    return call


class AsyncStore(_Threaded[Store]):
    """A Store for asyncio. Close it, or use it in an `async with`."""

    @classmethod
    async def open(
        cls,
        url: str | Path | URL,
        *,
        upgrade: bool = True,
        read_only: bool = False,
        durability: Durability = "full",
        clock: Clock = system_clock,
        ids: Ids | None = None,
        record_frames: bool = True,
        pool_size: int = 16,
        max_overflow: int = 16,
        pool_timeout: float = 30,
        pool_recycle: float | None = None,
        lock_timeout: float | None = None,
        statement_timeout: float | None = None,
        prepare: bool | None = None,
        on_begin: Sequence[str | tuple[str, Sequence[Any]]] = (),
    ) -> "AsyncStore":
        """See Store.open."""
        threads = Threads()
        opened: list[Store] = []

        def open_store() -> None:
            opened.append(
                Store.open(
                    url,
                    upgrade=upgrade,
                    read_only=read_only,
                    durability=durability,
                    clock=clock,
                    ids=ids,
                    record_frames=record_frames,
                    pool_size=pool_size,
                    max_overflow=max_overflow,
                    pool_timeout=pool_timeout,
                    pool_recycle=pool_recycle,
                    lock_timeout=lock_timeout,
                    statement_timeout=statement_timeout,
                    prepare=prepare,
                    on_begin=on_begin,
                )
            )

        try:
            await threads.run(open_store)
        except BaseException:
            for store in opened:  # cancelled, but joined: it is open
                store.close()
            threads.shut_down()
            raise
        return cls(opened[0], threads)

    async def close(self) -> None:
        """See Store.close."""
        try:
            await self._threads.run(self._plain.close)
        finally:
            self._threads.shut_down()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent: str | None = None,
    ) -> "AsyncSession":
        """See Store.create."""
        made = await self._threads.run(
            self._plain.create, session_id, title=title, metadata=metadata, parent=parent
        )
        return AsyncSession(made, self._threads)

    async def open_session(
        self,
        session_id: str,
        *,
        parent: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "AsyncSession":
        """See Store.open_session."""
        made = await self._threads.run(
            self._plain.open_session, session_id, parent=parent, title=title, metadata=metadata
        )
        return AsyncSession(made, self._threads)

    async def session(self, session_id: str) -> "AsyncSession":
        """See Store.session."""
        return AsyncSession(await self._threads.run(self._plain.session, session_id), self._threads)

    async def run(self, work: Callable[[Store], Result]) -> Result:
        """Run a function of several calls over the synchronous store, in one of the threads."""
        return await self._threads.run(work, self._plain)

    sessions = _threaded(Store.sessions)
    overview = _threaded(Store.overview)
    find = _threaded(Store.find)
    restore = _threaded(Store.restore)
    purge = _threaded(Store.purge)
    purged = _threaded(Store.purged)
    usage = _threaded(Store.usage)
    search = _threaded(Store.search)
    index = _threaded(Store.index)
    drop_index = _threaded(Store.drop_index)


class AsyncSessionInternals(_Threaded[SessionInternals]):
    """What AsyncSession.internals returns."""

    snapshot = _threaded(SessionInternals.snapshot)
    keep_counts = _threaded(SessionInternals.keep_counts)
    keep_estimate = _threaded(SessionInternals.keep_estimate)
    counts = _threaded(SessionInternals.counts)
    restorable = _threaded(SessionInternals.restorable)
    uncovered_since = _threaded(SessionInternals.uncovered_since)
    live = _threaded(SessionInternals.live)
    originals = _threaded(SessionInternals.originals)
    visible_bytes = _threaded(SessionInternals.visible_bytes)
    outline = _threaded(SessionInternals.outline)
    newest_notes = _threaded(SessionInternals.newest_notes)
    noted = _threaded(SessionInternals.noted)
    keep_frame = _threaded(SessionInternals.keep_frame)

    async def audit_pages(
        self, size: int, *, after: int = 0, as_of: int | None = None
    ) -> AsyncIterator[list[AuditEntry]]:
        """See SessionInternals.audit_pages."""
        pages = self._plain.audit_pages(size, after=after, as_of=as_of)
        while (page := await self._threads.run(next, pages, None)) is not None:
            yield page


class AsyncSession(_Threaded[Session]):
    """A Session for asyncio."""

    def __init__(self, session: Session, threads: Threads) -> None:
        super().__init__(session, threads)
        self.id = session.id
        self.parent = session.parent

    def __repr__(self) -> str:
        return f"AsyncSession({self.id!r})"

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
    note = _threaded(Session.note)
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
    find_message = _threaded(Session.find_message)
    notes = _threaded(Session.notes)
    newest_note = _threaded(Session.newest_note)
    pins = _threaded(Session.pins)
    stats = _threaded(Session.stats)
    tokens = _threaded(Session.tokens)
    calls = _threaded(Session.calls)
    usage = _threaded(Session.usage)
    head = _threaded(Session.head)
    verify = _threaded(Session.verify)  # progress is reported from a thread
    rebuild = _threaded(Session.rebuild)

    async def fork(
        self,
        at: int | None = None,
        *,
        session_id: str | None = None,
        parent: str | None = None,
        ts: int | None = None,
    ) -> "AsyncSession":
        """See Session.fork."""
        made = await self._threads.run(
            self._plain.fork, at, session_id=session_id, parent=parent, ts=ts
        )
        return AsyncSession(made, self._threads)

    # Generators are advanced in a thread, one page for each call.

    async def pages(
        self, size: int = 200, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> AsyncIterator[View]:
        """See Session.pages."""
        pages = self._plain.pages(size, as_of=as_of, recorded=recorded)
        while (page := await self._threads.run(next, pages, None)) is not None:
            yield page

    async def audit(self, *, after: int = 0) -> AsyncIterator[AuditEntry]:
        """See Session.audit."""
        async for page in self.internals.audit_pages(AUDIT_PAGE, after=after):
            for entry in page:
                yield entry

    async def stored(self, *, last: int | None = None) -> AsyncIterator[StoredEntry]:
        """See Session.stored."""
        entries = self._plain.stored(last=last)
        while (entry := await self._threads.run(next, entries, None)) is not None:
            yield entry
