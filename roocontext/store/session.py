"""One session's log. Each method is one transaction around one function."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from roocontext.errors import InvalidOption, StoreFull, StoreReadOnly
from roocontext.log.counting import Counter
from roocontext.log.draft import message_draft
from roocontext.log.encoding import MAX_INTEGER, check_id
from roocontext.log.entries import BlockRef, Message, NewMessage, View
from roocontext.log.plan import Plan
from roocontext.log.sendable import Repair, sendable
from roocontext.store import (
    append,
    audit,
    batch,
    commit,
    count,
    erase,
    fork,
    live,
    notes,
    outline,
    rebuild,
    rewind,
    sessions,
    single,
    verify,
    view,
)
from roocontext.store.append import Receipt
from roocontext.store.audit import AuditEntry, Diff
from roocontext.store.batch import Written
from roocontext.store.check_arguments import (
    check_maybe,
    check_moment,
    check_page,
    check_rewind,
    check_whole,
    to_messages,
    to_plan,
)
from roocontext.store.clock_and_ids import Clock, Ids
from roocontext.store.commit import Committed
from roocontext.store.count import Call
from roocontext.store.database import Database
from roocontext.store.erase import Redacted
from roocontext.store.items import AnyNote, Describe, Item, NewNote, Pin, Rename, Unpin
from roocontext.store.live import LiveMessage
from roocontext.store.notes import Note
from roocontext.store.outline import Outline
from roocontext.store.rewind import Rewound
from roocontext.store.sessions import SessionInfo, Stats
from roocontext.store.verify import Head, Progress, Verification

AUDIT_PAGE = 500

Result = TypeVar("Result")


class Session:
    """One session's log: append to it, read its view, rewind it, audit it.

    It holds no state of its own, so any number of them may speak of the same session at once.
    """

    def __init__(self, database: Database, session_id: str, *, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self.id = session_id

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    # Writing

    def append(
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
        extra: Any = None,
        asked_at: int | None = None,
        answers: BlockRef | None = None,
        expected_seq: int | None = None,
    ) -> Receipt:
        """Append a message; it is durable once the receipt is returned.

        With a `client_id` repeating the call is safe. With `expected_seq` it is only written if
        the session's head is still that, else VersionConflict tells the current one.
        """
        check_maybe("expected_seq", expected_seq)
        named = (ts, message_id, client_id, model, usage, extra, asked_at, answers)
        message = NewMessage(role, content, format, *named)
        draft = message_draft(message, now=self._clock(), salts=self._ids.salt)
        return single.append(self._database, self.id, draft, expected_seq)

    def append_many(
        self, messages: Iterable[NewMessage | Mapping[str, Any]], *, expected_seq: int | None = None
    ) -> list[Receipt]:
        """Append messages in one transaction, all or none."""
        check_maybe("expected_seq", expected_seq)
        now, salts = self._clock(), self._ids.salt
        drafts = [message_draft(one, now=now, salts=salts) for one in to_messages(messages)]
        return self._database.write(append.append_many, self.id, drafts, expected_seq)

    def commit(self, plan: Plan, *, dry_run: bool = False) -> Committed:
        """Do what a plan says, if only appends came since it was made; or only say what it does."""
        run = self._database.snapshot if dry_run else self._database.write
        return run(
            commit.commit,
            self.id,
            to_plan(plan),
            now=self._clock(),
            salts=self._ids.salt,
            new_id=self._ids.new_id,
            dry_run=dry_run,
        )

    def write_batch(
        self, items: Iterable[Item], *, expected_seq: int | None = None
    ) -> list[Written]:
        """Write messages, notes, plans and rewinds in one transaction, all or none.

        Plans and rewinds name the seqs that the batch's own entries will have; with any of them
        `expected_seq` is required. If all items were stored before, their first receipts are
        returned; if some were, nothing is written.
        """
        run, now, salts = self._database.write, self._clock(), self._ids.salt
        ready = batch.prepared(items, expected_seq, now=now, salts=salts)
        sources = {"now": now, "salts": salts, "new_id": self._ids.new_id}
        return run(batch.write_batch, self.id, ready, expected_seq, **sources)

    def rewind(
        self,
        to: int | str | datetime | None = None,
        *,
        ts: int | None = None,
        keep_target: bool = True,
        expected_seq: int | None = None,
        trigger: str = "manual",
    ) -> Rewound:
        """Make the session what it was right after a seq, a message id, a datetime or a `ts`.

        Without the target (`keep_target=False`): right before it. A seq is any entry, also one
        that was taken back. Nothing is deleted, and `undo` takes the rewind back.
        """
        check_rewind(to, ts)
        check_id("trigger", trigger)
        check_maybe("expected_seq", expected_seq)
        return self._database.write(
            rewind.rewind,
            self.id,
            to=to,
            ts=ts,
            keep_target=keep_target,
            expected_seq=expected_seq,
            now=self._clock(),
            trigger=trigger,
        )

    def undo(
        self,
        *,
        of: int | None = None,
        force: bool = False,
        expected_seq: int | None = None,
        trigger: str = "manual",
    ) -> Rewound:
        """Take back the newest rewind, undos included: twice is a redo.

        Refused when messages came since, unless `force` is set; they are hidden then.
        """
        check_maybe("of", of)
        check_id("trigger", trigger)
        check_maybe("expected_seq", expected_seq)
        return self._database.write(
            rewind.undo,
            self.id,
            of=of,
            force=force,
            expected_seq=expected_seq,
            now=self._clock(),
            trigger=trigger,
        )

    def pin(self, seq: int, *, client_id: str | None = None) -> Receipt:
        """Let no later plan hide or clear this message."""
        return self._note(Pin(seq, client_id))

    def unpin(self, seq: int, *, client_id: str | None = None) -> Receipt:
        """Take back a pin."""
        return self._note(Unpin(seq, client_id))

    def rename(self, title: str, *, client_id: str | None = None) -> Receipt:
        """Give the session another title."""
        return self._note(Rename(title, client_id))

    def describe(self, metadata: Mapping[str, Any], *, client_id: str | None = None) -> Receipt:
        """Give the session other metadata."""
        return self._note(Describe(metadata, client_id))

    def note(
        self,
        note: str,
        content: Mapping[str, Any],
        *,
        target: int | None = None,
        ts: int | None = None,
        client_id: str | None = None,
    ) -> Receipt:
        """Log something that no model sees. With a `client_id` repeating the call is safe."""
        return self._note(NewNote(note, content, target, ts, client_id))

    def fork(self, at: int | None = None, *, session_id: str | None = None) -> "Session":
        """A new session that begins as a copy of this one up to entry `at`."""
        check_maybe("at", at)
        name = self._ids.new_id() if session_id is None else session_id
        check_id("session_id", name)
        self._database.write(
            fork.fork, self.id, name, at=at, now=self._clock(), salts=self._ids.salt
        )
        return Session(self._database, name, clock=self._clock, ids=self._ids)

    def redact(self, seq: int, *, dry_run: bool = False) -> Redacted:
        """Erase one message's content for good, here and in every fork that copied it."""
        check_whole("seq", seq, least=1)
        run = self._database.snapshot if dry_run else self._database.write
        done = run(
            erase.redact, self.id, seq, now=self._clock(), salts=self._ids.salt, dry_run=dry_run
        )
        if dry_run:
            return done
        return dataclasses.replace(done, erased=self._database.erase_free_space())

    # Reading

    def info(self) -> SessionInfo:
        """Title, metadata, times and sizes."""
        return self._database.snapshot(sessions.info, self.id)

    def head_seq(self) -> int:
        """The last fold entry: what `expected_seq` and plans are compared with."""
        return self._database.snapshot(append.read_head, self.id).head_seq

    def view(
        self,
        *,
        as_of: int | datetime | None = None,
        after: int | None = None,
        limit: int | None = None,
        before: int | None = None,
        last: int | None = None,
    ) -> View:
        """What the model sees, or saw; or a page of it.

        `limit` messages from the start or behind the message `after`; or the `last` messages, or
        the last ones ahead of the message `before`, which costs the same however long the view is.
        """
        check_moment("as_of", as_of)
        check_page(after, limit, before, last)
        read = self._database.snapshot
        if last is not None:
            return read(view.read_newest, self.id, as_of=as_of, before=before, last=last)
        return read(view.read_view, self.id, as_of=as_of, after=after, limit=limit)

    def pages(self, size: int = 200, *, as_of: int | datetime | None = None) -> Iterator[View]:
        """The view page by page, all of one moment whatever is written meanwhile."""
        page = self.view(as_of=as_of, limit=size)
        moment = page.seq
        while page.messages:
            yield page
            page = self.view(as_of=moment, after=page.messages[-1].seq, limit=size)

    def messages(self, *, as_of: int | datetime | None = None) -> list[dict[str, Any]]:
        """The view as the Anthropic Messages API accepts it; see `validate` for what it mends."""
        return sendable(self.view(as_of=as_of).messages).messages

    def validate(self, *, as_of: int | datetime | None = None) -> tuple[Repair, ...]:
        """What `messages` had to mend for the provider. The log is never mended."""
        return sendable(self.view(as_of=as_of).messages).repairs

    def audit(self, *, after: int = 0) -> Iterator[AuditEntry]:
        """Every entry ever written, in order, with why each is or is not visible now."""
        for page in self.audit_pages(AUDIT_PAGE, after=after):
            yield from page

    def audit_pages(self, size: int, *, after: int = 0) -> Iterator[list[AuditEntry]]:
        """The audit page by page, all of one moment whatever is written meanwhile."""
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

    def diff(self, old: int | datetime, new: int | datetime | None = None) -> Diff:
        """What left the view and what came into it between two points; the second is now."""
        check_moment("old", old)
        check_moment("new", new)
        with self._database.read() as tx:
            points = (view.moment(tx, self.id, point) for point in (old, new))
            return audit.diff(tx, self.id, *points)

    def message(self, seq: int) -> Message:
        """One message, visible or not, as it was written."""
        check_whole("seq", seq, least=1)
        return self._database.snapshot(view.read_message, self.id, seq)

    def notes(self, note: str, *, as_of: int | datetime | None = None) -> list[Note]:
        """All notes of a kind, oldest first; the newest of each target counts."""
        check_id("note", note)
        return self._read_at(as_of, notes.read_notes, note)

    def newest_note(
        self, note: str, *, target: int | None = None, as_of: int | datetime | None = None
    ) -> Note | None:
        """The note of a kind and target that counts; None if there is none. Reads one row."""
        check_id("note", note)
        check_maybe("target", target, least=1)
        return self._read_at(as_of, notes.newest_note, note, target)

    def pins(self, *, as_of: int | datetime | None = None) -> frozenset[int]:
        """The messages that are pinned."""
        return frozenset(self._read_at(as_of, notes.pinned))

    def stats(self) -> Stats:
        """How many messages and bytes are visible, hidden and taken back."""
        return self._database.snapshot(sessions.stats, self.id)

    def outline(self) -> Outline:
        """What became of the entries, by control rows and parts. No content is read."""
        return self._database.snapshot(outline.outline, self.id)

    def live(self) -> list[LiveMessage]:
        """Every live message in view order, those hidden by a summary or marker too."""
        return self._database.snapshot(live.read_live, self.id)

    def visible_bytes(self) -> int:
        """How many bytes the view's contents take as stored, cleared blocks included."""
        return self._database.snapshot(sessions.visible_bytes, self.id)

    def tokens(
        self, counter: Counter, *, as_of: int | datetime | None = None, after: int = 0
    ) -> int:
        """What the view costs by a counter, or the part of it that follows entry `after`.

        Each message is counted once and remembered.
        """
        check_moment("as_of", as_of)
        check_whole("after", after)
        return count.tokens(self._database, self.id, counter, as_of=as_of, after=after)

    def counts(self, counter: Counter, *, hidden: bool = False) -> dict[int, int]:
        """What each message of the view costs, by seq; with `hidden`, each live message."""
        return count.counts_of(self._database, self.id, counter, hidden=hidden)

    def calls(self, *, last: int | None = None) -> list[Call]:
        """The calls of models whose usage was given, oldest first, among the `last` entries."""
        check_maybe("last", last)
        return self._database.snapshot(count.calls, self.id, last=last)

    def keep_estimate(self, seq: int, counter: Counter, estimate: int) -> bool:
        """Keep what the request that message `seq` answers was estimated at; whether it is new.

        A cache, no entry.
        """
        check_whole("seq", seq, least=1)
        check_whole("estimate", estimate)
        try:
            return self._database.write(count.keep_estimate, self.id, counter, seq, estimate)
        except (StoreReadOnly, StoreFull):
            return False

    # Proving

    def head(self) -> Head:
        """The last entry and its hash: kept elsewhere, it makes a cut tail show."""
        return self._database.snapshot(verify.head_of, self.id)

    def verify(
        self, saved: Head | None = None, *, progress: Progress | None = None
    ) -> Verification:
        """Check every hash, place, total and cache, and that the log goes on from a saved head."""
        if saved is not None and not (isinstance(saved, Head) and saved.session_id == self.id):
            raise InvalidOption("It is no saved head of this session.", name="saved")
        return verify.verify(self._database, self.id, saved, progress)

    def rebuild(self) -> int:
        """Compute the caches anew from the log; how many of their rows were wrong."""
        return self._database.write(rebuild.rebuild, self.id)

    def _note(self, new: AnyNote) -> Receipt:
        drafted = notes.drafted(new, now=self._clock(), salts=self._ids.salt)
        return self._database.write(notes.write_note, self.id, drafted)

    def _read_at(
        self, as_of: int | datetime | None, operation: Callable[..., Result], *args: Any
    ) -> Result:
        """Run a read whose last argument is the seq that a moment names."""
        check_moment("as_of", as_of)
        with self._database.read() as tx:
            return operation(tx, self.id, *args, view.moment(tx, self.id, as_of))
