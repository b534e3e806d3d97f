"""One session's log. Each method that writes is one transaction around one function."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from roocontext.errors import InvalidOption, StoreReadOnly
from roocontext.log.committed import Committed
from roocontext.log.counting import Counter
from roocontext.log.draft import message_draft
from roocontext.log.encoding import check_id
from roocontext.log.entries import BlockRef, NewMessage
from roocontext.log.frame import GivenFrame
from roocontext.log.plan import Plan
from roocontext.log.replies import read_reply
from roocontext.log.request import Request, compose_request
from roocontext.log.turns import PendingCall
from roocontext.store import (
    append,
    batch,
    commit,
    count,
    erase,
    fork,
    frame,
    loop,
    notes,
    rebuild,
    record,
    request,
    rewind,
    single,
    uncover,
)
from roocontext.store.append import Receipt
from roocontext.store.batch import Written
from roocontext.store.check_arguments import (
    check_maybe,
    check_moment,
    check_rewind,
    check_whole,
    to_messages,
    to_plan,
)
from roocontext.store.clock_and_ids import Clock, Ids
from roocontext.store.count import Counted
from roocontext.store.database import Database
from roocontext.store.erase import Redacted
from roocontext.store.items import AnyNote, Describe, Item, NewNote, Pin, Rename, Unpin
from roocontext.store.notes import drafted
from roocontext.store.rewind import Rewound
from roocontext.store.session_reader import SessionReader
from roocontext.store.uncover import Uncovered


class Session(SessionReader):
    """One session's log: append to it, read its view, rewind it, audit it.

    It holds no state of its own, so any number of them may speak of the same session at once.
    """

    def __init__(
        self,
        database: Database,
        session_id: str,
        *,
        parent: str | None = None,
        clock: Clock,
        ids: Ids,
        record_frames: bool = True,
    ) -> None:
        super().__init__(database, session_id, parent)
        self._clock = clock
        self._ids = ids
        self._record_frames = record_frames

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

    def begin(self, call: PendingCall | BlockRef) -> Receipt:
        """Note that a tool is about to run; `pending` then shows its call as begun.

        After a crash that tells a call that never ran from one that may have.
        """
        now, salts = self._clock(), self._ids.salt
        return self._database.write(loop.begin, self.id, call, now=now, salts=salts)

    def answer(
        self,
        call: PendingCall | BlockRef,
        output: Any,
        *,
        is_error: bool = False,
        extra: Any = None,
    ) -> Receipt:
        """Append the result of a tool call, in the format of the message that holds the call.

        A call has one answer: if a live result answers it already, nothing is written, and the
        receipt is that result's. A rewound one does not count. An `output` that is not text goes in
        as it is where the format has a place for its shape, else as its JSON.
        """
        asking = self._database.snapshot(loop.asking, self.id, call)
        place = loop.place_of(call)
        draft = loop.answer_draft(
            asking,
            place[1],
            output,
            is_error=is_error,
            extra=extra,
            now=self._clock(),
            salts=self._ids.salt,
        )
        return self._database.write(loop.answer, self.id, place, draft)

    def append_many(
        self, messages: Iterable[NewMessage | Mapping[str, Any]], *, expected_seq: int | None = None
    ) -> list[Receipt]:
        """Append messages in one transaction, all or none."""
        check_maybe("expected_seq", expected_seq)
        now, salts = self._clock(), self._ids.salt
        drafts = [message_draft(one, now=now, salts=salts) for one in to_messages(messages)]
        return self._database.write(append.append_many, self.id, drafts, expected_seq)

    def request(
        self,
        form: str = "anthropic",
        *,
        model: str | None = None,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        cache: bool = False,
        as_of: int | datetime | None = None,
        unanswered: bool = False,
        prefill: bool = False,
    ) -> Request:
        """Make the SDK's call for the model's turn: `client.messages.create(..., **request)`.

        `system` and `tools` are recorded when they change; what is left out is as it is recorded.
        The `model` is the one that is asked, by default that of the newest reply. With `cache`,
        Anthropic's breakpoints are set. When it is not the model's turn, NotTheModelsTurn is
        raised: unless calls wait and `unanswered` answers them with a fixed text, or `prefill`
        ends the request with the assistant's own words. `as_of` gives what the model got then, and
        records nothing.
        """
        check_moment("as_of", as_of)
        if model is not None:
            check_id("model", model)
        given = GivenFrame.checked(system, tools)
        asked: dict[str, Any] = {"model": model, "unanswered": unanswered, "prefill": prefill}
        read = self._database.snapshot(request.read_request, self.id, given, as_of=as_of, **asked)
        # Composed before anything is recorded: it may be refused.
        made = compose_request(read, form, cache=cache)
        if not (read.is_new and self._record_frames):
            return made
        now, salts = self._clock(), self._ids.salt
        with suppress(StoreReadOnly):
            read = self._database.write(
                request.keep_and_read, self.id, given, now=now, salts=salts, **asked
            )
        return compose_request(read, form, cache=cache)

    def record(self, reply: Any, request: Request | None = None, *, extra: Any = None) -> Receipt:
        """Append a model's reply: the SDK's object, or a dict of the same shape.

        Content, model and usage come from it, and so does the message id. Its id, its stop reason
        and the id of the HTTP request are kept in the message's `extra`. With the `request` that it
        answers, the entry that was read up to is stored. A reply that is recorded again gives the
        first receipt. Of a stream give the final object, or the list of Gemini's chunks.
        """
        if request is not None and not isinstance(request, Request):
            raise InvalidOption("The request is one that `request` made.", name="request")
        read = read_reply(reply)
        message = NewMessage(
            read.role,
            read.content,
            read.format,
            message_id=read.id,
            model=read.model,
            usage=read.usage,
            extra=extra,
            asked_at=None if request is None else request.seq,
        )
        now, salts = self._clock(), self._ids.salt
        draft = message_draft(message, now=now, salts=salts, kept=read.kept())
        return self._database.write(record.record, self.id, draft)

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

    def uncover(
        self, seq: int, *, expected_seq: int | None = None, trigger: str = "manual"
    ) -> Uncovered:
        """Take back one summary, marker or clearing, and keep all that came after it.

        What it hid is visible again, and it is not. Nothing is deleted: a rewind to before the
        uncovering covers again. Doing it twice changes nothing.
        """
        check_whole("seq", seq, least=1)
        check_maybe("expected_seq", expected_seq)
        check_id("trigger", trigger)
        return self._database.write(
            uncover.uncover,
            self.id,
            seq=seq,
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
        return Session(
            self._database,
            name,
            clock=self._clock,
            ids=self._ids,
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

    def keep_frame(self, *, system: Any = None, tools: Sequence[Any] | None = None) -> bool:
        """Record the system prompt and the tools if they changed, and return whether they did.

        What is left out stays as it is recorded. `manage` and `request` do this. If nothing can be
        written, or the store records no frames, the call does nothing.
        """
        given = GivenFrame.checked(system, tools)
        if (
            not self._record_frames
            or self._database.snapshot(frame.changed, self.id, given) is None
        ):
            return False
        with suppress(StoreReadOnly):
            return self._database.write(
                frame.keep, self.id, given, now=self._clock(), salts=self._ids.salt
            )
        return False

    def keep_counts(self, counted: Counted) -> bool:
        """Store what was counted for a snapshot, and return whether any of it is new.

        The counts are a cache: if nothing can be written, the call does nothing.
        """
        return count.keep_if_possible(self._database, self.id, counted)

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
