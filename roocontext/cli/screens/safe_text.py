"""Text that is safe to print on a terminal.

The content of a session comes from models, tools and strangers. It is printed only through `safe`,
which escapes characters that could act on the terminal, reverse the line or hide in it.
"""

import re
import unicodedata
from dataclasses import dataclass

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
"""Control characters, direction marks, lone surrogates, and blank or invisible characters. Joiners
and variation selectors are kept where they shape the character before them, one for each."""

_CROWD = re.compile(r"[^\w\s\x00-\x7f]{7,}")
"""A run in which marks may be stacked on a letter: no mark is a letter or digit itself."""

_MARKS = 6
"""The most marks on one letter; no script needs more."""

_STACKED = frozenset({"Mn", "Me", "Cf"})


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs that screens draw with."""

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


UNICODE_SIGNS = Signs("·", "→", "…", "█", "░", "→", "←", "●", "○", "│", "├─", "↩")
ASCII_SIGNS = Signs("-", "->", "...", "#", ".", "->", "<-", "*", "o", "|", "+-", "<-")


def safe(text: str) -> str:
    """The text with every character escaped that is not plainly visible, except line ends."""
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").replace("\t", "    ")
    visible = _UNSEEN.sub(lambda match: _escaped(match[0]), lines)
    return visible if visible.isascii() else _CROWD.sub(_thinned, visible)


def visible_json(document: str) -> str:
    """ASCII JSON with the delete character escaped, the only control character that JSON allows."""
    return document.replace("\x7f", "\\u007f")


def unbroken(text: str) -> str:
    """The whole text on one line."""
    return safe(text).replace("\n", "\\n")


def one_line(text: str, *, longest: int = 400) -> str:
    """The beginning of a text as one line."""
    return safe(" ".join(text[: 4 * longest].split()))[:longest]


def cut_line(text: str, width: int, more: str = UNICODE_SIGNS.more) -> str:
    """A line cut to a number of cells; wide characters take two."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - len(more))).rstrip() + more[: max(0, width)]


def _thinned(match: re.Match[str]) -> str:
    """The text with surplus marks escaped, if there are too many on one letter."""
    marks, height = [], 0
    for mark in match[0]:
        height = height + 1 if unicodedata.category(mark) in _STACKED else 0
        marks.append(mark if height <= _MARKS else _escaped(mark))
    return "".join(marks)


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
