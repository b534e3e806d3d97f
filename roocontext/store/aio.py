"""The same store for asyncio: one synchronous core, run in threads.

A cancelled call is joined before CancelledError goes on: whatever it did is done by then, and
nothing moves after the caller was told. Names and types are those of Store and Session.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from sqlalchemy import URL

from roocontext.errors import StoreClosed
from roocontext.log.counting import Counter
from roocontext.log.entries import Message, NewMessage, View
from roocontext.log.plan import Plan
from roocontext.log.sendable import Repair
from roocontext.store.append import Receipt
from roocontext.store.audit import AuditEntry, Diff
from roocontext.store.commit import Committed
from roocontext.store.count import Call
from roocontext.store.engines import Durability
from roocontext.store.erase import Purged, Redacted
from roocontext.store.live import LiveMessage
from roocontext.store.notes import Note
from roocontext.store.outline import Outline
from roocontext.store.overview import SessionOverview
from roocontext.store.rewind import Rewound
from roocontext.store.session import AUDIT_PAGE, Session
from roocontext.store.sessions import SessionInfo, Stats
from roocontext.store.sources import Clock, Ids, system_clock
from roocontext.store.store import Store
from roocontext.store.verify import Head, Progress, Verification

THREADS = 16

Params = ParamSpec("Params")
Result = TypeVar("Result")


class _Threads:
    """Runs calls in threads and joins those whose caller was cancelled."""

    def __init__(self) -> None:
        self._begin_life()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="roocontext")

    async def run(
        self, call: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():  # threads stay behind in the parent
            self._begin_life()
        try:
            running = loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))
        except RuntimeError:  # the executor was shut down
            raise StoreClosed("The store is closed.") from None
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                result = await asyncio.shield(running)
            except asyncio.CancelledError as error:
                if running.cancelled():
                    raise
                cancelled = error
            except BaseException:
                if cancelled is not None:
                    raise cancelled from None
                raise
            else:
                if cancelled is not None:
                    raise cancelled
                return result

    def shut_down(self) -> None:
        self._executor.shutdown(wait=False)


class AsyncStore:
    """A Store for asyncio. Close it, or use it in an `async with`."""

    def __init__(self, store: Store, threads: _Threads) -> None:
        self._store = store
        self._threads = threads

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
    ) -> "AsyncStore":
        """See Store.open."""
        threads = _Threads()
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
            await self._threads.run(self._store.close)
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
    ) -> "AsyncSession":
        """See Store.create."""
        made = await self._threads.run(
            self._store.create, session_id, title=title, metadata=metadata
        )
        return AsyncSession(made, self._threads)

    async def session(self, session_id: str) -> "AsyncSession":
        """See Store.session."""
        return AsyncSession(await self._threads.run(self._store.session, session_id), self._threads)

    async def sessions(
        self, *, limit: int = 100, before: SessionInfo | None = None
    ) -> list[SessionInfo]:
        """See Store.sessions."""
        return await self._threads.run(self._store.sessions, limit=limit, before=before)

    async def overview(self, *, limit: int = 100) -> list[SessionOverview]:
        """See Store.overview."""
        return await self._threads.run(self._store.overview, limit=limit)

    async def find(self, beginning: str, *, limit: int = 100) -> list[SessionInfo]:
        """See Store.find."""
        return await self._threads.run(self._store.find, beginning, limit=limit)

    async def purge(self, session_id: str, *, dry_run: bool = False) -> Purged:
        """See Store.purge."""
        return await self._threads.run(self._store.purge, session_id, dry_run=dry_run)


class AsyncSession:
    """A Session for asyncio."""

    def __init__(self, session: Session, threads: _Threads) -> None:
        self._session = session
        self._run = threads.run
        self._threads = threads
        self.id = session.id

    def __repr__(self) -> str:
        return f"AsyncSession({self.id!r})"

    async def append(
        self,
        role: str,
        content: Any,
        *,
        format: str = "anthropic",  # noqa: A002 - the log's word
        ts: int | None = None,
        message_id: str | None = None,
        client_id: str | None = None,
        model: str | None = None,
        usage: Any = None,
        expected_seq: int | None = None,
    ) -> Receipt:
        """See Session.append."""
        return await self._run(
            self._session.append,
            role,
            content,
            format=format,
            ts=ts,
            message_id=message_id,
            client_id=client_id,
            model=model,
            usage=usage,
            expected_seq=expected_seq,
        )

    async def append_many(
        self,
        messages: Iterable[NewMessage | Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
    ) -> list[Receipt]:
        """See Session.append_many."""
        return await self._run(self._session.append_many, messages, expected_seq=expected_seq)

    async def commit(self, plan: Plan, *, dry_run: bool = False) -> Committed:
        """See Session.commit."""
        return await self._run(self._session.commit, plan, dry_run=dry_run)

    async def rewind(
        self,
        to: int | str | datetime | None = None,
        *,
        ts: int | None = None,
        keep_target: bool = True,
        expected_seq: int | None = None,
        trigger: str = "manual",
    ) -> Rewound:
        """See Session.rewind."""
        return await self._run(
            self._session.rewind,
            to,
            ts=ts,
            keep_target=keep_target,
            expected_seq=expected_seq,
            trigger=trigger,
        )

    async def undo(
        self,
        *,
        of: int | None = None,
        force: bool = False,
        expected_seq: int | None = None,
        trigger: str = "manual",
    ) -> Rewound:
        """See Session.undo."""
        return await self._run(
            self._session.undo, of=of, force=force, expected_seq=expected_seq, trigger=trigger
        )

    async def pin(self, seq: int) -> Receipt:
        """See Session.pin."""
        return await self._run(self._session.pin, seq)

    async def unpin(self, seq: int) -> Receipt:
        """See Session.unpin."""
        return await self._run(self._session.unpin, seq)

    async def rename(self, title: str) -> Receipt:
        """See Session.rename."""
        return await self._run(self._session.rename, title)

    async def describe(self, metadata: Mapping[str, Any]) -> Receipt:
        """See Session.describe."""
        return await self._run(self._session.describe, metadata)

    async def note(
        self, note: str, content: Mapping[str, Any], *, target: int | None = None
    ) -> Receipt:
        """See Session.note."""
        return await self._run(self._session.note, note, content, target=target)

    async def fork(self, at: int | None = None, *, session_id: str | None = None) -> "AsyncSession":
        """See Session.fork."""
        made = await self._run(self._session.fork, at, session_id=session_id)
        return AsyncSession(made, self._threads)

    async def redact(self, seq: int, *, dry_run: bool = False) -> Redacted:
        """See Session.redact."""
        return await self._run(self._session.redact, seq, dry_run=dry_run)

    async def info(self) -> SessionInfo:
        """See Session.info."""
        return await self._run(self._session.info)

    async def head_seq(self) -> int:
        """See Session.head_seq."""
        return await self._run(self._session.head_seq)

    async def view(
        self,
        *,
        as_of: int | datetime | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> View:
        """See Session.view."""
        return await self._run(self._session.view, as_of=as_of, after=after, limit=limit)

    async def pages(
        self, size: int = 200, *, as_of: int | datetime | None = None
    ) -> AsyncIterator[View]:
        """See Session.pages."""
        pages = self._session.pages(size, as_of=as_of)
        while (page := await self._run(next, pages, None)) is not None:
            yield page

    async def messages(self, *, as_of: int | datetime | None = None) -> list[dict[str, Any]]:
        """See Session.messages."""
        return await self._run(self._session.messages, as_of=as_of)

    async def validate(self, *, as_of: int | datetime | None = None) -> tuple[Repair, ...]:
        """See Session.validate."""
        return await self._run(self._session.validate, as_of=as_of)

    async def audit_pages(self, size: int, *, after: int = 0) -> AsyncIterator[list[AuditEntry]]:
        """See Session.audit_pages."""
        pages = self._session.audit_pages(size, after=after)
        while (page := await self._run(next, pages, None)) is not None:
            yield page

    async def audit(self, *, after: int = 0) -> AsyncIterator[AuditEntry]:
        """See Session.audit."""
        async for page in self.audit_pages(AUDIT_PAGE, after=after):
            for entry in page:
                yield entry

    async def diff(self, old: int | datetime, new: int | datetime | None = None) -> Diff:
        """See Session.diff."""
        return await self._run(self._session.diff, old, new)

    async def message(self, seq: int) -> Message:
        """See Session.message."""
        return await self._run(self._session.message, seq)

    async def notes(self, note: str, *, as_of: int | datetime | None = None) -> list[Note]:
        """See Session.notes."""
        return await self._run(self._session.notes, note, as_of=as_of)

    async def pins(self, *, as_of: int | datetime | None = None) -> frozenset[int]:
        """See Session.pins."""
        return await self._run(self._session.pins, as_of=as_of)

    async def stats(self) -> Stats:
        """See Session.stats."""
        return await self._run(self._session.stats)

    async def outline(self) -> Outline:
        """See Session.outline."""
        return await self._run(self._session.outline)

    async def live(self) -> list[LiveMessage]:
        """See Session.live."""
        return await self._run(self._session.live)

    async def tokens(self, counter: Counter, *, as_of: int | datetime | None = None) -> int:
        """See Session.tokens."""
        return await self._run(self._session.tokens, counter, as_of=as_of)

    async def counts(self, counter: Counter, *, hidden: bool = False) -> dict[int, int]:
        """See Session.counts."""
        return await self._run(self._session.counts, counter, hidden=hidden)

    async def calls(self, *, last: int | None = None) -> list[Call]:
        """See Session.calls."""
        return await self._run(self._session.calls, last=last)

    async def keep_estimate(self, seq: int, counter: Counter, estimate: int) -> bool:
        """See Session.keep_estimate."""
        return await self._run(self._session.keep_estimate, seq, counter, estimate)

    async def head(self) -> Head:
        """See Session.head."""
        return await self._run(self._session.head)

    async def verify(
        self, saved: Head | None = None, *, progress: Progress | None = None
    ) -> Verification:
        """See Session.verify. The progress is told from a thread."""
        return await self._run(self._session.verify, saved, progress=progress)

    async def rebuild(self) -> int:
        """See Session.rebuild."""
        return await self._run(self._session.rebuild)
