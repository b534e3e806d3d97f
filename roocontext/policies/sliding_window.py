"""The sliding window: the newest whole turns that fit; a marker replaces what is older.

The result never costs more than the limit, the marker included. The system prompt, the tools, the
newest turn, pins and living summaries always stay. If they alone are over the limit, nothing is
hidden, and the refusal has the numbers.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from roocontext.log.counting import Budget, Size
from roocontext.log.plan import Action
from roocontext.policies.layout import Layout
from roocontext.policies.make_plan import (
    budget_of,
    hide_plan,
    leaving,
    marker,
    measured,
    narrowest,
    turns_among,
    whole_turns,
)
from roocontext.policies.situation import (
    Aim,
    Decision,
    Nothing,
    Ready,
    Row,
    Situation,
    TooLarge,
    Totals,
)
from roocontext.policies.tool_outputs import fitted


@dataclass(frozen=True, slots=True)
class PruningInfo:
    """The effect of a prune: turns that lose messages, and the tokens before and after."""

    turns_to_remove: int
    original_length: int
    pruned_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """Keeps the newest whole turns within `limit` less `reserve`; None is the model's window."""

    limit: int | None = None
    reserve: int = 0
    name: ClassVar[str] = "sliding_window"
    compat: ClassVar[bool] = False
    limited_as: ClassVar[str] = "sliding_window"

    def due(self, totals: Totals) -> bool:
        """True if the request is over the limit."""
        return bool(budget_of(totals, self.limit, self.reserve).exceeded_by(totals.size))

    def decide(self, situation: Situation) -> Decision:
        """Hide what does not fit, or say why that would not do. It neither condenses nor clears."""
        if situation.aim in (Aim.CONDENSE, Aim.CLEAR):
            return Nothing("A sliding window only leaves out what is old.")
        budget = budget_of(situation.totals, self.limit, self.reserve, situation.cap)
        if not budget.exceeded_by(situation.size):
            return Nothing("The context fits.")
        layout = Layout(situation)
        leaves = TooLarge.if_over("system", situation.overhead, budget) or _leaving(layout, budget)
        if isinstance(leaves, TooLarge):
            least = _least(layout)
            return fitted(layout, least, budget, policy=self.name) or leaves
        hides = {row.seq for row in leaves}
        record = {"turns": turns_among(layout, hides)}
        row, name = marker(situation), self.name
        plan = hide_plan(situation, Action.TRUNCATE, hides, [row], policy=name, record=record)
        return Ready(plan, "truncated")

    def get_pruning_info(self, situation: Situation) -> PruningInfo:
        """The effect that `decide` would have; no turns if it would do nothing."""
        decision = self.decide(situation)
        plan = decision.plan if isinstance(decision, Ready) else None
        if plan is None or plan.counts is None:
            return PruningInfo(0, situation.size.tokens, situation.size.tokens)
        before, after = plan.counts.before.tokens, plan.counts.after.tokens
        return PruningInfo(plan.record.get("turns", 0), before, after)


def _least(layout: Layout) -> Size:
    """The smallest size: the rows that must stay, and the marker itself."""
    situation = layout.situation
    stays = narrowest(situation, whole_turns(layout), layout.held())
    return stays.plus(measured(situation, [marker(situation)]))


def _leaving(layout: Layout, budget: Budget) -> tuple[Row, ...] | TooLarge:
    situation, parts, held = layout.situation, whole_turns(layout), layout.held()
    least = _least(layout)
    # Over the bytes alone, it must still become smaller in tokens: no other plan is committed.
    goal = replace(budget, tokens=min(budget.tokens or 0, situation.size.tokens - 1))
    if goal.exceeded_by(least):
        refusal = TooLarge.if_over("turn", least, budget) or TooLarge.if_over(
            "turn", situation.size, budget
        )
        assert refusal is not None, "decide asks only when the context is over the budget"
        return refusal
    return leaving(parts, held, least, goal)
