"""What providers refuse, as far as a store decides it.

These rules are fewer than those of `roocontext.log.forms`, and were written apart from them: a
suite that asked the library's own code would not find its errors.
"""

from collections.abc import Sequence
from typing import Any

from roocontext.testing.protocol import Message, Sent

REFUSES_BLANK = ("anthropic", "gemini")
USER_FIRST = ("anthropic", "gemini")


def faults(sent: Sent) -> list[str]:
    """What a provider would refuse in these messages."""
    found = _faults_of_pairs(sent.messages)
    if sent.provider in REFUSES_BLANK:
        found += [
            f"message {number} has no text in it"
            for number, message in enumerate(sent.messages, 1)
            if _is_blank(message)
        ]
    if sent.provider in USER_FIRST and sent.messages and sent.messages[0].role != "user":
        found.append("the first message is not the user's")
    return found


def _faults_of_pairs(messages: Sequence[Message]) -> list[str]:
    """Calls and results that are not next to each other: every provider refuses these."""
    found: list[str] = []
    open_calls: list[Any] = []
    for number, message in enumerate(messages, 1):
        answered = _ids(message, "tool_result", "tool_use_id")
        for call in answered:
            if call in open_calls:
                open_calls.remove(call)
            else:
                found.append(f"message {number} answers a call that is not before it")
        asked = _ids(message, "tool_use", "id")
        if open_calls and not answered and not (asked and message.role == "assistant"):
            found.append(f"message {number} comes before the result of a call")
            open_calls.clear()
        open_calls += asked
    if open_calls:
        found.append("the last call has no result")
    return found


def _ids(message: Message, kind: str, key: str) -> list[Any]:
    return [block.get(key) for block in message.content if block.get("type") == kind]


def _is_blank(message: Message) -> bool:
    """Whether a message is empty, or has an empty text among its blocks."""
    texts = [block["text"] for block in message.content if block.get("type") == "text"]
    return not message.content or any(not text.strip() for text in texts)
