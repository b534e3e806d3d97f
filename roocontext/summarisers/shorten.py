"""Shortening of texts to a weight that approximates tokens.

Weights replace token counts where no tokeniser is available: a token is three ASCII characters, or
three quarters of a character of any other script. Prose and code have more characters to a token;
long digests and emoji have fewer. Cuts fall between characters, and the text that replaces the cut
says how many characters were left out.
"""

import re
from typing import Final

from roocontext.log.encoding import whole

TOKEN: Final = 3
"""The weight of a token. An ASCII character weighs 1."""

_OTHER: Final = 4
"""The weight of any other character."""

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def weight(text: str) -> int:
    """The weight of a text."""
    if text.isascii():
        return len(text)
    return _OTHER * len(text) - (_OTHER - 1) * len(text.encode("ascii", "ignore"))


def clean(text: str) -> str:
    """Remove control characters and escape lone surrogates, so that the text can be sent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub("", whole(text))


def shorten(text: str, room: int) -> str:
    """Cut out the middle so that the text weighs at most `room`, and say how much is missing."""
    if weight(text) <= room:
        return text
    left = room - weight(_gap(len(text)))
    if left < weight(_gap(len(text))):
        return f"{first(text, room - 3)}..." if room > 3 else first(text, room)
    head, tail = first(text, left * 2 // 3), last(text, left // 3)
    return f"{head}{_gap(len(text) - len(head) - len(tail))}{tail}"


def line(text: str, room: int) -> str:
    """Put a text on one line and cut its end if it is too long."""
    flat = " ".join(text.split())
    return flat if weight(flat) <= room else first(flat, room - 3).rstrip() + "..."


def first(text: str, room: int) -> str:
    """The longest beginning that weighs at most `room`."""
    return text[: _reach(text[:room], room)] if room > 0 else ""


def last(text: str, room: int) -> str:
    """The longest end that weighs at most `room`."""
    reach = _reach(text[-room:][::-1], room) if room > 0 else 0
    return text[len(text) - reach :]


def _reach(text: str, room: int) -> int:
    """How many characters at the beginning weigh at most `room` together."""
    if text.isascii():
        return min(len(text), room)
    for index, character in enumerate(text):
        room -= 1 if character.isascii() else _OTHER
        if room < 0:
            return index
    return len(text)


def _gap(characters: int) -> str:
    return f"\n[... {characters:,} characters left out ...]\n"
