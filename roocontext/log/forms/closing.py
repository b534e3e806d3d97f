"""The user message after an assistant message that comes last in a request."""

from collections.abc import Sequence

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn
from roocontext.log.forms.parts import OutgoingRow, Repairs
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.server_tools import waits


def close(turns: Sequence[OutgoingTurn], messages: Sequence[Message], repairs: Repairs) -> bool:
    """Whether a request with these turns needs a user message at its end; note the repair.

    A reply that waits for a tool of the provider's is sent back as it is.
    """
    if turns and (turns[-1].role == "user" or waits(turns[-1].parts)):
        return False
    if messages:
        end = OutgoingRow(0, messages[-1], "user", is_own=True, is_whole=False, pieces=0)
        repairs.add(end, Rule.CLOSING)
    return True
