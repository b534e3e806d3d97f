"""The items of a batch, as values: each has the arguments of a method of Session.

A `client_id` names the request, so that repeating it is safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from roocontext.log.entries import NewMessage
from roocontext.log.plan import Plan


@dataclass(frozen=True, slots=True)
class NewNote:
    """A note to be written: any kind but the store's own, about the message `target` if given."""

    note: str
    content: Mapping[str, Any]
    target: int | None = None
    ts: int | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class SetTitle:
    """Another title of the session."""

    title: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """Other metadata of the session."""

    metadata: Mapping[str, Any]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin: no later plan hides or clears this message."""

    seq: int
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unpin:
    """The end of a pin."""

    seq: int
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rewind:
    """A rewind to right after entry `to`, which may be an entry of the same batch.

    With `head_seq` it is only written if that is the head before it. `ts` is when the
    agent went back.
    """

    to: int
    head_seq: int | None = None
    trigger: str = "manual"
    client_id: str | None = None
    ts: int | None = None


@dataclass(frozen=True, slots=True)
class CompactedReply:
    """A message with a provider's compaction, as another program recorded it, and its covering.

    The covering hides all visible messages, or those in `hides`. `kept` are the messages that the
    provider returned before its compaction: visible messages of the same content stay, and from the
    first other one on they are written as companions. So the view has all of them, in this order.
    """

    message: NewMessage
    kept: tuple[NewMessage, ...] = ()
    hides: tuple[int, ...] | None = None
    trigger: str = "provider"
    covering_id: str | None = None


AnyNote: TypeAlias = NewNote | SetTitle | SetMetadata | Pin | Unpin
Item: TypeAlias = NewMessage | AnyNote | Plan | Rewind | CompactedReply
