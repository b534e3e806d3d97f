"""One run over one session: check, decide, ask for a summary, commit, and report the outcome.

Nothing is locked while a model is asked: the plan names the version it was made on, and the store
refuses it if anything but appends came in between.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from roocontext.context import drift
from roocontext.context.choice import (
    PLAN_ERRORS,
    Choice,
    CompactionState,
    MeasuredPlan,
    measured_plan,
)
from roocontext.context.hooks import HookResults
from roocontext.context.outcome import (
    AttemptResult,
    Outcome,
    facts_of,
    facts_of_failure,
    paid_for,
    reason_of,
    record_of,
    refusal_of,
)
from roocontext.context.restore import Restoration
from roocontext.context.session_port import DueCheck, LiveSession
from roocontext.context.settings import Settings
from roocontext.context.steps import Steps, ask
from roocontext.errors import (
    BudgetExceeded,
    RooContextError,
    StoreReadOnly,
    SummaryFailed,
    UncoverRefused,
    VersionConflict,
)
from roocontext.log.counting import COMPACTION, FREE, Size
from roocontext.log.encoding import encode
from roocontext.log.entries import Kind, Range, ranges_of
from roocontext.log.events import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Drifted,
    Status,
    Step,
)
from roocontext.log.plan import Action, Plan
from roocontext.log.spans import within
from roocontext.log.summary import FailedCalls, Summary, SummaryRequest, total_cost
from roocontext.policies.make_plan import outgoing
from roocontext.policies.situation import (
    Aim,
    Ask,
    Nothing,
    Ready,
    Row,
    Situation,
    TooLarge,
    Totals,
)
from roocontext.store.writing.items import NewNote

_log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How many plans one run may commit, and how many summaries it may ask for."""


class _Composed(NamedTuple):
    """A plan, and the summary from which it was made."""

    ready: Ready
    summary: Summary


@dataclass
class Run:
    """One run. `summarise` asks the summariser: directly, or for an async manager in a thread.

    `extract` asks the one that needs no model.
    A recovery must end below the size `cap`. `notes` are written with the first plan.
    """

    port: LiveSession
    aim: Aim
    trigger: str
    summarise: Callable[[SummaryRequest], Summary | Awaitable[Summary]]
    extract: Callable[[SummaryRequest], Summary | Awaitable[Summary]]
    cap: int | None = None
    notes: Sequence[NewNote] = ()
    state: CompactionState = field(default_factory=CompactionState)
    steps: list[Step] = field(default_factory=list)
    restorations: list[Restoration] = field(default_factory=list)
    size_before: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    drifted: Sequence[Drifted] = ()
    warned: frozenset[int] = frozenset()
    failed: bool = False
    calls: int = 0
    cost: float | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the manager."""
        return self.port.settings

    def is_due(self) -> Steps[bool]:
        """Return True if a run would look for something to do."""
        check = yield from self._check()
        yield from self._keep()
        is_sealed = check.unreadable is not None or check.unextracted
        return is_sealed or self._due(check.totals)

    def run(self) -> Steps[Outcome]:
        """Do the whole run; return an Outcome or raise BudgetExceeded."""
        yield from self.port.fire(BeforeCheck(self.port.id, self.trigger))
        check = yield from self._check()
        # First, because no plan can make the system prompt smaller.
        too_large = TooLarge.if_over("system", self.port.frame.overhead, check.totals.most)
        if too_large is not None:
            raise (yield from self._refused(too_large))
        if self.aim is Aim.MANAGE:
            if check.is_new_frame:
                yield from self.port.keep_frame()
            if check.unreadable is not None:
                try:
                    check = yield from self._uncover(check)
                except UncoverRefused as error:
                    result = AttemptResult(Status.CONFLICT, reason=error.fact)
                    return self._outcome(check.totals, check.totals.size, result)
            self.options = check.options
            if check.unextracted and not self.port.is_dry_run:
                yield from self._write_extracts()
        totals = check.totals
        if self.aim is Aim.MANAGE and not self._due(totals):
            yield from self._keep()
            reason = "The last run did not help." if self.state.waits(totals) else "Nothing is due."
            return self._outcome(totals, totals.size, AttemptResult(Status.NOOP, reason=reason))
        return (yield from self._compact(totals))

    def _uncover(self, check: DueCheck) -> Steps[DueCheck]:
        """Uncover what the model cannot read, newest first, each in a commit of its own.

        The messages are then in the view again, and whatever is too much is condensed. If this is
        interrupted, the next run continues.
        """
        self.size_before = check.totals.size.tokens
        while check.unreadable is not None:
            covering = check.unreadable
            uncovering = yield from self.port.uncover(covering)
            check = yield from self._check()
            done = Restoration(covering, Kind.COVERING, uncovering, check.totals.size.tokens)
            self.restorations.append(done)
        return check

    def _check(self) -> Steps[DueCheck]:
        """Read what decides whether anything is due, and compare new estimates with the reports."""
        check = yield from self.port.check()
        self.state = check.state
        self.drifted, self.warned = drift.far_off(check, self.port.id, self.settings)
        return check

    def _write_extracts(self) -> Steps[None]:
        """Write an extract of what each sealed covering hides, if it has none, oldest first.

        Only the model can read a sealed compaction, and people ask what was dropped. The extract is
        a note, made without a model. That of a later covering has that of an earlier one that it
        hides.
        """
        internals = self.port.chat.internals
        for covering in (yield from ask(internals.unextracted)):
            hidden = yield from ask(partial(internals.hidden_by, covering))
            rows = [Row(message, FREE) for message in hidden.messages]
            request = SummaryRequest(messages=outgoing(rows))
            try:
                text = (yield from ask(partial(self.extract, request))).text
            except SummaryFailed:  # no message has a text
                text = ""
            with suppress(StoreReadOnly):
                yield from ask(partial(internals.keep_extract, hidden, text))

    def _due(self, totals: Totals) -> bool:
        """True if the policy finds something due, or the request is too large."""
        return totals.is_over or (self.settings.policy.due(totals) and not self.state.waits(totals))

    def _compact(self, totals: Totals) -> Steps[Outcome]:
        """Decide and act until nothing more is due, at most a few times."""
        result = AttemptResult(Status.NOOP)
        situation = yield from self._situation(totals)
        if refusal := self._choice.refusal(situation):
            raise (yield from self._refused(refusal))
        for _ in range(ATTEMPTS):
            result = yield from self._attempt(situation)
            if not result.changed and result.status is not Status.FAILED:
                break
            situation = yield from self._situation(totals)
            if not self._again(situation, result):
                break
        is_done = result.status not in (Status.VETOED, Status.CONFLICT)
        if is_done and (refusal := self._choice.refusal_after(situation)):
            raise (yield from self._refused(refusal))
        yield from self._keep()
        return self._outcome(totals, situation.size, result)

    def _situation(self, totals: Totals) -> Steps[Situation]:
        now = replace(totals, failures=self.state.failures)
        if self.steps:
            now = replace(now, reported=None)  # it was the cost of another view
        situation = yield from self.port.situation(
            now, aim=self.aim, trigger=self.trigger, cap=self.cap
        )
        if self.failed or (self.steps and self._choice.must_fit and situation.totals.is_over):
            return replace(situation, aim=Aim.TRUNCATE)  # only cutting is left
        return situation

    @property
    def _choice(self) -> Choice:
        return Choice(self.settings.policy, self.aim)

    def _again(self, situation: Situation, result: AttemptResult) -> bool:
        """True if another attempt is needed after one that changed something, or failed."""
        if self.cap is not None:
            failed = result.status is Status.FAILED
            return (result.changed or failed) and situation.size.tokens > self.cap
        if self.failed:
            # A program that could not condense truncates once.
            cuts = result.changed and not self.settings.policy.compat
            return (cuts or self._choice.must_fit) and situation.totals.is_over
        return self._choice.must_fit and self.settings.policy.due(situation.totals)

    def _attempt(self, situation: Situation) -> Steps[AttemptResult]:
        recut = self.cap is not None and bool(self.steps)
        decision = self._choice.decide(situation, recut=recut)
        match decision:
            case Nothing():
                return AttemptResult(Status.NOOP, decision.status, decision.reason)
            # A recovery may end within the window, and a cut request was not refused yet.
            case TooLarge() if self.cap is not None or (self.steps and not self._choice.must_fit):
                reason = f"{decision.needed:,} {decision.unit} have to stay."
                return AttemptResult(Status.NOOP, reason=reason)
            case TooLarge():
                raise (yield from self._refused(decision))
            case Ready():
                return (yield from self._cut(situation, decision))
            case Ask():
                return (yield from self._condense(situation, decision))

    def _cut(self, situation: Situation, ready: Ready) -> Steps[AttemptResult]:
        """Carry out a plan that needs no summary."""
        try:
            plan = measured_plan(situation, ready)
            if refusal := self._choice.refusal_after(plan.after):
                raise (yield from self._refused(refusal))
            wanted = plan.ready.plan
            hooks = yield from self._fire_before(situation, wanted.hides, wanted)
            if hooks.stopped:
                return AttemptResult(Status.VETOED, ready.status, "A hook vetoed it.")
            return (yield from self._commit(plan, hooks))
        except PLAN_ERRORS as error:
            return (yield from self._fail(error.fact, ready.status, latch=True))

    def _condense(self, situation: Situation, wanted: Ask) -> Steps[AttemptResult]:
        """Ask for a summary, and commit the plan that is made from it."""
        hooks = yield from self._fire_before(situation, ranges_of(sorted(wanted.hides)))
        if hooks.stopped:
            return AttemptResult(Status.VETOED, reason="A hook vetoed it.")
        answer = yield from self._answer(wanted)
        if isinstance(answer, _Composed):
            try:
                plan = measured_plan(situation, answer.ready)
                if not self._choice.refusal_after(plan.after):
                    return (yield from self._commit(plan, hooks, answer.summary))
                reason = "It leaves no room for what must stay."
            except PLAN_ERRORS as error:
                reason = error.fact
            answer = yield from self._fail(reason, latch=True, paid=paid_for(answer.summary))
        if wanted.otherwise is None:
            return answer
        cut = yield from self._cut(situation, wanted.otherwise)
        return cut._replace(reason=answer.reason)

    def _answer(self, wanted: Ask) -> Steps["_Composed | AttemptResult"]:
        """Ask for the summary and make a plan from it, or report the failure."""
        try:
            summary = yield from ask(lambda: self.summarise(wanted.request))
            encode(facts_of(summary), "summary")  # an answer that cannot be recorded is invalid
            self._count((*summary.failed, summary))
            composed = wanted.compose(summary)
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 - a summariser may raise anything
            paid = paid_for(error)
            self._count(paid)
            return (yield from self._fail(reason_of(error), latch=wanted.latch, paid=paid))
        except BaseException as error:
            with suppress(RooContextError):  # nothing may prevent a cancellation
                yield from self._fail(type(error).__name__, latch=False)
            raise
        if isinstance(composed, Ready):
            return _Composed(composed, summary)
        paid = paid_for(summary)
        return (
            yield from self._fail(composed.reason, composed.status, latch=composed.latch, paid=paid)
        )

    def _commit(
        self, proposal: MeasuredPlan, hooks: HookResults, summary: Summary | None = None
    ) -> Steps[AttemptResult]:
        """Commit against the version that was planned on; appends alone in between do no harm."""
        ready, before, left = proposal
        record = {**ready.plan.record, "status": ready.status, **record_of(summary, hooks)}
        plan = replace(ready.plan, record=record)
        proposal = proposal._replace(ready=replace(ready, plan=plan))
        condensed = plan.action is Action.CONDENSE
        state = self.state.committed(before.tokens, left.size.tokens, condensed=condensed)
        notes = [*([self._note("committed", state)] if state != self.state else []), *self.notes]
        try:
            committed = yield from self.port.commit(proposal, notes)
        except VersionConflict as error:
            return AttemptResult(Status.CONFLICT, ready.status, error.fact)
        self.state, self.notes = state, ()
        step = Step(plan, committed, ready.status, before, left.size, summary)
        self.steps.append(step)
        yield from self._fire_drifted()
        policy, now = self.settings.policy.name, self.settings.clock()
        yield from self.port.fire(AfterCompact(self.port.id, self.trigger, policy, step, now))
        return AttemptResult(step.status, ready.status, changed=True)

    def _fail(
        self,
        reason: str,
        status: str = "failed",
        *,
        latch: bool,
        paid: Sequence[FailedCalls] = (),
    ) -> Steps[AttemptResult]:
        """Write one note of a failure; nothing else changes."""
        self.failed = True
        self.state = self.state.failed(counts=latch and self.trigger == "auto")
        policy = self.settings.policy.name
        facts = {"policy": policy, "trigger": self.trigger, "status": status, "reason": reason}
        note = self._note("failed", self.state, **facts, **facts_of_failure(paid))
        yield from self.port.note(note)
        if not self.port.is_dry_run:
            _log.warning("A condensation of session %s failed: %s", self.port.id, reason)
        failures, now = self.state.failures, self.settings.clock()
        yield from self.port.fire(
            CompactionFailed(self.port.id, self.trigger, policy, reason, failures, now)
        )
        return AttemptResult(Status.FAILED, status, reason)

    def _count(self, paid: Sequence[FailedCalls | Summary]) -> None:
        self.calls += sum(attempt.calls for attempt in paid)
        cost = total_cost(paid)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def _note(self, event: str, state: CompactionState, **facts: Any) -> NewNote:
        return NewNote(COMPACTION, {"event": event, **facts, **state.facts()})

    def _keep(self) -> Steps[None]:
        """Store the counts, and then report the estimates that were far off."""
        if (yield from self.port.keep()):
            yield from self._fire_drifted()
        self.drifted = ()

    def _refused(self, large: TooLarge) -> Steps[BudgetExceeded]:
        """Make the error to raise, and leave one note of it in the log."""
        yield from self._keep()
        error = refusal_of(large)
        newest = yield from self.port.newest_note()
        facts = {"part": large.part, "needed": large.needed, "limit": large.limit}
        note = self._note("refused", (yield from self.port.state(newest)), **facts, unit=large.unit)
        if newest is None or newest.content != note.content:
            with suppress(StoreReadOnly):  # the error says the same
                yield from self.port.note(note)
        yield from self.port.fire(BudgetPassed(self.port.id, error))
        return error

    def _fire_drifted(self) -> Steps[None]:
        """Only once the estimates are stored: otherwise every check would report them again."""
        drifted, self.drifted = self.drifted, ()
        for event in drifted:
            if event.seq in self.warned:
                drift.warn(event)
            yield from self.port.fire(event)

    def _fire_before(
        self, situation: Situation, hides: Sequence[Range], plan: Plan | None = None
    ) -> Steps[HookResults]:
        """Call the hooks before a plan, or before a request for a summary."""
        event = BeforeCompact(
            session_id=self.port.id,
            trigger=self.trigger,
            policy=self.settings.policy.name,
            action=(plan.action if plan else Action.CONDENSE).value,
            tokens=situation.size.tokens,
            window=situation.window,
            # A program may hide again what is hidden.
            hides=tuple(row.seq for row in situation.visible if within(hides, row.seq)),
            clears=plan.clears if plan else (),
            plan=plan,
        )
        return self.port.fire(event)

    def _outcome(self, totals: Totals, size: Size, result: AttemptResult) -> Outcome:
        last = self.steps[-1] if self.steps else None
        before = self.steps[0].before.tokens if self.steps else totals.size.tokens
        status = last.status if last else result.status
        if status is Status.NOOP and self.restorations:
            status = Status.UNCOVERED
        return Outcome(
            status=status,
            detail=last.detail if last else result.detail,
            reason=result.reason,
            policy=self.settings.policy.name,
            trigger=self.trigger,
            counter=self.settings.counter.name,
            exact=self.port.exact,
            window=totals.window,
            window_source=self.port.window.source,
            tokens_before=before if self.size_before is None else self.size_before,
            tokens_after=last.after.tokens if last else totals.size.tokens,
            excess=totals.most.exceeded_by(size),
            restorations=tuple(self.restorations),
            options=dict(self.options),
            steps=tuple(self.steps),
            cost=self.cost,
            calls=self.calls,
        )
