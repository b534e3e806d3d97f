"""Messages that the checks write, and how two of them are compared."""

import json
from collections.abc import Sequence
from typing import Any

from roocontext.testing.protocol import Message


def says(text: str, role: str = "user") -> Message:
    """A message of one text."""
    return Message(role, [{"type": "text", "text": text}])


def calls(call: str, value: Any = None) -> Message:
    """The assistant calls a tool with a value."""
    block = {"type": "tool_use", "id": call, "name": "probe", "input": {"value": value}}
    return Message("assistant", [block])


def answers(call: str, text: str = "done") -> Message:
    """The result of a call."""
    return Message("user", [{"type": "tool_result", "tool_use_id": call, "content": text}])


def dialogue(turns: int) -> list[Message]:
    """Turns of a user and an assistant, each text different."""
    return [
        says(f"{role} {number}: " + "a sentence about the work. " * 8, role)
        for number in range(turns)
        for role in ("user", "assistant")
    ]


def written(messages: Sequence[Message]) -> list[str]:
    """Messages as JSON texts, which differ if a number's type or an order of keys does."""
    return [json.dumps([message.role, message.content]) for message in messages]


def first_difference(wanted: Sequence[Message], found: Sequence[Message]) -> str | None:
    """Where two lists of messages begin to differ, without their content; None if they do not."""
    if written(wanted) == written(found):
        return None
    for number, (one, other) in enumerate(zip(written(wanted), written(found), strict=False), 1):
        if one != other:
            return f"message {number} of {len(wanted)} differs"
    return f"{len(found)} messages instead of {len(wanted)}"
