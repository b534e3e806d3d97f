"""LangChain's messages as messages of a session: exact, readable, and each stored once.

A message is stored in the format `langchain`: the fields that differ from their defaults. If JSON
would change a field, or the class is not one of LangChain's own, the output of the checkpointer's
serializer is stored with it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeGuard

import msgspec

from roocontext.adapters.serializing import framework, serializing
from roocontext.formats.imported import storable, storable_model
from roocontext.log.encoding import encode
from roocontext.log.entries import NewMessage
from roocontext.log.plan import LEFT_OUT
from roocontext.log.readings.langchain import role_of

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

FORMAT = "langchain"
_encode = msgspec.msgpack.Encoder().encode
MAIN = "messages"
"""The channel that nearly every graph keeps its conversation in: its messages do not name it."""
MARKER = "\0marker"
"""The channel of the adapter's own markers, which belong to no conversation."""

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

Content = dict[str, Any]
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


def to_new(content: Content, channel: str) -> NewMessage:
    """The session's message with this content, of a channel."""
    data = content["data"]
    reported = data.get("response_metadata")
    name, model = data.get("id"), None
    if isinstance(reported, dict):
        model = reported.get("model_name")
    return NewMessage(
        role_of(content),
        content if channel == MAIN else {**content, "channel": channel},
        FORMAT,
        message_id=storable(name) if isinstance(name, str) and name else None,
        model=storable_model(model) if isinstance(model, str) else None,
        usage=_usage(data.get("usage_metadata")),
    )


def _usage(reported: object) -> dict[str, Any] | None:
    """LangChain's usage in the shape of OpenAI's, which counts cached tokens as input."""
    if not isinstance(reported, dict):
        return None
    read, reasoned = (
        details.get(name, 0) if isinstance(details := reported.get(side), dict) else 0
        for side, name in (
            ("input_token_details", "cache_read"),
            ("output_token_details", "reasoning"),
        )
    )
    usage = {
        "input_tokens": reported.get("input_tokens"),
        "output_tokens": reported.get("output_tokens"),
        "input_tokens_details": {"cached_tokens": read},
        "output_tokens_details": {"reasoning_tokens": reasoned},
    }
    return usage if is_exact(usage) else None


def new_marker() -> NewMessage:
    """The marker for messages that a graph has removed from the start or the middle."""
    return NewMessage(
        "user", {"type": "human", "data": {"content": LEFT_OUT}, "marker": True}, FORMAT
    )


def channel_of(content: Content) -> str:
    """The channel that a stored message belongs to."""
    channel: str = MARKER if "marker" in content else content.get("channel", MAIN)
    return channel


def digest_of(content: Content) -> bytes:
    """A digest that two messages share only if they are equal, types and order included."""
    own = {name: value for name, value in content.items() if name != "channel"}
    return blake2b(encode(own).encode(), digest_size=16).digest()


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
            key = hash(_encode(fields))
        except (TypeError, ValueError, OverflowError, RecursionError):  # msgpack cannot hold it
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


def is_exact(value: object) -> bool:
    """True if JSON gives exactly this value back, types and order included."""
    try:
        return _is_json(value)
    except RecursionError:
        return False


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        # Two halves of a character come back as one.
        return bool(value.isascii() or json.loads(json.dumps(value)) == value)
    if kind is dict:
        has_names = {*map(type, value)} <= {str} and all(map(_is_json, value))
        return has_names and all(map(_is_json, value.values()))
    if kind is list:
        return all(map(_is_json, value))
    return kind in {int, bool, type(None)} or (kind is float and isfinite(value))
