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

from roocontext.context import paper
from roocontext.context.desk import Desk, Steps
from roocontext.context.drift import watched
from roocontext.context.guard import NOTE, Guard
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
    InvalidPlan,
    RooContextError,
    StoreReadOnly,
    VersionConflict,
)
from roocontext.log.budget import Size
from roocontext.log.encoding import encode
from roocontext.log.plan import Action, Plan
from roocontext.log.spans import within
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.decision import Ask, Decision, Nothing, Ready, TooLarge
from roocontext.policies.default import Default, irreducible
from roocontext.policies.groups import size_of, turns
from roocontext.policies.situation import Aim, Load, Situation
from roocontext.policies.window import too_large
from roocontext.store.count import Call

_log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How many plans one run may commit, and how many summaries it may ask for."""


FALLBACK: Final = Default()
"""Cuts where a policy has no way to: on request, or when a provider refused the request."""


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
        load = yield from self._load(calls)
        if not self.quiet:
            for event in (yield from watched(self.desk, calls)):
                yield from self._fire(event)
        yield from self._refuse_system(load)
        if self.aim is Aim.MANAGE and not self._due(load):
            reason = "The last run did not help." if self.guard.holds(load) else "Nothing is due."
            return self._outcome(load, load.size, Ended(Status.NOOP, reason=reason))
        return (yield from self._compact(load))

    def _load(self, calls: list[Call]) -> Steps:
        """The totals, and what the notes say of earlier runs."""
        self.guard = Guard.of((yield self.desk.chat.newest_note(NOTE)))
        load: Load = yield from self.desk.load(calls[-1] if calls else None)
        return replace(load, failures=self.guard.failures)

    def _due(self, load: Load) -> bool:
        """Whether to look for something: the policy says so, or the request is too large."""
        return load.is_over or (self.settings.policy.due(load) and not self.guard.holds(load))

    def _compact(self, load: Load) -> Steps:
        """Decide and act until nothing more is due, at most a few times."""
        ended = Ended(Status.NOOP)
        situation = yield from self._situation(load)
        refusal = self._hopeless_from_the_start(situation)
        if refusal is not None:
            yield from self._refuse(refusal)
        for _ in range(ATTEMPTS):
            ended = yield from self._attempt(situation)
            if not ended.changed and ended.status is not Status.FAILED:
                break
            situation = yield from self._situation(load)
            if not self._more(situation, ended):
                break
        if ended.status not in (Status.VETOED, Status.CONFLICT):
            yield from self._refuse_rest(situation)
        return self._outcome(load, situation.size, ended)

    def _situation(self, load: Load) -> Steps:
        now = replace(load, failures=self.guard.failures)
        if self.steps:
            now = replace(now, reported=None)  # it spoke of another view
        situation: Situation = yield from self.desk.situation(
            now, aim=self.aim, trigger=self.trigger, cap=self.cap
        )
        if self.failed or (self.steps and self._must_fit and situation.load.is_over):
            return replace(situation, aim=Aim.TRUNCATE)  # what is left is to cut
        return situation

    @property
    def _must_fit(self) -> bool:
        """Whether the run may not end over the limits; a real program's imitation may."""
        return self.aim is Aim.MANAGE and not self.settings.policy.compat

    def _more(self, situation: Situation, ended: Ended) -> bool:
        """Whether another attempt is wanted after one that changed something, or failed."""
        if self.cap is not None:
            failed = ended.status is Status.FAILED
            return (ended.changed or failed) and situation.size.tokens > self.cap
        if self.failed:
            return (ended.changed or self._must_fit) and situation.load.is_over
        return self._must_fit and self.settings.policy.due(situation.load)

    def _attempt(self, situation: Situation) -> Steps:
        decision = self._decide(situation)
        match decision:
            case Nothing():
                return Ended(Status.NOOP, decision.status, decision.reason)
            case TooLarge() if self.cap is not None:  # it may still be within the window
                reason = f"{decision.needed:,} {decision.unit} have to stay."
                return Ended(Status.NOOP, reason=reason)
            case TooLarge():
                yield from self._refuse(decision)
            case Ready():
                return (yield from self._cut(situation, decision))
            case Ask():
                return (yield from self._condense(situation, decision))

    def _decide(self, situation: Situation) -> Decision:
        recovered = self.cap is not None and bool(self.steps)
        decision = (FALLBACK if recovered else self.settings.policy).decide(situation)
        no_way = isinstance(decision, Nothing) and situation.aim is Aim.TRUNCATE
        if no_way or (isinstance(decision, Nothing | TooLarge) and situation.aim is Aim.RECOVER):
            return FALLBACK.decide(situation)
        return decision

    def _refusal(self, situation: Situation, plan: Plan) -> TooLarge | None:
        """Why this plan would only lead to where nothing helps; None if it does not."""
        if not (self._must_fit and situation.load.is_over):
            return None
        after = paper.after(situation, plan, last_seq=situation.head_seq)
        return self._hopeless(after) if after.load.is_over else None

    def _hopeless_from_the_start(self, situation: Situation) -> TooLarge | None:
        """Why no plan of any kind would help, before anything is asked or hidden."""
        if self.aim is not Aim.MANAGE or not situation.load.is_over:
            return None
        refusal = irreducible(situation)
        if refusal is None:
            return None
        decision = self.settings.policy.decide(situation)
        return decision if isinstance(decision, TooLarge) else refusal

    def _hopeless(self, situation: Situation) -> TooLarge | None:
        """Why no more cutting would get the request within its limits; None if it would."""
        decision = self._decide(replace(situation, aim=Aim.TRUNCATE))
        return decision if isinstance(decision, TooLarge) else None

    def _cut(self, situation: Situation, ready: Ready) -> Steps:
        """Carry out a plan that needs no summary."""
        plan = ready.plan
        if refusal := self._refusal(situation, plan):
            yield from self._refuse(refusal)
        hides = tuple(row.seq for row in situation.visible if within(plan.hides, row.seq))
        heard = yield from self._announce(situation, plan.action, hides, plan)
        if heard.stopped:
            return Ended(Status.VETOED, ready.status, "A hook said no.")
        try:
            return (yield from self._commit(ready, heard))
        except InvalidPlan as error:
            return (yield from self._fail(error.fact, ready.status, latch=True))

    def _condense(self, situation: Situation, ask: Ask) -> Steps:
        """Ask for a summary, and carry out what is made of it."""
        heard = yield from self._announce(situation, Action.CONDENSE, ask.hides, None)
        if heard.stopped:
            return Ended(Status.VETOED, reason="A hook said no.")
        answer = yield from self._answer(ask)
        if isinstance(answer, _Composed) and self._refusal(situation, answer.ready.plan):
            answer = yield from self._fail("It leaves no room for what must stay.", latch=True)
        if isinstance(answer, _Composed):
            try:
                return (yield from self._commit(answer.ready, heard, answer.summary))
            except InvalidPlan as error:
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

    def _commit(self, ready: Ready, heard: Heard, summary: Summary | None = None) -> Steps:
        """Commit against the version that was planned on; appends alone in between do no harm."""
        record = {**ready.plan.record, "status": ready.status, **told(summary, heard)}
        plan = replace(ready.plan, record=record)
        try:
            committed = yield from self.desk.commit(plan)
        except VersionConflict as error:
            return Ended(Status.CONFLICT, ready.status, error.fact)
        step = Step(plan, committed, ready.status, summary)
        self.steps.append(step)
        yield from self._remember(plan)
        policy, now = self.settings.policy.name, self.settings.clock()
        yield from self._fire(AfterCompact(self.desk.chat.id, self.trigger, policy, step, now))
        return Ended(step.status, ready.status, changed=True)

    def _remember(self, plan: Plan) -> Steps:
        """Keep in a note what a commit changed of the guard, if anything."""
        counts = plan.counts
        assert counts is not None
        guard = self.guard.committed(
            counts.before, counts.after, condensed=plan.action is Action.CONDENSE
        )
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

    def _refuse_system(self, load: Load) -> Steps:
        refusal = too_large("system", self.desk.frame.overhead, load.most)
        if refusal is not None:
            yield from self._refuse(refusal)

    def _refuse_rest(self, situation: Situation) -> Steps:
        """Say in numbers what the policy could not help: all that is left, or the newest turn."""
        if self.aim is not Aim.MANAGE or not situation.load.is_over:
            return
        if self._must_fit:
            if refusal := self._hopeless(situation):
                yield from self._refuse(refusal)
        else:
            newest = size_of(turns(situation)[-1].rows).plus(situation.overhead)
            if newest.tokens > situation.window:
                yield from self._refuse(TooLarge("turn", newest.tokens, situation.window))

    def _refuse(self, large: TooLarge) -> Steps:
        """Raise the error, and leave one note of it."""
        error = refusal_of(large)
        facts = {"part": large.part, "needed": large.needed, "limit": large.limit}
        newest = yield self.desk.chat.newest_note(NOTE)
        content = {"event": "refused", **facts, "unit": large.unit, **Guard.of(newest).facts()}
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
        self, situation: Situation, action: Action, hides: tuple[int, ...], plan: Plan | None
    ) -> Steps:
        event = BeforeCompact(
            session_id=self.desk.chat.id,
            trigger=self.trigger,
            policy=self.settings.policy.name,
            action=action.value,
            tokens=situation.size.tokens,
            window=situation.window,
            hides=hides,
            clears=plan.clears if plan else (),
            plan=plan,
        )
        return self._fire(event)

    def _outcome(self, load: Load, size: Size, ended: Ended) -> Outcome:
        counts = [step.plan.counts for step in self.steps if step.plan.counts]
        last = self.steps[-1] if self.steps else None
        return Outcome(
            status=last.status if last else ended.status,
            detail=last.detail if last else ended.detail,
            reason=ended.reason,
            policy=self.settings.policy.name,
            trigger=self.trigger,
            counter=self.settings.counter.name,
            exact=self.settings.counter.exact,
            window=load.window,
            window_source=self.desk.window.source,
            tokens_before=counts[0].before if counts else load.size.tokens,
            tokens_after=counts[-1].after if counts else load.size.tokens,
            excess=load.most.exceeded_by(size),
            steps=tuple(self.steps),
            cost=self.cost,
            calls=self.calls,
        )
