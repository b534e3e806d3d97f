"""Gemini CLI: the older 70 percent of a history become a snapshot of the state.

`gemini` does what the documentation says and keeps every law: it hides only whole groups of visible
rows, never pins or waiting calls, and only if the summary is not empty and makes the context
smaller. `gemini-upstream` does what the recorded program does. It differs in two points: it keeps
pins, and it refuses an empty summary, because no store could hold one.

The program's prompt for a summary, in our own words.

Gemini CLI's event of a compression, made from ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, ClassVar, Final, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.events import AfterCompact, Event
from roocontext.log.plan import Action, Plan
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.layout import Layout, groups, whole_groups
from roocontext.policies.make_plan import hide_plan, outgoing, say
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
from roocontext.programs.gemini_cli.compression import (
    ACKNOWLEDGEMENT,
    ALIASES,
    COMPRESSED,
    INSTRUCTION,
    THRESHOLD,
    Attempt,
    CompressionStatus,
    Content,
    alias_for,
    attempt,
    compressed,
    content_of,
    curated,
    latch_after,
    overflows,
    split_point,
    verdict,
)
from roocontext.programs.shared import is_over, leave_out_rows, summary_request
from roocontext.summarisers.prompts import read_prompt

STYLE: Final = "gemini"
"""The prompt for a snapshot of the state."""

CountContents: TypeAlias = Callable[[list[Content]], int]
"""The size of a history, as the program counts it."""

_ABSENT: Final = {
    Aim.CLEAR: Nothing("Gemini CLI clears no tool outputs.", CompressionStatus.NOOP),
    Aim.TRUNCATE: Nothing(
        "Gemini CLI leaves nothing out without a summary.", CompressionStatus.NOOP
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemini:
    """Compresses `fraction` of the history above `threshold` of the window; 0 means always."""

    name: ClassVar[str] = "gemini"
    compat: ClassVar[bool] = False

    threshold: float = THRESHOLD
    fraction: float = COMPRESSED

    def __post_init__(self) -> None:
        _check(self.threshold, self.fraction)

    def due(self, totals: Totals) -> bool:
        """True if the threshold is reached or, after a failure, if the window is exceeded."""
        return self._is_crowded(totals) and (not totals.failures or is_over(totals))

    def decide(self, situation: Situation) -> Decision:
        """Ask for a snapshot when it is due, or say why it is not."""
        if situation.aim in _ABSENT:
            return _ABSENT[situation.aim]
        if not _is_forced(situation):
            if not self._is_crowded(situation.totals):
                return Nothing("Less than the threshold is in use.", CompressionStatus.NOOP)
            if situation.failures:
                return leave_out_rows(situation, "The last compression failed.")
        old = self._old(situation)
        thanks = say(situation, "assistant", ACKNOWLEDGEMENT)
        model = ALIASES.get(situation.model)
        request = summary_request(situation, old, [thanks], style=STYLE, model=model)
        if request is None:
            return leave_out_rows(
                situation, "There is nothing that a summary could take the place of."
            )
        hides = tuple(row.seq for row in old)
        instead = leave_out_rows(situation, "")
        return Ask(
            request,
            lambda summary: self._compose(situation, hides, summary),
            hides,
            otherwise=instead if isinstance(instead, Ready) else None,
        )

    def _is_crowded(self, totals: Totals) -> bool:
        """True if the threshold is reached, or the request would leave almost no room."""
        reported = totals.reported
        last, request = (
            (reported.input, reported.total - reported.input)
            if reported
            else (0, totals.size.tokens)
        )
        return (
            last + request >= self.threshold * totals.window
            or overflows(request, window=totals.window, last_prompt=last)
            or is_over(totals)
        )

    def _old(self, situation: Situation) -> list[Row]:
        """The rows before the cut, in whole groups, without pins and what is unread."""
        contents = [content_of(row.message) for row in situation.visible]
        kept = curated(contents)
        split = split_point([contents[index] for index in kept], self.fraction)
        before = {row.seq for row in _before(situation, kept, split)}
        layout = Layout(situation)
        parts = layout.groups
        stays = whole_groups(parts, situation.pins | layout.waiting | layout.fresh)
        # A group that the cut would divide stays whole, after the cut.
        divided = (part.seqs for part in parts if not part.seqs <= before)
        before -= stays.union(*divided)
        return [row for row in situation.visible if row.seq in before]

    def _compose(
        self, situation: Situation, hides: Sequence[int], summary: Summary
    ) -> Ready | Refused:
        if not summary.text.strip():
            return _refused(situation, CompressionStatus.EMPTY_SUMMARY, "The summary is empty.")
        plan = _plan(situation, hides, summary.text, policy=self.name)
        assert plan.counts is not None
        before, after = plan.counts.before.tokens, plan.counts.after.tokens
        if after >= before:
            reason = f"It would go from {before:,} tokens to {after:,}."
            return _refused(situation, CompressionStatus.INFLATED, reason)
        return Ready(plan, CompressionStatus.COMPRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiUpstream:
    """Does what the program did. `count` counts a history; the default is the session's counter."""

    name: ClassVar[str] = "gemini-upstream"
    compat: ClassVar[bool] = True
    counted_as: ClassVar[str] = "gemini"
    limited_as: ClassVar[str] = "gemini"

    threshold: float = THRESHOLD
    fraction: float = COMPRESSED
    count: CountContents | None = None

    def __post_init__(self) -> None:
        _check(self.threshold, self.fraction)

    def due(self, totals: Totals) -> bool:
        """True if the last prompt reached the threshold, and nothing failed since."""
        return not totals.failures and _last_prompt(totals) >= self.threshold * totals.window

    def decide(self, situation: Situation) -> Decision:
        """Ask for a snapshot as the program would, or say that it would not."""
        if situation.aim in _ABSENT:
            return _ABSENT[situation.aim]
        contents = [content_of(row.message) for row in situation.visible]
        kept = curated(contents)
        history = [contents[index] for index in kept]
        tried = self._attempt(situation, history)
        pinned = whole_groups(groups(situation), situation.pins)
        old = [row for row in _before(situation, kept, tried.split) if row.seq not in pinned]
        if not old:
            return Nothing(
                f"Nothing is compressed at {tried.tokens:,} tokens.", CompressionStatus.NOOP
            )
        request = SummaryRequest(
            messages=outgoing(situation.visible[index] for index in kept[: tried.split]),
            style=STYLE,
            instruction=INSTRUCTION,
            model=alias_for(situation.model),
        )
        hides = tuple(row.seq for row in old)

        def compose(summary: Summary) -> Ready | Refused:
            new = compressed(history, tried.split, summary.text)
            return self._judged(situation, hides, summary.text, new)

        return Ask(request, compose, hides)

    def _attempt(self, situation: Situation, history: list[Content]) -> Attempt:
        return attempt(
            history,
            _last_prompt(situation.totals),
            window=situation.window,
            forced=_is_forced(situation),
            failed=bool(situation.failures),
            threshold=self.threshold,
            fraction=self.fraction,
        )

    def _judged(
        self, situation: Situation, hides: Sequence[int], text: str, history: list[Content]
    ) -> Ready | Refused:
        """Compare the provider's report with the program's count, as the program does."""
        if not text.strip():
            return _refused(situation, CompressionStatus.EMPTY_SUMMARY, "The summary is empty.")
        plan = _plan(situation, hides, text, policy=self.name, compat=True)
        assert plan.counts is not None
        # Two different measures: the program compares them all the same.
        before = _last_prompt(situation.totals)
        after = plan.counts.after.tokens if self.count is None else self.count(history)
        status = verdict(before, after)
        if status is CompressionStatus.INFLATED:
            reason = f"It would go from {before:,} tokens to {after:,}."
            return _refused(situation, status, reason)
        sizes = {"original": before, "new": after}
        return Ready(replace(plan, record={**plan.record, **sizes}), status)


def _check(threshold: float, fraction: float) -> None:
    if threshold < 0:
        raise InvalidOption(
            "threshold is a share of the window and must not be negative.", name="threshold"
        )
    if not 0 < fraction < 1:
        raise InvalidOption("fraction is between 0 and 1, without both.", name="fraction")


def _is_forced(situation: Situation) -> bool:
    """True if the user asked for it, or a provider has refused the request."""
    return situation.aim is not Aim.MANAGE


def _last_prompt(totals: Totals) -> int:
    """The last prompt as reported or, without a report, as we count it."""
    return totals.size.tokens if totals.reported is None else totals.reported.input


def _before(situation: Situation, kept: Sequence[int], split: int) -> tuple[Row, ...]:
    """The rows of the first `split` contents of a curated history, and those dropped among them."""
    if not split:
        return ()
    return situation.visible[: kept[split]] if split < len(kept) else situation.visible


def _plan(
    situation: Situation, hides: Sequence[int], text: str, *, policy: str, compat: bool = False
) -> Plan:
    rows = say(situation, "user", text), say(situation, "assistant", ACKNOWLEDGEMENT)
    return hide_plan(situation, Action.CONDENSE, hides, rows, policy=policy, compat=compat)


def _refused(situation: Situation, status: CompressionStatus, reason: str) -> Refused:
    forced, failed = _is_forced(situation), bool(situation.failures)
    return Refused(reason, status, latch=latch_after(failed, forced=forced, status=status))


PROMPT: Final = read_prompt(files(__package__) / "prompt.md")


def gemini_event(event: Event) -> dict[str, Any] | None:
    """ChatCompressed; None where the program has no event. Its status is a name, not a number."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    return {
        "type": "chat_compressed",
        "value": {
            "originalTokenCount": event.step.before.tokens,
            "newTokenCount": event.step.after.tokens,
            "compressionStatus": "COMPRESSED",
        },
    }
