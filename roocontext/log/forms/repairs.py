"""What was repaired in the messages that go out, and why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Rule(StrEnum):
    """What a repair did, and why."""

    OPENING = "opening"  # the assistant came first: a user message was put before it
    CLOSING = "closing"  # the assistant came last in a request: a user message was put behind it
    APART = "apart"  # nothing may come before its thinking: a user message was put before the row
    MERGED = "merged"  # the row has the role of the one before: both are one message
    EMPTY = "empty"  # nothing of the row could be sent
    BLANK = "blank"  # a text without a visible character was left out
    MALFORMED = "malformed"  # a block lacks what its type needs and was left out
    MISPLACED = "misplaced"  # a block that the other role alone may send was left out
    UNKNOWN = "unknown"  # a block was left out whose type this provider does not know
    FIELD = "field"  # fields that this provider refuses were left out
    THINKING = "thinking"  # thinking of another model, or not byte-exact, was left out
    TRAILING = "trailing"  # thinking that nothing follows in its message was left out
    SURROGATE = "surrogate"  # a lone surrogate, which is not Unicode, was replaced
    INPUT = "input"  # a call's input was no object and went out as an empty one
    OUTPUT = "output"  # a result's content was freed of what is blank, or no content
    MEDIA = "media"  # an image or file that this provider does not take became a line that names it
    MOVED = "moved"  # an image in a result was moved behind the results
    REDACTED = "redacted"  # what a redaction left of a block says that something was here
    RENAMED = "renamed"  # a tool's id or name was taken, or is one that the provider refuses
    HOISTED = "hoisted"  # a result was moved up to directly behind its call
    UNANSWERED = "unanswered"  # a call without a result was given one that says so
    ORPHAN = "orphan"  # a result without a call before it went out as a text that quotes it
    DUPLICATE = "duplicate"  # a second result of an answered call was left out


CONVERSIONS = frozenset({Rule.MERGED, Rule.RENAMED, Rule.THINKING, Rule.FIELD, Rule.MOVED})
"""No repairs where the row is of another format: they bring it into this form."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair: which row, which rule, and which block of the row's reading, if one.

    Where the row is stored in the form's own format, the block is the place of the stored part.
    """

    seq: int
    rule: Rule
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a provider accepts, in its own shape, and what was done to make it so, by seq."""

    messages: list[dict[str, Any]]
    repairs: tuple[Repair, ...]
