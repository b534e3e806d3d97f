"""The message that answers a tool call: in the call's format, or in that of the output's parts.

A tool returns the parts that its author knows, whichever provider's model has called it. A format
without a place for such parts would lose them, so the result is then stored in the format that has
them. The row names its call, and each form converts it as it does any row of another format.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from roocontext.log.readings import reader
from roocontext.log.readings.blocks import are_parts, string

_CALLED: Final[dict[str, Callable[[str], Any]]] = {
    "anthropic": lambda tool_id: [{"type": "tool_use", "id": tool_id}],
    "openai": lambda tool_id: {"tool_calls": [{"type": "function", "id": tool_id}]},
    "openai-responses": lambda tool_id: [{"type": "function_call", "call_id": tool_id}],
}
"""A message with a call of this id, by format."""

_WITHOUT_PARTS: Final = ("gemini", "bedrock-converse")
"""The other providers' formats, which have no place for parts of these types."""

_OF_ONE: Final = {
    **dict.fromkeys(("image", "document", "search_result", "tool_reference"), "anthropic"),
    "image_url": "openai",
    **dict.fromkeys(("input_text", "input_image", "input_file"), "openai-responses"),
}
"""The types of parts that a single format has."""


class AskedCall(NamedTuple):
    """A call to be answered: its id as it is read, and its number in a content of this format."""

    id: str
    format: str
    content: Any
    number: int

    def answered(self, output: Any, *, is_error: bool) -> tuple[str, str, Any]:
        """The format, the role and the content of the message that answers it."""
        call, other = self, _format_for(output, self.format)
        if other != self.format:
            call = AskedCall(self.id, other, _CALLED[other](self.id), 0)
        role, content = reader(call.format).answer(
            call.content, call.number, output, is_error=is_error
        )
        return call.format, role, content


def _format_for(output: Any, format_: str) -> str:
    """The format in which a call of this format is answered with this output."""
    if not are_parts(output) or format_ not in (*_CALLED, *_WITHOUT_PARTS):
        return format_
    kinds = (string(part, "type") for part in output)
    # Every format that has parts has texts.
    otherwise = "anthropic" if format_ in _WITHOUT_PARTS else format_
    return next((_OF_ONE[kind] for kind in kinds if kind in _OF_ONE), otherwise)
