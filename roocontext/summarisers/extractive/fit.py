"""Chooses which entries of an outline fit, the most important first.

The goal and the user's last words come first, cut if necessary. Every section has a step. The n-th
most important entry of a section is chosen before the m-th of another if n times the first step is
less than m times the second. So no section crowds out the others.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from roocontext.summarisers.extractive.outline import (
    HEADLINE,
    Section,
    SummaryOutline,
    render,
    written,
)
from roocontext.summarisers.shorten import first, shorten, weight

STEPS: Final[Mapping[Section, int]] = {
    Section.GOAL: 0,
    Section.LAST: 0,
    Section.EARLIER: 1,
    Section.STATE: 1,
    Section.PLAN: 2,
    Section.RULES: 3,
    Section.ACTIONS: 4,
    Section.FILES: 4,
    Section.ERRORS: 5,
    Section.REQUESTS: 5,
    Section.FINDINGS: 6,
}

SHARES: Final[Mapping[Section, int]] = {
    Section.GOAL: 3,
    Section.LAST: 3,
    Section.EARLIER: 4,
    Section.STATE: 8,
}
"""A quoted section may take the whole room divided by this."""

_LEAST: Final = 20
"""The smallest weight of a text that is worth quoting."""


_Chosen: TypeAlias = dict[Section, dict[int, str]]
"""The chosen texts, by section and place."""


class _Entry(NamedTuple):
    step: int
    section: Section
    place: int


def fit(outline: SummaryOutline, room: int) -> str:
    """Write the entries that fit. If none does, write the beginning of the most important text."""
    chosen: _Chosen = {}
    left = room - weight(HEADLINE)
    for _, section, index in sorted(_entries(outline), key=lambda entry: entry.step):
        text = outline[section][index]
        if section in SHARES:
            text = _quotable(section, text, min(left, room // SHARES[section]))
        cost = _cost(section, text, begun=section in chosen)
        if text and cost <= left and not _is_quoted(text, section, chosen):
            chosen.setdefault(section, {})[index] = text
            left -= cost
    if not chosen:
        return _something(outline, room)
    _spread(outline, chosen, left)
    return render({section: _in_order(texts) for section, texts in chosen.items()})


def _spread(outline: SummaryOutline, chosen: _Chosen, left: int) -> None:
    """Give the room that nothing else took to the quotes that were cut."""
    for section in SHARES:
        if section in chosen:
            had = _cost(section, chosen[section][0], begun=False)
            chosen[section][0] = _quotable(section, outline[section][0], had + left)
            left -= _cost(section, chosen[section][0], begun=False) - had


def _entries(outline: SummaryOutline) -> Iterator[_Entry]:
    quotes = [*outline.get(Section.GOAL, []), *outline.get(Section.LAST, [])]
    for section in STEPS:
        ranked = _ranked(section, outline.get(section, []), "\n".join(quotes))
        for rank, index in enumerate(ranked, start=1):
            yield _Entry(STEPS[section] * rank, section, index)


def _ranked(section: Section, entries: list[str], quotes: str) -> list[int]:
    """The entries by importance: the newest first, but rules in order, and open steps first."""
    places = range(len(entries))
    if section is Section.RULES:
        return sorted(places, key=lambda index: entries[index] in quotes)
    if section is Section.PLAN:
        return sorted(places, key=lambda index: entries[index].startswith("[DONE]"))
    if section is Section.FILES:
        return sorted(places, key=lambda index: (entries[index].endswith("`: read"), -index))
    return list(reversed(places))


def _quotable(section: Section, text: str, room: int) -> str:
    """Shorten a text until it fits with its marks; empty if too little would be left."""
    shortened, allowed = text, room
    while _cost(section, shortened, begun=False) > room:
        allowed = allowed * 3 // 4
        if allowed < _LEAST:
            return ""
        shortened = shorten(text, allowed).strip()
    return shortened


def _cost(section: Section, text: str, *, begun: bool) -> int:
    """The weight that an entry adds: its line and, for the first of a section, the heading."""
    return weight(f"\n- {text}") if begun else weight(f"\n\n{written(section, [text])}")


def _is_quoted(text: str, section: Section, chosen: Mapping[Section, Mapping[int, str]]) -> bool:
    """Whether a rule is part of a chosen quote of the user."""
    quotes = (chosen.get(place, {}).get(0, "") for place in (Section.GOAL, Section.LAST))
    return section is Section.RULES and any(text in quote for quote in quotes)


def _in_order(texts: Mapping[int, str]) -> list[str]:
    return [texts[index] for index in sorted(texts)]


def _something(outline: SummaryOutline, room: int) -> str:
    """The beginning of the most important text, without any form."""
    texts = (text for section in STEPS for text in outline.get(section, []))
    return first(next(texts, ""), room).strip()
