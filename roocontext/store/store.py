"""Store: the sessions of a database. Each method runs one function in one transaction."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from sqlalchemy import URL

from roocontext.errors import InvalidOption, SessionExists, SessionNotFound, SessionPurged
from roocontext.log.counting import ReportedUsage, UsageGroup
from roocontext.log.encoding import MIN_INTEGER, check_id
from roocontext.store.engine import migrate
from roocontext.store.engine.check_arguments import (
    check_function,
    check_maybe,
    check_progress,
    check_seconds,
    check_whole,
)
from roocontext.store.engine.clock_and_ids import Clock, Ids, RandomIds, system_clock
from roocontext.store.engine.connections import PoolOptions
from roocontext.store.engine.database import Database
from roocontext.store.engine.engines import Durability, EngineOptions, engine_of
from roocontext.store.engine.observing import Observer, checked_observer, observed
from roocontext.store.engine.statements import StoreScope
from roocontext.store.engine.threads import Probe
from roocontext.store.internals import OpenedStore
from roocontext.store.loop.renewer import Renewer
from roocontext.store.proof import archive, restore
from roocontext.store.proof.archive import Archiving, Put
from roocontext.store.proof.restore import RestoredLog, StoredEntry
from roocontext.store.proof.verify import Progress
from roocontext.store.reading import usage
from roocontext.store.reading.pages import Page, to_limit
from roocontext.store.reading.usage import UsageGrouping
from roocontext.store.session import Session
from roocontext.store.sessions import overview, retention, sessions
from roocontext.store.sessions.changes import Changes, Feed, Poller
from roocontext.store.sessions.listing import active_sessions, indexed_facts, wanted
from roocontext.store.sessions.overview import SessionOverview
from roocontext.store.sessions.retention import AgeClock, Retention
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.writing import erase
from roocontext.store.writing.erase import Purged
from roocontext.store.writing.items import SetMetadata, SetTitle
from roocontext.store.writing.new_session import create_session
from roocontext.store.writing.notes import drafted

if TYPE_CHECKING:
    from roocontext.search.passages import Speaker
    from roocontext.search.query import Among, Order
    from roocontext.store.search.hits import HitPage


_AT_ONCE = 100
"""How many sessions a purge by rule lists at once."""


@observed
class Store:
    """Sessions in a database. Safe to share between threads; close it, or use it in a `with`."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened
        self._database = opened.database
        self._clock = opened.clock
        self._ids = opened.ids
        self._poller = Poller(opened.database)
        self._probe = Probe(partial(migrate.check, opened.database))

    @classmethod
    def open(
        cls,
        url: str | Path | URL,
        *,
        upgrade: bool = True,
        owner: str | None = None,
        where: Mapping[str, str] | None = None,
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
        observer: Observer | None = None,
    ) -> "Store":
        """Open a database by URL, or an SQLite file by path (":memory:" for one in memory).

        The schema is created or upgraded unless `upgrade` is False. With "full" durability, what a
        call has written when it returns survives a power cut; "normal" is faster and may lose the
        last commits. Unless `record_frames` is False, `manage` and `request` record the system
        prompt and the tools when they change.

        With an `owner` the store sees and writes the sessions of that owner only: those that were
        created or restored through such a store, and their forks. The sessions of others do not
        exist for it, except that their ids cannot be used. Without one it sees all.
        With `where` it shows only sessions whose metadata has these strings at its top level now.
        It creates none, refuses to change these strings, and restores and redacts nothing, because
        copies may be in sessions that it does not show.

        Up to `pool_size` connections are kept, and `max_overflow` more are opened when these are in
        use; on SQLite there is no limit. If all are in use for `pool_timeout` seconds,
        PoolExhausted is raised. A connection that is `pool_recycle` seconds old is replaced.

        A write waits for other writers for `lock_timeout` seconds: 10 on PostgreSQL, 30 on SQLite.
        The other options are for PostgreSQL only. `statement_timeout` ends a statement after so
        many seconds. Statements are prepared unless a pooler is detected; `prepare` overrides that.
        `on_begin` are statements, with values for $1 and $2, that are sent with each BEGIN. With
        `statement_timeout` or `on_begin`, even a single statement is sent in a transaction block.

        The `observer` is called when an operation starts and ends, with its times and counts.
        """
        checked_observer(observer)
        pool = PoolOptions(pool_size, max_overflow, pool_timeout, pool_recycle)
        options = EngineOptions(
            durability, read_only, lock_timeout, statement_timeout, prepare, on_begin
        )
        if owner is not None:
            check_id("owner", owner)
        scope = StoreScope(owner, indexed_facts(where))
        database = Database(engine_of(url, options, create=upgrade), pool, scope)
        try:
            migrate.prepare(database, upgrade=upgrade and not read_only, writes=not read_only)
        except BaseException:
            database.close()
            raise
        sources = (database, clock, ids or RandomIds())
        return cls(OpenedStore(*sources, record_frames, Renewer(), observer))

    def close(self) -> None:
        """Close every connection, and end the feeds of changes."""
        self._poller.close()
        self._opened.renewer.close()
        self._database.close()

    def ping(self, timeout: float = 5) -> None:
        """Check that the database answers, for the health check of a service.

        One row is read. If there is no answer within `timeout` seconds, StoreUnavailable is raised,
        and if the schema has been upgraded beyond this release, SchemaMismatch.
        """
        check_seconds("timeout", timeout)
        self._probe.run(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent: str | None = None,
    ) -> "Session":
        """Create a session. Title and metadata become the first notes of its log.

        `parent` is the id of an existing session, for the session of a sub-agent. It never changes,
        and forks do not copy it.
        """
        name = self._ids.new_id() if session_id is None else session_id
        check_id("session_id", name)
        if parent is not None:
            check_id("parent", parent)
        sources = self._opened.sources()
        notes: list[SetTitle | SetMetadata] = []
        if title is not None:
            notes.append(SetTitle(title))
        if metadata is not None:
            notes.append(SetMetadata(metadata))
        drafts = [drafted(note, sources) for note in notes]
        self._database.of(name).write(create_session, drafts, sources.now, parent=parent)
        return Session(self._opened, name, parent)

    def open_session(
        self,
        session_id: str,
        *,
        parent: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "Session":
        """Open the session with this id, or create it if there is none yet.

        It is safe to call this from several processes at once. Title and metadata are only used if
        this call creates the session. If it has another parent than `parent`, SessionExists is
        raised; None accepts any.
        """
        with suppress(SessionNotFound):
            return self._continued(session_id, parent)
        try:
            return self.create(session_id, title=title, metadata=metadata, parent=parent)
        except SessionExists as taken:
            with suppress(SessionNotFound):  # another caller created it in the meantime
                return self._continued(session_id, parent)
            raise taken from None  # it is another owner's

    def session(self, session_id: str) -> "Session":
        """Open the session with this id."""
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
        """Write a log that another store holds, with its seqs, salts, times and hashes.

        The whole chain is verified before the commit. If the session exists, one of the two logs
        must be the beginning of the other, and only what is missing is written. Nothing is added
        to the log except redactions: an entry that is redacted in one copy is redacted in all
        copies in the store. A `parent` need not be restored before its child. A dry run does the
        same and rolls it back, so it needs a store that can be written. The entries are read again
        if another writer is in the way: pass a list, not an iterator.
        """
        check_id("session_id", session_id)
        if parent is not None:
            check_id("parent", parent)
        check_maybe("created_at", created_at, least=MIN_INTEGER)
        restore.check_repeatable(entries)
        sources = self._opened.sources()
        database = self._database.of(session_id)
        run = database.rehearse if dry_run else database.write
        done = run(
            restore.restore,
            entries,
            parent=parent,
            created_at=sources.now if created_at is None else created_at,
            sources=sources,
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
        ids: Collection[str] | None = None,
        parent: str | None = None,
        where: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        recorded: bool = False,
    ) -> Page[SessionOverview]:
        """List sessions as `sessions` does, with their sizes and their last calls of a model.

        `ids` selects sessions. Sizes take longer to read than the rest of a list.
        """
        check_whole("limit", limit, least=1)
        asked = wanted(parent, where, since, until, recorded=recorded, ids=ids)
        return self._database.lookup(overview.overview, limit, after, asked)

    def changes(self, after: str | None = None, *, session: str | None = None) -> "Changes":
        """Iterate over the sessions that are written, by whatever process, waiting for the next.

        Every change is reported at least once, and those of a session in order; several of them may
        be reported as one. The feed begins with all sessions that exist, or with what changed since
        the `cursor` of an earlier change. With `session` it reports only that one. It ends when
        it or the store is closed. Read what is new with `Session.audit(after=...)`.
        """
        return Changes(Feed(self._poller, after, session))

    def change_cursor(self) -> str:
        """Return the cursor of the present: `changes` after it reports only later writes.

        A few changes of the last minutes may be reported too.
        """
        return self._poller.now()

    def find(
        self, beginning: str, *, limit: int = 100, after: str | None = None
    ) -> Page[SessionInfo]:
        """List the sessions whose ids begin like this, in the order of their ids."""
        check_id("beginning", beginning)
        check_whole("limit", limit, least=1)
        return self._database.lookup(sessions.beginning_with, beginning, limit, after)

    @overload
    def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        where: Mapping[str, str] | None = None,
        recorded: bool = False,
        limit: int | None = None,
        after: str | None = None,
        by: None = None,
        zone: tzinfo | None = UTC,
    ) -> Page[ReportedUsage]: ...

    @overload
    def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        where: Mapping[str, str] | None = None,
        recorded: bool = False,
        limit: None = None,
        after: None = None,
        by: UsageGrouping,
        zone: tzinfo | None = UTC,
    ) -> list[UsageGroup]: ...

    def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        where: Mapping[str, str] | None = None,
        recorded: bool = False,
        limit: int | None = None,
        after: str | None = None,
        by: UsageGrouping | None = None,
        zone: tzinfo | None = UTC,
    ) -> Page[ReportedUsage] | list[UsageGroup]:
        """Read the usage that was reported for the replies and summaries of all sessions.

        The rows are in the order of the session ids. With `since` and `until`, only entries count
        that happened at or after the first and before the second; with `recorded`, those that were
        recorded then; with `where`, only sessions as in `sessions`. Entries that a fork copied do
        not count, those of archived sessions do. No content is read.

        With `by`, the rows are returned in groups: by "day", "model" or "session", in the order of
        the names. Days are those of the `zone`, None for the local one. `tokens.spending` sums up
        the rows of a group.
        """
        asked = wanted(None, where, since, until)
        if by is not None:
            usage.check_grouping(by, zone, limit, after)
        rows = self._database.snapshot(
            usage.reported_between,
            active_sessions(asked.shape),
            asked.params,
            recorded=recorded,
            limit=to_limit(limit),
            after=after,
        )
        return rows if by is None else usage.grouped_usage(rows, by, zone, recorded=recorded)

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
    ) -> "HitPage":
        """Find the messages that contain all words of the query, hidden and rewound ones too.

        A `"phrase"` is found as it is written, and `begin*` finds words with this beginning. The
        messages may be restricted to one `session`; to a session and its descendants (`family`); to
        sessions whose metadata has the strings of `where`; to a `role`, which is "user",
        "assistant" or "tool" (outputs of tools); to the calls and outputs of one `tool`; to those
        that happened at or after `since` and before `until`. `among` is "all", "standing" (not
        rewound), "visible" (what the model sees now) or "hidden" (by a summary or marker).

        The `order` is "best", "newest" or "oldest", by when messages happened; with `recorded`, all
        times are those of recording. Snippets show `context` more lines on either side. Archived
        sessions are not searched: `archived` of the first page says how many there are, and if the
        `session` is one, SessionArchived is raised.
        """
        # Loaded with the first search: opening a store does not need it.
        from roocontext.store.search import hits, scope  # noqa: PLC0415

        asked = scope.checked_search(
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
        return self._database.snapshot(hits.search, asked, self._database.text_search)

    def index(self, *, anew: bool = False, progress: Progress | None = None) -> int:
        """Bring the index of `search` up to date, and return how many messages were added.

        Appends do not write to the index. A search finds the same without it, but has to read every
        message that is not indexed. With `anew`, the index is dropped first.
        """
        from roocontext.store.search import index  # noqa: PLC0415 - as in search

        check_progress(progress)
        if anew:
            self.drop_index()
        return index.bring_up_to_date(self._database, progress)

    def drop_index(self) -> None:
        """Delete the index of `search`. `index` builds it again."""
        from roocontext.store.search import index  # noqa: PLC0415 - as in search

        index.drop(self._database)

    def purged(self, *, limit: int = 100, after: str | None = None) -> Page[Purged]:
        """List the receipts of purged sessions, the newest first."""
        check_whole("limit", limit, least=1)
        return self._database.lookup(erase.receipts, limit, after)

    @overload
    def purge(
        self, session_id: str, *, expected_seq: int | None = None, dry_run: bool = False
    ) -> Purged: ...

    @overload
    def purge(
        self,
        *,
        older_than: datetime | timedelta | None = None,
        where: Mapping[str, str] | None = None,
        family: bool = True,
        clock: AgeClock = "later",
        dry_run: bool = False,
    ) -> list[Purged]: ...

    def purge(
        self,
        session_id: str | None = None,
        *,
        expected_seq: int | None = None,
        older_than: datetime | timedelta | None = None,
        where: Mapping[str, str] | None = None,
        family: bool = True,
        clock: AgeClock = "later",
        dry_run: bool = False,
    ) -> Purged | list[Purged]:
        """Delete everything in a session except a receipt. Its id cannot be used again.

        With `expected_seq`, it is refused if the session has another head by then.

        Without an id, all sessions are purged whose metadata has the strings of `where` and in
        which nothing has happened or was recorded since `older_than`, one family in a transaction:
        an interrupted purge is continued by the next. With `family` their descendants are
        purged with them, and a session whose descendants are not all that old is kept. The `clock`
        is the "later" of the two times, or only when things "happened" or were "recorded".

        A dry run only returns what would be deleted.
        """
        now = self._clock()
        if session_id is None:
            if expected_seq is not None:
                line = "A purge by a rule takes no expected_seq: name a session."
                raise InvalidOption(line, name="expected_seq")
            rule = retention.checked_retention(
                older_than, where, family=family, clock=clock, now=now
            )
            return self._purge_by(rule, now, dry_run=dry_run)
        if older_than is not None or where is not None:
            raise InvalidOption(
                "Name a session, or give older_than or where, but not both.", name="session_id"
            )
        check_id("session_id", session_id)
        check_maybe("expected_seq", expected_seq)
        database = self._database.of(session_id)
        run = database.snapshot if dry_run else database.write
        try:
            purged = run(erase.purge, now=now, dry_run=dry_run, expected_seq=expected_seq)
        except SessionPurged as error:  # again, to erase what is left of it in the file
            purged = Purged(**error.receipt)
        if dry_run:
            return purged
        return replace(purged, erased=self._database.erase_free_space())

    def _purge_by(self, rule: Retention, now: int, *, dry_run: bool) -> list[Purged]:
        done: dict[str, Purged] = {}
        # The newest first: a parent that is purged with its family leaves no child for later.
        for info in sessions.all_newest_first(self._database, rule.listed, _AT_ONCE):
            if info.session_id not in done:
                database = self._database.of(info.session_id)
                run = database.snapshot if dry_run else database.write
                purged = run(retention.purge_family, rule, now=now, dry_run=dry_run)
                done |= {receipt.session_id: receipt for receipt in purged}
        if dry_run or not done:
            return list(done.values())
        erased = self._database.erase_free_space()
        return [replace(receipt, erased=erased) for receipt in done.values()]

    def archive(
        self,
        *,
        put: Put,
        older_than: datetime | timedelta | None = None,
        session: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Archiving:
        """Move sessions into compressed files, and leave tombstones that lists still show.

        These are the sessions in which nothing has happened and nothing was recorded since
        `older_than`, or for so long; or one `session`. Each is written as one file of roocontext
        JSONL, and checked. `put(name, content)` stores it: when it returns, the file must be
        durable. It returns where the file is, or None if that is the name. The entries are deleted
        afterwards. A session that is written meanwhile is left as it is, and so is one that a
        runner has the turn of. Importing the file brings the session back with the same hashes.

        Reading an archived session raises SessionArchived, which names the file and its SHA-256.
        The call can be repeated after a failure. A dry run only lists the sessions.
        """
        if (older_than is None) == (session is None):
            line = "Pass either older_than or session, to say which sessions are archived."
            raise InvalidOption(line, name="older_than")
        check_function("put", put)
        check_progress(progress)
        chosen = (
            [self.session(session).info()]
            if session is not None
            else archive.older(self._database, retention.cutoff(older_than, self._clock()))
        )
        if dry_run:
            return Archiving(tuple(map(archive.planned, chosen)), (), dry_run=True)
        outcomes = []
        for number, info in enumerate(chosen, 1):
            outcomes.append(
                archive.archive(self._database.of(info.session_id), info, put, self._clock)
            )
            if progress is not None:
                progress(number, len(chosen))
        return archive.outcome_of(outcomes)

    def _continued(self, session_id: str, parent: str | None) -> "Session":
        check_id("session_id", session_id)
        if parent is not None:
            check_id("parent", parent)
        known = self._database.of(session_id).lookup(sessions.parent_of)
        if parent is not None and parent != known:
            raise SessionExists(
                f"Session {session_id!r} exists, and its parent is {known!r}, not {parent!r}.",
                session_id=session_id,
            )
        return Session(self._opened, session_id, known)
