"""The stretch of a text that shows best what was found, with the hits marked."""

from collections.abc import Sequence
from typing import Final

import msgspec

from roocontext.search.match import Stretch

WIDTH: Final = 200
"""How many characters are shown, without lines of context."""
_BEFORE: Final = 40
_CONTEXT_LINE: Final = 400


class Snippet(msgspec.Struct, frozen=True):
    """A part of a message's text. `marks` are the offsets in it where each hit begins and ends.

    The text may be continued at either side.
    """

    text: str
    marks: tuple[Stretch, ...]
    is_continued: bool
    continues: bool


def snippet(text: str, found: Sequence[Sequence[Stretch]], *, context: int = 0) -> Snippet:
    """The part of the text with the most hits, and lines of context around it."""
    stretches = sorted({stretch for places in found for stretch in places})
    first = _densest(stretches)
    lo = _start(text, first[0])
    hi = min(len(text), max(lo + WIDTH, first[1]))
    for _ in range(context):
        lo = max(text.rfind("\n", 0, max(0, lo - 1)) + 1, lo - _CONTEXT_LINE, 0)
        end = text.find("\n", hi + 1)
        hi = min(len(text) if end < 0 else end, hi + _CONTEXT_LINE)
    marks = tuple((a - lo, min(b, hi) - lo) for a, b in stretches if lo <= a < hi)
    return Snippet(text[lo:hi], marks, lo > 0, hi < len(text))


def _densest(stretches: Sequence[Stretch]) -> Stretch:
    """The hit that begins the stretch with the most hits."""
    best, most, last = stretches[0], 0, 0
    for first, stretch in enumerate(stretches):
        while last < len(stretches) and stretches[last][1] <= stretch[0] + WIDTH - _BEFORE:
            last += 1
        if last - first > most:
            best, most = stretch, last - first
    return best


def _start(text: str, at: int) -> int:
    """Where a snippet begins that shows this offset: at a line or a word, if there is one near."""
    lo = max(0, at - _BEFORE)
    if lo == 0:
        return 0
    line = text.rfind("\n", lo, at)
    space = text.find(" ", lo, at)
    return line + 1 if line >= 0 else space + 1 if space >= 0 else lo
