"""All that can be asked of a session. Each method is one snapshot around one function."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from roocontext.errors import InvalidOption
from roocontext.log.counting import Counter, ReportedUsage, counter_named
from roocontext.log.encoding import MAX_INTEGER, check_id, check_model
from roocontext.log.entries import Message, View
from roocontext.log.forms import Outgoing, Repair
from roocontext.log.moments import Point
from roocontext.log.request import Frame
from roocontext.log.turns import PendingCall, WaitsFor
from roocontext.store.counting import count
from roocontext.store.counting.count import Restorable
from roocontext.store.counting.snapshot import Snapshot, Wanted, read_snapshot
from roocontext.store.engine.check_arguments import check_maybe, check_page, check_whole, to_point
from roocontext.store.engine.database import Database
from roocontext.store.engine.transaction import Transaction
from roocontext.store.loop import frame, request, turns
from roocontext.store.proof import restore, verify
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.proof.verify import Head, Progress, Verification
from roocontext.store.reading import audit, head, live, notes, usage, view, view_current, view_tail
from roocontext.store.reading.audit import AuditEntry, Diff
from roocontext.store.reading.live import LiveMessage, Original, read_originals
from roocontext.store.reading.notes import Note, newest_note, pinned, read_notes
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.reading.usage import Call
from roocontext.store.sessions import sessions
from roocontext.store.sessions.sessions import Outline, SessionInfo, Stats
from roocontext.store.writing import uncover

AUDIT_PAGE = 500

Result = TypeVar("Result")


class SessionReader:
    """Reads one session's log: its view, its audit, its notes, its sizes, and their proof.

    `parent` is the id that was given when the session was created, also if that one is purged.
    """

    def __init__(self, database: Database, session_id: str, parent: str | None) -> None:
        self._database = database
        self.id = session_id
        self.parent = parent

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def info(self) -> SessionInfo:
        """Title, metadata, times and sizes."""
        return self._database.lookup(sessions.info, self.id)

    def children(self) -> list[SessionInfo]:
        """The sessions whose parent this is, in the order of their creation."""
        return self._database.lookup(sessions.children, self.id)

    def head_seq(self) -> int:
        """The last fold entry: what `expected_seq` and plans are compared with."""
        return self._database.lookup(head.read_head, self.id).head_seq

    def waits_for(self) -> WaitsFor:
        """Whose turn it is, by what is recorded: "user", "tools" or "model".

        An agent's loop that asks this continues after a crash where it was.
        """
        return self._database.snapshot(turns.waits_for, self.id)

    def pending(self) -> list[PendingCall]:
        """The tool calls of the last replies that no result answers, oldest first.

        None if the user has spoken since.
        """
        return self._database.snapshot(turns.pending, self.id)

    def view(
        self,
        *,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        after: int | None = None,
        limit: int | None = None,
        before: int | None = None,
        last: int | None = None,
    ) -> View:
        """What the model sees, or saw; or a page of it.

        A datetime is right before the first entry that happened later; with `recorded`, right after
        the last one that the store had recorded by then.

        `limit` messages from the start or behind the message `after`; or the `last` messages, or
        the last ones ahead of the message `before`, which costs the same however long the view is.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        check_page(after, limit, before, last)
        read = self._database.snapshot
        if last is not None:
            return read(view_tail.read_newest, self.id, as_of=point, before=before, last=last)
        if as_of is None and after is None and limit is None:
            return view_current.view_now(self._database, self.id)
        asked: dict[str, Any] = {"as_of": point, "after": after, "limit": limit}
        return read(view.read_view, self.id, **asked)

    def pages(
        self, size: int = 200, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> Iterator[View]:
        """The view page by page, all pages of one moment, even if more is written."""
        page = self.view(as_of=as_of, recorded=recorded, limit=size)
        moment = page.seq
        while page.messages:
            yield page
            page = self.view(as_of=moment, after=page.messages[-1].seq, limit=size)

    def frame(self, *, as_of: int | datetime | None = None, recorded: bool = False) -> Frame | None:
        """The system prompt and tools that were recorded last; None if none were.

        What a redaction left of them has neither.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        return self._database.snapshot(frame.read_frame, self.id, point)

    def messages(
        self,
        form: str = "anthropic",
        *,
        model: str | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> list[dict[str, Any]]:
        """The view as a provider accepts it; `validate` lists what had to be repaired.

        Forms are `anthropic`, `openai` (Chat Completions), `openai-responses` and `gemini`.
        Thinking only goes to the model that wrote it: `model`, by default that of the newest reply.
        """
        return self._composed(form, model, to_point("as_of", as_of, recorded=recorded)).messages

    def validate(
        self,
        form: str = "anthropic",
        *,
        model: str | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> tuple[Repair, ...]:
        """What `messages` has to repair for the provider. The log itself is never changed."""
        return self._composed(form, model, to_point("as_of", as_of, recorded=recorded)).repairs

    def _composed(self, form: str, model: str | None, as_of: Point) -> Outgoing:
        if model is not None:
            check_model(model)
        read = request.sendable(self._database, self.id, model=model, as_of=as_of)
        return read.compose(form)

    def audit(self, *, after: int = 0) -> Iterator[AuditEntry]:
        """Every entry ever written, in order, with why each is or is not visible now."""
        for page in self.audit_pages(AUDIT_PAGE, after=after):
            yield from page

    def audit_pages(self, size: int, *, after: int = 0) -> Iterator[list[AuditEntry]]:
        """The audit page by page, all pages of one moment, even if more is written."""
        check_whole("size", size, least=1)
        check_whole("after", after)
        after = min(after, MAX_INTEGER - 1)
        with self._database.read() as tx:
            auditor = audit.Auditor(tx, self.id)
            page = auditor.page(tx, after, size)
        while page:
            yield page
            if len(page) < size:
                return
            with self._database.read() as tx:
                page = auditor.page(tx, page[-1].seq, size)

    def stored(self, *, last: int | None = None) -> Iterator[StoredEntry]:
        """Every entry up to `last` exactly as it is stored, for `Store.restore` of another store.

        Raises VersionConflict at the end if one of them was redacted in the meantime.
        """
        check_maybe("last", last)
        seq, end = 0, self.head().seq if last is None else last
        while seq < end:
            with self._database.read() as tx:
                page = restore.read_stored(tx, self.id, seq, end)
                restore.check_not_redacted_since(tx, self.id, end)
            if not page:
                return
            yield from page
            seq = page[-1].seq

    def diff(
        self,
        old: int | datetime,
        new: int | datetime | None = None,
        *,
        recorded: bool = False,
    ) -> Diff:
        """What left the view and what came into it between two points; the second is now."""
        points = [
            to_point(name, point, recorded=recorded) for name, point in (("old", old), ("new", new))
        ]
        with self._database.read() as tx:
            seqs = (seq_at(tx, self.id, point) for point in points)
            return audit.diff(tx, self.id, *seqs)

    def message(self, seq: int) -> Message:
        """One message, visible or not, as it was written."""
        check_whole("seq", seq, least=1)
        return self._database.snapshot(view.read_message, self.id, seq)

    def find_message(self, message_id: str) -> int:
        """The entry of the newest live message with this id of the agent's.

        If none is live, the newest that a rewind took back.
        """
        check_id("message_id", message_id)
        return self._database.snapshot(live.find_message, self.id, message_id)

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

    def notes(
        self, note: str, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> list[Note]:
        """All notes of a kind, oldest first; the newest of each target counts."""
        check_id("note", note)
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded),
            lambda tx, seq: read_notes(tx, self.id, note, seq),
        )

    def newest_note(
        self,
        note: str,
        *,
        target: int | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> Note | None:
        """The note of a kind and target that counts; None if there is none. Reads one row."""
        check_id("note", note)
        check_maybe("target", target, least=1)
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded),
            lambda tx, seq: newest_note(tx, self.id, note, target, seq),
        )

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

    def uncovered_since(self, seq: int) -> bool:
        """Whether anything was uncovered after entry `seq`."""
        check_whole("seq", seq)
        return self._database.lookup(uncover.newest_uncovering, self.id, seq) is not None

    def restorable(
        self, counters: Sequence[Counter], *, given: Sequence[int] = ()
    ) -> Restorable | None:
        """The newest entry that `uncover` would take back, and what the view would cost then.

        It is looked for as if the `given` entries were uncovered already. None if there is none.
        """
        return count.restorable(self._database, self.id, counters, given)

    def pins(
        self, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> frozenset[int]:
        """The messages that are pinned."""
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded),
            lambda tx, seq: frozenset(pinned(tx, self.id, seq)),
        )

    def stats(self) -> Stats:
        """How many messages and bytes are visible, hidden and taken back."""
        return self._database.snapshot(sessions.stats, self.id)

    def outline(self) -> Outline:
        """What became of the entries, by control rows and parts. No content is read."""
        return self._database.snapshot(sessions.outline, self.id)

    def live(self) -> list[LiveMessage]:
        """Every live message in view order, those hidden by a summary or marker too."""
        return self._database.snapshot(live.read_live, self.id)

    def visible_bytes(self) -> int:
        """How many bytes the view's contents take as stored, cleared blocks included."""
        return self._database.snapshot(sessions.visible_bytes, self.id)

    def tokens(
        self,
        counter: Counter | str,
        *,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        after: int = 0,
    ) -> int:
        """What the view costs by a counter, or the part of it that follows entry `after`.

        The counter is given itself or by its name, such as `o200k_base`. Each message is counted
        once and remembered.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        check_whole("after", after)
        chosen = counter_named(counter)
        return count.tokens(self._database, self.id, chosen, as_of=point, after=after)

    def counts(self, counter: Counter | str, *, hidden: bool = False) -> dict[int, int]:
        """What each message of the view costs, by seq; with `hidden`, each live message."""
        return count.counts_of(self._database, self.id, counter_named(counter), hidden=hidden)

    def calls(self, *, last: int | None = None) -> list[Call]:
        """The calls of models whose usage was given, oldest first, among the `last` entries."""
        check_maybe("last", last)
        return self._database.snapshot(usage.model_calls, self.id, last=last)

    def usage(self, *, family: bool = False) -> list[ReportedUsage]:
        """What was reported for each reply and each summary; `tokens.spending` sums it up.

        With `family`, also of the sessions whose parent this is, and theirs. The entries that a
        fork has copied are left out. No content is read.
        """
        return self._database.snapshot(usage.reported, self.id, family=family)

    def snapshot(self, wanted: Wanted) -> Snapshot:
        """Everything that a manager needs of the session, read at one moment.

        The snapshot's new counts are not stored. Pass them to the next `commit` or to
        `keep_counts`.
        """
        return read_snapshot(self._database, self.id, wanted)

    def head(self) -> Head:
        """The last entry and its hash. Kept elsewhere, it reveals a log that was cut off."""
        return self._database.lookup(verify.head_of, self.id)

    def verify(
        self, saved: Head | None = None, *, progress: Progress | None = None
    ) -> Verification:
        """Check every hash, place, total and cache, and that the log continues a saved head."""
        if saved is not None and not (isinstance(saved, Head) and saved.session_id == self.id):
            raise InvalidOption("It is no saved head of this session.", name="saved")
        return verify.verify(self._database, self.id, saved, progress)

    def _read_at(self, as_of: Point, read: Callable[[Transaction, int], Result]) -> Result:
        """Read something at the seq that a point names."""
        with self._database.read() as tx:
            return read(tx, seq_at(tx, self.id, as_of))
