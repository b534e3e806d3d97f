"""OpenCode: old tool outputs are cleared, and a full window is replaced by a summary.

A question of the user and the assistant's answer, the summary, hide everything before them.
`opencode` does what the documentation says and keeps every law: it hides only whole groups of
visible rows, and never pins, waiting calls or the user's messages since the assistant last did
anything. `opencode-upstream` does what the program does: it hides those messages too, and clears
outputs that are already hidden.

The program's prompt for a summary, in our own words.

OpenCode's event of a compaction, made from ours.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, ClassVar, Final

from roocontext.log.entries import Kind, NewMessage
from roocontext.log.events import AfterCompact, Event
from roocontext.log.plan import Action, Plan
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.layout import SYSTEM, Layout, groups, turns, whole_groups
from roocontext.policies.make_plan import (
    clear_plan,
    condensed,
    hide_plan,
    naming_hidden,
    outgoing,
    say,
    shrinks,
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
    Totals,
)
from roocontext.programs.opencode.prune import (
    MINIMUM,
    OUTPUT_MAX,
    PLACEHOLDER,
    PROTECT,
    Estimate,
    estimate_length,
    estimate_upstream,
    passes,
    prunable,
    reserve,
    steps_of,
)
from roocontext.programs.shared import is_over, leave_out_rows, summary_request
from roocontext.summarisers.prompts import read_prompt

QUESTION: Final = "What did we do so far?"
"""The question in the user's name; the summary is its answer."""

CONTINUE: Final = "Continue if you have next steps"
"""The message in the user's name after an automatic summary."""

STYLE: Final = "opencode"
"""The prompt for a summary."""

COMPACTED: Final = "compacted"
PRUNED: Final = "pruned"

NOTHING_OLD: Final = Nothing("There is nothing that a summary could take the place of.")
SWITCHED_OFF: Final = Nothing("Compaction is switched off.")
UNWANTED: Final = replace(SWITCHED_OFF, final=True)
NOTHING_DUE: Final = Nothing("No compaction is due or allowed, and too little could be cleared.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program(ABC):
    """The options of both profiles, and what both do on request."""

    name: ClassVar[str]
    compat: ClassVar[bool]
    switched: ClassVar[bool] = True

    autocompact: bool = True
    prune: bool = True
    protect: int = PROTECT
    minimum: int = MINIMUM
    output_max: int = OUTPUT_MAX
    spared: frozenset[str] = frozenset()

    def decide(self, situation: Situation) -> Decision:
        """Compact when the window is full, or else clear old outputs."""
        match situation.aim:
            case Aim.MANAGE:
                return self._managed(situation)
            case Aim.CLEAR:
                return self._pruned(situation) or Nothing("Too little could be cleared.")
            case Aim.TRUNCATE:
                return Nothing("OpenCode leaves nothing out without a summary.")
            case Aim.RECOVER if not self.autocompact:
                return SWITCHED_OFF
        return self._compaction(situation) or NOTHING_OLD

    @abstractmethod
    def _managed(self, situation: Situation) -> Decision:
        """The decision before a call of the model."""

    def _spared(self, situation: Situation) -> frozenset[int]:
        """The rows whose outputs are not cleared."""
        return whole_groups(groups(situation), situation.pins)

    @abstractmethod
    def _pruned(self, situation: Situation) -> Ready | None:
        """Clear the old outputs, if that is worth it."""

    @abstractmethod
    def _compaction(self, situation: Situation) -> Ask | None:
        """Ask for a summary, if there is anything to replace."""

    def _clearing(
        self, situation: Situation, rows: Sequence[Row], estimate: Estimate
    ) -> Plan | None:
        """The plan to clear the outputs that a walk over these rows finds, except pins."""
        if not self.prune:
            return None
        prune = prunable(
            steps_of(rows, without=self._spared(situation)),
            estimate,
            spared=self.spared | situation.protected_tools,
            protect=self.protect,
            minimum=self.minimum,
        )
        if not prune.refs:
            return None
        record = {"outputs": prune.total, "pruned": prune.pruned}
        return clear_plan(
            situation,
            prune.refs,
            PLACEHOLDER,
            policy=self.name,
            compat=self.compat,
            record=record,
        )

    def _condensing(
        self, situation: Situation, hides: Sequence[int], text: str, *, continues: bool
    ) -> Plan:
        """The plan that replaces the hidden rows by question and summary."""
        return hide_plan(
            situation,
            Action.CONDENSE,
            hides,
            _rows(situation, text, continues=continues),
            lead=1,
            policy=self.name,
            compat=self.compat,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCode(_Program):
    """Clears and compacts as the documentation says; without `autocompact` only on request.

    `protect` and `minimum` are tokens by OpenCode's estimate. Tools in `spared` are never cleared.
    At most `output_max` tokens are reserved for an answer, and never more than half of the window.
    """

    name: ClassVar[str] = "opencode"
    compat: ClassVar[bool] = False

    def due(self, totals: Totals) -> bool:
        """True if the context overflows, or may hold enough to be worth clearing."""
        return self._overflows(totals) or (self.prune and self._may_hold_enough(totals))

    def _managed(self, situation: Situation) -> Decision:
        if not self._overflows(situation.totals):
            return self._pruned(situation) or self._unhelped()
        asked = None if situation.failures else self._compaction(situation)
        return asked or self._instead(situation)

    def _overflows(self, totals: Totals) -> bool:
        """True if the next request will leave less than the reserve, or is over another limit."""
        reserved = min(reserve(totals.output or 0, self.output_max), totals.window // 2)
        tokens = totals.reported.total if totals.reported else totals.size.tokens
        full = passes(tokens, context=totals.window, reserved=reserved) or is_over(totals)
        return self.autocompact and full

    def _may_hold_enough(self, totals: Totals) -> bool:
        """A token of the estimate has four bytes; 0 bytes means that bytes were not counted."""
        return not totals.size.bytes or totals.size.bytes > 4 * max(self.protect, self.minimum)

    def _spared(self, situation: Situation) -> frozenset[int]:
        """Those that no reply has read stay too."""
        layout = Layout(situation)
        return whole_groups(layout.groups, situation.pins) | layout.fresh

    def _pruned(self, situation: Situation) -> Ready | None:
        plan = self._clearing(situation, situation.visible, estimate_length)
        return Ready(plan, PRUNED) if plan and shrinks(plan) else None

    def _compaction(self, situation: Situation) -> Ask | None:
        """Fixed rows, waiting calls and messages that the assistant has not worked on stay."""
        layout = Layout(situation)
        unread = layout.waiting | layout.fresh | _unanswered(situation)
        stays = whole_groups(layout.groups, layout.fixed | unread)
        old = [row for row in situation.visible if row.seq not in stays]
        continues = situation.trigger == "auto" and old[-1:] == list(situation.visible[-1:])
        companions = _rows(situation, "", continues=continues)
        request = summary_request(situation, old, companions, style=STYLE)
        if request is None:
            return None
        hides = tuple(row.seq for row in old)

        def compose(summary: Summary) -> Ready | Refused:
            text = naming_hidden(situation, summary.text, hides)
            plan = self._condensing(situation, hides, text, continues=continues)
            return condensed(plan, summary, COMPACTED)

        instead = self._instead(situation) if situation.aim is Aim.MANAGE else None
        return Ask(request, compose, hides, instead if isinstance(instead, Ready) else None)

    def _instead(self, situation: Situation) -> Decision:
        """The steps without a summary: clear and, if the window is exceeded, truncate."""
        return self._pruned(situation) or leave_out_rows(situation, "No summary can be asked for.")

    def _unhelped(self) -> Nothing:
        """Without `autocompact`, a full window is not cut either."""
        return NOTHING_DUE if self.autocompact else UNWANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCodeUpstream(_Program):
    """Does what the program did. `spared=SPARED_NEWER` is the behaviour since 2026."""

    name: ClassVar[str] = "opencode-upstream"
    compat: ClassVar[bool] = True
    counted_as: ClassVar[str] = "opencode-upstream"

    def due(self, totals: Totals) -> bool:
        """True if the last call overflows; only the messages show what is worth clearing."""
        return self.prune or self._overflows(totals)

    def _managed(self, situation: Situation) -> Decision:
        if self._overflows(situation.totals) and _has_answered(situation):
            return self._compaction(situation) or NOTHING_OLD
        return self._pruned(situation) or NOTHING_DUE

    def _overflows(self, totals: Totals) -> bool:
        """True if the last call left less than the reserve; later rows are ignored."""
        reported = totals.reported
        tokens = reported.input + reported.output if reported else totals.size.tokens
        reserved = reserve(totals.output or 0, self.output_max)
        return self.autocompact and passes(tokens, context=totals.window, reserved=reserved)

    def _pruned(self, situation: Situation) -> Ready | None:
        plan = self._clearing(situation, situation.rows, estimate_upstream)
        return Ready(plan, PRUNED) if plan else None

    def _compaction(self, situation: Situation) -> Ask | None:
        """Only pins and sealed compactions stay."""
        layout = Layout(situation)
        fixed = whole_groups(layout.groups, layout.fixed)
        old = [row for row in situation.visible if row.seq not in fixed]
        if not old:
            return None
        hides = tuple(row.seq for row in old)
        continues = situation.trigger == "auto"

        def compose(summary: Summary) -> Ready | Refused:
            if not summary.text.strip():
                return Refused("The summary is empty.", "empty_summary", latch=False)
            plan = self._condensing(situation, hides, summary.text, continues=continues)
            return Ready(plan, COMPACTED)

        request = SummaryRequest(messages=outgoing(old), style=STYLE)
        instead = self._pruned(situation) if situation.aim is Aim.MANAGE else None
        return Ask(request, compose, hides, instead)


def _rows(situation: Situation, text: str, *, continues: bool) -> list[NewMessage]:
    """The rows in place of the old ones: question, answer and, if asked, a request to continue."""
    rows = [say(situation, "user", QUESTION), say(situation, "assistant", text)]
    return [*rows, say(situation, "user", CONTINUE)] if continues else rows


def _unanswered(situation: Situation) -> frozenset[int]:
    """The user's messages since the assistant's last text or call, or the last tool result."""
    seqs: set[int] = set()
    for turn in reversed(turns(situation)):
        if turn.question is None or any(map(_answers, turn.rows[1:])):
            break
        seqs.add(turn.question.seq)
    return frozenset(seqs)


def _answers(row: Row) -> bool:
    """True if a row of a turn is the assistant's or a tool's, and no marker or system message."""
    return row.message.kind is Kind.MESSAGE and row.message.role not in SYSTEM


def _has_answered(situation: Situation) -> bool:
    """True if the assistant's newest message is an answer, and not a summary."""
    kinds = (
        row.message.kind
        for row in reversed(situation.visible)
        if row.message.role in ("assistant", "model")
    )
    return next(kinds, None) is Kind.MESSAGE


PROMPT: Final = read_prompt(files(__package__) / "prompt.md")


def opencode_event(event: Event) -> dict[str, Any] | None:
    """session.compacted; None where the program has no event."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    return {"type": "session.compacted", "properties": {"sessionID": event.session_id}}
