"""Lines of a width, broken where rich breaks them, in a hundredth of the time.

A log may have 100,000 lines to wrap. Nearly all of them are texts whose characters take a column
each: there a break is the last space that fits, and no word needs to be measured.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from rich.cells import cell_len, chop_cells

Piece: TypeAlias = tuple[str, str]
"""A text and its style."""

_SIMPLE: Final = re.compile(
    "[\x20-\x7e\xa1-\xac\xae-\u02ff\u0370-\u0373\u0391-\u0482\u2013-\u2022]*"
)
"""Characters of one column each, of which only the space separates words."""

_WORD: Final = re.compile(r"\s*\S+\s*")


def wrapped(pieces: Sequence[Piece], width: int) -> Iterator[list[Piece]]:
    """The lines of a text, of so many columns at most, without the spaces at their ends."""
    text = "".join(piece for piece, _ in pieces)
    alone = pieces[0][1] if len(pieces) == 1 else None
    at = 0
    for paragraph in text.split("\n"):
        starts = [0, *breaks(paragraph, width), len(paragraph)]
        for lo, hi in pairwise(starts):
            line = paragraph[lo:hi].rstrip()
            if alone is None:
                yield [*_between(pieces, at + lo, at + lo + len(line))]
            else:
                yield [(line, alone)] if line else []
        at += len(paragraph) + 1


def breaks(text: str, width: int) -> list[int]:
    """Where the lines of a paragraph begin, without the first."""
    if not _SIMPLE.fullmatch(text) or text.startswith(" "):
        return _by_words(text, width)
    found: list[int] = []
    start, end = 0, len(text.rstrip())
    while end - start > width:
        space = text.rfind(" ", start, start + width + 1)
        if space <= start:
            return _by_words(text, width)  # a word that is longer than a line
        start = space + 1
        while text[start] == " ":
            start += 1
        found.append(start)
    return found


def _by_words(text: str, width: int) -> list[int]:
    """The same for any text, word by word."""
    found: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        start, word = match.start(), match[0]
        length = cell_len(word.rstrip())
        if length <= width - used:
            used += cell_len(word)
        elif length > width:
            for part in chop_cells(word, width):
                if start:
                    found.append(start)
                start, used = start + len(part), cell_len(part)
        elif used and start:
            found.append(start)
            used = cell_len(word)
    return found


def _between(pieces: Sequence[Piece], lo: int, hi: int) -> Iterator[Piece]:
    """The parts of the pieces that make up a range of the text."""
    at = 0
    for text, style in pieces:
        part = text[max(lo - at, 0) : max(hi - at, 0)]
        if part:
            yield part, style
        at += len(text)
