"""A summary without a model: extracted from the messages, and deterministic.

It keeps what a coding agent needs to continue: the goal, the user's rules, the files, actions and
errors, the plan, and the last words of both sides. It carries over the content of earlier
summaries, within bounds. It needs no network, and it is the fallback when a model fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from roocontext.errors import SummaryFailed
from roocontext.log.readings import RoleAndBlocks, words_of
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.extractive import sentences, todos
from roocontext.summarisers.extractive.actions import ToolAction, actions
from roocontext.summarisers.extractive.outline import (
    Section,
    SummaryOutline,
    bounded,
    file,
    fit,
    is_extract,
    merged,
    parse_outline,
)
from roocontext.summarisers.transcript import TOKEN, clean, readings, transcript

LONGEST_SUMMARY: Final = 4_000
"""The longest summary in tokens when the request sets no limit."""

_CHARACTERS: Final = 2
"""Characters per token. Deliberately low, because some counters add a margin of their own."""


@dataclass(frozen=True, slots=True)
class Extractive:
    """Extracts a summary locally; it sends nothing."""

    name: ClassVar[str] = "extractive"

    def summarise(self, request: SummaryRequest) -> Summary:
        """Extract a summary within the length that the request allows."""
        read = readings(request.messages)
        before, fresh = _before(read, request.previous)
        goal = [] if clean(request.previous or "").strip() else _opening(read)
        outline = merged(merged({Section.GOAL: goal}, before), _outline(fresh, goal))
        if not outline:  # no section applies: list each message in a line
            outline = bounded({Section.ACTIONS: transcript(request.messages)})
        text = fit(outline, _room(request))
        if not text:
            raise SummaryFailed(
                f"{self.name} gave no summary: {len(read)} messages have no text, or there is"
                " no room for any.",
                summariser=self.name,
                kind="empty",
            )
        return Summary(text=text, summariser=self.name, cost=0.0)


def _room(request: SummaryRequest) -> int:
    """The most that the summary may weigh."""
    longest = LONGEST_SUMMARY if request.longest is None else request.longest
    if request.characters is None:
        return longest * _CHARACTERS
    # An extract has more tokens per character than its source: paths, marks, few long words.
    return min(longest * TOKEN, request.characters * 7 // 10)


def _before(
    read: Sequence[RoleAndBlocks], previous: str | None
) -> tuple[SummaryOutline, list[RoleAndBlocks]]:
    """The merged outline of earlier summaries, and the messages that are not summaries."""
    outline, other = parse_outline(clean(previous or ""))
    if other:
        outline = merged({Section.EARLIER: [other], Section.GOAL: sentences.goal(other)}, outline)
    fresh = []
    for role, blocks in read:
        text = words_of(blocks)
        if is_extract(text):
            outline = merged(outline, parse_outline(clean(text))[0])
        elif not previous or text.strip() != previous.strip():
            fresh.append((role, blocks))
    # Quotes may be cut or replaced later. Collecting their rules now keeps the rules.
    quoted = [*outline.get(Section.GOAL, []), *outline.get(Section.LAST, [])]
    rules = {Section.RULES: [rule for text in quoted for rule in sentences.rules(text)]}
    return merged(rules, outline), fresh


def _opening(read: Sequence[RoleAndBlocks]) -> list[str]:
    """The user's first request. If a summary comes before it, that summary holds the goal."""
    for role, blocks in read:
        text = words_of(blocks)
        if is_extract(text):
            return []
        if role == "user" and (request := clean(sentences.own_words(text))).strip():
            return [request]
    return []


def _outline(read: Sequence[RoleAndBlocks], goal: Sequence[str]) -> SummaryOutline:
    """All sections except the goal, from messages that are not summaries."""
    users = _texts_of(read, "user")
    agents = _texts_of(read, "assistant")
    done = actions(read)
    return {
        Section.RULES: [rule for text in users for rule in sentences.rules(text)],
        Section.FINDINGS: [finding for text in agents for finding in sentences.findings(text)],
        Section.FILES: [file(path, [deed]) for act in done for path, deed in act.touches],
        Section.ERRORS: _errors(done),
        Section.ACTIONS: [f"{act.call} -> {act.outcome}" for act in done],
        Section.PLAN: _plan(read),
        Section.REQUESTS: users[len(goal) : -1],
        Section.STATE: agents[-1:],
        Section.LAST: users[-1:],
    }


def _errors(done: Sequence[ToolAction]) -> list[str]:
    """The failed calls, and whether the same call succeeded later."""
    succeeded: set[str] = set()
    errors = []
    for act in reversed(done):
        if act.error is None:
            succeeded.add(act.call)
        else:
            errors.append(
                f"{act.call}: {act.error}{' (succeeded later)' * (act.call in succeeded)}"
            )
    return errors[::-1]


def _plan(read: Sequence[RoleAndBlocks]) -> list[str]:
    """The newest plan. A numbered list counts only when there is no checklist."""
    plan: list[str] = []
    listed: list[str] = []
    for role, blocks in read:
        for block in blocks:
            match block:
                case {"type": "tool_use"}:
                    plan = todos.plan_of_call(block.get("input")) or plan
                case {"type": "text", "text": str(text)} if role == "assistant":
                    plan = todos.checklist(text) or plan
                    listed = todos.numbered_items(text) or listed
    return plan or listed


def _texts_of(read: Sequence[RoleAndBlocks], speaker: str) -> list[str]:
    """The texts of one side, one for each message that has any."""
    texts = (
        clean(sentences.own_words(words_of(blocks))) for role, blocks in read if role == speaker
    )
    return [text for text in texts if text.strip()]
