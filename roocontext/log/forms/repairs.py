"""What was repaired in the messages that go out, and why."""

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What a repair did, and why."""

    OPENING = "opening"  # the assistant came first: a user message was put before it
    APART = "apart"  # nothing may come before its thinking: a user message was put before the row
    MERGED = "merged"  # the row has the role of the one before: both are one message
    EMPTY = "empty"  # nothing of the row could be sent
    BLANK = "blank"  # a text without a visible character was left out
    MALFORMED = "malformed"  # a block lacks what its type needs and was left out
    MISPLACED = "misplaced"  # a block that the other role alone may send was left out
    THINKING = "thinking"  # thinking that would not be byte-exact was left out
    TRAILING = "trailing"  # thinking that nothing follows in its message was left out
    SURROGATE = "surrogate"  # a lone surrogate, which is not Unicode, was replaced
    INPUT = "input"  # a call's input was no object and went out as an empty one
    OUTPUT = "output"  # a result's content was freed of what is blank, or no content
    REDACTED = "redacted"  # what a redaction left of a block says that something was here
    RENAMED = "renamed"  # a tool id was taken, or has characters that providers refuse
    HOISTED = "hoisted"  # a result was moved up to directly behind its call
    UNANSWERED = "unanswered"  # a call without a result was given one that says so
    ORPHAN = "orphan"  # a result without a call before it was left out
    DUPLICATE = "duplicate"  # a second result of an answered call was left out


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair: which row, which rule, and which block of the row's reading, if one."""

    seq: int
    rule: Rule
    block: int | None = None
