"""Operations of a session for the other packages of roocontext. None of it is part of the API.

The context manager reads a snapshot and stores counts, recall reads originals, exporters read
hidden messages, adapters read notes by their client ids.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roocontext.errors import StoreReadOnly
from roocontext.log.counting import Counter
from roocontext.log.draft import Sources
from roocontext.log.encoding import MAX_INTEGER, check_id
from roocontext.log.entries import View
from roocontext.log.request import GivenFrame
from roocontext.store.counting import count
from roocontext.store.counting.count import CountedView, Restorable
from roocontext.store.counting.snapshot import Snapshot, Wanted, read_snapshot
from roocontext.store.engine.check_arguments import check_maybe, check_whole, to_point
from roocontext.store.engine.clock_and_ids import Clock, Ids
from roocontext.store.engine.database import Database, SessionDatabase
from roocontext.store.engine.observing import Observer, StoreOperation, observing
from roocontext.store.loop import frame
from roocontext.store.loop.renewer import Renewer
from roocontext.store.loop.request import newest_reply_seq
from roocontext.store.proof import restore
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.proof.verify import head_of
from roocontext.store.reading import audit, live, notes, usage
from roocontext.store.reading.audit import AuditEntry, Envelope, read_envelopes
from roocontext.store.reading.coverings import Hidden, read_hidden, read_unextracted
from roocontext.store.reading.families import descended
from roocontext.store.reading.head import read_head
from roocontext.store.reading.live import LiveMessage, Original, read_originals
from roocontext.store.reading.messages import rows_at_once
from roocontext.store.reading.notes import Note
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.reading.usage import Call
from roocontext.store.reading.view import Part, read_first_page, read_next_page
from roocontext.store.sessions import sessions
from roocontext.store.sessions.excerpt import Anchor, Extent, LogExcerpt, Sizes, read_excerpt
from roocontext.store.sessions.sessions import Outline
from roocontext.store.writing import kept_counts, uncover
from roocontext.store.writing.append import stored_by
from roocontext.store.writing.kept_counts import Counted
from roocontext.store.writing.notes import keep_extract

AUDIT_PAGE = 500


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The database, the sources and the options that the sessions of an opened store share."""

    database: Database
    clock: Clock
    ids: Ids
    record_frames: bool
    renewer: Renewer
    observer: Observer | None = None

    def sources(self) -> Sources:
        """The sources of an operation that begins now."""
        return Sources(self.clock(), self.ids.salt, self.ids.new_id)


class SessionInternals:
    """Reads and caches of one session."""

    def __init__(self, opened: OpenedStore, session_id: str, database: SessionDatabase) -> None:
        self._opened = opened
        self._database = database
        self.id = session_id

    def observed(self, name: str) -> AbstractContextManager[Callable[[Any], None]]:
        """Let an operation of several calls be observed; the block passes on its result."""
        observer = self._opened.observer
        if observer is None:
            return nullcontext(lambda _result: None)
        return observing(observer, StoreOperation(name, self.id))

    def snapshot(self, wanted: Wanted) -> Snapshot:
        """Read everything that a manager needs of the session, at one moment.

        The new counts are not stored. Pass them to the next `commit` or to `keep_counts`.
        """
        return read_snapshot(self._database, wanted)

    def keep_counts(self, counted: Counted) -> bool:
        """Store the counts of a snapshot, and return whether any of them is new.

        They are a cache: if nothing can be written, the call does nothing.
        """
        return kept_counts.keep_if_possible(self._database, counted)

    def counted(self, counter: Counter, *, as_of: int | None = None, after: int = 0) -> CountedView:
        """Count the view, or the part of it after an entry, and say whether the count is exact."""
        return count.counted_view(self._database, counter, as_of=as_of, after=after)

    def restorable(
        self, counters: Sequence[Counter], *, given: Sequence[int] = ()
    ) -> Restorable | None:
        """Find the newest entry that `uncover` can take back, and the cost of the view without it.

        The `given` entries count as uncovered already. Returns None if there is no such entry.
        """
        return count.restorable(self._database, counters, given)

    def newest_reply(self) -> int:
        """Return the newest live reply, hidden or not; 0 if there is none."""
        return self._database.snapshot(newest_reply_seq)

    def uncovered_since(self, seq: int) -> bool:
        """Return whether anything was uncovered after entry `seq`."""
        check_whole("seq", seq)
        return self._database.lookup(uncover.newest_uncovering, seq) is not None

    def unextracted(self) -> tuple[int, ...]:
        """Return the sealed coverings of which no note says what they hide, oldest first."""
        return self._database.snapshot(read_unextracted)

    def hidden_by(self, covering: int) -> Hidden:
        """Read the messages that a covering hides."""
        check_whole("covering", covering, least=1)
        return self._database.snapshot(read_hidden, covering)

    def keep_extract(self, hidden: Hidden, text: str) -> bool:
        """Write the extract of what a covering hides, and return whether it was written.

        It is not if there is one, or if anything was redacted since the messages were read.
        """
        return self._database.write(keep_extract, hidden, text, self._opened.sources())

    def live(self) -> list[LiveMessage]:
        """Read every live message in view order, those hidden by a summary or marker too."""
        return self._database.snapshot(live.read_live)

    def originals(
        self, first: int = 1, last: int | None = None, *, limit: int = 50, rewound: bool = False
    ) -> list[Original]:
        """Read the first messages of a range as they were written, hidden and cleared ones too.

        Summaries, redacted messages and the answers of recall tools are left out, and rewound
        messages too unless `rewound` is set.
        """
        check_whole("first", first, least=1)
        check_maybe("last", last)
        check_whole("limit", limit, least=1)
        return self._database.snapshot(
            read_originals, first=first, last=last, limit=limit, rewound=rewound
        )

    def pages(self, size: int = 200, *, as_of: int | None = None) -> Iterator[View]:
        """Read the view page by page, all pages as of one moment even if more is written."""
        check_whole("size", size, least=1)
        unread, page = self._database.snapshot(read_first_page, size, as_of)
        while page.messages:
            yield page
            part = Part(size, page.messages[-1].seq)
            page = self._database.snapshot(read_next_page, unread, part)

    def family(self) -> list[str]:
        """Return the ids of the session and its descendants, those of purged sessions too."""
        with self._database.read() as log:
            read_head(log)  # which says so if there is none
            return descended(log)

    def calls(self, *, last: int | None = None) -> list[Call]:
        """Read the model calls whose usage is known, oldest first, among the `last` entries."""
        check_maybe("last", last)
        return self._database.snapshot(usage.model_calls, last=last)

    def stored(self, *, last: int | None = None) -> Iterator[StoredEntry]:
        """Read every entry up to `last` exactly as it is stored, for `restore` of another store.

        If one of them is redacted meanwhile, VersionConflict is raised at the end.
        """
        check_maybe("last", last)
        end = self._database.lookup(head_of).seq if last is None else last
        yield from restore.stored_entries(self._database, end)

    def stored_content(self, seq: int) -> str | None:
        """Read the content of an entry as it is stored, without decoding it."""
        check_whole("seq", seq, least=1)
        with self._database.read() as log:
            rows = restore.read_stored(log, seq - 1, seq)
        return rows[0].content if rows else None

    def outline(self) -> Outline:
        """Read the control rows, and the parts of the log between them. No content is read."""
        return self._database.snapshot(sessions.outline)

    def excerpt(
        self,
        extent: Extent,
        place: Anchor = Anchor(),  # noqa: B008 - a value
        sizes: Sizes = Sizes(),  # noqa: B008 - a value
        *,
        as_of: int | None = None,
    ) -> LogExcerpt:
        """Read the entries of a page, now or right after an entry."""
        return self._database.snapshot(read_excerpt, extent, place, sizes, as_of=as_of)

    def audit_pages(
        self, size: int, *, after: int = 0, as_of: int | None = None
    ) -> Iterator[list[AuditEntry]]:
        """Read the audit page by page, all of one moment even if more is written: now, or a seq."""
        check_whole("size", size, least=1)
        check_whole("after", after)
        after = min(after, MAX_INTEGER - 1)
        auditor = None
        while True:
            with self._database.read() as log:
                auditor = auditor or audit.Auditor(log, as_of)
                page = auditor.page(log, after, rows_at_once(log, after, auditor.seq, size))
            if page:
                yield page
            if not page or page[-1].seq == auditor.seq:
                return
            after = page[-1].seq

    def audited(self, *, as_of: int | None = None) -> Callable[[int, int], list[AuditEntry]]:
        """A reader of so many entries after one, in any order, all of one moment: now, or a seq."""
        with self._database.read() as log:
            auditor = audit.Auditor(log, as_of)

        def read(after: int, limit: int) -> list[AuditEntry]:
            with self._database.read() as log:
                return auditor.page(log, after, limit)

        return read

    def envelopes(self, *, after: int, limit: int) -> list[Envelope]:
        """Read the first entries after an entry, without their contents."""
        check_whole("after", after)
        check_whole("limit", limit, least=1)
        return self._database.snapshot(read_envelopes, after, limit)

    def newest_notes(
        self, beginning: str, *, before: str | None = None, limit: int = 100
    ) -> list[Note]:
        """Read the newest note of each kind that begins like this, the greatest kind first.

        With `before`, only kinds that are smaller. Kinds are compared by code point. Notes about a
        message are left out.
        """
        check_id("beginning", beginning)
        if before is not None:
            check_id("before", before)
        check_whole("limit", limit, least=1)
        return self._database.lookup(notes.newest_of_kinds, beginning, before=before, limit=limit)

    def notes_page(
        self,
        note: str,
        *,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        target: int | None = None,
        newest: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> tuple[list[Note], int | None]:
        """Read some notes of a kind, oldest first, and after which the next page begins.

        They are those about a target, or about any and none; with `newest`, the last about each.
        """
        check_id("note", note)
        point = to_point("as_of", as_of, recorded=recorded)
        with self._database.read() as log:
            return notes.notes_page(
                log,
                note,
                seq_at(log, point),
                target=target,
                newest=newest,
                after=after,
                limit=limit,
            )

    def noted(self, client_ids: Sequence[str]) -> dict[str, Note]:
        """Read the notes that were written with these client ids, by client id."""
        for client_id in client_ids:
            check_id("client_id", client_id)
        return self._database.lookup(notes.written_by, client_ids)

    def first_written(self, client_id: str) -> int | None:
        """Return the first entry of the request with this client id; None if none was stored."""
        check_id("client_id", client_id)
        with self._database.read() as log:
            stored = stored_by(log, [client_id]).get(client_id)
        return None if stored is None else stored.seq

    def keep_frame(self, *, system: Any = None, tools: Sequence[Any] | None = None) -> bool:
        """Record the system prompt and the tools if they changed, and return whether they did.

        Omit one to leave it as it is. `manage` and `request` do this. If nothing can be written, or
        the store records no frames, the call does nothing.
        """
        given = GivenFrame.checked(system, tools)
        # Usually nothing has changed, and then no writer has to wait.
        is_new = self._database.snapshot(frame.frame_to_record, given) is not None
        if is_new and self._opened.record_frames:
            with suppress(StoreReadOnly):
                return self._database.write(frame.keep, given, self._opened.sources())
        return False
