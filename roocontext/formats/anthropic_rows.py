"""Messages of every format as other agents' files hold them: with Anthropic's role and blocks."""

import re
from collections import defaultdict
from typing import Any, Final
from uuid import UUID, uuid5

from roocontext.log.entries import Message
from roocontext.log.forms.identifiers import CallIds, name_for
from roocontext.log.readings import Block, reader

_NAMES: Final = UUID("6a3f3f5e-0f5b-5a51-9d0e-0c6b5d1f7a11")
_VALID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SENT: Final = ("text", "image", "document", "thinking", "redacted_thinking")


def foreign_id(*names: str) -> str:
    """The same UUID for the same names, as other agents name sessions and rows."""
    return str(uuid5(_NAMES, "\0".join(names)))


class AnthropicRows:
    """Reads the messages of one session in their order.

    A message in Anthropic's format stays as it is. For others an id that is not valid is replaced,
    in the call and in the result that answers it. What a message becomes does not depend on those
    that are hidden.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)

    def read(self, message: Message) -> tuple[str, Any]:
        """The role and content of the next message. The content may be empty."""
        if message.format == "anthropic":
            return message.role, message.content
        role, blocks = reader(message.format).blocks(message.role, message.content)
        return role, [self._sent(message.seq, index, one) for index, one in enumerate(blocks)]

    def _sent(self, seq: int, index: int, block: Block) -> Block:
        match block:
            case {"type": "tool_use", "id": str(tool_id), "name": str(name)}:
                new = CallIds(_VALID).take(tool_id, seq, index)
                self._waiting[tool_id].append((seq, new))
                return {**block, "id": new, "name": name_for(name, _VALID)}
            case {"type": "tool_result", "tool_use_id": str(tool_id)}:
                return {**block, "tool_use_id": self._answered(tool_id)}
            case {"type": str(kind)} if kind not in _SENT:
                return {"type": "text", "text": f"[{block.get('title', kind)}]"}
        return block

    def _answered(self, tool_id: str) -> str:
        """The new id of the first call in the latest message that waits under this id."""
        waiting = self._waiting[tool_id]
        if not waiting:
            return tool_id
        first = next(one for one in waiting if one[0] == waiting[-1][0])
        waiting.remove(first)
        return first[1]
