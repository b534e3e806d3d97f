"""The form of an extracted summary: its sections, written as Markdown, read back, and merged.

A section is quoted text or a list with one line per entry. So no quoted text can look like a
heading, and a rendered outline can be parsed again. Every section is bounded: however often
outlines are merged, the result stays within the bounds.

Chooses which entries of an outline fit, the most important first.

The goal and the user's last words come first, cut if necessary. Every section has a step. The n-th
most important entry of a section is chosen before the m-th of another if n times the first step is
less than m times the second. So no section crowds out the others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from roocontext.summarisers.transcript import clean, first, shorten, shorten_line, weight

HEADLINE: Final = "# The conversation so far, in extracts"
"""The first line, which identifies an extracted summary."""


class Section(StrEnum):
    """The sections in the order in which they are written."""

    EARLIER = "Earlier summary"
    GOAL = "Goal"
    RULES = "Rules and facts from the user"
    FINDINGS = "Findings and decisions"
    FILES = "Files"
    ERRORS = "Errors"
    ACTIONS = "Recent actions"
    PLAN = "Plan"
    REQUESTS = "Requests on the way"
    STATE = "Last words of the agent"
    LAST = "Last words of the user"


SummaryOutline: TypeAlias = dict[Section, list[str]]
"""The entries of each section; a quoted section has at most one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The step of a section, the most entries that it may have, and the most that each may weigh.

    A quoted section may take the whole room divided by its `share`.
    """

    step: int
    most: int
    room: int
    share: int = 0

    @property
    def quoted(self) -> bool:
        """True if the section is quoted text, False if it is a list."""
        return self.share > 0


BOUNDS: Final[Mapping[Section, Bounds]] = {
    Section.GOAL: Bounds(0, 1, 1_500, share=3),
    Section.LAST: Bounds(0, 1, 1_500, share=3),
    Section.EARLIER: Bounds(1, 1, 3_000, share=4),
    Section.STATE: Bounds(1, 1, 800, share=8),
    Section.PLAN: Bounds(2, 30, 200),
    Section.RULES: Bounds(3, 20, 240),
    Section.ACTIONS: Bounds(4, 12, 240),
    Section.FILES: Bounds(4, 40, 200),
    Section.ERRORS: Bounds(5, 8, 300),
    Section.REQUESTS: Bounds(5, 12, 300),
    Section.FINDINGS: Bounds(6, 12, 240),
}
"""The sections, the most important first."""

_TITLES: Final = re.compile(rf"^{re.escape(HEADLINE)}$", re.MULTILINE)
_HEADINGS: Final = {f"## {section}": section for section in Section}
_FILE: Final = re.compile(r"`(.*)`: (.*)")


def section_entry(section: Section, text: str) -> str:
    """A text as an entry of a section: clean, within bounds, and on one line unless quoted."""
    bounds = BOUNDS[section]
    if bounds.quoted:
        return shorten(clean(text).strip(), bounds.room).strip()
    return shorten_line(clean(text), bounds.room)


def is_extract(text: str) -> bool:
    """Return True if a text is, or holds, a summary in this form."""
    return _TITLES.search(text) is not None


def parse_outline(text: str) -> tuple[SummaryOutline, str]:
    """Read the extracted summaries in a text; also return the rest of the text."""
    before, *written = _TITLES.split(text)
    outline: SummaryOutline = {}
    others = [before]
    for part in written:
        sections, other = _parse(part)
        outline = merged(outline, sections)
        others.append(other)
    return outline, "\n".join(filter(None, (other.strip() for other in others)))


def render(outline: SummaryOutline) -> str:
    """Write an outline as Markdown."""
    filled = (section for section in Section if outline.get(section))
    return "\n\n".join(
        [HEADLINE, *(write_section(section, outline[section]) for section in filled)]
    )


def write_section(section: Section, entries: Sequence[str]) -> str:
    """Write one section."""
    if BOUNDS[section].quoted:
        lines = [f"> {text}" if text else ">" for text in "\n".join(entries).split("\n")]
    else:
        lines = [f"- {text}" for text in entries]
    return "\n".join([f"## {section}", *lines])


def merged(old: SummaryOutline, new: SummaryOutline) -> SummaryOutline:
    """Merge two outlines: the first goal, the newest plan and last words, the rest in order."""
    both: SummaryOutline = {
        section: [*old.get(section, []), *new.get(section, [])] for section in Section
    }
    for section in (Section.PLAN, Section.STATE, Section.LAST):
        both[section] = new.get(section) or old.get(section, [])
    goal, *more = both[Section.GOAL] or [""]
    overtaken = old.get(Section.LAST, []) if new.get(Section.LAST) else []
    both[Section.GOAL] = [goal]
    both[Section.REQUESTS] = [
        *old.get(Section.REQUESTS, []),
        *overtaken,
        *more,
        *new.get(Section.REQUESTS, []),
    ]
    both[Section.EARLIER] = ["\n\n".join(dict.fromkeys(both[Section.EARLIER]))]
    both[Section.FILES] = file_entries(both[Section.FILES])
    return bounded(both)


def bounded(outline: SummaryOutline) -> SummaryOutline:
    """Keep every section within its bounds and remove repetitions."""
    kept: SummaryOutline = {}
    for section, entries in outline.items():
        texts = [text for text in (section_entry(section, text) for text in entries) if text]
        kept[section] = texts if section is Section.ACTIONS else list(dict.fromkeys(texts))
    if kept.get(Section.LAST) == kept.get(Section.GOAL):
        kept[Section.LAST] = []
    quoted = [*kept.get(Section.GOAL, []), *kept.get(Section.LAST, [])]
    repeated = {section_entry(Section.REQUESTS, text) for text in quoted}
    kept[Section.REQUESTS] = [
        text for text in kept.get(Section.REQUESTS, []) if text not in repeated
    ]
    return {section: _newest(section, texts) for section, texts in kept.items() if texts}


def file_entries(entries: Sequence[str]) -> list[str]:
    """One entry for each file with everything done to it, ordered by last use."""
    verbs: dict[str, dict[str, None]] = {}
    for text in entries:
        if match := _FILE.fullmatch(text):
            path, done = match.groups()
            verbs[path] = {**verbs.pop(path, {}), **dict.fromkeys(done.split(", "))}
    return [file(path, done) for path, done in verbs.items()]


def file(path: str, verbs: Mapping[str, None] | Sequence[str]) -> str:
    """The entry of a file."""
    room = BOUNDS[Section.FILES].room - 60
    return f"`{shorten_line(clean(path), room)}`: {', '.join(verbs)}"


def _newest(section: Section, texts: list[str]) -> list[str]:
    """The newest entries. For rules also the oldest, because users state rules at the beginning."""
    most = BOUNDS[section].most
    if len(texts) <= most:
        return texts
    half = most // 2 if section is Section.RULES else 0
    return [*texts[:half], *texts[half - most :]]


def _parse(text: str) -> tuple[SummaryOutline, str]:
    outline: SummaryOutline = {}
    others: list[str] = []
    for section, content in _lines(text):
        if section is None:
            others.append(content)
        else:
            outline.setdefault(section, []).append(content)
    for section, entries in outline.items():
        if BOUNDS[section].quoted:
            outline[section] = ["\n".join(entries)]
    return outline, "\n".join(others)


def _lines(text: str) -> Iterator[tuple[Section | None, str]]:
    """Each line without its mark, with its section, or with None if it belongs to no section."""
    section: Section | None = None
    for text_line in text.split("\n"):
        if text_line in _HEADINGS:
            section = _HEADINGS[text_line]
        elif section is not None and text_line.startswith(_mark(section)):
            yield section, text_line[2:]
        else:
            yield None, text_line


def _mark(section: Section) -> str:
    return ">" if BOUNDS[section].quoted else "- "


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
        if share := BOUNDS[section].share:
            text = _quotable(section, text, min(left, room // share))
        cost = _cost(section, text, begun=section in chosen)
        if text and cost <= left and not _is_quoted(text, section, chosen):
            chosen.setdefault(section, {})[index] = text
            left -= cost
    if not chosen:
        texts = (text for section in BOUNDS for text in outline.get(section, []))
        return first(next(texts, ""), room).strip()
    _spread(outline, chosen, left)
    return render({section: [own[at] for at in sorted(own)] for section, own in chosen.items()})


def _spread(outline: SummaryOutline, chosen: _Chosen, left: int) -> None:
    """Give the room that nothing else took to the quotes that were cut."""
    for section, bounds in BOUNDS.items():
        if bounds.quoted and section in chosen:
            had = _cost(section, chosen[section][0], begun=False)
            chosen[section][0] = _quotable(section, outline[section][0], had + left)
            left -= _cost(section, chosen[section][0], begun=False) - had


def _entries(outline: SummaryOutline) -> Iterator[_Entry]:
    quotes = [*outline.get(Section.GOAL, []), *outline.get(Section.LAST, [])]
    for section, bounds in BOUNDS.items():
        ranked = _ranked(section, outline.get(section, []), "\n".join(quotes))
        for rank, index in enumerate(ranked, start=1):
            yield _Entry(bounds.step * rank, section, index)


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
    return weight(f"\n- {text}") if begun else weight(f"\n\n{write_section(section, [text])}")


def _is_quoted(text: str, section: Section, chosen: Mapping[Section, Mapping[int, str]]) -> bool:
    """Return True if a rule is part of a chosen quote of the user."""
    quotes = (chosen.get(place, {}).get(0, "") for place in (Section.GOAL, Section.LAST))
    return section is Section.RULES and any(text in quote for quote in quotes)
