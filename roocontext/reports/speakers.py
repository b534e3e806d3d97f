"""Who speaks in a message: its role, or the tools whose outputs it holds.

Providers send the outputs of tools in messages of the user. People want to tell these from prompts.
"""

from typing import Any, Final

from roocontext.log.readings import Holds, Piece, pieces, reader

TOOL: Final = "tool"
UNKNOWN: Final = "(unknown)"
"""The tool of an output whose call was not seen."""


class Speakers:
    """Names the speaker of one message after the other. Calls are remembered by their ids."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}

    def named(self, role: str, content: Any, form: str) -> tuple[str, list[str]]:
        """The role, or `tool` if all that is in the message is outputs; and their tools, in order.

        A message of the tools and the user is the user's.
        """
        if isinstance(content, str):
            return role, []
        found = pieces(reader(form).blocks(role, content)[1])
        tools = [(piece, tool_of(piece, self._called)) for piece in found]
        outputs = [tool or UNKNOWN for piece, tool in tools if piece.kind is Holds.OUTPUT]
        is_tool = bool(outputs) and len(outputs) == len(found)
        return TOOL if is_tool else role, outputs


def tool_of(piece: Piece, called: dict[str, str]) -> str | None:
    """The tool of a call or an output, if it is one; `called` has the tools by call id."""
    if piece.kind is Holds.CALL and piece.text is not None:
        called[str(piece.block.get("id"))] = piece.text
        return piece.text
    if piece.kind is Holds.OUTPUT:
        return called.get(str(piece.block.get("tool_use_id")), UNKNOWN)
    return None
