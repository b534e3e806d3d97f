"""What a query asks for.

A query is words, separated by spaces, all of which a message has to hold. Words between quotation
marks have to follow each other. A word or phrase that ends in `*` is a beginning. Everything else
is plain text: there is no other operator, and no query is an error.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from roocontext.search.letters import RUN, SYMBOLS, UNSPACED, composed, folded, is_symbol, parts
from roocontext.search.terms import term

_WORDS: Final = re.compile(r'"([^"]+)"(\*?)|(\S+)')
_UNITS: Final = re.compile(f"({RUN.pattern})|({UNSPACED.pattern})|({SYMBOLS.pattern})")
_GAP: Final = r"[\W_]*"
_MOST_INDEXED: Final = 32
"""The index is asked for the first ones only; the text is compared with all."""


class Term(NamedTuple):
    """What an index is asked for: a term, or all that begin like it."""

    text: str
    is_beginning: bool = False


Alternatives: TypeAlias = tuple[tuple[Term, ...], ...]
"""Lists of terms, all of one of which a message holds."""


class Unit(NamedTuple):
    """A run of the query, by its folded parts, or characters that stand side by side."""

    parts: tuple[str, ...]
    is_run: bool = True
    is_beginning: bool = False

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
        *before, last = map(term, self.parts)
        by_parts = (*map(Term, before), Term(last, self.is_beginning))
        if not before:
            return (by_parts,)
        return (by_parts, (Term(term(self.whole), self.is_beginning),))


@dataclass(frozen=True)
class Word:
    """A word or a phrase: units that follow each other in a text."""

    units: tuple[Unit, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Where this may be in a folded text: each part is a group."""
        text = ""
        for number, unit in enumerate(self.units):
            gap = _GAP if unit.is_run else ""
            text += _GAP if number else ""
            text += gap.join(f"({re.escape(part)})" for part in unit.parts)
        return re.compile(text)


@dataclass(frozen=True)
class Query:
    """The words of a query. Without any, nothing is found."""

    words: tuple[Word, ...]

    @cached_property
    def indexed(self) -> tuple[Alternatives, ...]:
        """What every text that is found has among its terms."""
        units = dict.fromkeys(unit for word in self.words for unit in word.units)
        return tuple(unit.alternatives for unit in list(units)[:_MOST_INDEXED])

    def may_be_in(self, stored: str) -> bool:
        """Whether a message with this stored content may be found, decided without decoding it.

        Stored contents are ASCII. So a part of a word is in it as it is, or some character of the
        content is escaped.
        """
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
    for found in _UNITS.finditer(plain):
        run, unspaced, symbol = found.groups()
        if run:
            cut = parts(text[found.start() : found.end()])
            ends = plain[found.end() :] in ("", "*")
            units.append(Unit(tuple(map(folded, cut)), is_beginning=is_beginning and ends))
        elif unspaced:
            units.append(Unit(tuple(unspaced), is_run=False))
        elif is_symbol(symbol):
            units.append(Unit((symbol,), is_run=False))
    return tuple(units)
