"""Values as words: texts that can only be read, numbers, sizes, times.

Whatever a session holds comes from models, tools and strangers. `plain` is the one way of it to a
screen: what could act on a terminal, turn the line around or stand there unseen becomes its escape.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180e\u200b"
    "\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f\\s\u200c\u200d])[\u200c\u200d]"
    "|(?<![0-9#*\x80-\u200b\u200e-\ufdff\ufe10-\U0010ffff])[\ufe00-\ufe0f]"
    "|(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]"
)
"""Controls, marks of direction, lone surrogates, and what has no shape or is blank. Joiners and
variation selectors stay where they shape what stands before them, one for each."""

_CROWD = re.compile(r"[^\w\s\x00-\x7f]{7,}")
"""Where marks may be heaped on a letter: no mark is of the letters and digits."""

_MARKS = 6
"""How many marks a letter bears, one above the other; scripts need fewer."""

_STACKED = frozenset({"Mn", "Me", "Cf"})

_LONGEST_NAME = 100
_LONGEST_TITLE = 160
"""How many cells of an id and of a title are shown. An id's beginning names the session too."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("B", "kB", "MB", "GB")


class Signs(NamedTuple):
    """The few signs that a screen draws with."""

    dot: str
    arrow: str
    more: str
    full: str
    empty: str
    call: str
    result: str
    live: str
    dead: str
    stem: str
    branch: str
    back: str


UNICODE = Signs("·", "→", "…", "█", "░", "→", "←", "●", "○", "│", "├─", "↩")
ASCII = Signs("-", "->", "...", "#", ".", "->", "<-", "*", "o", "|", "+-", "<-")


def plain(text: str) -> str:
    """A text that does nothing to the screen but be read; line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    seen = _UNSEEN.sub(_escape, text.replace("\r\n", "\n").replace("\t", "    "))
    return seen if seen.isascii() else _CROWD.sub(_thinned, seen)


def unbroken(text: str) -> str:
    """A text on one line, whole, whatever is in it."""
    return plain(text).replace("\n", "\\n")


def named(session_id: str, more: str) -> str:
    """An id on one line, whole unless it would flood the screen."""
    return shortened(unbroken(session_id), _LONGEST_NAME, more)


def headline(session_id: str, title: str | None, more: str) -> tuple[tuple[str, str], str]:
    """The parts of a line that says which session this is."""
    what = shortened(one_line(title or "", longest=2 * _LONGEST_TITLE), _LONGEST_TITLE, more)
    return (named(session_id, more), "title"), f"  {what}" if what else ""


def one_line(text: str, *, longest: int = 400) -> str:
    """The beginning of a text as one line."""
    return plain(" ".join(text[: 4 * longest].split()))[:longest]


def shortened(text: str, width: int, more: str = UNICODE.more) -> str:
    """A line cut to so many cells, which wide characters take two of."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - len(more))).rstrip() + more[: max(0, width)]


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """Bytes as a person says them."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return (
        f"{amount:.3g} {_UNITS[unit]}"
        if unit and amount < 99.95
        else f"{amount:.0f} {_UNITS[unit]}"
    )


def moment(milliseconds: int) -> str:
    """A time of the log, in UTC to the second."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a `ts` is the agent's, and may be any integer
        return f"{milliseconds} ms"


def ranges(pairs: Sequence[Sequence[int]], most: int | None = None) -> str:
    """Stretches of seq, all of them or the first: `2-4, 7 and 12 more`."""
    shown = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs[:most]]
    left = len(pairs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _thinned(found: re.Match[str]) -> str:
    """The text with those marks escaped that are too many for one letter."""
    kept, height = [], 0
    for mark in found[0]:
        height = height + 1 if unicodedata.category(mark) in _STACKED else 0
        kept.append(mark if height <= _MARKS else _escaped(mark))
    return "".join(kept)


def _escape(found: re.Match[str]) -> str:
    return _escaped(found[0])


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
