"""The terms that a text is indexed by.

Each part of a run, and each whole run; each character of a script without spaces, and each two
that are neighbours; each symbol. Of the parts of a word, such as `foo_bar.py`, each two neighbours
too: so an index finds it without reading all that has a `foo` and a `bar`.
"""

import re
from functools import lru_cache
from itertools import pairwise, product, starmap
from typing import Final

from roocontext.search.letters import (
    JOINT,
    RUN,
    SYMBOLS,
    UNSPACED,
    composed,
    folded,
    is_symbol,
    parts,
)

_BETWEEN: Final = "\u00b7"
"""No letter and no symbol, so it is in no other term; not ASCII, so FTS5 does not cut there."""
_JOINED: Final = re.compile(f"({RUN.pattern}){JOINT}+(?=({RUN.pattern}))")
# The same for a text that is ASCII, as most are: this takes a third of the time.
_ASCII_RUN: Final = re.compile(r"[A-Za-z0-9]++")
_ASCII_JOINED: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z0-9]++)[^A-Za-z0-9\s]++(?=([A-Za-z0-9]++))"
)

LONGEST: Final = 200
"""Longer terms are cut, because PostgreSQL refuses lexemes of 2 kB."""


def terms_of(text: str) -> set[str]:
    """All terms of a text."""
    text = composed(text)
    if text.isascii():
        runs = set(_ASCII_RUN.findall(text))
        others = {run for run in runs if len(run) > LONGEST or not run.islower()}
        # What is left is a term as it is: most words are.
        return (runs - others).union(
            *map(_run_terms, others), *starmap(_joint_terms, set(_ASCII_JOINED.findall(text)))
        )
    plain = folded(text)
    terms: set[str] = set()
    for found in RUN.finditer(plain):
        terms.update(_run_terms(text[slice(*found.span())]))
    for found in _JOINED.finditer(plain):
        terms.update(_joint_terms(*(text[slice(*found.span(side))] for side in (1, 2))))
    for run in set(UNSPACED.findall(plain)):
        terms.update(run)
        terms.update(map("".join, pairwise(run)))
    terms.update(symbol for symbol in set(SYMBOLS.findall(plain)) if is_symbol(symbol))
    return terms


def _run_terms(run: str) -> tuple[str, ...]:
    return _known_run_terms(run) if len(run) <= LONGEST else _cut(run)


def _joint_terms(left: str, right: str) -> tuple[str, ...]:
    is_short = len(left) + len(right) <= LONGEST
    return _known_joint_terms(left, right) if is_short else _joined(left, right)


def _cut(run: str) -> tuple[str, ...]:
    cut = parts(run)
    return tuple({*map(term, (run, *cut)), *starmap(pair, pairwise(cut))})


def _joined(left: str, right: str) -> tuple[str, ...]:
    return tuple(starmap(pair, product({left, parts(left)[-1]}, {right, parts(right)[0]})))


# A long run may be an encoded file, and is not kept.
_known_run_terms = lru_cache(maxsize=1 << 15)(_cut)
_known_joint_terms = lru_cache(maxsize=1 << 15)(_joined)


def pair(left: str, right: str) -> str:
    """The term of two neighbours in a word."""
    return f"{term(left)}{_BETWEEN}{term(right)}"


def term(part: str) -> str:
    """The term of a part."""
    return folded(part)[:LONGEST]
