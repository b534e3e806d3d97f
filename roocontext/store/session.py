"""One session's log. Each method that writes is one transaction around one function."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from roocontext.log.counting import Counter
from roocontext.log.draft import message_draft
from roocontext.log.encoding import check_id, check_integer
from roocontext.log.entries import BlockRef, NewMessage
from roocontext.log.plan import Committed, Plan
from roocontext.store.engine.check_arguments import (
    check_maybe,
    check_whole,
    given_messages,
    to_plan,
    to_rewind_target,
)
from roocontext.store.proof import rebuild
from roocontext.store.session_loop import SessionLoop
from roocontext.store.writing import (
    append,
    batch,
    commit,
    erase,
    kept_counts,
    new_session,
    notes,
    rewind,
    uncover,
)
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.batch import Written
from roocontext.store.writing.erase import Redacted
from roocontext.store.writing.items import AnyNote, Describe, Item, NewNote, Pin, Rename, Unpin
from roocontext.store.writing.kept_counts import Counted
from roocontext.store.writing.notes import drafted
from roocontext.store.writing.rewind import Rewound
from roocontext.store.writing.uncover import Uncovered


class Session(SessionLoop):
    """One session's log: append to it, read its view, rewind it, audit it.

    It holds no state of its own, so any number of them may refer to the same session at once.
    """

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

        With a `client_id` repeating the call is safe. With `expected_seq` the message is only
        written if that is still the session's head; otherwise VersionConflict names the head.
        """
        check_maybe("expected_seq", expected_seq)
        named = (ts, message_id, client_id, model, usage, extra, asked_at, answers)
        message = NewMessage(role, content, format, *named)
        draft = message_draft(message, now=self._clock(), salts=self._ids.salt)
        return append.append_message(self._database, self.id, draft, expected_seq)

    def append_many(
        self,
        messages: Iterable[NewMessage | Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
        skip_stored: bool = False,
    ) -> list[Receipt]:
        """Append messages in one transaction, all or none.

        If all of their client ids were stored before, their first receipts are returned; if some
        were, DuplicateMessage is raised. With `skip_stored`, those that were stored before with
        the same content are skipped, rewound ones too, and the others are appended in the given
        order.
        """
        check_maybe("expected_seq", expected_seq)
        now, salts = self._clock(), self._ids.salt
        drafts = [message_draft(one, now=now, salts=salts) for one in given_messages(messages)]
        return self._database.write(
            append.append_many, self.id, drafts, expected_seq, skip_stored=skip_stored
        )

    def commit(
        self,
        plan: Plan,
        *,
        dry_run: bool = False,
        notes: Sequence[NewNote] = (),
        counted: Counted | None = None,
    ) -> Committed:
        """Do what a plan says, if only appends came since it was made; or only say what it does.

        The notes are written right behind it, and what was `counted` for a snapshot is kept, all
        in the same transaction.
        """
        run = self._database.snapshot if dry_run else self._database.write
        now, salts = self._clock(), self._ids.salt
        return run(
            commit.commit,
            self.id,
            to_plan(plan),
            now=now,
            salts=salts,
            new_id=self._ids.new_id,
            dry_run=dry_run,
            new_notes=[drafted(note, now=now, salts=salts) for note in notes],
            counted=counted or Counted(),
        )

    def write_batch(
        self,
        items: Iterable[Item],
        *,
        expected_seq: int | None = None,
        skip_stored: bool = False,
    ) -> list[Written]:
        """Write messages, notes, plans and rewinds in one transaction, all or none.

        Plans and rewinds name the seqs that the batch's own entries will have; with any of them
        `expected_seq` is required. If all items were stored before, their first receipts are
        returned; if some were, nothing is written. With `skip_stored` these are skipped and the
        others are written: such a batch has messages and notes only, and no note of it is about
        an entry of its own.
        """
        now, salts = self._clock(), self._ids.salt
        return self._database.write(
            batch.write_batch,
            self.id,
            batch.ready_items(items, expected_seq, skip_stored=skip_stored, now=now, salts=salts),
            expected_seq,
            skip_stored=skip_stored,
            now=now,
            salts=salts,
            new_id=self._ids.new_id,
        )

    def rewind(
        self,
        to: int | str | datetime | None = None,
        *,
        ts: int | None = None,
        recorded: bool = False,
        keep_target: bool = True,
        expected_seq: int | None = None,
        trigger: str = "manual",
        dry_run: bool = False,
    ) -> Rewound:
        """Make the session what it was right after a seq, a message id, a datetime or a `ts`.

        Without the target (`keep_target=False`): right before it. A seq is any entry, also one
        that was taken back. A datetime is right before the first live entry that happened later,
        or with `recorded`, that was recorded later. Nothing is deleted, and `undo` takes the
        rewind back. A dry run writes nothing and returns what would be done.
        """
        target = to_rewind_target(to, ts, recorded=recorded)
        check_id("trigger", trigger)
        check_maybe("expected_seq", expected_seq)
        run = self._database.snapshot if dry_run else self._database.write
        return run(
            rewind.rewind,
            self.id,
            to=target,
            ts=ts,
            keep_target=keep_target,
            expected_seq=expected_seq,
            now=self._clock(),
            trigger=trigger,
            dry_run=dry_run,
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

    def uncover(
        self,
        seq: int,
        *,
        expected_seq: int | None = None,
        trigger: str = "manual",
        dry_run: bool = False,
    ) -> Uncovered:
        """Take back one summary, marker or clearing, and keep all that came after it.

        What it hid is visible again, and it is not. Nothing is deleted: a rewind to before the
        uncovering covers again. Doing it twice changes nothing. A dry run writes nothing and
        returns what would be done.
        """
        check_whole("seq", seq, least=1)
        check_maybe("expected_seq", expected_seq)
        check_id("trigger", trigger)
        run = self._database.snapshot if dry_run else self._database.write
        return run(
            uncover.uncover,
            self.id,
            seq=seq,
            expected_seq=expected_seq,
            now=self._clock(),
            trigger=trigger,
            dry_run=dry_run,
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

    def fork(
        self,
        at: int | None = None,
        *,
        session_id: str | None = None,
        parent: str | None = None,
        ts: int | None = None,
    ) -> "Session":
        """A new session that begins as a copy of this one up to entry `at`.

        It does not have the parent of this one. Give it a `parent` if it belongs to a family. Its
        own time begins now, or at `ts`: the messages that were copied do not count.
        """
        check_maybe("at", at)
        if parent is not None:
            check_id("parent", parent)
        if ts is not None:
            check_integer("ts", ts)
        name = self._ids.new_id() if session_id is None else session_id
        check_id("session_id", name)
        self._database.write(
            new_session.fork,
            self.id,
            name,
            at=at,
            parent=parent,
            ts=ts,
            now=self._clock(),
            salts=self._ids.salt,
        )
        return Session(
            self._database,
            name,
            clock=self._clock,
            ids=self._ids,
            parent=parent,
            record_frames=self._record_frames,
        )

    def redact(self, seq: int, *, dry_run: bool = False) -> Redacted:
        """Erase the content of a message, metadata or frame note for good, in every fork too."""
        check_whole("seq", seq, least=1)
        run = self._database.snapshot if dry_run else self._database.write
        done = run(
            erase.redact, self.id, seq, now=self._clock(), salts=self._ids.salt, dry_run=dry_run
        )
        if dry_run:
            return done
        return dataclasses.replace(done, erased=self._database.erase_free_space())

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

    def rebuild(self) -> int:
        """Compute the caches anew from the log; how many of their rows were wrong."""
        return self._database.write(rebuild.rebuild, self.id)

    def _note(self, new: AnyNote) -> Receipt:
        note = drafted(new, now=self._clock(), salts=self._ids.salt)
        return self._database.write(notes.write_note, self.id, note)
