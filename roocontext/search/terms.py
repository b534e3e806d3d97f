"""The terms that a text is indexed by.

Each part of a run, and each whole run; each character of a script without spaces, and each two
that are neighbours; each symbol.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Final

from roocontext.search.letters import RUN, SYMBOLS, UNSPACED, composed, folded, is_symbol, parts

LONGEST: Final = 255
"""Longer terms are cut, because PostgreSQL refuses lexemes of 2 kB."""


def terms_of(text: str) -> set[str]:
    """All terms of a text."""
    text = composed(text)
    terms: set[str] = set()
    if text.isascii():
        return terms.union(*map(_run_terms, set(RUN.findall(text))))
    plain = folded(text)
    runs = {text[found.start() : found.end()] for found in RUN.finditer(plain)}
    terms.update(*map(_run_terms, runs))
    for run in set(UNSPACED.findall(plain)):
        terms.update(run)
        terms.update(map("".join, pairwise(run)))
    terms.update(symbol for symbol in set(SYMBOLS.findall(plain)) if is_symbol(symbol))
    return terms


@lru_cache(maxsize=1 << 16)
def _run_terms(run: str) -> tuple[str, ...]:
    return tuple({term(part) for part in (run, *parts(run))})


def term(part: str) -> str:
    """The term of a part."""
    return folded(part)[:LONGEST]
