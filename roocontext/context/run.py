"""One run over one session: check, decide, ask for a summary, commit, and say what came of it.

The run is written once, for Session and AsyncSession alike: what might have to be awaited is
yielded, and the manager that drives the run gives the result back. Nothing is held while a model is
asked: the plan names the version it was made on, and the store refuses it if more than appends came
in between.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from roocontext.context.choice import UNUSABLE, Choice, Prepared, prepared
from roocontext.context.desk import Desk, Steps
from roocontext.context.drift import watched
from roocontext.context.guard import Guard
from roocontext.context.hooks import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Event,
    Heard,
)
from roocontext.context.outcome import Ended, Outcome, Status, Step
from roocontext.context.record import facts_of, reason_of, refusal_of, told
from roocontext.context.settings import Settings
from roocontext.errors import (
    RooContextError,
    StoreReadOnly,
    VersionConflict,
)
from roocontext.log.budget import Size
from roocontext.log.encoding import encode
from roocontext.log.plan import Action, Plan
from roocontext.log.spans import within
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.decision import Ask, Nothing, Ready, TooLarge
from roocontext.policies.keep_newest import too_large
from roocontext.policies.situation import Aim, Situation, Totals
from roocontext.store.count import Call

_log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How many plans one run may commit, and how many summaries it may ask for."""


class _Composed(NamedTuple):
    """A plan, and the summary that it was made of."""

    ready: Ready
    summary: Summary


@dataclass
class Run:
    """One run. `ask` calls the summariser as the manager can: directly, or in a thread.

    `cap` is what a recovery must get under. A `quiet` run tells no hook and keeps no estimate.
    """

    desk: Desk
    aim: Aim
    trigger: str
    ask: Callable[[SummaryRequest], Any]
    cap: int | None = None
    quiet: bool = False
    guard: Guard = field(default_factory=Guard)
    steps: list[Step] = field(default_factory=list)
    failed: bool = False
    calls: int = 0
    cost: float | None = None

    @property
    def settings(self) -> Settings:
        """What the manager works with."""
        return self.desk.settings

    def foreseen(self) -> Steps:
        """Whether a run would look for something to do."""
        return self._due((yield from self._load((yield from self.desk.calls()))))

    def whole(self) -> Steps:
        """The whole run: an Outcome, or a BudgetExceeded."""
        yield from self._fire(BeforeCheck(self.desk.chat.id, self.trigger))
        calls: list[Call] = yield from self.desk.calls()
        totals = yield from self._load(calls)
        if not self.quiet:
            for event in (yield from watched(self.desk, calls)):
                yield from self._fire(event)
        yield from self._refuse_system(totals)
        if self.aim is Aim.MANAGE and not self._due(totals):
            reason = "The last run did not help." if self.guard.holds(totals) else "Nothing is due."
            return self._outcome(totals, totals.size, Ended(Status.NOOP, reason=reason))
        return (yield from self._compact(totals))

    def _load(self, calls: list[Call]) -> Steps:
        """The totals, and what the notes say of earlier runs."""
        self.guard, _ = yield from self.desk.guard()
        totals: Totals = yield from self.desk.totals(calls[-1] if calls else None)
        return replace(totals, failures=self.guard.failures)

    def _due(self, totals: Totals) -> bool:
        """Whether to look for something: the policy says so, or the request is too large."""
        return totals.is_over or (self.settings.policy.due(totals) and not self.guard.holds(totals))

    def _compact(self, totals: Totals) -> Steps:
        """Decide and act until nothing more is due, at most a few times."""
        ended = Ended(Status.NOOP)
        situation = yield from self._situation(totals)
        if refusal := self._choice.hopeless(situation):
            yield from self._refuse(refusal)
        for _ in range(ATTEMPTS):
            ended = yield from self._attempt(situation)
            if not ended.changed and ended.status is not Status.FAILED:
                break
            situation = yield from self._situation(totals)
            if not self._more(situation, ended):
                break
        is_done = ended.status not in (Status.VETOED, Status.CONFLICT)
        if is_done and (refusal := self._choice.hopeless_after(situation)):
            yield from self._refuse(refusal)
        return self._outcome(totals, situation.size, ended)

    def _situation(self, totals: Totals) -> Steps:
        now = replace(totals, failures=self.guard.failures)
        if self.steps:
            now = replace(now, reported=None)  # it spoke of another view
        situation: Situation = yield from self.desk.situation(
            now, aim=self.aim, trigger=self.trigger, cap=self.cap
        )
        if self.failed or (self.steps and self._choice.must_fit and situation.totals.is_over):
            return replace(situation, aim=Aim.TRUNCATE)  # what is left is to cut
        return situation

    @property
    def _choice(self) -> Choice:
        return Choice(self.settings.policy, self.aim)

    def _more(self, situation: Situation, ended: Ended) -> bool:
        """Whether another attempt is wanted after one that changed something, or failed."""
        if self.cap is not None:
            failed = ended.status is Status.FAILED
            return (ended.changed or failed) and situation.size.tokens > self.cap
        if self.failed:
            return (ended.changed or self._choice.must_fit) and situation.totals.is_over
        return self._choice.must_fit and self.settings.policy.due(situation.totals)

    def _attempt(self, situation: Situation) -> Steps:
        recut = self.cap is not None and bool(self.steps)
        decision = self._choice.decide(situation, recut=recut)
        match decision:
            case Nothing():
                return Ended(Status.NOOP, decision.status, decision.reason)
            case TooLarge() if not self._may_refuse:
                reason = f"{decision.needed:,} {decision.unit} have to stay."
                return Ended(Status.NOOP, reason=reason)
            case TooLarge():
                yield from self._refuse(decision)
            case Ready():
                return (yield from self._cut(situation, decision))
            case Ask():
                return (yield from self._condense(situation, decision))

    @property
    def _may_refuse(self) -> bool:
        """Whether an attempt may end in an error.

        A recovery may still be within the window, and nothing was refused that was cut already.
        """
        return self.cap is None and (self._choice.must_fit or not self.steps)

    def _cut(self, situation: Situation, ready: Ready) -> Steps:
        """Carry out a plan that needs no summary."""
        try:
            plan = prepared(situation, ready)
            if refusal := self._choice.hopeless_after(plan.after):
                yield from self._refuse(refusal)
            heard = yield from self._announce(situation, plan.ready.plan)
            if heard.stopped:
                return Ended(Status.VETOED, ready.status, "A hook said no.")
            return (yield from self._commit(plan, heard))
        except UNUSABLE as error:
            return (yield from self._fail(error.fact, ready.status, latch=True))

    def _condense(self, situation: Situation, ask: Ask) -> Steps:
        """Ask for a summary, and carry out what is made of it."""
        heard = yield from self._announce(situation, None, ask.hides)
        if heard.stopped:
            return Ended(Status.VETOED, reason="A hook said no.")
        answer = yield from self._answer(ask)
        if isinstance(answer, _Composed):
            try:
                plan = prepared(situation, answer.ready)
                if not self._choice.hopeless_after(plan.after):
                    return (yield from self._commit(plan, heard, answer.summary))
                answer = yield from self._fail("It leaves no room for what must stay.", latch=True)
            except UNUSABLE as error:
                answer = yield from self._fail(error.fact, latch=True)
        if ask.otherwise is None:
            return answer
        cut = yield from self._cut(situation, ask.otherwise)
        return cut._replace(reason=answer.reason)

    def _answer(self, ask: Ask) -> Steps:
        """What the summariser said and what is made of it; or how it failed."""
        try:
            summary: Summary = yield self.ask(ask.request)
            encode(facts_of(summary), "summary")  # what could not be recorded is no answer
            self._count(summary.calls, summary.cost)
            composed = ask.compose(summary)
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 - a summariser may raise anything
            spent = getattr(error, "calls", 0), getattr(error, "cost", None)
            self._count(*spent)
            return (yield from self._fail(reason_of(error), latch=True, spent=spent))
        except BaseException as error:
            with suppress(RooContextError):  # nothing may stand in the way of a cancellation
                yield from self._fail(type(error).__name__, latch=False)
            raise
        if isinstance(composed, Ready):
            return _Composed(composed, summary)
        spent = summary.calls, summary.cost
        return (
            yield from self._fail(
                composed.reason, composed.status, latch=composed.latch, spent=spent
            )
        )

    def _commit(self, prepared: Prepared, heard: Heard, summary: Summary | None = None) -> Steps:
        """Commit against the version that was planned on; appends alone in between do no harm."""
        ready, before, left = prepared
        record = {**ready.plan.record, "status": ready.status, **told(summary, heard)}
        plan = replace(ready.plan, record=record)
        try:
            committed = yield from self.desk.commit(plan)
        except VersionConflict as error:
            return Ended(Status.CONFLICT, ready.status, error.fact)
        step = Step(plan, committed, ready.status, before, left.size, summary)
        self.steps.append(step)
        yield from self._remember(step)
        policy, now = self.settings.policy.name, self.settings.clock()
        yield from self._fire(AfterCompact(self.desk.chat.id, self.trigger, policy, step, now))
        return Ended(step.status, ready.status, changed=True)

    def _remember(self, step: Step) -> Steps:
        """Keep in a note what a commit changed of the guard, if anything."""
        is_condensed = step.status is Status.CONDENSED
        guard = self.guard.committed(step.before.tokens, step.after.tokens, condensed=is_condensed)
        if guard != self.guard:
            self.guard = guard
            yield from self.desk.note({"event": "committed", **guard.facts()})

    def _fail(
        self,
        reason: str,
        status: str = "failed",
        *,
        latch: bool,
        spent: tuple[int, float | None] = (0, None),
    ) -> Steps:
        """One note of a failure; nothing else changed."""
        self.failed = True
        self.guard = self.guard.failed(counts=latch and self.trigger == "auto")
        policy, calls, cost = self.settings.policy.name, *spent
        facts = {"policy": policy, "trigger": self.trigger, "status": status, "reason": reason}
        paid = {"calls": calls, "cost": cost} if calls else {}
        yield from self.desk.note({"event": "failed", **facts, **paid, **self.guard.facts()})
        if not self.quiet:
            _log.warning("A condensation of session %s failed: %s", self.desk.chat.id, reason)
        failures, now = self.guard.failures, self.settings.clock()
        yield from self._fire(
            CompactionFailed(self.desk.chat.id, self.trigger, policy, reason, failures, now)
        )
        return Ended(Status.FAILED, status, reason)

    def _count(self, calls: int, cost: float | None) -> None:
        self.calls += calls
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    # What cannot be helped

    def _refuse_system(self, totals: Totals) -> Steps:
        refusal = too_large("system", self.desk.frame.overhead, totals.most)
        if refusal is not None:
            yield from self._refuse(refusal)

    def _refuse(self, large: TooLarge) -> Steps:
        """Raise the error, and leave one note of it."""
        error = refusal_of(large)
        facts = {"part": large.part, "needed": large.needed, "limit": large.limit}
        guard, newest = yield from self.desk.guard()
        content = {"event": "refused", **facts, "unit": large.unit, **guard.facts()}
        if newest is None or newest.content != content:
            with suppress(StoreReadOnly):  # what is to be told is told by the error
                yield from self.desk.note(content)
        yield from self._fire(BudgetPassed(self.desk.chat.id, error))
        raise error

    # What is told

    def _fire(self, event: Event) -> Steps:
        if self.quiet:
            return Heard(stopped=False, told=[])
        return (yield from self.settings.hooks.fire(event))

    def _announce(
        self, situation: Situation, plan: Plan | None, hides: tuple[int, ...] = ()
    ) -> Steps:
        """Tell of a plan, or of a summary that is to be asked for."""
        if plan is not None:
            hides = tuple(row.seq for row in situation.visible if within(plan.hides, row.seq))
        event = BeforeCompact(
            session_id=self.desk.chat.id,
            trigger=self.trigger,
            policy=self.settings.policy.name,
            action=(plan.action if plan else Action.CONDENSE).value,
            tokens=situation.size.tokens,
            window=situation.window,
            hides=hides,
            clears=plan.clears if plan else (),
            plan=plan,
        )
        return self._fire(event)

    def _outcome(self, totals: Totals, size: Size, ended: Ended) -> Outcome:
        last = self.steps[-1] if self.steps else None
        return Outcome(
            status=last.status if last else ended.status,
            detail=last.detail if last else ended.detail,
            reason=ended.reason,
            policy=self.settings.policy.name,
            trigger=self.trigger,
            counter=self.settings.counter.name,
            exact=self.settings.counter.exact,
            window=totals.window,
            window_source=self.desk.window.source,
            tokens_before=self.steps[0].before.tokens if self.steps else totals.size.tokens,
            tokens_after=last.after.tokens if last else totals.size.tokens,
            excess=totals.most.exceeded_by(size),
            steps=tuple(self.steps),
            cost=self.cost,
            calls=self.calls,
        )
