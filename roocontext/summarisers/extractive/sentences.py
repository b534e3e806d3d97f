"""Sentences worth keeping word for word: rules, facts and findings.

They are recognised by words that such sentences contain in English, Japanese and Chinese, and by
paths, addresses and commands. These are heuristics: a false positive costs one line, and a missed
sentence can be looked up in the log.
"""

import re
from collections.abc import Iterator
from typing import Final

from roocontext.summarisers.transcript import shorten

LONGEST_READ: Final = 20_000
"""The most that is read of one text: pasted files and logs can be very long."""

_SHORTEST = 6

_WRAPPED: Final = ("environment_details", "system-reminder")
"""Programs add text to the user's words between tags with these names."""

_UNWRAPPED: Final = re.compile(r"</?(?:task|user_message|feedback|answer)>")

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
# Without backtracking over white space: a line of blanks would take time with its length squared.
_BOX: Final = re.compile(r"\s*+(?:(?:[-*+]|\d{1,3}[.)])\s*+)?\[.{1,11}\]\s")
_BULLET: Final = re.compile(r"^\s*(?:[-*+>#]+|\d{1,3}[.)])\s+")

_RULE: Final = re.compile(
    r"\b(?:must|mustn't|never|always|do not|don't|cannot|can't|should|shall|only|required?"
    r"|needs? to|make sure|ensure|prefer|avoid|at least|at most|no more than|exactly|remember"
    r"|important|note that|without)\b"
    r"|^(?:please )?(?:use|keep|run|follow|write|leave|stick)\b"
    r"|必ず|絶対|禁止|ないで|べき|注意|必须|不要|务必"
    r"|`[^`]+`|https?://\S|(?:^|\s)[~.\w-]*/[\w./-]*\w",
    re.IGNORECASE,
)

_FINDING: Final = re.compile(
    r"\b(?:because|root cause|turns out|decided|instead of|rather than|chose|found that|confirmed"
    r"|the (?:bug|problem|issue|reason|cause|fix|culprit)|fixed|does not work|doesn't work)\b"
    r"|原因|修正|決め|ため、|因为|问题|决定",
    re.IGNORECASE,
)

_GOALS: Final = (
    (re.compile(r"<overall_goal>"), re.compile(r"</overall_goal>")),
    (
        re.compile(r"^#+ .*\bgoal\b.*\n", re.IGNORECASE | re.MULTILINE),
        re.compile(r"^#", re.MULTILINE),
    ),
)
"""Where a goal begins and ends in a model's summary."""


def own_words(text: str) -> str:
    """The user's own words, without the text that a program added."""
    for name in _WRAPPED:
        text = _without(text, f"<{name}>", f"</{name}>")
    return _UNWRAPPED.sub("", text).strip()


def rules(text: str) -> list[str]:
    """The sentences that state a rule or contain an exact name."""
    return [sentence for sentence in _sentences(text) if _RULE.search(sentence)]


def findings(text: str) -> list[str]:
    """The sentences that state a finding or a decision."""
    return [sentence for sentence in _sentences(text) if _FINDING.search(sentence)]


def goal(summary: str) -> list[str]:
    """The goal that a summary by a model names, under the headings that our prompts ask for."""
    for begin, end in _GOALS:
        start = begin.search(summary)
        if start and (rest := end.split(summary[start.end() :], maxsplit=1)[0].strip()):
            return [rest]
    return []


def _sentences(text: str) -> Iterator[str]:
    fenced = False
    for line in shorten(text, LONGEST_READ).split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not _BOX.match(line):
            sentences = (part.strip() for part in _SENTENCE.split(_BULLET.sub("", line)))
            yield from (text for text in sentences if len(text) >= _SHORTEST)


def _without(text: str, begin: str, end: str) -> str:
    """Remove everything between tags; a tag without its closing tag is left alone."""
    kept: list[str] = []
    place = 0
    while (start := text.find(begin, place)) >= 0 and (stop := text.find(end, start)) >= 0:
        kept.append(text[place:start])
        place = stop + len(end)
    return "".join([*kept, text[place:]])
