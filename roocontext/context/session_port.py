"""The port through which a run reads a session and commits its plans: live, or as a dry run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.context import choice
from roocontext.context.choice import CompactionState, MeasuredPlan
from roocontext.context.hooks import HookResults
from roocontext.context.settings import Settings, SizedFrame, frame_of
from roocontext.context.steps import Steps, ask
from roocontext.errors import InvalidOption
from roocontext.log import request as recorded
from roocontext.log.compactions import can_read
from roocontext.log.counting import BYTES, COMPACTION, Size, count_message
from roocontext.log.entries import Message
from roocontext.log.events import Event
from roocontext.log.model_names import is_requested_as
from roocontext.log.plan import Committed
from roocontext.log.request import NOTHING
from roocontext.policies.situation import Aim, ReportedTokens, Row, Situation, Totals
from roocontext.store.aio import AsyncSession
from roocontext.store.counting.snapshot import CountedMessage, Snapshot, SnapshotRows, Wanted
from roocontext.store.reading.coverings import SealedCovering
from roocontext.store.reading.notes import Note
from roocontext.store.reading.usage import Call
from roocontext.store.session import Session
from roocontext.store.writing.items import NewNote
from roocontext.store.writing.kept_counts import Counted
from roocontext.tokens import Limit, last_request, usage_tokens
from roocontext.tokens.refusals import REFUSED, remembered
from roocontext.tokens.usage import IMAGES

LOOK_BACK: Final = 64
"""How many entries are searched for the last calls of the model."""

AnySession: TypeAlias = Session | AsyncSession

WindowOf: TypeAlias = Callable[[Mapping[str, Any] | None], Limit]
"""The limits of the model, given the session's note of the limits that providers named."""


def any_session(chat: object) -> AnySession:
    """The session itself; anything else is refused."""
    if not isinstance(chat, Session | AsyncSession):
        raise InvalidOption("chat must be a session.", name="chat")
    return chat


RECOVERY: Final = "recovery"
"""The kind of the notes of recoveries."""

RECOVERIES: Final = 3
"""The most cuts of a request before the model has replied."""


class Recoveries(NamedTuple):
    """The cuts of a request that the provider refused as too long, and its tokens now.

    Each cut leaves a note that names the model's last reply (`reply`, 0 if there is none), so that
    the cuts since that reply are counted across managers and processes. Notes of other replies do
    not count: after a rewind the request is another one.
    """

    reply: int
    done: int
    tokens: int

    @property
    def note(self) -> NewNote:
        """The note for one more cut."""
        return NewNote(RECOVERY, {"reply": self.reply, "attempt": self.done + 1})


class DueCheck(NamedTuple):
    """The data that decides whether a run has anything to do.

    `estimates` are new: their calls had none. `is_new_frame` is True if the system prompt or the
    tools differ from the recorded ones. `unreadable` is the newest sealed covering in the view that
    the model cannot read; `unextracted` says that no note tells what one of them hides. `options`
    are the policy's for the next request.
    """

    totals: Totals
    state: CompactionState
    calls: Sequence[Call]
    estimates: dict[int, int]
    is_new_frame: bool
    unreadable: int | None = None
    unextracted: bool = False
    options: Mapping[str, Any] = NOTHING


class LiveSession:
    """Reads a session, and commits to it. The window is known once the session was read.

    Counts that are made on the way are stored with the next commit, or by `keep`: a transaction of
    their own would cost as much as the plan's.
    """

    is_dry_run = False
    window: Limit

    def __init__(
        self, chat: AnySession, settings: Settings, frame: SizedFrame, window: WindowOf
    ) -> None:
        self.chat = chat
        self.settings = settings
        self.frame = frame
        self._window = window
        self._remembered: Mapping[str, Any] | None = None
        self.new_limits: NewNote | None = None
        """The note of a limit that a provider has just named, until it is written."""
        self._counted = Counted()
        self.exact = settings.counter.exact
        """False once any count that was read is an estimate."""

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.chat.id

    def learn(self, note: Note | None) -> None:
        """Determine the window, given the newest note of limits that providers named."""
        if self.new_limits is None:
            self._remembered = None if note is None else note.content
        self.window = self._window(self._remembered)

    def remember(self, limit: int | None) -> None:
        """Use the limit that a provider named, and make the note of it, if it is new."""
        model = self.settings.model
        if not model or limit is None:
            return
        content = remembered(self._remembered, model, limit, self.window)
        if content is not None:
            self.new_limits = NewNote(REFUSED, content)
            self._remembered = content
            self.window = self._window(content)

    def keep_limits(self) -> Steps[None]:
        """Write that note where no plan was committed with it."""
        if self.new_limits is not None:
            yield from self.note(self.new_limits)

    def check(self) -> Steps[DueCheck]:
        """Read the totals and the state. Only messages that were never counted are read."""
        limits = self.settings.limits
        wanted = Wanted(
            counter=self.settings.counter,
            others=[
                *([BYTES] if limits.bytes is not None else []),
                *([IMAGES] if limits.images is not None else []),
            ],
            calls=LOOK_BACK,
            # A dry run keeps nothing, and so would make the same estimates each time.
            estimates=None if self.is_dry_run else self._has_no_estimate,
            notes=[COMPACTION, REFUSED],
            frame=None if self.is_dry_run else self.frame,
            sealed=True,
            pins=self._options is not None,
        )
        snapshot = yield from self.read(wanted)
        self.learn(snapshot.notes.get(REFUSED))
        estimates = {
            seq: view + self._overhead(snapshot.frames.get(seq))
            for seq, view in snapshot.estimated.items()
        }
        self._counted = self._counted.with_estimates(self.settings.counter, estimates)
        state = yield from self.state(snapshot.notes[COMPACTION])
        totals = replace(self._totals(snapshot), failures=state.failures)
        options = self._options
        # Without a model of its own, the manager follows the one that replied.
        has_model = bool(self.settings.model)
        unreadable = [
            compaction.seq
            for compaction in snapshot.sealed
            if has_model and not self._reads(compaction)
        ]
        return DueCheck(
            totals,
            state,
            snapshot.calls,
            estimates,
            snapshot.is_new_frame,
            unreadable[-1] if unreadable else None,
            not all(compaction.extracted for compaction in snapshot.sealed),
            NOTHING if options is None else options(totals, pinned=bool(snapshot.pins)),
        )

    def situation(
        self, totals: Totals, *, aim: Aim, trigger: str, cap: int | None
    ) -> Steps[Situation]:
        """The input of the policy."""
        settings, frame = self.settings, self.frame
        rows = SnapshotRows.LIVE if settings.policy.compat else SnapshotRows.VISIBLE
        snapshot = yield from self.read(Wanted(counter=settings.counter, rows=rows))
        return Situation(
            session_id=snapshot.session_id,
            head_seq=snapshot.head_seq,
            seen=snapshot.last_seq,
            # Only rows of the view say whether their compaction is in effect.
            rows=tuple(_row(row, is_view=rows is SnapshotRows.VISIBLE) for row in snapshot.rows),
            window=totals.window,
            output=totals.output,
            measure=settings.measure,
            counter=settings.counter.name,
            exact=snapshot.exact,
            system=frame.system,
            tools=frame.tools or (),
            system_size=frame.system_size,
            overhead=frame.overhead,
            limits=settings.limits,
            reported=totals.reported,
            now=settings.clock(),
            aim=aim,
            trigger=trigger,
            cap=cap,
            pins=snapshot.pins,
            protected_tools=settings.protected_tools,
            failures=totals.failures,
            model=settings.model,
            recall=settings.recall,
        )

    def recoveries(self) -> Steps[Recoveries]:
        """The cuts since the newest live reply."""
        counter = self.settings.counter
        view = yield from self.read(Wanted(counter=counter, notes=[REFUSED]))
        self.learn(view.notes.get(REFUSED))
        reply = yield from ask(self.chat.internals.newest_reply)
        notes = yield from ask(lambda: self.chat.notes(RECOVERY))
        done = sum(note.content.get("reply") == reply for note in notes)
        return Recoveries(reply, done, view.sums[counter.name] + self.frame.overhead.tokens)

    def newest_note(self) -> Steps[Note | None]:
        """The newest note of the manager's kind."""
        return (yield from ask(lambda: self.chat.newest_note(COMPACTION)))

    def state(self, newest: Note | None) -> Steps[CompactionState]:
        """The results of the last compactions, given the newest note about them."""
        state = CompactionState.of(newest)
        if newest is not None and state.stalled is not None:
            seq = newest.seq
            if (yield from ask(lambda: self.chat.internals.uncovered_since(seq))):
                return state.uncovered()
        return state

    def commit(self, measured: MeasuredPlan, notes: Sequence[NewNote]) -> Steps[Committed]:
        """Commit a plan, together with the notes and with the counts."""
        plan = measured.ready.plan
        new = (row.size.tokens for row in measured.after.rows if row.seq > plan.head_seq)
        counted = self._counted.with_inserted(self.settings.counter, new)
        commit = partial(self.chat.commit, plan, notes=notes, counted=counted)
        done = yield from ask(commit)
        self._counted = Counted()
        return done

    def uncover(self, covering: int) -> Steps[int | None]:
        """Uncover a covering, and return the entry that did it; None in a dry run."""
        uncover = partial(self.chat.uncover, covering, trigger="manage")
        return (yield from ask(uncover)).seq

    def view(self) -> Steps[tuple[Message, ...]]:
        """The messages that the model sees."""
        return (yield from ask(self.chat.view)).messages

    def note(self, note: NewNote) -> Steps[None]:
        """Write a note, which no model sees."""
        yield from ask(lambda: self.chat.note(note.note, note.content))

    def fire(self, event: Event) -> Steps[HookResults]:
        """Call the hooks of an event."""
        return self.settings.hooks.fire(event)

    def keep_frame(self) -> Steps[None]:
        """Record the system prompt and the tools."""
        frame = self.frame
        yield from ask(
            lambda: self.chat.internals.keep_frame(system=frame.system, tools=frame.tools)
        )

    def keep(self) -> Steps[bool]:
        """Store the counts that no commit has stored; return True if any of them is new."""
        counted, self._counted = self._counted, Counted()
        if not counted.counts:
            return False
        return (yield from ask(lambda: self.chat.internals.keep_counts(counted)))

    def read(self, wanted: Wanted) -> Steps[Snapshot]:
        """Read a snapshot; it gets the counts of earlier ones."""
        wanted = replace(wanted, known=self._counted)
        snapshot = yield from ask(lambda: self.chat.internals.snapshot(wanted))
        self._counted = self._counted.plus(snapshot.counted)
        self.exact = self.exact and snapshot.exact
        return snapshot

    def _overhead(self, sent: recorded.Frame | None) -> int:
        """The tokens of the frame that was sent, or of the current one if none is recorded."""
        frame = self.frame
        if sent is None or (sent.system, sent.tools) == (frame.system, frame.tools or ()):
            return frame.overhead.tokens
        return frame_of(self.settings.measure, sent.system, sent.tools).overhead.tokens

    @property
    def _options(self) -> Callable[..., Mapping[str, Any]] | None:
        """The method of a policy that may leave the work to the provider."""
        return getattr(self.settings.policy, "options", None)

    def _reads(self, sealed: SealedCovering) -> bool:
        """True if the manager's model can read what another one sealed."""
        model = self.settings.model
        return can_read(model, sealed.model) or is_requested_as(model, sealed.requested)

    def _has_no_estimate(self, call: Call) -> bool:
        # Estimates are by counter: with another one, all are new.
        is_new = self.settings.counter.name not in call.estimates
        return is_new and usage_tokens(call.usage) is not None

    def _totals(self, snapshot: Snapshot) -> Totals:
        settings, sums = self.settings, snapshot.sums
        size = Size(
            sums[settings.counter.name],
            sums[BYTES.name] if settings.limits.bytes is not None else snapshot.bytes,
            sums[IMAGES.name] if settings.limits.images is not None else 0,
        )
        return Totals(
            size=size.plus(self.frame.overhead),
            window=self.window.context,
            output=self.window.output,
            reported=_reported(snapshot),
            limits=settings.limits,
            model=settings.model,
        )


class DryRun(LiveSession):
    """Reads a session once, and applies plans to what it read. No entry is written."""

    is_dry_run = True

    def __init__(
        self, chat: AnySession, settings: Settings, frame: SizedFrame, window: WindowOf
    ) -> None:
        super().__init__(chat, settings, frame, window)
        self.situated: Situation | None = None
        self._last_seq = 0
        self._untouched = True
        self._uncovered: tuple[int, ...] = ()

    def situation(
        self, totals: Totals, *, aim: Aim, trigger: str, cap: int | None
    ) -> Steps[Situation]:
        """The situation that was read, or that the last plan left."""
        if self.situated is None:
            self.situated = yield from super().situation(totals, aim=aim, trigger=trigger, cap=cap)
            self._last_seq = self.situated.seen or 0
        now, failures = totals.reported, totals.failures
        return replace(self.situated, aim=aim, cap=cap, reported=now, failures=failures)

    def uncover(self, covering: int) -> Steps[int | None]:
        """Read everything as if it were uncovered; the store cannot check the plans then."""
        self._uncovered = (*self._uncovered, covering)
        self._untouched = False
        yield from ()
        return None

    def view(self) -> Steps[tuple[Message, ...]]:
        """The messages that the model would see."""
        if self.situated is not None:
            return tuple(row.message for row in self.situated.visible)
        if not self._uncovered:
            return (yield from super().view())
        wanted = Wanted(counter=self.settings.counter, rows=SnapshotRows.VISIBLE)
        return tuple(row.message for row in (yield from self.read(wanted)).rows)

    def read(self, wanted: Wanted) -> Steps[Snapshot]:
        """Read a snapshot of the session as it would be."""
        return (yield from super().read(replace(wanted, uncovered=self._uncovered)))

    def commit(self, measured: MeasuredPlan, notes: Sequence[NewNote]) -> Steps[Committed]:
        """Foresee the result; the store checks the first plan as it checks a real one."""
        assert self.situated is not None
        plan, before = measured.ready.plan, self.situated
        if self._untouched:
            yield from ask(lambda: self.chat.commit(plan, dry_run=True))
        self.situated = choice.situation_after(before, plan, last_seq=self._last_seq)
        hidden = {row.seq for row in before.visible} - {row.seq for row in self.situated.visible}
        done = Committed.foreseen(plan, self.id, self._last_seq, len(hidden))
        self._untouched = False
        # The rows of the next plan come after the notes.
        self._last_seq = done.head_seq + len(notes)
        return done

    def note(self, note: NewNote) -> Steps[None]:  # noqa: ARG002 - nothing is written
        """Leave a place for the note: the rows of the next plan come after it."""
        self._last_seq += 1
        yield from ()

    def fire(self, event: Event) -> Steps[HookResults]:  # noqa: ARG002 - no hook is called
        """Call none."""
        yield from ()
        return HookResults()


def _row(counted: CountedMessage, *, is_view: bool) -> Row:
    message = counted.message
    content = (message.role, message.content, message.format)
    size = Size(counted.tokens, BYTES.count(*content), IMAGES.count(*content))
    if is_view:  # without a compaction that is not in effect, like the tokens: it is not sent
        size = size._replace(bytes=count_message(BYTES, message))
    return Row(message, size, counted.condense_parent, counted.truncation_parent)


def _reported(snapshot: Snapshot) -> ReportedTokens | None:
    """The provider's report for the newest call, if nothing but appends followed."""
    if snapshot.since is None:
        return None
    used = last_request(snapshot.calls[-1].usage)
    return None if used is None else ReportedTokens(used.input, used.output, snapshot.since)
