"""A reply of any provider, as one message of a log, and the protocol of what reads one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from roocontext.log.compactions import Compaction, newest_compaction
from roocontext.log.draft import KEPT_UNDER
from roocontext.log.encoding import MAX_MODEL, decode
from roocontext.log.entries import NewMessage
from roocontext.log.forms.tools import MADE_NAME, with_names
from roocontext.log.readings import reader
from roocontext.log.readings.blocks import as_dict

RESPONSES: Final = "openai-responses"

REQUESTED: Final = "requested_model"
"""The name under which the log keeps the model's name in the request for a reply."""


class Compacting(NamedTuple):
    """A compaction by the provider, and the messages of the history that it kept."""

    newest: Compaction
    kept: tuple[NewMessage, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of any provider, as one message of a log.

    `id` is the provider's id of the reply, if it has one. `stop_reason` is in the provider's words.
    `messages` are those that a compaction on demand returned before its own item.
    """

    format: str
    role: str
    content: Any
    model: str | None = None
    usage: Any = None
    id: str | None = None
    stop_reason: str | None = None
    request_id: str | None = None
    messages: tuple[Any, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the reply that are not part of the message, under the provider's names."""

    @property
    def compacting(self) -> "Compacting | None":
        """The compaction of the history in it, if it has one that did not fail."""
        newest = newest_compaction(self.format, self.content)
        others = tuple(NewMessage("user", [item], RESPONSES) for item in self.messages)
        return None if newest is None else Compacting(newest, others)

    def with_names(self, names: Mapping[str, str]) -> "Reply":
        """The reply with the agent's names of tools, where the request had to send others."""
        return replace(self, content=with_names(self.content, names)) if names else self

    @property
    def has_made_names(self) -> bool:
        """True if it calls a tool by a name that a form may have made."""
        blocks = reader(self.format).blocks(self.role, self.content)[1]
        names = (block.get("name") for block in blocks if block.get("type") == "tool_use")
        return any(isinstance(name, str) and MADE_NAME.fullmatch(name) for name in names)

    def kept(self, requested: str | None = None) -> dict[str, Any]:
        """The fields that the log keeps in addition to the message.

        `requested` is the name of the model in the request.
        """
        fields = {"id": self.id, "stop_reason": self.stop_reason, "request_id": self.request_id}
        fields[REQUESTED] = requested
        known = {name: value for name, value in fields.items() if value is not None}
        return {**known, **self.beside}


def requested_model(extra: str | None) -> str | None:
    """The model's name in the request for a stored reply, read from its `extra`."""
    # A search in the text first: most messages have no such name.
    fields = decode(extra) if extra is not None and f'"{REQUESTED}"' in extra else None
    name = as_dict(as_dict(fields).get(KEPT_UNDER)).get(REQUESTED)
    return name if isinstance(name, str) and len(name) <= MAX_MODEL else None


class ReplyReader(Protocol):
    """Reads the replies of one kind. It is pure, and never changes what it is given."""

    def recognises(self, reply: Any) -> bool:
        """Return True for a reply of this kind: the object that was given to `record`."""

    def read(self, reply: Any) -> Reply:
        """Read it; InvalidMessage says why it cannot be recorded."""
