"""The smallest units of a text: parts of words, characters of scripts without spaces, symbols.

A run is a stretch of letters and digits. Its parts begin where an identifier's words begin:
`HTTPServer` is `http` and `server`. Underscores and punctuation separate runs. A character of a
script that is written without spaces is a part of its own, and so is a symbol.

Folding keeps the length of a text, so that an offset in the folded text is one in the text.
"""

import re
from itertools import pairwise
from typing import Final
from unicodedata import category, normalize

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    "\u3005-\u3007\u3040-\u312f\u31f0-\u31ff"  # Kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
RUN: Final = re.compile(f"[^\\W_{_UNSPACED}]+")
UNSPACED: Final = re.compile(f"[{_UNSPACED}]+")
JOINT: Final = r"(?:[^\w\s]|_)"
"""What stands between the runs of one word: anything but a space."""
SYMBOLS: Final = re.compile(r"[^\w\s\x00-\x7f]")
"""Candidates: `is_symbol` decides."""
# Not between two parts of a word, as in `a.b`, and not three or more, as in `...and`.
SIGNS_BEFORE: Final = f"(?<![^\\W{_UNSPACED}])(?<![])}}.$@#-])[.$@#-]{{1,2}}_*"
SIGNS_AFTER: Final = r"[+#]+"
"""The signs that belong to a word: those of `.NET`, `$HOME`, `--flag`, `C++` and `F#`."""


class _Folded(dict[int, str]):
    """How each character is folded, found out when it is first seen."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        whole = normalize("NFKC", char).casefold()
        lower = char.lower()
        folded = next((it for it in (whole, lower) if len(it) == 1), char)
        self[code] = folded
        return folded


_FOLDED = _Folded()


def composed(text: str) -> str:
    """The text with its accents and syllables composed, which is what is searched and shown."""
    return text if text.isascii() else normalize("NFC", text)


def folded(text: str) -> str:
    """The text without differences of case and width, of the same length."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def is_symbol(char: str) -> bool:
    """Whether this is an emoji, an arrow, a currency or another symbol."""
    return category(char).startswith("S")


def is_in_run(char: str) -> bool:
    """Whether this character of a folded text belongs to a run."""
    return char.isalnum() and (char.isascii() or not UNSPACED.match(char))


def parts(run: str) -> tuple[str, ...]:
    """The parts of a run, in its own case."""
    if run.islower():
        return (run,)
    edges = [0, *(at for at in range(1, len(run)) if begins_part(run, at)), len(run)]
    return tuple(run[lo:hi] for lo, hi in pairwise(edges))


def begins_part(text: str, at: int) -> bool:
    """Whether a part begins at this character within a run."""
    if not text[at].isupper():
        return False
    return not text[at - 1].isupper() or (at + 1 < len(text) and text[at + 1].islower())
