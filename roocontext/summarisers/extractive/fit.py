"""As much of an outline as there is room for, what matters most first.

The goal and the user's last words come first, cut if they must be. Every section has a step: its
n-th entry, counted from its most important, comes before another's m-th if n times its step is
less. So no section crowds the others out.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from roocontext.summarisers.extractive.outline import TITLE, Outline, Section, render, written
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
"""A quoted section may have the room divided by this."""

_LEAST: Final = 20
"""What a text must weigh to be worth quoting."""


_Chosen: TypeAlias = dict[Section, dict[int, str]]
"""The texts that are told, by section and place."""


class _Entry(NamedTuple):
    step: int
    section: Section
    place: int


def fit(outline: Outline, room: int) -> str:
    """Write what there is room for. However little that is, something of the text is told."""
    chosen: _Chosen = {}
    left = room - weight(TITLE)
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


def _spread(outline: Outline, chosen: _Chosen, left: int) -> None:
    """Give the room that nothing else took to the quotes that were cut."""
    for section in SHARES:
        if section in chosen:
            had = _cost(section, chosen[section][0], begun=False)
            chosen[section][0] = _quotable(section, outline[section][0], had + left)
            left -= _cost(section, chosen[section][0], begun=False) - had


def _entries(outline: Outline) -> Iterator[_Entry]:
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
    """Shorten a text until it fits with its marks; nothing, if only crumbs would be left."""
    told, allowed = text, room
    while _cost(section, told, begun=False) > room:
        allowed = allowed * 3 // 4
        if allowed < _LEAST:
            return ""
        told = shorten(text, allowed).strip()
    return told


def _cost(section: Section, text: str, *, begun: bool) -> int:
    """What an entry adds: its line and, if it is the first of its section, the heading."""
    return weight(f"\n- {text}") if begun else weight(f"\n\n{written(section, [text])}")


def _is_quoted(text: str, section: Section, chosen: Mapping[Section, Mapping[int, str]]) -> bool:
    """Whether a rule stands in what the user is quoted with anyway."""
    quotes = (chosen.get(place, {}).get(0, "") for place in (Section.GOAL, Section.LAST))
    return section is Section.RULES and any(text in quote for quote in quotes)


def _in_order(texts: Mapping[int, str]) -> list[str]:
    return [texts[index] for index in sorted(texts)]


def _something(outline: Outline, room: int) -> str:
    """The beginning of what matters most, without any form."""
    texts = (text for section in STEPS for text in outline.get(section, []))
    return first(next(texts, ""), room).strip()
