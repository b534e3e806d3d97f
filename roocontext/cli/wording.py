"""Values as words: texts that can only be read, numbers, sizes, times.

Whatever a session holds comes from models, tools and strangers. `plain` is the one way of it to a
screen: what could act on a terminal, turn the line around or stand there unseen becomes its escape.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

_ACTS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u070f\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls, marks of direction, lone surrogates, and what has no shape. Joiners stay: they shape
letters and emoji."""

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


UNICODE = Signs("·", "→", "…", "█", "░", "→", "←")
ASCII = Signs("-", "->", "...", "#", ".", "->", "<-")


def plain(text: str) -> str:
    """A text that does nothing to the screen but be read; line ends stay."""
    if text.isprintable():
        return _ACTS.sub(_escape, text) if not text.isascii() else text
    return _ACTS.sub(_escape, text.replace("\r\n", "\n").replace("\t", "    "))


def named(session_id: str) -> str:
    """An id, on one line whatever is in it."""
    return plain(session_id).replace("\n", "\\n")


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


def ranges(pairs: list[list[int]]) -> str:
    """Stretches of seq: `2-4, 7`."""
    return ", ".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
