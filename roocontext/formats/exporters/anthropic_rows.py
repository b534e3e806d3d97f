"""Messages of every format as other agents' files hold them: with Anthropic's role and blocks."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid5

from roocontext.log.entries import Message
from roocontext.log.forms.parts import attachment
from roocontext.log.forms.tools import CallIds, name_for
from roocontext.log.readings import Block, calls, read_message, results
from roocontext.log.readings.blocks import as_dict
from roocontext.log.readings.gemini import parts_of

_NAMES: Final = UUID("6a3f3f5e-0f5b-5a51-9d0e-0c6b5d1f7a11")
_VALID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SENT: Final = ("text", "image", "document", "thinking", "redacted_thinking")
_FILE: Final = "file"
"""The type under which a reading shows a file for which Anthropic has no block."""
_AS_TEXT: Final = ("executableCode", "codeExecutionResult", "audioTranscription")
_KNOWN: Final = (*_SENT, "tool_use", "tool_result", _FILE)


def foreign_id(*names: str) -> str:
    """The same UUID for the same names, as other agents name sessions and rows."""
    return str(uuid5(_NAMES, "\0".join(names)))


def types_left_out(message: Message) -> list[str]:
    """The types of the blocks that only the message's provider knows, so no file can hold them.

    Of some parts of Gemini's the files have the text.
    """
    if message.format == "anthropic":
        return []
    _, blocks = read_message(message)
    types = [str(block.get("type")) for block in blocks if block.get("type") not in _KNOWN]
    parts = parts_of(message.content) if message.format == "gemini" else []
    return types + [f"{kind} (as text)" for part in parts for kind in _AS_TEXT if kind in part]


class AnthropicRows:
    """Reads the messages of one session in their order.

    A message in Anthropic's format stays as it is. For others an id that is not valid is replaced,
    in the call and in the result that answers it, and what only its provider knows is left out. A
    result that names its call, by entry and number, gets the id of that call. What a message
    becomes does not depend on those that are hidden.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._calls: dict[int, list[tuple[str, str]]] = {}
        """By entry: the ids of its calls, and those that they have in the file."""

    def read(self, message: Message) -> tuple[str, Any]:
        """The role and content of the next message. The content may be empty."""
        role, blocks = read_message(message)
        answered = results(blocks)
        # A row with several results cannot say which of them the link is for: ids decide there.
        linked = self._linked(message) if len(answered) == 1 else None
        if message.format == "anthropic":
            self._calls[message.seq] = [(tool_id, tool_id) for _, tool_id in calls(blocks)]
            if linked is None or linked == answered[0][1]:
                return message.role, message.content
            at = answered[0][0]
            fixed = {**blocks[at], "tool_use_id": linked}
            return message.role, [*blocks[:at], fixed, *blocks[at + 1 :]]
        known = (
            (index, block) for index, block in enumerate(blocks) if block.get("type") in _KNOWN
        )
        names = _names_of_results(message)
        return role, [
            self._sent(message.seq, index, block, linked, names) for index, block in known
        ]

    def _linked(self, message: Message) -> str | None:
        """The id, in the file, of the call that a result names; None if it names none."""
        if message.answers is None:
            return None
        seq, number = message.answers
        calls_there = self._calls.get(seq, [])
        if number >= len(calls_there):
            return CallIds(_VALID).take("", message.seq, 0)  # its call is not here
        old, new = calls_there[number]
        if (seq, new) in self._waiting[old]:
            self._waiting[old].remove((seq, new))
        return new

    def _sent(
        self, seq: int, index: int, block: Block, linked: str | None, names: Mapping[str, str]
    ) -> Block:
        match block:
            case {"type": "tool_use", "id": str(tool_id), "name": str(name)}:
                new = CallIds(_VALID).take(tool_id, seq, index)
                self._waiting[tool_id].append((seq, new))
                self._calls.setdefault(seq, []).append((tool_id, new))
                return {**block, "id": new, "name": name_for(name, _VALID)}
            case {"type": "tool_result", "tool_use_id": str(tool_id)}:
                name = names.get(tool_id, "")
                is_by_name = bool(self._waiting[name]) and not self._waiting[tool_id]
                answered = linked or self._answered(name if is_by_name else tool_id)
                return {**block, "tool_use_id": answered}
        return attachment(block.get("title")) if block.get("type") == _FILE else block

    def _answered(self, tool_id: str) -> str:
        """The new id of the first call in the latest message that waits under this id."""
        waiting = self._waiting[tool_id]
        if not waiting:
            return tool_id
        first = next(call for call in waiting if call[0] == waiting[-1][0])
        waiting.remove(first)
        return first[1]


def _names_of_results(message: Message) -> dict[str, str]:
    """By the id of each result of Gemini's: how the reading names a call without an id."""
    parts = parts_of(message.content) if message.format == "gemini" else []
    responses = (as_dict(part.get("functionResponse")) for part in parts)
    return {
        str(response["id"]): f"{response.get('name')}#"
        for response in responses
        if response.get("id")
    }
