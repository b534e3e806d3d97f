"""What packages of roocontext need of a session, and its users do not.

The context manager reads a snapshot and stores counts, recall reads originals, exporters read
hidden messages, adapters read notes by their client ids. None of it is part of the API.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from roocontext.errors import StoreReadOnly
from roocontext.log.counting import Counter, counter_named
from roocontext.log.encoding import MAX_INTEGER, check_id
from roocontext.log.request import GivenFrame
from roocontext.store.counting import count
from roocontext.store.counting.count import Restorable
from roocontext.store.counting.snapshot import Snapshot, Wanted, read_snapshot
from roocontext.store.engine.check_arguments import check_maybe, check_whole
from roocontext.store.engine.clock_and_ids import Clock, Ids
from roocontext.store.engine.database import Database
from roocontext.store.loop import frame
from roocontext.store.reading import audit, live, notes
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.reading.live import LiveMessage, Original, read_originals
from roocontext.store.reading.notes import Note
from roocontext.store.sessions import sessions
from roocontext.store.sessions.sessions import Outline
from roocontext.store.writing import kept_counts, uncover
from roocontext.store.writing.kept_counts import Counted

AUDIT_PAGE = 500


class SessionInternals:
    """What Session.internals returns: reads and caches of one session."""

    def __init__(
        self,
        database: Database,
        session_id: str,
        *,
        clock: Clock,
        ids: Ids,
        record_frames: bool,
    ) -> None:
        self._database = database
        self.id = session_id
        self._clock = clock
        self._ids = ids
        self._record_frames = record_frames

    def snapshot(self, wanted: Wanted) -> Snapshot:
        """Everything that a manager needs of the session, read at one moment.

        The snapshot's new counts are not stored. Pass them to the next `commit` or to
        `keep_counts`.
        """
        return read_snapshot(self._database, self.id, wanted)

    def keep_counts(self, counted: Counted) -> bool:
        """Store what was counted for a snapshot, and return whether any of it is new.

        The counts are a cache: if nothing can be written, the call does nothing.
        """
        return kept_counts.keep_if_possible(self._database, self.id, counted)

    def keep_estimate(self, seq: int, counter: Counter, estimate: int) -> bool:
        """Keep what the request that message `seq` answers was estimated at; whether it is new.

        A cache, no entry.
        """
        check_whole("seq", seq, least=1)
        check_whole("estimate", estimate)
        return self.keep_counts(Counted().with_estimates(counter, {seq: estimate}))

    def counts(self, counter: Counter | str, *, hidden: bool = False) -> dict[int, int]:
        """What each message of the view costs, by seq; with `hidden`, each live message."""
        return count.counts_of(self._database, self.id, counter_named(counter), hidden=hidden)

    def restorable(
        self, counters: Sequence[Counter], *, given: Sequence[int] = ()
    ) -> Restorable | None:
        """The newest entry that `uncover` would take back, and what the view would cost then.

        It is looked for as if the `given` entries were uncovered already. None if there is none.
        """
        return count.restorable(self._database, self.id, counters, given)

    def uncovered_since(self, seq: int) -> bool:
        """Whether anything was uncovered after entry `seq`."""
        check_whole("seq", seq)
        return self._database.lookup(uncover.newest_uncovering, self.id, seq) is not None

    def live(self) -> list[LiveMessage]:
        """Every live message in view order, those hidden by a summary or marker too."""
        return self._database.snapshot(live.read_live, self.id)

    def originals(
        self, first: int = 1, last: int | None = None, *, limit: int = 50, rewound: bool = False
    ) -> list[Original]:
        """The first messages of a range as they were written, hidden and cleared ones too.

        Summaries, what was redacted and the answers to recall tools are left out; what was rewound
        is too, unless `rewound` is set.
        """
        check_whole("first", first, least=1)
        check_maybe("last", last)
        check_whole("limit", limit, least=1)
        asked: dict[str, Any] = {"first": first, "last": last, "limit": limit, "rewound": rewound}
        return self._database.snapshot(read_originals, self.id, **asked)

    def visible_bytes(self) -> int:
        """How many bytes the view's contents take as stored, cleared blocks included."""
        return self._database.snapshot(sessions.visible_bytes, self.id)

    def outline(self) -> Outline:
        """What became of the entries, by control rows and parts. No content is read."""
        return self._database.snapshot(sessions.outline, self.id)

    def audit_pages(
        self, size: int, *, after: int = 0, as_of: int | None = None
    ) -> Iterator[list[AuditEntry]]:
        """The audit page by page, all pages of one moment, even if more is written."""
        check_whole("size", size, least=1)
        check_whole("after", after)
        after = min(after, MAX_INTEGER - 1)
        with self._database.read() as tx:
            auditor = audit.Auditor(tx, self.id, as_of)
            page = auditor.page(tx, after, size)
        while page:
            yield page
            if len(page) < size:
                return
            with self._database.read() as tx:
                page = auditor.page(tx, page[-1].seq, size)

    def newest_notes(
        self, beginning: str, *, before: str | None = None, limit: int = 100
    ) -> list[Note]:
        """The newest note of each kind that begins like this, the greatest kind first.

        With `before`, only of kinds that are smaller. Kinds are compared by code point; notes about
        a message are left out.
        """
        check_id("beginning", beginning)
        if before is not None:
            check_id("before", before)
        check_whole("limit", limit, least=1)
        return self._database.lookup(
            notes.newest_of_kinds, self.id, beginning, before=before, limit=limit
        )

    def noted(self, client_ids: Sequence[str]) -> dict[str, Note]:
        """The notes that were written with these client ids, by client id."""
        for client_id in client_ids:
            check_id("client_id", client_id)
        return self._database.lookup(notes.written_by, self.id, client_ids)

    def keep_frame(self, *, system: Any = None, tools: Sequence[Any] | None = None) -> bool:
        """Record the system prompt and the tools if they changed, and return whether they did.

        What is left out stays as it is recorded. `manage` and `request` do this. If nothing can be
        written, or the store records no frames, the call does nothing.
        """
        given = GivenFrame.checked(system, tools)
        if (
            not self._record_frames
            or self._database.snapshot(frame.frame_to_record, self.id, given) is None
        ):
            return False
        with suppress(StoreReadOnly):
            return self._database.write(
                frame.keep, self.id, given, now=self._clock(), salts=self._ids.salt
            )
        return False
