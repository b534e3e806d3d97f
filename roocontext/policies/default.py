"""The product's own policy: clear old tool outputs first, then condense, then truncate.

It hides visible rows only, whole groups only, and never a pin, the pending question, a call that
waits for its result, or a summary that nothing takes the place of. It acts rarely and then goes
well below the limit, because each change of what was sent before costs the provider's cache. What
it decides ends within the model's context, or it says with numbers why nothing can.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import ClassVar, Final

from roocontext.errors import InvalidOption
from roocontext.log.counting import Budget, Size
from roocontext.log.entries import BlockRef, Kind, NewMessage
from roocontext.log.plan import CLEARED, LEFT_OUT, SHORTENED, Action, Plan
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.layout import Layout, total_size
from roocontext.policies.make_plan import (
    clear_plan,
    condensed,
    hide_plan,
    measured,
    outgoing,
    say,
    shrinks,
    size_without,
    summarised_before,
    summary_row,
)
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Ready,
    Refused,
    Situation,
    TooLarge,
    Totals,
)
from roocontext.policies.tool_outputs import Output, clearable, shortenings, stripped

RESERVED: Final = 8_192
"""The tokens kept free for the answer of a model whose longest answer is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """Shares are of the room: the model's context without what is kept free for its answer.

    Above `threshold` something is done; clearing alone is enough if it ends at or under `relief`,
    everything else aims at `target`. The newest groups that fit in `keep` are not touched. A
    summary may have `summary` of the room, but no more than `longest` tokens. After `patience`
    failures in a row no summary is asked for any more until one is requested.
    """

    name: ClassVar[str] = "default"
    compat: ClassVar[bool] = False

    threshold: float = 0.85
    relief: float = 0.65
    target: float = 0.5
    keep: float = 0.25
    summary: float = 0.1
    longest: int = 8_000
    reserve: int | None = None
    most_reserved: int = 32_000
    patience: int = 3
    placeholder: str = CLEARED
    marker: str = LEFT_OUT
    style: str = "default"

    def __post_init__(self) -> None:
        for name in ("threshold", "relief", "target", "keep", "summary"):
            share = getattr(self, name)
            if not isinstance(share, int | float) or not 0 < share <= 1:
                raise InvalidOption(f"{name} must be above 0 and at most 1.", name=name)

    def due(self, totals: Totals) -> bool:
        """True if the request is above the threshold, by our count or by the provider's."""
        return bool(self.level(totals, self.threshold).exceeded_by(totals.size))

    def decide(self, situation: Situation) -> Decision:
        """Decide how to reach the situation's aim."""
        return _Work(self, Layout(situation)).decision()

    def irreducible(self, situation: Situation) -> TooLarge | None:
        """The numbers of what no plan can take away, if they are over the limits."""
        return _Work(self, Layout(situation)).refusal()

    def room(self, totals: Totals) -> int:
        """The tokens that a request may have, in our count.

        If the provider reported more than we counted, each counted token is worth that much more.
        """
        reserve = self.reserve
        if reserve is None:
            # Some models can answer with half of their window: that much is not kept free.
            reserve = min(totals.output or RESERVED, self.most_reserved, totals.window // 4)
        room = max(1, totals.window - reserve)
        counted, reported = totals.size.tokens, totals.reported.total if totals.reported else 0
        if totals.window >= reported > counted > 0:  # what was answered was not over the window
            # The report is of the request with everything around it, and our count is an estimate
            # of that.
            room = max(1, room * counted // reported)
        return room

    def level(self, totals: Totals, share: float, cap: int | None = None) -> Budget:
        """A share of each of the three budgets."""
        room = self.room(totals)
        if cap is not None:
            room = min(room, cap)
        bytes_, images = totals.limits.bytes, totals.limits.images
        return Budget(
            int(room * share),
            None if bytes_ is None else int(bytes_ * share),
            None if images is None else ceil(images * share),
        )


@dataclass(frozen=True)
class _Work:
    """One decision while it is made; what is asked of the layout is found once."""

    policy: Default
    layout: Layout

    @property
    def situation(self) -> Situation:
        """The input of the policy."""
        return self.layout.situation

    def decision(self) -> Decision:
        """The plan or question that reaches the situation's aim, or why none does."""
        refusal = self.refusal()
        if refusal is not None:
            return refusal
        match self.situation.aim:
            case Aim.CLEAR:
                return self._clear() or Nothing("No old tool output is left to clear.")
            case Aim.CONDENSE:
                return self._condense() or Nothing("Nothing is old enough to condense.")
            case Aim.TRUNCATE:
                return self._cut() or Nothing("Nothing may be left out.")
        return self._relieve()

    def refusal(self) -> TooLarge | None:
        """The numbers of what no plan can take away, if they are over the limits.

        `needed` includes the marker, so a window of that size suffices.
        """
        if not self._limits.exceeded_by(self._least()):
            return None
        return TooLarge.if_over("turn", self._least(summaries=True), self._limits)

    def _relieve(self) -> Decision:
        """Clear if that is enough, else condense, else truncate."""
        share = 1.0 if self.situation.aim is Aim.RECOVER else self.policy.threshold
        if not self._goal(share).exceeded_by(self.situation.size):
            return Nothing("The context is within its limits.")
        # First: nothing is lost that the log does not have, no model is asked, and the calls stay.
        cleared = self._clear()
        if cleared and not self._goal(self.policy.relief).exceeded_by(self._after(cleared.plan)):
            return cleared
        # The history is not hidden for outputs that would not fit without it either.
        shortened = self._shorten()
        if shortened and not self._goal(share).exceeded_by(self._after(shortened.plan)):
            return shortened
        return (
            self._condense()
            or self._cut()
            or Nothing("All that is left is recent, pinned or pending.")
        )

    def _goal(self, share: float) -> Budget:
        return self.policy.level(self._load, share, self.situation.cap)

    @cached_property
    def _load(self) -> Totals:
        return self.situation.totals

    @cached_property
    def _limits(self) -> Budget:
        """The limits of the request, whatever the policy aims at."""
        return self._load.most

    # Clearing

    def _after(self, plan: Plan) -> Size:
        return size_without(self.situation, plan.clears, plan.placeholder, plan.keeps)

    def _clear(self) -> Ready | None:
        """All old outputs at once: one change of the prefix, not one for each."""
        return self._cleared(self._old_outputs)

    def _squeeze(self) -> Ready | None:
        """Recent outputs too: after the old ones, the largest first, as many as it takes.

        Those that no reply has read are shortened if that is not enough.
        """
        goal = self._goal(self.policy.relief)
        left = self.situation.size
        chosen: list[Output] = []
        for output in sorted(
            (output for output in self._outputs if not output.fresh),
            key=lambda one: (one.place[0] in self._recent, -one.saves.tokens),
        ):
            if not goal.exceeded_by(left):
                break
            chosen.append(output)
            left = left.minus(output.saves)
        goal = self._goal(1.0)
        return self._cleared(chosen, goal if goal.exceeded_by(left) else None)

    def _shorten(self) -> Ready | None:
        """If fresh outputs are what is too large, shorten them, and clear the old ones with them.

        They keep what the recent groups may have: what they leave over is for the history.
        """
        if not any(self._surplus):
            return None
        rest = self.situation.size.minus(self._surplus)
        target = self._goal(self.policy.target)
        tokens = max(target.tokens or 0, rest.tokens)
        bytes_ = None if target.bytes is None else max(target.bytes, rest.bytes)
        return self._cleared(self._old_outputs, replace(target, tokens=tokens, bytes=bytes_))

    def _cleared(self, outputs: Collection[Output], goal: Budget | None = None) -> Ready | None:
        """Clear these outputs, and shorten fresh ones until the request is under the goal."""
        situation, name = self.situation, self.policy.name
        places = [output.place for output in outputs]
        placeholder = self.policy.placeholder
        keeps: Mapping[BlockRef, tuple[int, int]] = {}
        if goal is not None and self._fresh_outputs:
            left = size_without(situation, places, placeholder)
            keeps = shortenings(situation, self._fresh_outputs, size=left, goal=goal)
            placeholder = SHORTENED if keeps else placeholder
        if not (places or keeps):
            return None
        plan = clear_plan(situation, [*places, *keeps], placeholder, policy=name, keeps=keeps)
        return Ready(plan, "cleared") if shrinks(plan) else None

    @cached_property
    def _outputs(self) -> tuple[Output, ...]:
        return clearable(self.layout, self.policy.placeholder)

    @cached_property
    def _old_outputs(self) -> list[Output]:
        return [
            output
            for output in self._outputs
            if not (output.fresh or output.place[0] in self._recent)
        ]

    @cached_property
    def _fresh_outputs(self) -> list[Output]:
        return [output for output in self._outputs if output.fresh]

    @cached_property
    def _surplus(self) -> Size:
        """The excess of fresh outputs over the share of the room that recent groups may have."""
        share = self._goal(self.policy.keep)
        saves = [output.saves for output in self._fresh_outputs]
        tokens = sum(saved.tokens for saved in saves) - (share.tokens or 0)
        bytes_ = 0 if share.bytes is None else sum(saved.bytes for saved in saves) - share.bytes
        return Size(max(tokens, 0), max(bytes_, 0))

    # Condensing

    def _condense(self) -> Ask | None:
        """One summary in the place of all that is old, the summary before it included.

        A summary that is alone is summarised itself only when nothing else would do.
        """
        situation, policy = self.situation, self.policy
        tired = situation.failures >= policy.patience and situation.trigger != "manual"
        stays = self.layout.held(summaries=False) | self._recent
        old = tuple(row for row in situation.visible if row.seq not in stays)
        news = [row for row in old if row.message.kind is Kind.MESSAGE]
        # Summarised again and again, a summary loses detail each time.
        alone = () if news or not self._goal(1.0).exceeded_by(situation.size) else old
        size = total_size(old)
        share = self._goal(policy.summary).tokens or 0
        hides = tuple(row.seq for row in old)
        # At least half must be saved: a summary that barely helps costs a call and the provider's
        # cache. With its heading, the shortest may be longer than what it replaces.
        heading = measured(situation, [summary_row(situation, "", hides)]).tokens
        longest = min(share, policy.longest, size.tokens // 2, size.tokens - heading - 1)
        most = situation.window if situation.cap is None else self._goal(1.0).tokens or 0
        free = most - situation.size.minus(size).tokens - heading
        # Shortened again at each cut, one that is alone would lose everything and not be enough.
        if free > 0 or (alone and situation.cap is not None):
            longest = min(longest, free)
        if tired or not (news or alone) or longest < 1:
            return None
        request = SummaryRequest(
            messages=outgoing(news or alone),
            style=policy.style,
            previous=summarised_before(old) if news else None,
            longest=longest,
            characters=longest * size.bytes // max(1, size.tokens),
        )
        instead = self._cut() if self._goal(1.0).exceeded_by(situation.size) else None
        return Ask(
            request,
            lambda summary: self._compose(hides, summary),
            hides,
            otherwise=instead if isinstance(instead, Ready) else None,
        )

    def _compose(self, hides: Collection[int], summary: Summary) -> Ready | Refused:
        row = summary_row(self.situation, summary.text, hides)
        plan = hide_plan(self.situation, Action.CONDENSE, hides, [row], policy=self.policy.name)
        return condensed(plan, summary)

    @cached_property
    def _recent(self) -> frozenset[int]:
        """The newest groups, which stay as they are: the last one, and those that fit with it."""
        # Of a short session asked to condense, a share of the room would be all of it.
        room = min(self._goal(1.0).tokens or 0, self.situation.size.tokens)
        left = int(room * self.policy.keep)
        tail: set[int] = set()
        for group in reversed(self.layout.groups):
            left -= group.size.tokens
            if tail and left < 0:
                break
            tail |= group.seqs
        return frozenset(tail)

    # Truncating

    def _cut(self) -> Ready | TooLarge | None:
        """Without a summary: leave out what is old, or else clear what is recent."""
        refusal = TooLarge.if_over("turn", self._least(summaries=True), self._limits)
        if refusal is not None:
            return refusal
        fits = not self._limits.exceeded_by(self.situation.size)
        shortened = None if fits else self._shorten()
        if shortened and not self._limits.exceeded_by(self._after(shortened.plan)):
            return shortened
        cut = self._truncate()
        # Asked to truncate what fits, it leaves messages out but destroys no recent output.
        asked = self.situation.aim is Aim.TRUNCATE and fits
        return cut if cut or asked else self._squeeze()

    def _truncate(self) -> Ready | None:
        """A marker in the place of the oldest groups, as many as it takes."""
        situation = self.situation
        goal = self._goal(self.policy.target)
        if situation.aim is Aim.TRUNCATE and not goal.exceeded_by(situation.size):
            goal = Budget(situation.size.tokens // 2)
        # Over the bytes alone, it must still become smaller in tokens: no other plan is committed.
        goal = replace(goal, tokens=min(goal.tokens or 0, situation.size.tokens - 1))
        # Fresh outputs are shortened once nothing older is left to hide.
        left = situation.size.plus(self._marker_size).minus(self._surplus)
        gone: set[int] = set()
        held = self.layout.held()
        for group in (group for group in self.layout.groups[:-1] if not group.seqs & held):
            if not goal.exceeded_by(left):
                break
            gone |= group.seqs
            left = left.minus(group.size)
        if not gone:
            return None
        marker = [self._marker]
        plan = hide_plan(situation, Action.TRUNCATE, gone, marker, policy=self.policy.name)
        return Ready(plan, "truncated") if shrinks(plan) else None

    @cached_property
    def _marker(self) -> NewMessage:
        return say(self.situation, "user", self.policy.marker)

    @cached_property
    def _marker_size(self) -> Size:
        return measured(self.situation, [self._marker])

    def _least(self, *, summaries: bool = False) -> Size:
        """The least size of any plan; with `summaries`, of those without a new summary."""
        newest = (group.seqs for group in self.layout.groups[-1:])
        stays = self.layout.held(summaries=summaries).union(*newest)
        rows = [row for row in self.situation.visible if row.seq in stays]
        bare = stripped(self.situation, rows, self._outputs, self.policy.placeholder)
        least = self.situation.overhead.plus(bare)
        if not summaries:
            return least
        gone = total_size(row for row in self.situation.visible if row.seq not in stays)
        # A marker is only written if it is smaller than what it replaces.
        return least.plus(min(self._marker_size, gone))
