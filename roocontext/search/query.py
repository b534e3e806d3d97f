"""Queries, and the terms that a text is indexed by.

A query is words, separated by spaces, all of which a message has to hold. Words between quotation
marks have to follow each other. A word or phrase that ends in `*` is a beginning. Signs directly
before or after a word, as in `.NET` and `C++`, belong to it. Everything else is plain text: there
is no other operator, and no query is an error.

The smallest units of a text are parts of words, characters of scripts without spaces, and symbols.
A run is a stretch of letters and digits. Its parts begin where an identifier's words begin:
`HTTPServer` is `http` and `server`. Underscores and punctuation separate runs.

The terms of a text are each run and each of its parts; each character of a script without spaces,
and each two that are neighbours; each symbol. Two neighbouring parts of a word, such as
`foo_bar.py`, are a term too, so an index finds it without reading every text that has a `foo` and a
`bar`.

Folding keeps the length of a text, so that an offset in the folded text is one in the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, product, starmap
from typing import Final, Literal, NamedTuple, TypeAlias
from unicodedata import category, normalize

_UNSPACED = (
    "\u0900-\u0963\u0966-\u0dff"  # Indic, whose vowels are no letters, without its full stops
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    "\u3005-\u3007\u3040-\u312f\u31f0-\u31ff"  # Kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
_IN_RUN: Final = f"[^\\W_{_UNSPACED}]"
RUN: Final = re.compile(f"{_IN_RUN}+")
UNSPACED: Final = re.compile(f"[{_UNSPACED}]+")
JOINT: Final = r"(?:[^\w\s]|_)"
"""The signs between the runs of one word: anything but a space."""
SYMBOLS: Final = re.compile(r"[^\w\s\x00-\x7f]")
"""Candidates: `is_symbol` decides."""
# Not between two parts of a word, as in `a.b` and `__a__.b`, and not three or more, as in `...and`.
SIGNS_BEFORE: Final = f"(?<![^\\W{_UNSPACED}])(?<![])}}.$@#-])[.$@#-]{{1,2}}_*"
SIGNS_AFTER: Final = r"[+#]+"
"""The signs that belong to a word: those of `.NET`, `$HOME`, `--flag`, `C++` and `F#`."""


class _Folded(dict[int, str]):
    """Each character as it is folded, computed when it is first seen."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        whole = normalize("NFKC", char).casefold()
        lower = char.lower()
        folded = next((form for form in (whole, lower) if len(form) == 1), char)
        self[code] = folded
        return folded


_FOLDED = _Folded()


_HALF_WIDTH: Final = re.compile("[\uff66-\uffdc]+")
"""Kana and Hangul, of which several characters may be one of full width."""


def composed(text: str) -> str:
    """The text with its accents and syllables composed, which is what is searched and shown."""
    if text.isascii():
        return text
    return normalize("NFC", _HALF_WIDTH.sub(lambda half: normalize("NFKC", half[0]), text))


_ESCAPE: Final = re.compile(r"\\[nrt]")
"""A line break or a tab, if the text is JSON. Nothing says whether it is."""


def unescaped(text: str) -> str:
    """The text with blanks in place of escapes of JSON, of the same length."""
    return _ESCAPE.sub("  ", text)


def folded(text: str) -> str:
    """The text without differences of case and width, of the same length."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def is_symbol(char: str) -> bool:
    """True for an emoji, an arrow, a currency or another symbol."""
    return category(char).startswith("S")


def is_in_run(char: str) -> bool:
    """True if this character of a folded text belongs to a run."""
    return char.isalnum() and (char.isascii() or not UNSPACED.match(char))


def parts(run: str) -> tuple[str, ...]:
    """The parts of a run, in its own case."""
    if run.islower():
        return (run,)
    edges = [0, *(at for at in range(1, len(run)) if begins_part(run, at)), len(run)]
    return tuple(run[lo:hi] for lo, hi in pairwise(edges))


def begins_part(text: str, at: int) -> bool:
    """True if a part begins at this character within a run."""
    if not text[at].isupper():
        return False
    return not text[at - 1].isupper() or (at + 1 < len(text) and text[at + 1].islower())


_BETWEEN: Final = "\u00b7"
"""No letter and no symbol, so it is in no other term; not ASCII, so FTS5 does not cut there."""
# Only from where a run begins, and nothing is given up again: otherwise the time would grow with
# the square of the length of a run.
_JOINED: Final = re.compile(f"(?<!{_IN_RUN})({_IN_RUN}++){JOINT}++(?=({_IN_RUN}++))")
# The same for a text that is ASCII, as most are: this takes a third of the time.
_ASCII_RUN: Final = re.compile(r"[A-Za-z0-9]++")
_ASCII_JOINED: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z0-9]++)[^A-Za-z0-9\s]++(?=([A-Za-z0-9]++))"
)

LONGEST: Final = 200
"""Longer terms are cut, because PostgreSQL refuses lexemes of 2 kB."""


def terms_of(text: str) -> set[str]:
    """All terms of a text, with and without the escapes of JSON in it."""
    text = composed(text)
    escaped = [word for word in text.split() if "\\" in word] if "\\" in text else []
    return _terms(text) | _terms(unescaped(" ".join(escaped)))


def _terms(text: str) -> set[str]:
    if text.isascii():
        runs = set(_ASCII_RUN.findall(text))
        others = {run for run in runs if len(run) > LONGEST or not run.islower()}
        # What is left is a term as it is: most words are.
        return (runs - others).union(
            *map(_run_terms, others), *starmap(_joint_terms, set(_ASCII_JOINED.findall(text)))
        )
    plain = folded(text)
    terms: set[str] = set()
    for match in RUN.finditer(plain):
        terms.update(_run_terms(text[slice(*match.span())]))
    for match in _JOINED.finditer(plain):
        terms.update(_joint_terms(*(text[slice(*match.span(side))] for side in (1, 2))))
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


_WORDS: Final = re.compile(r'"([^"]+)"(\*?)|(\S+)')
_UNITS: Final = re.compile(
    f"({SIGNS_BEFORE})?(?:({RUN.pattern})|({UNSPACED.pattern})|({SYMBOLS.pattern}))({SIGNS_AFTER})?"
)
_SPACE: Final = re.compile(r"\s")
_GAP: Final = r"[\W_]*"
"""Between the words of a phrase."""
_JOINTS: Final = f"{JOINT}*"
_ADDED: Final = ("arguments", "content", "input", "is", "null", "server", "text", "true", "type")
"""Words that are read in broken calls and in unknown parts, and may not be in what is stored."""
_MOST_INDEXED: Final = 32
"""The index is asked for the first ones only; the text is compared with all."""


class Term(NamedTuple):
    """A term to look up in an index, or all terms that begin like it."""

    text: str
    is_beginning: bool = False


Among: TypeAlias = Literal["all", "standing", "visible", "hidden"]
"""The messages that are searched: all, the live ones, or those the model sees or does not."""
Order: TypeAlias = Literal["best", "newest", "oldest"]
"""The order of the hits."""

Alternatives: TypeAlias = tuple[tuple[Term, ...], ...]
"""Lists of terms, all of one of which a message holds."""


class QueryUnit(NamedTuple):
    """A run of the query, by its folded parts, or neighbouring characters.

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
            pairs = [*map("".join, pairwise(self.parts))]
            return (tuple(map(Term, pairs[:_MOST_INDEXED] or self.parts)),)
        whole = (Term(term(self.whole), self.is_beginning),)
        pairs = list(starmap(pair, pairwise(self.parts)))
        if not pairs:
            return (whole,)
        terms = *map(Term, pairs[:-1]), Term(pairs[-1], self.is_beginning)
        return (terms[:_MOST_INDEXED], whole)


@dataclass(frozen=True)
class Word:
    """A word or a phrase: units that follow each other in a text."""

    units: tuple[QueryUnit, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A pattern for the places of this in a folded text: each part is a group.

        A gap may hold the symbols that are asked for. What follows a gap is the first that fits,
        and is not given up again, because the next gap holds the symbols up to any later one. If
        all of them were tried, the time would grow with a power of the length of a row of symbols.
        """
        words: list[str] = []
        for unit in self.units:
            inner = _JOINTS if unit.is_run else ""
            parts = inner.join(f"({re.escape(part)})" for part in unit.parts)
            signed = unit.before + parts + unit.after
            if unit.is_joined and words:
                words[-1] += f"(?>{_JOINTS}?{signed})"
            else:
                words.append(signed)
        first, *others = words
        return re.compile(first + "".join(f"(?>{_GAP}?{word})" for word in others))

    @property
    def indexed(self) -> Iterator[Alternatives]:
        """The terms that every text with this word has."""
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
        """The terms that every text with all words has."""
        asked = dict.fromkeys(term for word in self.words for term in word.indexed)
        return tuple(asked)[:_MOST_INDEXED]

    def may_be_in(self, stored: str | None) -> bool:
        """False if a message with this stored content lacks a word; the content is not decoded.

        Stored contents are ASCII. So a part of a word is in it as it is, or some character of the
        content is escaped, or its reader adds the word, or it is a number in the arguments of a
        call, which some formats store as JSON in a string: `1e5` is read as `100000.0`. Or it is in
        the bytes of a document of Converse. A message without content is damaged: whatever decodes
        it says so.
        """
        if stored is None:
            return True
        plain = stored.lower()
        holds_json = '\\"' in plain
        return (
            "\\u" in plain
            or '"bytes":' in plain
            or all(
                part in plain or (holds_json and part[0].isdigit()) for part in self._ascii_parts
            )
        )

    @cached_property
    def _ascii_parts(self) -> frozenset[str]:
        units = (unit for word in self.words for unit in word.units)
        return frozenset(
            part
            for unit in units
            for part in unit.parts
            if part.isascii() and not any(word.startswith(part) for word in _ADDED)
        )


def parse_query(text: str) -> Query:
    """Read a query."""
    words = []
    for phrase, star, plain in _WORDS.findall(composed(text)):
        said = phrase or plain
        if units := _units(said, is_beginning=bool(star) or said.endswith("*")):
            words.append(Word(units))
    return Query(tuple(dict.fromkeys(words)))


def _units(text: str, *, is_beginning: bool) -> tuple[QueryUnit, ...]:
    plain = folded(text)
    units: list[QueryUnit] = []
    end = 0
    for match in _UNITS.finditer(plain):
        before, run, unspaced, symbol, after = match.groups()
        if symbol and not is_symbol(symbol):
            continue
        is_joined = not _SPACE.search(plain, end, match.start())
        end = match.end()
        begins = is_beginning and plain[end:] in ("", "*")
        whole = tuple(unspaced or symbol or ())
        units.append(
            QueryUnit(
                whole or tuple(map(folded, parts(text[slice(*match.span(2))]))),
                is_run=bool(run),
                is_beginning=bool(run) and begins and not after,
                is_joined=is_joined,
                before=f"(?<!{re.escape(before[0])}){re.escape(before)}" if before else "",
                after=re.escape(after) + "(?![+#])" * (not begins) if after else "",
            )
        )
    return tuple(units)
