"""The front door: a Store of sessions. Each method is one transaction around one function."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL

from roocontext.errors import SessionExists, SessionNotFound, SessionPurged
from roocontext.log.counting import ReportedUsage
from roocontext.log.encoding import MIN_INTEGER, check_id
from roocontext.store.engine import migrate
from roocontext.store.engine.check_arguments import check_maybe, check_whole
from roocontext.store.engine.clock_and_ids import Clock, Ids, RandomIds, system_clock
from roocontext.store.engine.connections import PoolOptions
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import Durability, EngineOptions, engine_of
from roocontext.store.proof import restore
from roocontext.store.proof.restore import RestoredLog, StoredEntry, repeatable
from roocontext.store.proof.verify import Progress
from roocontext.store.reading import usage
from roocontext.store.reading.pages import Page, to_limit
from roocontext.store.session import Session
from roocontext.store.sessions import overview, sessions
from roocontext.store.sessions.listing import wanted
from roocontext.store.sessions.overview import SessionOverview
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.writing import erase
from roocontext.store.writing.erase import Purged
from roocontext.store.writing.items import SetMetadata, SetTitle
from roocontext.store.writing.new_session import create_session
from roocontext.store.writing.notes import drafted

if TYPE_CHECKING:
    from roocontext.search.passages import Speaker
    from roocontext.search.query import Among, Order
    from roocontext.store.search.hits import Hit


class Store:
    """Sessions in a database. Safe to share between threads; close it, or use it in a `with`."""

    def __init__(
        self, database: Database, *, clock: Clock, ids: Ids, record_frames: bool = True
    ) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._record_frames = record_frames

    @classmethod
    def open(
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
    ) -> "Store":
        """Open a database by URL, or an SQLite file by path (":memory:" for one in memory).

        The schema is created or upgraded unless `upgrade` is False. With "full" durability what
        was returned survives a power cut; "normal" may lose the last commits then, and is faster.
        Unless `record_frames` is False, `manage` and `request` record the system prompt and the
        tools when they change.

        Up to `pool_size` connections are kept, and `max_overflow` more are opened when these are in
        use; there is no limit on SQLite. If all are in use for `pool_timeout` seconds,
        PoolExhausted is raised. A connection that is `pool_recycle` seconds old is replaced.

        A write waits for others for `lock_timeout` seconds: 10 on PostgreSQL, 30 on SQLite. The
        other options are for PostgreSQL. A statement ends after `statement_timeout` seconds.
        Statements are prepared unless there is a pooler; `prepare` says which, where that is known
        better. The statements of `on_begin`, with values for $1, $2, are sent with each BEGIN. This
        and a timeout make every statement a transaction.
        """
        pool = PoolOptions(pool_size, max_overflow, pool_timeout, pool_recycle)
        options = EngineOptions(
            durability=durability,
            read_only=read_only,
            lock_timeout=lock_timeout,
            statement_timeout=statement_timeout,
            prepare=prepare,
            on_begin=on_begin,
        )
        database = Database(engine_of(url, options, create=upgrade), pool)
        try:
            migrate.prepare(database, upgrade=upgrade and not read_only, writes=not read_only)
        except BaseException:
            database.close()
            raise
        return cls(database, clock=clock, ids=ids or RandomIds(), record_frames=record_frames)

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent: str | None = None,
    ) -> "Session":
        """Begin a session. Title and metadata are the first notes of its log.

        The `parent` is the id of a session that exists, for the session of a sub-agent. It never
        changes, and no fork copies it.
        """
        name = self._ids.new_id() if session_id is None else session_id
        check_id("session_id", name)
        if parent is not None:
            check_id("parent", parent)
        now = self._clock()
        begins: list[SetTitle | SetMetadata] = []
        if title is not None:
            begins.append(SetTitle(title))
        if metadata is not None:
            begins.append(SetMetadata(metadata))
        drafts = [drafted(note, now=now, salts=self._ids.salt) for note in begins]
        self._database.write(create_session, name, drafts, now, parent=parent)
        return self._session(name, parent)

    def open_session(
        self,
        session_id: str,
        *,
        parent: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "Session":
        """The session with this id, created if there is none yet.

        Safe to call from several processes at once. Title and metadata are only used if this call
        creates the session. A `parent` that is not the one it was created with is an error; None
        accepts any.
        """
        with suppress(SessionNotFound):
            return self._continued(session_id, parent)
        with suppress(SessionExists):  # another caller created it in the meantime
            return self.create(session_id, title=title, metadata=metadata, parent=parent)
        return self._continued(session_id, parent)

    def session(self, session_id: str) -> "Session":
        """The session with this id."""
        return self._continued(session_id, None)

    def restore(
        self,
        session_id: str,
        entries: Iterable[StoredEntry],
        *,
        parent: str | None = None,
        created_at: int | None = None,
        dry_run: bool = False,
    ) -> RestoredLog:
        """Write a log that `Session.stored` gave, with its seqs, salts, times and hashes.

        The whole chain is verified before the commit. If the session exists, one of the two logs
        must be the beginning of the other, and only what is missing is written. Nothing is added
        to the log, except redactions: what is redacted in one copy of an entry is redacted in all
        copies that the store has. A `parent` need not be restored before its child. A dry run does
        the same, and rolls it back: it needs a store that can be written.
        """
        check_id("session_id", session_id)
        if parent is not None:
            check_id("parent", parent)
        check_maybe("created_at", created_at, least=MIN_INTEGER)
        now = self._clock()
        run = self._database.rehearse if dry_run else self._database.write
        with repeatable(entries) as again:
            done = run(
                restore.restore,
                session_id,
                again,
                parent=parent,
                created_at=now if created_at is None else created_at,
                now=now,
                salts=self._ids.salt,
            )
        erased = bool(done.redacted) and not dry_run and self._database.erase_free_space()
        return replace(done, dry_run=dry_run, erased=erased)

    def sessions(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        parent: str | None = None,
        where: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        recorded: bool = False,
    ) -> Page[SessionInfo]:
        """List the sessions, the newest first. The `next` of a page is the `after` of the next.

        The time of a session is when its latest message happened, or when its last entry was
        recorded if that is earlier. With `recorded` it is the latter, so that a program that polls
        finds what has changed. `parent` lists only the children of a session; `where` only sessions
        whose newest metadata has these strings at its top level; `since` and `until` only sessions
        whose time is at or after the first and before the second.
        """
        check_whole("limit", limit, least=1)
        asked = wanted(parent, where, since, until, recorded=recorded)
        return self._database.lookup(sessions.newest_first, limit, after, asked)

    def overview(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        parent: str | None = None,
        where: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        recorded: bool = False,
    ) -> Page[SessionOverview]:
        """List the same sessions with their sizes and their last calls of a model."""
        check_whole("limit", limit, least=1)
        asked = wanted(parent, where, since, until, recorded=recorded)
        return self._database.lookup(overview.overview, limit, after, asked)

    def find(
        self, beginning: str, *, limit: int = 100, after: str | None = None
    ) -> Page[SessionInfo]:
        """List the sessions whose ids begin like this, in the order of their ids."""
        check_id("beginning", beginning)
        check_whole("limit", limit, least=1)
        return self._database.lookup(sessions.beginning_with, beginning, limit, after)

    def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        recorded: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[ReportedUsage]:
        """Read the usage that was reported for the replies and summaries of all sessions.

        The rows are in the order of the session ids. With `since` and `until`, only entries count
        that happened at or after the first and before the second; with `recorded`, those that were
        recorded then. Entries that a fork copied do not count. No content is read.
        """
        times = wanted(None, None, since, until).params
        return self._database.snapshot(
            usage.reported_between,
            times.get("since"),
            times.get("until"),
            recorded=recorded,
            limit=to_limit(limit),
            after=after,
        )

    def search(
        self,
        query: str,
        *,
        session: str | None = None,
        family: str | None = None,
        role: "Speaker | None" = None,
        tool: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        where: Mapping[str, str] | None = None,
        among: "Among" = "all",
        order: "Order" = "best",
        limit: int = 20,
        after: str | None = None,
        context: int = 0,
        recorded: bool = False,
    ) -> "Page[Hit]":
        """The messages that hold all words of the query, hidden and rewound ones too.

        A `"phrase"` is found as it is written, and `begin*` finds all that begins so. Only messages
        of one `session`, of a session and its descendants (`family`), or of sessions whose metadata
        has the strings of `where`; only messages of the `user` or the `assistant`, or outputs of a
        `tool` (`role`); only the calls and outputs of one `tool`; only messages that happened at
        `since` or later, and before `until`. `among` is "all", "standing" (not rewound), "visible"
        (what the model sees now) or "hidden" (what a summary or marker hides).

        The `order` is "best", "newest" or "oldest", by when messages happened; with `recorded`, all
        times are those of recording. The next page begins `after` the page's `next`.
        Snippets show `context` more lines on either side.
        """
        # Loaded with the first search: opening a store does not need it.
        from roocontext.store.search import hits, scope  # noqa: PLC0415

        search_for = scope.checked_search(
            query,
            session=session,
            family=family,
            role=role,
            tool=tool,
            since=since,
            until=until,
            where=where,
            among=among,
            order=order,
            limit=limit,
            after=after,
            context=context,
            recorded=recorded,
        )
        return self._database.snapshot(hits.search, search_for, self._database.text_search)

    def index(self, *, anew: bool = False, progress: Progress | None = None) -> int:
        """Bring the index of `search` up to date; how many messages were added to it.

        A search finds the same without it, and reads what is not indexed. Appends do not write to
        it. With `anew`, the index is dropped first and made again.
        """
        from roocontext.store.search import index  # noqa: PLC0415 - as in search

        if anew:
            self.drop_index()
        return index.bring_up_to_date(self._database, progress)

    def drop_index(self) -> None:
        """Delete the index of `search`. `index` makes it again."""
        from roocontext.store.search import index  # noqa: PLC0415 - as in search

        index.drop(self._database)

    def purged(self, *, limit: int = 100, after: str | None = None) -> Page[Purged]:
        """List the receipts of purged sessions, the newest first."""
        check_whole("limit", limit, least=1)
        return self._database.lookup(erase.receipts, limit, after)

    def purge(self, session_id: str, *, dry_run: bool = False) -> Purged:
        """Delete everything recorded in a session. A receipt stays; the id cannot be used again."""
        check_id("session_id", session_id)
        run = self._database.snapshot if dry_run else self._database.write
        try:
            purged = run(erase.purge, session_id, now=self._clock(), dry_run=dry_run)
        except SessionPurged as before:  # again, to erase what is left of it in the file
            purged = Purged(**before.receipt)
        if dry_run:
            return purged
        return replace(purged, erased=self._database.erase_free_space())

    def _continued(self, session_id: str, parent: str | None) -> "Session":
        check_id("session_id", session_id)
        if parent is not None:
            check_id("parent", parent)
        found = self._database.lookup(sessions.parent_of, session_id)
        if parent is not None and parent != found:
            raise SessionExists(
                f"Session {session_id!r} exists, and its parent is {found!r}, not {parent!r}.",
                session_id=session_id,
            )
        return self._session(session_id, found)

    def _session(self, session_id: str, parent: str | None) -> "Session":
        return Session(
            self._database,
            session_id,
            parent=parent,
            clock=self._clock,
            ids=self._ids,
            record_frames=self._record_frames,
        )
