"""What a query asks for.

A query is words, separated by spaces, all of which a message has to hold. Words between quotation
marks have to follow each other. A word or phrase that ends in `*` is a beginning. Signs directly
before or after a word, as in `.NET` and `C++`, belong to it. Everything else is plain text: there
is no other operator, and no query is an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, starmap
from typing import Final, Literal, NamedTuple, TypeAlias

from roocontext.search.letters import (
    JOINT,
    RUN,
    SIGNS_AFTER,
    SIGNS_BEFORE,
    SYMBOLS,
    UNSPACED,
    composed,
    folded,
    is_symbol,
    parts,
)
from roocontext.search.terms import pair, term

_WORDS: Final = re.compile(r'"([^"]+)"(\*?)|(\S+)')
_UNITS: Final = re.compile(
    f"({SIGNS_BEFORE})?(?:({RUN.pattern})|({UNSPACED.pattern})|({SYMBOLS.pattern}))({SIGNS_AFTER})?"
)
_SPACE: Final = re.compile(r"\s")
_GAP: Final = r"[\W_]*"
"""Between the words of a phrase."""
_JOINTS: Final = f"{JOINT}*"
_MOST_INDEXED: Final = 32
"""The index is asked for the first ones only; the text is compared with all."""


class Term(NamedTuple):
    """What an index is asked for: a term, or all that begin like it."""

    text: str
    is_beginning: bool = False


Among: TypeAlias = Literal["all", "standing", "visible", "hidden"]
"""Which messages are searched, by what became of them."""
Order: TypeAlias = Literal["best", "newest", "oldest"]
"""The order of the hits."""

Alternatives: TypeAlias = tuple[tuple[Term, ...], ...]
"""Lists of terms, all of one of which a message holds."""


class Unit(NamedTuple):
    """A run of the query, by its folded parts, or characters that stand side by side.

    `is_joined` says that it belongs to the same word as the unit before it. `before` and `after`
    are patterns of the signs next to it. The index has no signs: only the text is compared with
    them.
    """

    parts: tuple[str, ...]
    is_run: bool = True
    is_beginning: bool = False
    is_joined: bool = False
    before: str = ""
    after: str = ""

    @property
    def whole(self) -> str:
        """The parts as one."""
        return "".join(self.parts)

    @property
    def alternatives(self) -> Alternatives:
        """The terms of every text that holds this."""
        if not self.is_run:
            pairs = [self.whole[at : at + 2] for at in range(len(self.whole) - 1)]
            return (tuple(map(Term, pairs or self.parts)),)
        whole = (Term(term(self.whole), self.is_beginning),)
        pairs = list(starmap(pair, pairwise(self.parts)))
        if not pairs:
            return (whole,)
        return ((*map(Term, pairs[:-1]), Term(pairs[-1], self.is_beginning)), whole)


@dataclass(frozen=True)
class Word:
    """A word or a phrase: units that follow each other in a text."""

    units: tuple[Unit, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Where this may be in a folded text: each part is a group."""
        text = ""
        for number, unit in enumerate(self.units):
            gap = _JOINTS if unit.is_run else ""
            text += (_JOINTS if unit.is_joined else _GAP) if number else ""
            text += unit.before + gap.join(f"({re.escape(part)})" for part in unit.parts)
            text += unit.after
        return re.compile(text)

    @property
    def indexed(self) -> Iterator[Alternatives]:
        """What every text that holds this has among its terms."""
        yield from (unit.alternatives for unit in self.units)
        for left, right in pairwise(self.units):
            # A run of several parts may be found by its whole, which has other neighbours.
            is_pair = left.is_run and right.is_run and len(left.parts) == len(right.parts) == 1
            if is_pair and right.is_joined:
                joint = pair(left.whole, right.whole)
                yield ((Term(joint, right.is_beginning),),)


@dataclass(frozen=True)
class Query:
    """The words of a query. Without any, nothing is found."""

    words: tuple[Word, ...]

    @cached_property
    def indexed(self) -> tuple[Alternatives, ...]:
        """What every text that is found has among its terms."""
        asked = dict.fromkeys(one for word in self.words for one in word.indexed)
        return tuple(asked)[:_MOST_INDEXED]

    def may_be_in(self, stored: str | None) -> bool:
        """Whether a message with this stored content may be found, decided without decoding it.

        Stored contents are ASCII. So a part of a word is in it as it is, or some character of the
        content is escaped. A message without content is damaged: whatever decodes it says so.
        """
        if stored is None:
            return True
        plain = stored.lower()
        return "\\u" in plain or all(part in plain for part in self._ascii_parts)

    @cached_property
    def _ascii_parts(self) -> frozenset[str]:
        units = (unit for word in self.words for unit in word.units)
        return frozenset(part for unit in units for part in unit.parts if part.isascii())


def parse(text: str) -> Query:
    """Read a query."""
    words = []
    for phrase, star, plain in _WORDS.findall(composed(text)):
        beginning = bool(star) or plain.endswith("*")
        if units := _units(phrase or plain, is_beginning=beginning):
            words.append(Word(units))
    return Query(tuple(dict.fromkeys(words)))


def _units(text: str, *, is_beginning: bool) -> tuple[Unit, ...]:
    plain = folded(text)
    units: list[Unit] = []
    end = 0
    for found in _UNITS.finditer(plain):
        before, run, unspaced, symbol, after = found.groups()
        if symbol and not is_symbol(symbol):
            continue
        is_joined = not _SPACE.search(plain, end, found.start())
        end = found.end()
        begins = is_beginning and plain[end:] in ("", "*")
        whole = tuple(unspaced or symbol or ())
        units.append(
            Unit(
                whole or tuple(map(folded, parts(text[slice(*found.span(2))]))),
                is_run=bool(run),
                is_beginning=bool(run) and begins and not after,
                is_joined=is_joined,
                before=f"(?<!{re.escape(before[0])}){re.escape(before)}" if before else "",
                after=re.escape(after) + "(?![+#])" * (not begins) if after else "",
            )
        )
    return tuple(units)
