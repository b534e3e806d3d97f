"""The user message after an assistant message that comes last in a request."""

from collections.abc import Sequence

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn
from roocontext.log.forms.parts import OutgoingRow, Repairs
from roocontext.log.forms.repairs import Rule


def close(turns: Sequence[OutgoingTurn], messages: Sequence[Message], repairs: Repairs) -> bool:
    """Whether a request with these turns needs a user message at its end; note the repair."""
    if turns and turns[-1].role == "user":
        return False
    if messages:
        end = OutgoingRow(0, messages[-1], "user", is_own=True, is_whole=False, pieces=0)
        repairs.add(end, Rule.CLOSING)
    return True
