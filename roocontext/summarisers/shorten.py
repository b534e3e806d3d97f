"""Texts made to fit: how much they weigh, and what is left of them when they are cut.

Weights stand for tokens where there is no tokeniser to ask: a token is three ASCII characters, or
three quarters of a character of any other script. Prose and code have more to a token, long digests
and emoji have less. What is cut is always whole characters, and always says how much is gone.
"""

import re
from typing import Final

from roocontext.log.encoding import whole

TOKEN: Final = 3
"""What a token weighs. An ASCII character weighs 1."""

_OTHER: Final = 4
"""What any other character weighs."""

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def weight(text: str) -> int:
    """How much a text weighs."""
    if text.isascii():
        return len(text)
    return _OTHER * len(text) - (_OTHER - 1) * len(text.encode("ascii", "ignore"))


def tokens(text: str) -> int:
    """How many tokens a text has at most, in all probability."""
    return -(-weight(text) // TOKEN)


def clean(text: str) -> str:
    """Take out control characters, and give lone surrogates a form that can be sent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub("", whole(text))


def shorten(text: str, room: int) -> str:
    """Cut the middle out, so that the text weighs no more than `room`, and say what is gone."""
    if weight(text) <= room:
        return text
    left = room - weight(_gap(len(text)))
    if left < weight(_gap(len(text))):
        return f"{first(text, room - 3)}..." if room > 3 else first(text, room)
    head, tail = first(text, left * 2 // 3), last(text, left // 3)
    return f"{head}{_gap(len(text) - len(head) - len(tail))}{tail}"


def line(text: str, room: int) -> str:
    """Put a text on one line, and cut it at the end."""
    flat = " ".join(text.split())
    return flat if weight(flat) <= room else first(flat, room - 3).rstrip() + "..."


def first(text: str, room: int) -> str:
    """As much of the beginning as weighs no more than `room`."""
    return text[: _reach(text[:room], room)] if room > 0 else ""


def last(text: str, room: int) -> str:
    """As much of the end as weighs no more than `room`."""
    reach = _reach(text[-room:][::-1], room) if room > 0 else 0
    return text[len(text) - reach :]


def _reach(text: str, room: int) -> int:
    """How many characters from the beginning weigh no more than `room`."""
    if text.isascii():
        return min(len(text), room)
    for index, character in enumerate(text):
        room -= 1 if character.isascii() else _OTHER
        if room < 0:
            return index
    return len(text)


def _gap(characters: int) -> str:
    return f"\n[... {characters:,} characters left out ...]\n"
