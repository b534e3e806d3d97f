"""Turns that alternate and begin with the user, for the providers that require it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn
from roocontext.log.forms.closing import close
from roocontext.log.forms.parts import OutgoingPart, Repairs
from roocontext.log.forms.repairs import Rule


class Line(NamedTuple):
    """A role and its parts; without parts, the fixed user message."""

    role: str
    parts: Sequence[OutgoingPart]


def alternating(
    turns: Sequence[OutgoingTurn], messages: Sequence[Message], repairs: Repairs, *, complete: bool
) -> Iterator[Line]:
    """Insert a user message before the assistant where one is needed.

    With `complete`, also after an assistant message that comes last.
    """
    last = "assistant"
    first = True
    for turn in turns:
        if turn.role == "assistant" and last == "assistant":
            repairs.add(turn.parts[0].row, Rule.OPENING if first else Rule.APART)
            yield Line("user", ())
        yield Line(turn.role, turn.parts)
        last, first = turn.role, False
    if complete and close(turns, messages, repairs):
        yield Line("user", ())
