"""Session: the log of one session. Each method runs one function in one transaction."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from roocontext.errors import InvalidOption, StoreReadOnly
from roocontext.log.counting import Counter, ReportedUsage, counter_named
from roocontext.log.draft import each_drafted, message_draft
from roocontext.log.encoding import check_id, check_integer, check_model
from roocontext.log.entries import BlockRef, Message, NewMessage, View
from roocontext.log.forms import Form, Outgoing, Repair, form_named
from roocontext.log.moments import Point
from roocontext.log.plan import Committed, Plan
from roocontext.log.replies import read_reply
from roocontext.log.request import Frame, GivenFrame, Request, compose_request
from roocontext.log.turns import PendingCall, WaitsFor
from roocontext.store.counting import count
from roocontext.store.engine.check_arguments import (
    check_mapping,
    check_maybe,
    check_progress,
    check_whole,
    given_messages,
    to_plan,
    to_point,
    to_rewind_target,
)
from roocontext.store.engine.observing import observed
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.internals import AUDIT_PAGE, OpenedStore, SessionInternals
from roocontext.store.loop import frame, request, turns
from roocontext.store.proof import rebuild, verify
from roocontext.store.proof.verify import Head, Progress, Verification
from roocontext.store.reading import audit, head, live, usage
from roocontext.store.reading.audit import AuditEntry, Diff
from roocontext.store.reading.head import RequestedChange
from roocontext.store.reading.messages import read_message
from roocontext.store.reading.notes import Note, newest_note, pinned, read_notes
from roocontext.store.reading.pages import Page, to_limit
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.reading.view import WHOLE, read_view, to_part, view_now
from roocontext.store.sessions import sessions
from roocontext.store.sessions.sessions import SessionInfo, Stats
from roocontext.store.writing import (
    append,
    batch,
    commit,
    erase,
    new_session,
    notes,
    record,
    rewind,
    uncover,
)
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.batch import Written
from roocontext.store.writing.erase import Redacted
from roocontext.store.writing.items import AnyNote, Item, NewNote, Pin, SetMetadata, SetTitle, Unpin
from roocontext.store.writing.kept_counts import Counted
from roocontext.store.writing.notes import drafted
from roocontext.store.writing.record import RecordedReply
from roocontext.store.writing.rewind import Rewound
from roocontext.store.writing.uncover import Uncovered

if TYPE_CHECKING:
    from roocontext.store.turn import SessionTurn

Result = TypeVar("Result")


@observed
class Session:
    """One session's log: append to it, read its view, rewind it, audit it.

    A Session object has no state of its own: any number of them may refer to the same session.
    `parent` is the id that was given when the session was created, even if that session is purged.
    """

    def __init__(self, opened: OpenedStore, session_id: str, parent: str | None = None) -> None:
        self._opened = opened
        self._database = opened.database.of(session_id)
        self.id = session_id
        self.parent = parent

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    @property
    def internals(self) -> SessionInternals:
        """Operations for other packages of roocontext; not part of the API."""
        return SessionInternals(self._opened, self.id, self._database)

    def info(self) -> SessionInfo:
        """Read the title, metadata, times and sizes of the session."""
        return self._database.lookup(sessions.info)

    def children(self, *, limit: int | None = None, after: str | None = None) -> Page[SessionInfo]:
        """List the sessions whose parent this is, in the order of their creation."""
        return self._database.lookup(sessions.children, to_limit(limit), after)

    def head_seq(self) -> int:
        """Return the seq of the last entry that is not a note, for `expected_seq`."""
        return self._database.lookup(head.read_head).head_seq

    def waits_for(self) -> WaitsFor:
        """Return whose turn it is by what is recorded: "user", "tools" or "model".

        An agent's loop that asks this before each step continues after a crash where it stopped.
        """
        return self._database.snapshot(turns.waits_for)

    def pending(self) -> list[PendingCall]:
        """Return the tool calls of the last replies that no result answers, oldest first.

        If the user has spoken since, no call is pending.
        """
        return self._database.snapshot(turns.pending)

    def turn(
        self, lease: float = 60, wait: float = 0, *, holder: str | None = None
    ) -> "SessionTurn":
        """Take the session's turn: `with chat.turn() as turn`, so that one runner works on it.

        `turn` is this session, and what is written through it is refused with TurnLost once another
        runner has taken over. The lease is `lease` seconds, and is renewed as long as the process
        lives. If another runner has the turn for more than `wait` seconds, TurnTaken names it by
        its `holder`, which is by default the host and the process.
        """
        from roocontext.store.turn import SessionTurn  # noqa: PLC0415 - it is a session itself

        return SessionTurn(
            self._opened, self.id, self.parent, lease=lease, wait=wait, holder=holder
        )

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
        """Append a message. It is durable when the receipt is returned.

        With a `client_id` it is safe to repeat the call. With `expected_seq` the message is only
        written if that is still the session's head; otherwise VersionConflict names the head.
        """
        check_maybe("expected_seq", expected_seq)
        named = (ts, message_id, client_id, model, usage, extra, asked_at, answers)
        message = NewMessage(role, content, format, *named)
        draft = message_draft(message, self._opened.sources())
        return append.append_message(self._database, draft, expected_seq)

    def append_many(
        self,
        messages: Iterable[NewMessage | Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
        skip_stored: bool = False,
    ) -> list[Receipt]:
        """Append messages in one transaction: all of them or none.

        If all of their client ids were stored before, their first receipts are returned; if only
        some were, DuplicateMessage is raised. With `skip_stored`, messages that were stored before
        with the same content are skipped, even if they were rewound, and the others are appended.
        """
        check_maybe("expected_seq", expected_seq)
        draft = partial(message_draft, sources=self._opened.sources())
        drafts = each_drafted("messages", given_messages(messages), draft)
        return self._database.write(
            append.append_many, drafts, expected_seq, skip_stored=skip_stored
        )

    def request(
        self,
        form: str | Form = "anthropic",
        *,
        model: str | None = None,
        dialect: str | None = None,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        cache: bool = False,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        unanswered: bool = False,
        prefill: bool = False,
        compact: bool = False,
        context_management: Any = None,
        betas: Sequence[str] | None = None,
    ) -> Request:
        """Make the arguments of the SDK's call: `client.messages.create(..., **request)`.

        `system` and `tools` are recorded when they change; omit one to send it as it is recorded.
        `model` is the model that will be asked, by default that of the newest reply. `dialect` is
        the server that gets a request in the form `openai`, such as `deepseek`; by default it
        follows from the model's replies. `cache` sets Anthropic's cache breakpoints. With `as_of`,
        the request is what the model got then, and nothing is recorded.

        When it is not the model's turn, NotTheModelsTurn is raised. `unanswered` answers waiting
        calls with a fixed text instead, and `prefill` lets the assistant continue its last words.

        `compact` asks the provider to compact the history, on anybody's turn unless calls wait. The
        arguments are then those of Anthropic's `beta.messages.create` or OpenAI's
        `responses.compact`. `context_management` and Anthropic's `betas` are passed on to the
        provider as they are; the `options` of an outcome of the policy `server` hold them.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        if model is not None:
            check_model(model)
        given = GivenFrame.checked(system, tools)
        asked: dict[str, Any] = {"model": model, "unanswered": unanswered, "prefill": prefill}
        asked["compact"] = compact
        read = self._database.snapshot(request.read_request, given, as_of=point, **asked)
        # Composed before the frame is recorded, because it may be refused.
        made: dict[str, Any] = {"dialect": dialect, "cache": cache, "compact": compact}
        made["management"] = {"context_management": context_management, "betas": betas}
        composed = compose_request(read, form, **made)
        if not (read.is_new and self._opened.record_frames):
            return composed
        with suppress(StoreReadOnly):
            self._database.write(frame.keep, given, self._opened.sources())
            # Read again after the note of the frame: `seq` is the last entry that was read.
            read = self._database.snapshot(request.read_request, given, as_of=None, **asked)
        return compose_request(read, form, **made)

    def record(
        self, reply: Any, request: Request | None = None, *, extra: Any = None
    ) -> RecordedReply:
        """Append a model's reply: the SDK's object, or a dict of the same shape.

        Content, model, usage and message id are taken from it. Its id, its stop reason, the id of
        the HTTP request and the model's name in the request are stored in the message's `extra`;
        the `request` that it answers says which entries the model had read, and which tools had
        other names in it. For a stream, pass the final object, or the list of its chunks.

        A reply that was recorded before returns the first receipt. The same id with other content,
        for the same request, raises DuplicateMessage.

        If the provider compacted the history in this reply, the messages that it had read are
        hidden in the same transaction, as by a summary. The receipt names the entry that hides
        them.
        """
        if request is not None and not isinstance(request, Request):
            raise InvalidOption("request must be what `request()` returned.", name="request")
        read = read_reply(reply)
        requested = None if request is None else request.requested
        if request is not None:
            read = read.with_names(request.names)
        elif read.has_made_names:
            read = read.with_names(self._database.snapshot(frame.sent_names, read.format))
        message = NewMessage(
            read.role,
            read.content,
            read.format,
            message_id=read.id,
            model=request.model if read.model is None and request is not None else read.model,
            usage=read.usage,
            extra=extra,
            asked_at=None if request is None else request.seq,
        )
        sources = self._opened.sources()
        draft = message_draft(message, sources, kept=read.kept(requested))
        return self._database.write(record.record, draft, read.compacting, sources)

    def begin(self, call: PendingCall | BlockRef) -> Receipt:
        """Record that a tool is about to run; `pending` then shows its call as begun.

        After a crash this distinguishes a call that never ran from one that may have run.
        """
        return self._database.write(turns.begin, call, self._opened.sources())

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
        receipt is that result's. An `output` that is not text is stored as it is if the format has
        a place for its shape, and as JSON text otherwise. A list with parts that another format
        has, such as images, is stored in that format.
        """
        place, asked = self._database.snapshot(turns.asked_call, call)
        sources = self._opened.sources()
        draft = turns.answer_draft(place, asked, output, sources, is_error=is_error, extra=extra)
        return self._database.write(turns.answer, place, draft)

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
        """Read what the model sees, or saw at a seq or a datetime; or a part of it.

        A datetime means right before the first entry that happened later; with `recorded`, right
        after the last entry that the store had recorded by then.

        A part is the first `limit` messages, of those after the message `after` if it is given; or
        the `last` messages, of those before the message `before`. The latter takes the
        same time for a view of any length.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        part = to_part(after, limit, before, last)
        if as_of is None and part == WHOLE:
            return view_now(self._database)
        return self._database.snapshot(read_view, as_of=point, part=part)

    def messages(
        self,
        form: str | Form = "anthropic",
        *,
        model: str | None = None,
        dialect: str | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the view as a provider accepts it; `repairs` lists what had to be repaired.

        Forms are `anthropic`, `openai` (Chat Completions), `openai-responses`, `gemini` and
        `bedrock-converse`, or any object with the methods of `roocontext.log.forms.Form`.
        Thinking is only sent to the model that wrote it. `model` is the model that will be asked,
        by default that of the newest reply. `dialect` is that of `request`.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        return self._composed(form, model, dialect, point).messages

    def repairs(
        self,
        form: str | Form = "anthropic",
        *,
        model: str | None = None,
        dialect: str | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> tuple[Repair, ...]:
        """List what `messages` repairs for the provider. The log itself is never changed."""
        point = to_point("as_of", as_of, recorded=recorded)
        return self._composed(form, model, dialect, point).repairs

    def frame(self, *, as_of: int | datetime | None = None, recorded: bool = False) -> Frame | None:
        """Read the system prompt and tools that were recorded last; None if none were.

        A frame that was redacted has neither.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        return self._database.snapshot(frame.read_frame, point)

    def message(self, seq: int | str) -> Message:
        """Read one message, visible or not, as it was written: by its seq, or its message id.

        Of several messages with the same id it is the newest live one. If none is live, it is the
        newest that a rewind took back.
        """
        if isinstance(seq, str):
            check_id("message_id", seq)
            return self._database.snapshot(live.message_with_id, seq)
        check_whole("seq", seq, least=1)
        return self._database.snapshot(read_message, seq)

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

        With `keep_target=False` it becomes what it was right before. A seq may be that of any
        entry, even a rewound one. A datetime means right before the first live entry that happened
        later or, with `recorded`, that was recorded later. Nothing is deleted, and `undo` takes the
        rewind back. A dry run only returns what would be done.
        """
        target = to_rewind_target(to, ts, recorded=recorded)
        change = self._requested(expected_seq, trigger, dry_run=dry_run)
        run = self._database.snapshot if dry_run else self._database.write
        return run(rewind.rewind, change, to=target, ts=ts, keep_target=keep_target)

    def undo(
        self,
        *,
        of: int | None = None,
        force: bool = False,
        expected_seq: int | None = None,
        trigger: str = "manual",
    ) -> Rewound:
        """Take back the newest rewind. An undo is a rewind too, so a second one is a redo.

        If messages were appended since, it is refused unless `force` is set, which hides them.
        With `of`, it is refused unless that is the newest rewind.
        """
        check_maybe("of", of)
        change = self._requested(expected_seq, trigger)
        return self._database.write(rewind.undo, change, of=of, force=force)

    def uncover(
        self,
        seq: int,
        *,
        expected_seq: int | None = None,
        trigger: str = "manual",
        dry_run: bool = False,
    ) -> Uncovered:
        """Take back one summary, marker, covering or clearing, and keep everything after it.

        The messages or outputs that it hid become visible again, and it leaves the view. Nothing is
        deleted: a rewind to before the uncovering takes it back. Uncovering an entry twice changes
        nothing. A dry run only returns what would be done.
        """
        check_whole("seq", seq, least=1)
        change = self._requested(expected_seq, trigger, dry_run=dry_run)
        run = self._database.snapshot if dry_run else self._database.write
        return run(uncover.uncover, change, seq)

    def commit(
        self,
        plan: Plan,
        *,
        dry_run: bool = False,
        notes: Sequence[NewNote] = (),
        counted: Counted | None = None,
    ) -> Committed:
        """Carry out a plan, if only appends followed since it was made.

        The `notes` and the counts `counted` for a snapshot are written in the same transaction. A
        dry run only returns what would be done.
        """
        if not (isinstance(notes, Sequence) and all(isinstance(note, NewNote) for note in notes)):
            raise InvalidOption("notes must be a list of notes: NewNote.", name="notes")
        run = self._database.snapshot if dry_run else self._database.write
        sources = self._opened.sources()
        return run(
            commit.commit,
            to_plan(plan),
            sources,
            dry_run=dry_run,
            new_notes=[drafted(note, sources) for note in notes],
            counted=counted or Counted(),
        )

    def write_batch(
        self, items: Iterable[Item], *, expected_seq: int | None = None, skip_stored: bool = False
    ) -> list[Written]:
        """Write messages, notes, plans and rewinds in one transaction: all of them or none.

        Plans and rewinds may name the seqs that entries of the batch will have, and need an
        `expected_seq`. If all items were stored before, their first receipts are returned; if only
        some were, DuplicateMessage is raised. With `skip_stored`, stored items are skipped and the
        others are written: then there must be no plans and rewinds, and no notes about entries of
        the batch.
        """
        sources = self._opened.sources()
        ready = batch.ready_items(items, expected_seq, sources, skip_stored=skip_stored)
        return self._database.write(
            batch.write_batch, ready, expected_seq, sources, skip_stored=skip_stored
        )

    def pin(self, seq: int, *, client_id: str | None = None) -> Receipt:
        """Keep later plans from hiding or clearing a message."""
        return self._note(Pin(seq, client_id))

    def unpin(self, seq: int, *, client_id: str | None = None) -> Receipt:
        """Take back a pin."""
        return self._note(Unpin(seq, client_id))

    def set_title(self, title: str, *, client_id: str | None = None) -> Receipt:
        """Replace the session's title."""
        return self._note(SetTitle(title, client_id))

    def set_metadata(self, metadata: Mapping[str, Any], *, client_id: str | None = None) -> Receipt:
        """Replace the session's metadata."""
        return self._note(SetMetadata(metadata, client_id))

    def update_metadata(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        remove: Collection[str] = (),
        client_id: str | None = None,
    ) -> Receipt:
        """Change or remove single keys of the session's metadata, and leave the others alone.

        Two callers that change different keys at once do not undo each other's change.
        """
        keys = {} if changes is None else changes
        check_mapping("changes", keys)
        # Not an iterator: the check would leave nothing of it to remove.
        is_list = isinstance(remove, Collection) and not isinstance(remove, str)
        if not (is_list and all(isinstance(key, str) for key in remove)):
            raise InvalidOption("remove must be a list of keys.", name="remove")
        if both := sorted(set(remove) & keys.keys()):
            raise InvalidOption(f"{len(both)} keys are both changed and removed.", name="remove")
        if client_id is not None:
            check_id("client_id", client_id)
        return self._database.write(
            notes.update_metadata,
            keys,
            frozenset(remove),
            self._opened.sources(),
            client_id=client_id,
        )

    def note(
        self,
        note: str,
        content: Mapping[str, Any],
        *,
        target: int | None = None,
        ts: int | None = None,
        client_id: str | None = None,
    ) -> Receipt:
        """Log something that no model sees. With a `client_id` it is safe to repeat the call."""
        return self._note(NewNote(note, content, target, ts, client_id))

    def notes(
        self, note: str, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> list[Note]:
        """Read all notes of a kind, oldest first. The newest note on each target is current."""
        check_id("note", note)
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded), lambda log, seq: read_notes(log, note, seq)
        )

    def newest_note(
        self,
        note: str,
        *,
        target: int | None = None,
        as_of: int | datetime | None = None,
        recorded: bool = False,
    ) -> Note | None:
        """Read the current note of a kind and target; None if there is none."""
        check_id("note", note)
        check_maybe("target", target, least=1)
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded),
            lambda log, seq: newest_note(log, note, target, seq),
        )

    def pins(
        self, *, as_of: int | datetime | None = None, recorded: bool = False
    ) -> frozenset[int]:
        """Return the seqs of the pinned messages."""
        return self._read_at(
            to_point("as_of", as_of, recorded=recorded),
            lambda log, seq: frozenset(pinned(log, seq)),
        )

    def fork(
        self,
        at: int | None = None,
        *,
        session_id: str | None = None,
        parent: str | None = None,
        ts: int | None = None,
    ) -> "Session":
        """Create a session that begins as a copy of this one up to entry `at`.

        It has no parent unless one is given. Its own time begins now, or at `ts`: the messages that
        were copied do not count.
        """
        check_maybe("at", at)
        if parent is not None:
            check_id("parent", parent)
        if ts is not None:
            check_integer("ts", ts)
        name = self._opened.ids.new_id() if session_id is None else session_id
        check_id("session_id", name)
        self._database.write(
            new_session.fork, name, self._opened.sources(), at=at, parent=parent, ts=ts
        )
        return Session(self._opened, name, parent)

    def redact(self, seq: int, *, dry_run: bool = False) -> Redacted:
        """Erase the content of a message, of metadata or of a frame for good, in every fork too.

        The extract of a sealed compaction can be erased too. For a covering, the message with its
        compaction is erased. A dry run only returns what would be done.
        """
        check_whole("seq", seq, least=1)
        run = self._database.snapshot if dry_run else self._database.write
        done = run(erase.redact, seq, self._opened.sources(), dry_run=dry_run)
        if dry_run:
            return done
        return dataclasses.replace(done, erased=self._opened.database.erase_free_space())

    def audit(self, *, after: int = 0) -> Iterator[AuditEntry]:
        """Read every entry ever written, in order, with why each is or is not visible now."""
        for page in self.internals.audit_pages(AUDIT_PAGE, after=after):
            yield from page

    def diff(
        self, old: int | datetime, new: int | datetime | None = None, *, recorded: bool = False
    ) -> Diff:
        """Compare the view at two points in time; the second is by default now."""
        points = [
            to_point(name, point, recorded=recorded) for name, point in (("old", old), ("new", new))
        ]
        with self._database.read() as log:
            seqs = (seq_at(log, point) for point in points)
            return audit.diff(log, *seqs)

    def stats(self) -> Stats:
        """Count the messages and bytes that are visible, hidden and rewound."""
        return self._database.snapshot(sessions.stats)

    def tokens(
        self,
        counter: Counter | str,
        *,
        as_of: int | datetime | None = None,
        recorded: bool = False,
        after: int = 0,
    ) -> int:
        """Count the tokens of the view, or of the part of it that follows entry `after`.

        `counter` may be a name, such as `o200k_base`. Each message is counted once: the counts are
        stored.
        """
        point = to_point("as_of", as_of, recorded=recorded)
        check_whole("after", after)
        chosen = counter_named(counter)
        counted = count.counted_view(self._database, chosen, as_of=point, after=after)
        return counted.tokens

    def usage(
        self, *, family: bool = False, limit: int | None = None, after: str | None = None
    ) -> Page[ReportedUsage]:
        """Read the usage that was reported for replies and summaries; `tokens.spending` sums it.

        With `family`, the usage of all its descendants too. Entries that a fork copied do not
        count. No content is read.
        """
        return self._database.snapshot(
            usage.reported, family=family, limit=to_limit(limit), after=after
        )

    def head(self) -> Head:
        """Return the last entry and its hash. A saved head reveals that a log was cut off."""
        return self._database.lookup(verify.head_of)

    def verify(
        self, saved: Head | None = None, *, progress: Progress | None = None
    ) -> Verification:
        """Check every hash, seq, total and cache, and that the log continues a saved head."""
        if saved is not None and not (isinstance(saved, Head) and saved.session_id == self.id):
            raise InvalidOption("saved must be a head of this session.", name="saved")
        if saved is not None:
            check_whole("saved.seq", saved.seq)
        check_progress(progress)
        return verify.verify(self._database, saved, progress)

    def rebuild(self) -> int:
        """Compute the caches again from the log, and return how many of their rows were wrong."""
        return self._database.write(rebuild.rebuild)

    def _requested(
        self, expected_seq: int | None, trigger: str, *, dry_run: bool = False
    ) -> RequestedChange:
        check_id("trigger", trigger)
        check_maybe("expected_seq", expected_seq)
        return RequestedChange(expected_seq, trigger, self._opened.clock(), dry_run)

    def _composed(
        self, form: str | Form, model: str | None, dialect: str | None, as_of: Point
    ) -> Outgoing:
        if model is not None:
            check_model(model)
        composer = form_named(form, dialect)
        sent = self._database.snapshot(request.sendable, model=model, as_of=as_of)
        return sent.compose(composer)

    def _read_at(self, as_of: Point, read: Callable[[SessionLog, int], Result]) -> Result:
        """Read something at the seq that a point names."""
        with self._database.read() as log:
            return read(log, seq_at(log, as_of))

    def _note(self, new: AnyNote) -> Receipt:
        return self._database.write(notes.write_note, drafted(new, self._opened.sources()))
