"""LangChain's messages as messages of a session: exact, readable, and each stored once.

A message is stored in the format `langchain`: the fields that differ from their defaults. If JSON
would change a field, or the class is not one of LangChain's own, the output of the checkpointer's
serializer is stored with it.

Agents send their whole state with each call of a tool, and their next checkpoint holds it once
more. So the messages that the session shows are left out of what is sent: otherwise the cost of
each step would grow with the conversation.
"""

import marshal
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import takewhile
from operator import eq
from typing import Any, NamedTuple, TypeGuard

import msgspec

from roocontext.adapters.serializing import framework, serializing
from roocontext.formats.langchain_conversations import Content, digest_of, is_exact

WORKS = ">=4.3,<5"

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import (
        AIMessage,
        AIMessageChunk,
        BaseMessage,
        ChatMessage,
        ChatMessageChunk,
        FunctionMessage,
        FunctionMessageChunk,
        HumanMessage,
        HumanMessageChunk,
        SystemMessage,
        SystemMessageChunk,
        ToolMessage,
        ToolMessageChunk,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.types import SendProtocol

_encode = msgspec.msgpack.Encoder().encode

_CLASSES: dict[str, type[BaseMessage]] = {
    cls.model_fields["type"].default: cls
    for cls in (
        *(HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage, ChatMessage),
        *(HumanMessageChunk, AIMessageChunk, SystemMessageChunk, ToolMessageChunk),
        *(FunctionMessageChunk, ChatMessageChunk),
    )
}
_DEFAULTS = {
    kind: {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }
    for kind, cls in _CLASSES.items()
}
"""The fields of each class in their order, with their defaults."""
_FRESH = {
    kind: [(name, type(default)) for name, default in defaults.items() if default in ([], {})]
    for kind, defaults in _DEFAULTS.items()
}
"""The fields whose default each message has a copy of."""

_set = object.__setattr__


def holds_messages(value: object) -> TypeGuard[list[BaseMessage]]:
    """True if the value of a channel is a conversation."""
    if type(value) is not list or not value:
        return False
    return all(issubclass(kind, BaseMessage) for kind in {*map(type, value)})


def to_content(message: BaseMessage, serde: SerializerProtocol) -> Content:
    """The stored form of a message."""
    data = _fields(message)
    if _is_plain(message, data):
        return {"type": message.type, "data": data}
    # The message as a load gives it, so that it is still the same when it is stored again.
    message = unpacked(serde, packed(serde, message, "message"))
    data = _fields(message)
    if _is_plain(message, data):
        return {"type": message.type, "data": data}
    readable = {name: value for name, value in data.items() if is_exact(value)}
    return {"type": message.type, "data": readable, "raw": packed(serde, message)}


def _fields(message: BaseMessage) -> dict[str, Any]:
    fields = message.__dict__
    defaults = _DEFAULTS.get(message.type, dict.fromkeys(fields))
    data = {
        name: fields[name]
        for name, default in defaults.items()
        if name in fields and not (type(fields[name]) is type(default) and fields[name] == default)
    }
    return {**data, **(message.__pydantic_extra__ or {})}


def _is_plain(message: BaseMessage, data: dict[str, Any]) -> bool:
    return type(message) is _CLASSES.get(message.type) and is_exact(data)


def to_message(content: Content, serde: SerializerProtocol) -> BaseMessage:
    """The message of a stored form."""
    if "raw" in content:
        stored: BaseMessage = unpacked(serde, content["raw"])
        return stored
    kind, data = content["type"], content["data"]
    defaults = _DEFAULTS[kind]
    fields, extra = {**defaults, **data}, {}
    if len(fields) > len(defaults):
        extra = {name: fields.pop(name) for name in data if name not in defaults}
    for name, empty in _FRESH[kind]:
        if name not in data:
            fields[name] = empty()
    # Validating it again, or pydantic's `model_construct`, takes four to a hundred times as long.
    message = _CLASSES[kind].__new__(_CLASSES[kind])
    _set(message, "__dict__", fields)
    _set(message, "__pydantic_extra__", extra)
    _set(message, "__pydantic_fields_set__", {*data})
    _set(message, "__pydantic_private__", None)
    return message


class Digests:
    """The digests of messages in memory, each computed once.

    A graph may change a message in place, so a message is recognised by a hash of its fields.
    """

    def __init__(
        self, serde: SerializerProtocol, before: Mapping[int, bytes] | None = None
    ) -> None:
        self._serde = serde
        self._before = before or {}
        self._known: dict[int, bytes] = {}

    def renewed(self) -> "Digests":
        """The same digests; those that are not asked for until the next time are forgotten."""
        return Digests(self._serde, self._known)

    def of(self, message: BaseMessage) -> bytes:
        """The digest of a message."""
        fields = (type(message).__name__, message.__dict__, message.__pydantic_extra__)
        try:
            _encode(fields)  # refuses what contains itself, which marshal would take for ever
            # Unlike msgpack, marshal tells a set from a list, and it refuses most other classes.
            # After version 2, its output depends on which objects are shared.
            key = hash(marshal.dumps(fields, 2))
        except (TypeError, ValueError, OverflowError, RecursionError):
            return digest_of(to_content(message, self._serde))
        digest = self._known.get(key) or self._before.get(key)
        if digest is None:
            digest = digest_of(to_content(message, self._serde))
        self._known[key] = digest
        return digest


def packed(serde: SerializerProtocol, value: Any, path: str = "value") -> list[str]:
    """The output of a serializer, as JSON. If a value is refused, the path names it."""
    with serializing(value, path):
        kind, data = serde.dumps_typed(value)
    return [kind, b64encode(data).decode()]


def unpacked(serde: SerializerProtocol, stored: Sequence[str]) -> Any:
    """The value that was packed."""
    kind, data = stored
    return serde.loads_typed((kind, b64decode(data)))


_LEVELS = 2
"""How deep a state is looked for: it is sent by itself, or under a name."""


class LeftMessages(NamedTuple):
    """The first messages of a list, which were left out of a send.

    `place` is the send's, and `keys` lead to the list in it. They are the first `messages` of the
    channel that the last key names, as of the entry `seq`; 0 is the entry that holds this.
    """

    place: int
    keys: list[str]
    seq: int
    messages: int


def shortened(
    sent: Sequence[Any], shown: Mapping[str, Sequence[bytes]], digests: Digests, seq: int
) -> tuple[list[Any], list[LeftMessages]]:
    """Sends without the messages shown as of `seq`, and where these were."""
    left: list[LeftMessages] = []

    def cut(value: Any, place: int, keys: list[str]) -> Any:
        if keys and keys[-1] in shown and holds_messages(value):
            same = takewhile(bool, map(eq, map(digests.of, value), shown[keys[-1]]))
            if count := sum(same):
                left.append(LeftMessages(place, keys, seq, count))
            return value[count:]
        if type(value) is dict and len(keys) < _LEVELS:
            return {
                key: cut(item, place, [*keys, key]) if type(key) is str else item
                for key, item in value.items()
            }
        return value

    short = [copy(value) if isinstance(value, SendProtocol) else value for value in sent]
    for place, one in enumerate(short):
        if isinstance(one, SendProtocol):
            one.arg = cut(one.arg, place, [])
    return short, left


def completed(
    sent: Sequence[Any],
    left: Sequence[LeftMessages],
    read: Callable[[int], Mapping[str, Sequence[BaseMessage]]],
) -> None:
    """Put the messages back that were left out; `read` gives the conversations as of an entry."""
    for place, (*above, channel), seq, count in left:
        state = sent[place].arg
        for key in above:
            state = state[key]
        state[channel] = [*read(seq)[channel][:count], *state[channel]]
