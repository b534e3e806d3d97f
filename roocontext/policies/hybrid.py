"""A summary and a window: what is old is summarised, what is recent stays as it is.

The view has at most one summary. When rows leave the window, the next summary is made from the last
one and from these rows, and replaces both. The newest turn is cut only if it does not fit, and then
between its tool calls: its question and its end stay.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from roocontext.errors import InvalidOption
from roocontext.log.counting import Budget, Size
from roocontext.log.entries import Kind, NewMessage
from roocontext.log.plan import Action, Plan
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.layout import Layout, total_size, whole_groups
from roocontext.policies.make_plan import (
    Part,
    budget_of,
    condensed,
    hide_plan,
    leaving,
    marker,
    measured,
    narrowest,
    outgoing,
    summarised_before,
    summary_row,
    turns_among,
    whole_turns,
    without,
)
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Ready,
    Refused,
    Row,
    Situation,
    TooLarge,
    Totals,
)
from roocontext.policies.tool_outputs import fitted

# Generous: English has about 4, and a summary that is over the bytes would be refused.
_BYTES_PER_TOKEN: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """Keeps a summary and a window of recent turns within `limit` less `reserve`.

    When it must act it goes down to `target` of that, so that it need not act at every message.
    The summary may have `share` of the room that system prompt and tools leave, but not less than
    `least` nor more than `most` tokens, and never more than half of the room. After `patience`
    failures in a row, a marker replaces old messages, and a summary is only asked for on request.
    """

    limit: int | None = None
    reserve: int = 0
    target: float = 0.7
    share: float = 0.25
    least: int = 256
    most: int = 8000
    patience: int = 3
    style: str = "default"
    name: ClassVar[str] = "hybrid"
    compat: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("target", "share"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidOption(f"{name} must be above 0 and at most 1.", name=name)

    def due(self, totals: Totals) -> bool:
        """True if the request is over the limit."""
        return bool(budget_of(totals, self.limit, self.reserve).exceeded_by(totals.size))

    def decide(self, situation: Situation) -> Decision:
        """Summarise what leaves the window, or say why that would not do."""
        if situation.aim is Aim.CLEAR:
            return Nothing("Nothing is cleared: what is old is summarised.")
        budget = budget_of(situation.totals, self.limit, self.reserve, situation.cap)
        over = bool(budget.exceeded_by(situation.size))
        if not over and situation.aim not in (Aim.CONDENSE, Aim.TRUNCATE):
            return Nothing("The context fits.")
        refusal = TooLarge.if_over("system", situation.overhead, budget)
        if refusal is not None:
            return refusal
        work = _Work(self, situation, budget)
        latched = situation.failures >= self.patience and situation.trigger != "manual"
        if latched or situation.aim is Aim.TRUNCATE:
            return work.marking()
        return work.condensation()


@dataclass(frozen=True)
class _Work:
    """One decision while it is made."""

    policy: Hybrid
    situation: Situation
    limit: Budget

    def condensation(self) -> Decision:
        """Ask for a summary of what leaves, or say why that would not do."""
        leaves = self._leaves
        if leaves is None:
            return self._refusal(self._held, self._replaced)
        hides = self._replaced.union(row.seq for row in leaves)
        over = self.limit.exceeded_by(self.situation.size)
        if not over and (not leaves or self._gone(hides).tokens <= self._marker.tokens):
            return Nothing("What is older than the newest turn is not worth a summary.")
        return Ask(
            self._request(hides),
            lambda summary: self._compose(hides, summary),
            tuple(sorted(hides)),
            self.truncation,
        )

    def marking(self) -> Decision:
        """Replace the rows to be summarised by a marker, or say why that would not do."""
        return self.truncation or self._refusal(self._fixed, frozenset())

    @cached_property
    def truncation(self) -> Ready | None:
        """A plan that needs no summary: the living one stays, and if it must more leaves."""
        # First what the summary would have replaced, so that its failure hides the same rows.
        for leaves in (self._leaves, self._window(self._fixed, frozenset(), self._marker)):
            hides = {row.seq for row in leaves or ()} - self._fixed
            after = self.situation.size.minus(self._gone(hides)).plus(self._marker)
            if hides and self._useful(after):
                return Ready(
                    self._plan(Action.TRUNCATE, hides, marker(self.situation)), "truncated"
                )
        return None

    @cached_property
    def _leaves(self) -> tuple[Row, ...] | None:
        """The rows that the next summary replaces besides the last one; None if nothing helps."""
        # If a whole summary does not fit, a short one may: the least is what a marker takes.
        for new in (self._summary, self._marker):
            leaves = self._window(self._held, self._replaced, new)
            if leaves is not None:
                return leaves
        return None

    def _window(
        self, stays: frozenset[int], replaced: frozenset[int], new: Size
    ) -> tuple[Row, ...] | None:
        """The rows that leave so that whole turns stay, or else a part of the newest one."""
        # Whole turns if that is enough; a turn without its beginning is harder to follow.
        for whole in (self._turns, self._groups):
            parts = without(whole, replaced)
            spent = narrowest(self.situation, parts, stays).plus(new)
            if not self.limit.exceeded_by(spent):
                # Over the images alone, enough must leave to be worth what takes its place.
                most = self.situation.size.tokens + new.tokens - 2 * self._marker.tokens
                goal = replace(self._goal, tokens=min(self._goal.tokens or 0, most))
                return leaving(parts, stays, spent, goal)
        return None

    def _refusal(
        self, stays: frozenset[int], replaced: frozenset[int]
    ) -> Ready | TooLarge | Nothing:
        """Shorten fresh outputs if what must stay fits then, or give its numbers."""
        refusal = TooLarge.if_over("turn", self.situation.size, self.limit)
        if refusal is None:
            return Nothing("Nothing is older than the newest turn.")
        parts = without(self._groups, replaced)
        least = narrowest(self.situation, parts, stays).plus(self._marker)
        return (
            fitted(self._layout, least, self.limit, policy=self.policy.name)
            or TooLarge.if_over("turn", least, self.limit)
            or refusal
        )

    def _compose(self, hides: frozenset[int], summary: Summary) -> Ready | Refused:
        plan = self._plan(Action.CONDENSE, hides, self._row(summary.text, hides))
        answer = condensed(plan, summary)
        counts = plan.counts
        if isinstance(answer, Ready) and counts and self.limit.exceeded_by(counts.after):
            return Refused("The summary does not fit with the rows that stay.", "oversized_summary")
        return answer

    def _plan(self, action: Action, hides: Collection[int], row: NewMessage) -> Plan:
        turns = turns_among(self._layout, hides)
        name, record = self.policy.name, {"turns": turns}
        return hide_plan(self.situation, action, hides, [row], policy=name, record=record)

    def _request(self, hides: frozenset[int]) -> SummaryRequest:
        """The last summary and what leaves; a summary that leaves alone is itself summarised."""
        rows = [row for row in self.situation.visible if row.seq in hides]
        written = [row for row in rows if row.message.kind is Kind.MESSAGE]
        gone, longest = total_size(rows), self._longest(hides)
        return SummaryRequest(
            messages=outgoing(written or rows),
            style=self.policy.style,
            previous=summarised_before(rows) if written else None,
            longest=longest,
            characters=longest * gone.bytes // max(gone.tokens, 1) or None,
        )

    def _longest(self, hides: Collection[int]) -> int:
        """The tokens that a summary may have: its share, as far as it fits and helps."""
        gone = self._gone(hides)
        heading = measured(self.situation, [self._row("", hides)]).tokens
        free = (self.limit.tokens or 0) - (self.situation.size.tokens - gone.tokens)
        return max(min(self._summary.tokens, free, gone.tokens - 1) - heading, 1)

    def _row(self, summary: str, hides: Collection[int]) -> NewMessage:
        return summary_row(self.situation, summary, hides)

    def _gone(self, hides: Collection[int]) -> Size:
        return total_size(row for row in self.situation.visible if row.seq in hides)

    def _useful(self, after: Size) -> bool:
        smaller = after.tokens < self.situation.size.tokens
        return smaller and not self.limit.exceeded_by(after)

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.situation)

    @cached_property
    def _turns(self) -> list[Part]:
        return whole_turns(self._layout)

    @cached_property
    def _groups(self) -> list[Part]:
        return [group.rows for group in self._layout.groups]

    @cached_property
    def _fixed(self) -> frozenset[int]:
        """The size that remains without a summary."""
        return self._layout.held()

    @cached_property
    def _held(self) -> frozenset[int]:
        """The size that remains if the next summary replaces the last one."""
        return self._layout.held(summaries=False)

    @cached_property
    def _replaced(self) -> frozenset[int]:
        """The visible summaries that are not pinned."""
        living = {row.seq for row in self._layout.summaries}
        return whole_groups(self._layout.groups, living) - self._held

    @cached_property
    def _base(self) -> int:
        """The limit; or the size, when it is asked to act on what fits."""
        limit = self.limit.tokens or 0
        over = self.limit.exceeded_by(self.situation.size)
        return limit if over else min(limit, self.situation.size.tokens)

    @cached_property
    def _goal(self) -> Budget:
        limits = (self._base, self.limit.bytes, self.limit.images)
        return Budget(
            *(None if limit is None else int(limit * self.policy.target) for limit in limits)
        )

    @cached_property
    def _marker(self) -> Size:
        return measured(self.situation, [marker(self.situation)])

    @cached_property
    def _summary(self) -> Size:
        """The room for the next summary."""
        policy, room = self.policy, max(self._base - self.situation.overhead.tokens, 0)
        share = min(max(int(room * policy.share), policy.least), policy.most, room // 2)
        return Size(share, share * _BYTES_PER_TOKEN)
