"""Gemini CLI: the older 70 percent of a history become a snapshot of the state.

`gemini` does what the documentation says and keeps every law: it hides only whole groups of visible
rows, never pins or waiting calls, and only if the summary is not empty and makes the context
smaller. `gemini-upstream` does what the recorded program does, version 0.21. It differs in two
points: it keeps pins and sealed compactions, and it refuses an empty summary, because no store
could hold one.

A session is a list of contents, each a role and parts, and rows of other formats are converted. The
program's decisions depend on the length of a content's JSON as JavaScript measures it. Statuses are
recorded by name, because their numbers changed later. The prompt for a summary is in our own words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.entries import Message
from roocontext.log.events import AfterCompact, Event
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import Block, gemini, reader
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.make_plan import hide_plan, naming_hidden, outgoing, say
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
from roocontext.programs.shared import is_over, leave_out_rows, summary_request
from roocontext.summarisers.prompts import read_prompt
from roocontext.tokens.javascript import stringify, truthy, units

Content: TypeAlias = Block
"""A role, user or model, and parts."""

PRESERVED: Final = 0.3
"""The share of a history, by the length of its JSON, that is kept when the rest is compressed."""

COMPRESSED: Final = 1 - PRESERVED


def content_of(message: Message) -> Content:
    """A row as a content: unchanged, or converted to one."""
    read = reader(message.format)
    if read is gemini.GEMINI:
        content = {"role": message.role, **message.content}
        return {**content, "parts": gemini.parts_of(content)} if content.get("parts") else content
    role, blocks = read.blocks(message.role, message.content)
    return {"role": "model" if role == "assistant" else "user", "parts": [*map(_part, blocks)]}


def text_content(role: str, text: str) -> Content:
    """A content with one text."""
    return {"role": role, "parts": [{"text": text}]}


def content_parts(content: Content) -> list[Any]:
    """The parts, if any."""
    return content.get("parts") or []


def curated(contents: Sequence[Content]) -> list[int]:
    """The indices that are sent. One blank content drops its whole run of model contents."""
    kept: list[int] = []
    for from_model, run in groupby(range(len(contents)), lambda i: _is_model(contents[i])):
        indices = list(run)
        if not from_model or all(_is_valid(contents[index]) for index in indices):
            kept += indices
    return kept


def weights(contents: Sequence[Content]) -> list[int]:
    """The length of each content's JSON in UTF-16 units."""
    return [units(stringify(content)) for content in contents]


def split_point(contents: Sequence[Content], fraction: float = COMPRESSED) -> int:
    """The number of contents at the beginning that make up this fraction, to be compressed.

    The cut is before the first user message, other than a tool response, with at least that
    fraction before it. If there is none and the model spoke last without calling a tool, everything
    is compressed; otherwise, everything before the last user message.
    """
    if not 0 < fraction < 1:
        raise InvalidOption("Fraction must be between 0 and 1", name="fraction")
    lengths = weights(contents)
    target = sum(lengths) * fraction
    before = last = 0
    for index, content in enumerate(contents):
        if content.get("role") == "user" and not _has(content, "functionResponse"):
            if before >= target:
                return index
            last = index
        before += lengths[index]
    if contents and _is_model(contents[-1]) and not _has(contents[-1], "functionCall"):
        return len(contents)
    return last


def _is_model(content: Content) -> bool:
    return content.get("role") == "model"


def _is_valid(content: Content) -> bool:
    parts = content_parts(content)
    return bool(parts) and not any(_is_blank(part) for part in parts)


def _is_blank(part: Any) -> bool:
    return not part or (part.get("text") == "" and not truthy(part.get("thought")))


def _has(content: Content, key: str) -> bool:
    return any(truthy(part.get(key)) for part in content_parts(content))


def _part(block: Block) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "thinking", "thinking": str(text)}:
            return {"text": text, "thought": True}
        case {"type": "tool_use", "id": tool_id, "name": name}:
            return {"functionCall": {"id": tool_id, "name": name, "args": block.get("input")}}
        case {"type": "tool_result", "tool_use_id": tool_id}:
            output = {"output": block.get("content")}
            return {"functionResponse": {"id": tool_id, "response": output}}
        case {"type": "image", "source": {"media_type": str(mime), "data": data}}:
            return {"inlineData": {"mimeType": mime, "data": data}}
    return block


THRESHOLD: Final = 0.5
"""The share of the window at which a history is compressed automatically."""

CROWDED: Final = 0.95
"""The share of the room left by the last prompt that a request may take."""

ACKNOWLEDGEMENT: Final = "Got it. Thanks for the additional context!"
"""The model's reply to the summary, which the program writes itself."""

INSTRUCTION: Final = "First, reason in your scratchpad. Then, generate the <state_snapshot>."
"""The last user text of the request for a summary."""

ALIASES: Final = {
    "gemini-3-pro-preview": "chat-compression-3-pro",
    "gemini-3-flash-preview": "chat-compression-3-flash",
    "gemini-2.5-pro": "chat-compression-2.5-pro",
    "gemini-2.5-flash": "chat-compression-2.5-flash",
    "gemini-2.5-flash-lite": "chat-compression-2.5-flash-lite",
}
"""The program's configured name of the model that summarises for each model."""

DEFAULT_ALIAS: Final = "chat-compression-default"

MODELS: Final = {alias: model for model, alias in ALIASES.items()} | {
    DEFAULT_ALIAS: "gemini-2.5-pro"
}
"""The models that these names stand for in the program's own configuration."""


class CompressionStatus(StrEnum):
    """The outcome of a compression."""

    COMPRESSED = "COMPRESSED"
    INFLATED = "COMPRESSION_FAILED_INFLATED_TOKEN_COUNT"
    COUNT_ERROR = "COMPRESSION_FAILED_TOKEN_COUNT_ERROR"  # declared but never used in 0.21
    EMPTY_SUMMARY = "COMPRESSION_FAILED_EMPTY_SUMMARY"
    NOOP = "NOOP"


class Attempt(NamedTuple):
    """Compress the first `split` contents; 0 means none.

    `tokens` is the count that a NOOP reports. Hooks run (`notifies`) unless the attempt ended
    before the count was compared.
    """

    split: int
    tokens: int
    notifies: bool


def attempt(
    contents: Sequence[Content],
    tokens: int,
    *,
    window: int,
    forced: bool,
    failed: bool,
    threshold: float = THRESHOLD,
    fraction: float = COMPRESSED,
) -> Attempt:
    """Decide on a curated history; `tokens` is the reported size of the last prompt."""
    if not contents or (failed and not forced):
        return Attempt(0, 0, notifies=False)
    if not forced and tokens < threshold * window:
        return Attempt(0, tokens, notifies=True)
    return Attempt(split_point(contents, fraction), tokens, notifies=True)


def compressed(contents: Sequence[Content], split: int, summary: str) -> list[Content]:
    """The history with the summary and the model's reply in place of the first contents."""
    pair = text_content("user", summary), text_content("model", ACKNOWLEDGEMENT)
    return [*pair, *contents[split:]]


def verdict(before: int, after: int) -> CompressionStatus:
    """Judge the sizes before and after; an equal size is not a failure."""
    return CompressionStatus.INFLATED if after > before else CompressionStatus.COMPRESSED


def latch_after(failed: bool, *, forced: bool, status: str) -> bool:  # noqa: FBT001 - the state it turns into the next one
    """True if automatic attempts stop; `failed` says whether they had stopped before this one."""
    if status == CompressionStatus.COMPRESSED:
        return False
    if status in (CompressionStatus.INFLATED, CompressionStatus.EMPTY_SUMMARY):
        return failed or not forced
    return failed


def overflows(request: int, *, window: int, last_prompt: int) -> bool:
    """True if a request takes nearly all the room that the last prompt left, or more."""
    return request > CROWDED * (window - last_prompt)


def alias_for(model: str) -> str:
    """The name of the model that summarises for a model."""
    return ALIASES.get(model, DEFAULT_ALIAS)


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
    models: ClassVar[Mapping[str, str]] = MODELS

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
        """The rows before the cut, in whole groups, without fixed rows and what is unread."""
        contents = [content_of(row.message) for row in situation.visible]
        kept = curated(contents)
        split = split_point([contents[index] for index in kept], self.fraction)
        before = {row.seq for row in _before(situation, kept, split)}
        layout = Layout(situation)
        parts = layout.groups
        stays = whole_groups(parts, layout.fixed | layout.waiting | layout.fresh)
        # A group that the cut would divide stays whole, after the cut.
        divided = (part.seqs for part in parts if not part.seqs <= before)
        before -= stays.union(*divided)
        return [row for row in situation.visible if row.seq in before]

    def _compose(
        self, situation: Situation, hides: Sequence[int], summary: Summary
    ) -> Ready | Refused:
        if not summary.text.strip():
            return _refused(situation, CompressionStatus.EMPTY_SUMMARY, "The summary is empty.")
        text = naming_hidden(situation, summary.text, hides)
        plan = _plan(situation, hides, text, policy=self.name)
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
    models: ClassVar[Mapping[str, str]] = MODELS
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
        tried = attempt(
            history,
            _last_prompt(situation.totals),
            window=situation.window,
            forced=_is_forced(situation),
            failed=bool(situation.failures),
            threshold=self.threshold,
            fraction=self.fraction,
        )
        layout = Layout(situation)
        fixed = whole_groups(layout.groups, layout.fixed)
        old = [row for row in _before(situation, kept, tried.split) if row.seq not in fixed]
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

        # The program raises the error to its user, and tries again at the next request.
        return Ask(request, compose, hides, latch=False)

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
            "threshold is a share of the window, and must not be negative.", name="threshold"
        )
    if not 0 < fraction < 1:
        raise InvalidOption("fraction must be between 0 and 1, both excluded.", name="fraction")


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
