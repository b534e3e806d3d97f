"""A summary without a model: taken from the messages themselves, the same every time.

It keeps what a coding agent needs to go on: the goal, the user's rules, the files, what was done
and what went wrong, the plan, the last words. What the summaries before it kept is kept on, within
bounds. It is what works without a network, and what is left when a model fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from roocontext.errors import SummaryFailed
from roocontext.log.pairs import Reading
from roocontext.log.readings import words_of
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.extractive import sentences, todos
from roocontext.summarisers.extractive.actions import Action, actions
from roocontext.summarisers.extractive.fit import fit
from roocontext.summarisers.extractive.outline import (
    Outline,
    Section,
    bounded,
    file,
    is_extract,
    merged,
    parse,
)
from roocontext.summarisers.shorten import TOKEN, clean
from roocontext.summarisers.transcript import readings, transcript

LONGEST: Final = 4_000
"""How many tokens a summary may have when the request does not say."""

_CHARACTERS: Final = 2
"""How many a token has here: fewer than anywhere, for counters that add a margin of their own."""


@dataclass(frozen=True, slots=True)
class Extractive:
    """Extracts a summary; nothing is sent anywhere."""

    name: ClassVar[str] = "extractive"

    def summarise(self, request: SummaryRequest) -> Summary:
        """Extract a summary that is no longer than the request allows."""
        read = readings(request.messages)
        before, fresh = _before(read, request.previous)
        goal = [] if clean(request.previous or "").strip() else _opening(read)
        outline = merged(merged({Section.GOAL: goal}, before), _outline(fresh, goal))
        if not outline:  # nobody said or did anything that is known: a line for each message
            outline = bounded({Section.ACTIONS: transcript(request.messages)})
        text = fit(outline, _room(request))
        if not text:
            raise SummaryFailed(
                f"{self.name} gave no summary: {len(read)} messages hold no text, or there is no"
                " room for any.",
                summariser=self.name,
                kind="empty",
            )
        return Summary(text=text, summariser=self.name, cost=0.0)


def _room(request: SummaryRequest) -> int:
    """What the summary may weigh."""
    longest = LONGEST if request.longest is None else request.longest
    if request.characters is None:
        return longest * _CHARACTERS
    # An extract is denser than what it is taken from: paths, marks, hardly a long word.
    return min(longest * TOKEN, request.characters * 7 // 10)


def _before(read: Sequence[Reading], previous: str | None) -> tuple[Outline, list[Reading]]:
    """What earlier summaries say, and the messages that are none."""
    outline, other = parse(clean(previous or ""))
    if other:
        outline = merged({Section.EARLIER: [other], Section.GOAL: sentences.goal(other)}, outline)
    fresh = []
    for role, blocks in read:
        text = words_of(blocks)
        if is_extract(text):
            outline = merged(outline, parse(clean(text))[0])
        elif not previous or text.strip() != previous.strip():
            fresh.append((role, blocks))
    # What is quoted may be cut or overtaken; the rules in it are to outlive that.
    quoted = [*outline.get(Section.GOAL, []), *outline.get(Section.LAST, [])]
    rules = {Section.RULES: [rule for text in quoted for rule in sentences.rules(text)]}
    return merged(rules, outline), fresh


def _opening(read: Sequence[Reading]) -> list[str]:
    """The first request, unless a summary stands before it: then it is in there."""
    for role, blocks in read:
        text = words_of(blocks)
        if is_extract(text):
            return []
        if role == "user" and (told := clean(sentences.words(text))).strip():
            return [told]
    return []


def _outline(read: Sequence[Reading], goal: Sequence[str]) -> Outline:
    """What the messages themselves say besides the goal, if that is among them."""
    users = _said(read, "user")
    agents = _said(read, "assistant")
    done = actions(read)
    return {
        Section.RULES: [rule for text in users for rule in sentences.rules(text)],
        Section.FINDINGS: [found for text in agents for found in sentences.findings(text)],
        Section.FILES: [file(path, [deed]) for act in done for path, deed in act.touches],
        Section.ERRORS: _errors(done),
        Section.ACTIONS: [f"{act.call} -> {act.outcome}" for act in done],
        Section.PLAN: _plan(read),
        Section.REQUESTS: users[len(goal) : -1],
        Section.STATE: agents[-1:],
        Section.LAST: users[-1:],
    }


def _errors(done: Sequence[Action]) -> list[str]:
    """What went wrong, and whether the same call went well later."""
    well: set[str] = set()
    told = []
    for act in reversed(done):
        if act.error is None:
            well.add(act.call)
        else:
            told.append(f"{act.call}: {act.error}{' (later it went well)' * (act.call in well)}")
    return told[::-1]


def _plan(read: Sequence[Reading]) -> list[str]:
    """The newest plan; a list that is only numbered counts when there is no other."""
    plan: list[str] = []
    listed: list[str] = []
    for role, blocks in read:
        for block in blocks:
            match block:
                case {"type": "tool_use"}:
                    plan = todos.plan_of_call(block.get("input")) or plan
                case {"type": "text", "text": str(text)} if role == "assistant":
                    plan = todos.checklist(text) or plan
                    listed = todos.numbered(text) or listed
    return plan or listed


def _said(read: Sequence[Reading], speaker: str) -> list[str]:
    """Everything that one side said, message by message."""
    texts = (clean(sentences.words(words_of(blocks))) for role, blocks in read if role == speaker)
    return [text for text in texts if text.strip()]
