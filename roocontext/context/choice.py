"""The next action of a run: the policy's answer, or the fallback's if that answer is not enough.

Unless the policy's answer is final, a run of `manage` with a law-keeping policy ends within the
limits or in a refusal. A compat policy imitates its program, and may end over the limits.

Also the situation that a plan would leave, without committing it, and the state that stops a
session from compacting again and again without effect.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidMessage, InvalidPlan
from roocontext.log.check_plan import check_form, check_rows
from roocontext.log.clearing import ShownOutput, by_row, shown_in, with_cleared
from roocontext.log.counting import Size
from roocontext.log.entries import Kind, Message, natural_position
from roocontext.log.plan import Action, Counts, Plan, place_rows
from roocontext.log.spans import Span, within
from roocontext.policies.builtin import FALLBACK
from roocontext.policies.layout import total_size, turns
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Policy,
    Ready,
    Row,
    Situation,
    TooLarge,
    Totals,
)
from roocontext.store.reading.notes import Note

TOO_LITTLE: Final = 0.05


@dataclass(frozen=True, slots=True)
class CompactionState:
    """The results of the last compactions of a session.

    The newest note of its kind holds it, so it survives a crash, a rewind and another process.

    `failures` counts the condensations that failed in a row. A run on request does not add to it,
    and a condensation that was committed sets it to zero.

    `stalled` is the size after a compaction that removed less than a twentieth. Nothing is tried
    again until the context has grown by a twentieth of the window beyond that size, is over the
    window, a run is requested, or a summary, marker or clearing is uncovered.
    """

    failures: int = 0
    stalled: int | None = None

    @classmethod
    def of(cls, newest: Note | None) -> "CompactionState":
        """Read it from the newest note of its kind."""
        if newest is None:
            return cls()
        # An agent may write notes of this kind with any content.
        given = (newest.content.get(name) for name in ("failures", "stalled"))
        failures, stalled = (it if type(it) is int and it >= 0 else None for it in given)
        return cls(failures or 0, stalled)

    def failed(self, *, counts: bool) -> "CompactionState":
        """The state after a condensation that failed."""
        return replace(self, failures=self.failures + 1) if counts else self

    def committed(self, before: int, after: int, *, condensed: bool) -> "CompactionState":
        """The state after a plan was committed."""
        little = before - after < TOO_LITTLE * before
        return CompactionState(0 if condensed else self.failures, after if little else None)

    def uncovered(self) -> "CompactionState":
        """The state after a summary, marker or clearing was uncovered: a run may help now."""
        return replace(self, stalled=None)

    def waits(self, totals: Totals) -> bool:
        """True if another run would most likely change as little as the last one."""
        return (
            self.stalled is not None
            and not totals.is_over
            and totals.size.tokens < self.stalled + TOO_LITTLE * totals.window
        )

    def facts(self) -> dict[str, Any]:
        """The state as a note holds it."""
        return {"failures": self.failures, "stalled": self.stalled}


def situation_after(situation: Situation, plan: Plan, *, last_seq: int) -> Situation:
    """The situation that a plan leaves if the log ended at `last_seq`."""
    if plan.action is Action.CLEAR:
        cleared = by_row(shown_in(plan.placeholder, plan.clears, plan.keeps))
        rows = tuple(
            _cleared(situation, cleared[row.seq], row) if row.seq in cleared else row
            for row in situation.rows
        )
        return replace(situation, rows=rows, head_seq=last_seq + 1)
    name = f"plan-{last_seq + 1 + plan.lead}"
    new = list(_new_rows(situation, plan, name, last_seq))
    rows = tuple(_tagged(row, plan, name) for row in situation.rows)
    at = _place(rows, plan, last_seq)
    return replace(
        situation, rows=(*rows[:at], *new, *rows[at:]), head_seq=last_seq + len(plan.rows)
    )


def _cleared(situation: Situation, outputs: Mapping[int, ShownOutput], row: Row) -> Row:
    message = with_cleared(row.message, outputs)
    size = situation.measure(message.role, message.content, message.format)
    return replace(row, message=message, size=size)


def _tagged(row: Row, plan: Plan, name: str) -> Row:
    if not within(plan.hides, row.seq):
        return row
    if plan.action is Action.CONDENSE:
        return replace(row, condense_parent=name)
    return replace(row, truncation_parent=name)


def _place(rows: Sequence[Row], plan: Plan, last_seq: int) -> int:
    """The index of the plan's first row, by the rule that a commit places it by."""
    spans = [Span(row.seq, row.seq, natural_position(index)) for index, row in enumerate(rows)]
    hidden = [span.position for span in spans if within(plan.hides, span.lo)]
    if not hidden:  # no row that is known: the commit will refuse it, a preview shows it at the end
        return len(rows)
    first, *_ = place_rows(plan, spans, max(hidden), first_seq=last_seq + 1)
    return sum(span.position < first for span in spans)


def _new_rows(situation: Situation, plan: Plan, name: str, last_seq: int) -> Iterator[Row]:
    for index, row in enumerate(plan.rows):
        seq, kind = last_seq + 1 + index, plan.hider if index == plan.lead else Kind.COMPANION
        content = (row.role, row.content, row.format)
        # The plan's name links its rows, as the compaction id will.
        message = Message(seq, kind, *content, row.ts, situation.now, row.message_id, name)
        yield Row(message, situation.measure(*content))


PLAN_ERRORS: Final = (InvalidPlan, InvalidMessage)
"""The errors of a plan that can never be committed."""


class MeasuredPlan(NamedTuple):
    """A plan with the counts of the manager's own counter, and the situation that it leaves."""

    ready: Ready
    before: Size
    after: Situation


def measured_plan(situation: Situation, ready: Ready) -> MeasuredPlan:
    """Measure a policy's plan with the manager's counter, or raise one of PLAN_ERRORS."""
    check_rows(ready.plan)
    check_form(ready.plan)
    left = situation_after(situation, ready.plan, last_seq=situation.head_seq)
    before = situation.size
    counts = Counts(situation.counter, before, left.size, situation.exact)
    plan = replace(ready.plan, counts=counts)
    return MeasuredPlan(replace(ready, plan=plan), before, left)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choices of one run. `aim` is the requested one; a situation may have another."""

    policy: Policy
    aim: Aim

    @property
    def must_fit(self) -> bool:
        """True if the run may not end over the limits."""
        return self.aim is Aim.MANAGE and not self.policy.compat

    def decide(self, situation: Situation, *, recut: bool) -> Decision:
        """The next action; `recut` is True if a recovery has cut once already."""
        if recut:
            return FALLBACK.decide(situation)
        if self.must_fit and situation.aim is Aim.TRUNCATE:
            return self._last_resort(situation)
        decision = self.policy.decide(situation)
        match decision:
            case TooLarge() if situation.aim is Aim.RECOVER:
                return FALLBACK.decide(situation)
            case Nothing(final=False) if self.must_fit and situation.totals.is_over:
                return self._last_resort(situation)
            case Nothing(final=False) if self.aim in (Aim.TRUNCATE, Aim.RECOVER):
                return self._instead(situation, decision)
        return decision

    def refusal(self, situation: Situation) -> TooLarge | None:
        """The refusal if no plan can bring the request within its limits; else None."""
        if self.aim is not Aim.MANAGE or not situation.totals.is_over:
            return None
        if self.policy.compat:
            return self._stuck(situation)
        refusal = FALLBACK.irreducible(situation)
        if refusal is None:
            return None
        decision = self.policy.decide(situation)
        return decision if isinstance(decision, TooLarge) else refusal

    def refusal_after(self, situation: Situation) -> TooLarge | None:
        """The refusal if no more cutting can help after a plan; else None."""
        if not (self.must_fit and situation.totals.is_over):
            return None
        decision = self._last_resort(situation)
        return decision if isinstance(decision, TooLarge) else None

    def _last_resort(self, situation: Situation) -> Decision:
        """The policy's own cut, if it is enough; else the fallback's."""
        wanted = replace(situation, aim=Aim.TRUNCATE)
        decision = self.policy.decide(wanted)
        match decision:
            case TooLarge() | Nothing(final=True):
                return decision
            case Ready() if _fits_after(wanted, decision):
                return decision
        return FALLBACK.decide(wanted)

    def _instead(self, situation: Situation, nothing: Nothing) -> Decision:
        """The fallback's answer if the policy has none."""
        decision = FALLBACK.decide(situation)
        # A program may hide what the fallback would keep: its limits do not bind the program.
        is_refusal = isinstance(decision, TooLarge)
        return nothing if is_refusal and self.policy.compat else decision

    def _stuck(self, situation: Situation) -> TooLarge | None:
        """The refusal if the newest turn is over the limits and the program could not send it.

        A program counts by the provider's report if it has one, and sends what fits by that.
        """
        reported = situation.reported
        if reported is not None and reported.total <= situation.window:
            return None
        newest = (row for turn in turns(situation)[-1:] for row in turn.rows)
        refusal = _refusal(situation, newest)
        if refusal is None or _may_fit(situation, self.policy.decide(situation)):
            return None
        return refusal


def _may_fit(situation: Situation, decision: Decision | None) -> bool:
    """True if the request may be within its limits after this, with a summary of any length."""
    match decision:
        case Ready():
            return _fits_after(situation, decision)
        case Ask():
            hidden = frozenset(decision.hides)
            stays = (row for row in situation.visible if row.seq not in hidden)
            return not _refusal(situation, stays) or _may_fit(situation, decision.otherwise)
    return False


def _refusal(situation: Situation, rows: Iterable[Row]) -> TooLarge | None:
    size = situation.overhead.plus(total_size(rows))
    return TooLarge.if_over("turn", size, situation.totals.most)


def _fits_after(situation: Situation, ready: Ready) -> bool:
    try:
        return not measured_plan(situation, ready).after.totals.is_over
    except PLAN_ERRORS:
        return False
