"""The places where a text answers a query, and a score."""

import re
from typing import Final, TypeAlias

from roocontext.search.query import (
    Query,
    QueryUnit,
    Word,
    begins_part,
    folded,
    is_in_run,
    unescaped,
)

Stretch: TypeAlias = tuple[int, int]
"""The offsets of the first character and of the one after the last."""

_SATURATION: Final = 1.2
_BY_LENGTH: Final = 0.75
_USUAL_LENGTH: Final = 1_000
"""The parameters of BM25; the length is a constant, so that no other message changes a score."""
_MOST_PLACES: Final = 1_000
"""A log of megabytes may have a word a million times: these are enough to rank and show it."""


def occurrences(query: Query, text: str) -> list[list[Stretch]] | None:
    """The first places of each word of the query in a composed text; None if one has none."""
    folds = [(reading, folded(reading)) for reading in dict.fromkeys((text, unescaped(text)))]
    of_words = []
    for word in query.words:
        places = {place for reading in folds for place in _places(word, *reading)}
        if not places:
            return None
        of_words.append(sorted(places))
    return of_words or None


def score(of_words: list[list[Stretch]], length: int) -> float:
    """The score of a text of this length: higher the more places it has, and the shorter it is.

    BM25 without the rarity of words, because every text that is found has all of them.
    """
    norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / _USUAL_LENGTH)
    return sum(len(places) * (_SATURATION + 1) / (len(places) + norm) for places in of_words)


def _places(word: Word, text: str, plain: str) -> list[Stretch]:
    places: list[Stretch] = []
    search, at = word.pattern.search, 0
    while len(places) < _MOST_PLACES and (match := search(plain, at)):
        if _is_sound(word, match, text, plain):
            places.append(match.span())
            at = match.end()
        else:
            at = match.start() + 1
    return places


def _is_sound(word: Word, match: re.Match[str], text: str, plain: str) -> bool:
    """True if the units of a match begin and end where those of the text do."""
    group = 1
    for unit in word.units:
        spans = [match.span(group + number) for number in range(len(unit.parts))]
        group += len(unit.parts)
        if unit.is_run and not (
            _is_whole(unit, spans, plain) or _is_parts(unit, spans, text, plain)
        ):
            return False
    return True


def _is_whole(unit: QueryUnit, spans: list[Stretch], plain: str) -> bool:
    (lo, _), (_, hi) = spans[0], spans[-1]
    return (
        hi - lo == len(unit.whole)
        and not _is_inside(plain, lo)
        and (unit.is_beginning or not _is_inside(plain, hi))
    )


def _is_parts(unit: QueryUnit, spans: list[Stretch], text: str, plain: str) -> bool:
    last = spans[-1]
    return all(
        _is_edge(text, plain, lo)
        and ((unit.is_beginning and (lo, hi) == last) or _is_edge(text, plain, hi))
        and not any(begins_part(text, at) for at in range(lo + 1, hi))
        for lo, hi in spans
    )


def _is_inside(plain: str, at: int) -> bool:
    """True if a run continues at this offset."""
    return 0 < at < len(plain) and is_in_run(plain[at - 1]) and is_in_run(plain[at])


def _is_edge(text: str, plain: str, at: int) -> bool:
    """True if a part begins or ends at this offset."""
    return not _is_inside(plain, at) or begins_part(text, at)
