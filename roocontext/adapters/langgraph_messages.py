"""LangChain's messages as messages of a session: exact, readable, and each of them once.

A message is stored in the reading `langchain`: the fields that differ from their defaults. If JSON
would change any of them, or the class is not one of LangChain's own, what the checkpointer's
serializer makes of the message is stored beside what can be read of it.
"""

import json
import marshal
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeGuard

import msgspec

from roocontext.adapters.serializing import framework, serializing
from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER, encode
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

_CLASSES: dict[str, type[BaseMessage]] = {
    cls.model_fields["type"].default: cls
    for cls in (
        *(HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage, ChatMessage),
        *(HumanMessageChunk, AIMessageChunk, SystemMessageChunk, ToolMessageChunk),
        *(FunctionMessageChunk, ChatMessageChunk),
    )
}
_FIELDS = {
    kind: {
        name: field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }
    for kind, cls in _CLASSES.items()
}
"""The fields of each class in their order, with their defaults."""
_FRESH = {
    kind: [(name, type(default)) for name, default in fields.items() if default in ([], {})]
    for kind, fields in _FIELDS.items()
}
"""The fields whose default every message has a copy of."""

Content = dict[str, Any]

_set = object.__setattr__


MARKER = "\0marker"
"""Stands for the channel of a marker of ours, which belongs to no conversation."""


def holds_messages(value: object) -> TypeGuard[list[BaseMessage]]:
    """Whether the value of a channel is a conversation."""
    # By its few classes: it may be long, and each checkpoint asks.
    if type(value) is not list or not value:
        return False
    return all(issubclass(kind, BaseMessage) for kind in {*map(type, value)})


def to_content(message: BaseMessage, channel: str, serde: SerializerProtocol) -> Content:
    """What is stored of a message."""
    data = _fields(message)
    raw = None
    if not _is_plain(message, data):
        # What comes back of it, so that a message is still the same when it was read again.
        message = unpacked(serde, packed(serde, message, "message"))
        data = _fields(message)
        if not _is_plain(message, data):
            raw = packed(serde, message)
            data = {name: value for name, value in data.items() if is_exact(value)}
    content: Content = {"type": message.type, "data": data}
    if channel != MAIN:
        content["channel"] = channel
    if raw is not None:
        content["raw"] = raw
    return content


def _fields(message: BaseMessage) -> dict[str, Any]:
    given = message.__dict__
    data = {
        name: given[name]
        for name, default in _FIELDS.get(message.type, dict.fromkeys(given)).items()
        if name in given and not _is(given[name], default)
    }
    return {**data, **(message.__pydantic_extra__ or {})}


def _is_plain(message: BaseMessage, data: dict[str, Any]) -> bool:
    return type(message) is _CLASSES.get(message.type) and is_exact(data)


def to_message(content: Any, serde: SerializerProtocol) -> BaseMessage:
    """The message that was stored."""
    if "raw" in content:
        message: BaseMessage = unpacked(serde, content["raw"])
        return message
    kind, data = content["type"], content["data"]
    cls, defaults = _CLASSES[kind], _FIELDS[kind]
    fields, extra = {**defaults, **data}, {}
    if len(fields) > len(defaults):
        extra = {name: fields.pop(name) for name in data if name not in defaults}
    for name, empty in _FRESH[kind]:
        if name not in data:
            fields[name] = empty()
    made = cls.__new__(cls)
    # Not validated, which takes ten times as long: it was when it was made.
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_extra__", extra)
    _set(made, "__pydantic_fields_set__", {*data})
    _set(made, "__pydantic_private__", None)
    return made


def to_new(content: Content) -> NewMessage:
    """The message of ours that holds this."""
    data = content["data"]
    reported = data.get("response_metadata")
    model = reported.get("model_name") if isinstance(reported, dict) else None
    return NewMessage(
        role_of(content),
        content,
        FORMAT,
        message_id=_id(data.get("id")),
        model=_id(model),
        usage=_usage(data.get("usage_metadata")),
    )


def new_marker() -> NewMessage:
    """What stands for messages that a graph has removed from the middle, or from the start."""
    return NewMessage(
        "user", {"type": "human", "data": {"content": LEFT_OUT}, "marker": True}, FORMAT
    )


def channel_of(content: Any) -> str:
    """The channel that a stored message belongs to."""
    channel: str = MARKER if "marker" in content else content.get("channel", MAIN)
    return channel


def digest_of(content: Content) -> bytes:
    """A digest that two contents share only if they are equal, types and order included."""
    return blake2b(encode(content).encode(), digest_size=16).digest()


def live_hashes(messages: Sequence[BaseMessage]) -> list[object]:
    """A hash of each message as it is in memory; an object of its own for what has none.

    A graph may change a message in place, so that its identity says nothing.
    """
    try:
        return [
            hash(_encode((type(one).__name__, one.__dict__, one.__pydantic_extra__)))
            for one in messages
        ]
    except (TypeError, ValueError, OverflowError, RecursionError):
        if len(messages) == 1:
            return [object()]
        return [one for message in messages for one in live_hashes([message])]


def packed(serde: SerializerProtocol, value: Any, path: str = "value") -> list[str]:
    """What a serializer makes of a value, as JSON. The path names it where it is refused."""
    with serializing(value, path):
        kind, data = serde.dumps_typed(value)
    return [kind, b64encode(data).decode()]


def unpacked(serde: SerializerProtocol, stored: Sequence[str]) -> Any:
    """The value that was packed."""
    kind, data = stored
    return serde.loads_typed((kind, b64decode(data)))


def is_exact(value: Any) -> bool:
    """Whether JSON gives exactly this value back: types, order and all."""
    with suppress(RecursionError):
        if _is_json(value):
            return True
    return _comes_back(value)


def _is_json(value: object) -> bool:
    """Whether it certainly does: most values are of few types, and need not be written and read."""
    if type(value) is str:
        return value.isascii() or _has_no_surrogates(value)
    if type(value) is dict:
        has_names = {*map(type, value)} <= {str} and all(map(_is_json, value))
        return has_names and all(map(_is_json, value.values()))
    if type(value) is list:
        return all(map(_is_json, value))
    if type(value) is int:
        return MIN_INTEGER <= value <= MAX_INTEGER
    return value is None or type(value) is bool or (type(value) is float and isfinite(value))


def _has_no_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _comes_back(value: Any) -> bool:
    try:
        again = json.loads(json.dumps(value, allow_nan=False, check_circular=False))
        return marshal.dumps(again, 0) == marshal.dumps(value, 0)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _is(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _id(value: object) -> str | None:
    """An id, if it is one that the log takes."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        return None
    return value


def _usage(reported: object) -> dict[str, Any] | None:
    """LangChain's usage in the shape of OpenAI's, which counts what was cached among the input."""
    if not isinstance(reported, dict):
        return None
    usage = {
        "input_tokens": reported.get("input_tokens"),
        "output_tokens": reported.get("output_tokens"),
        "input_tokens_details": {"cached_tokens": _part(reported, "input", "cache_read")},
        "output_tokens_details": {"reasoning_tokens": _part(reported, "output", "reasoning")},
    }
    return usage if is_exact(usage) else None


def _part(reported: dict[str, Any], side: str, name: str) -> Any:
    details = reported.get(f"{side}_token_details")
    return details.get(name, 0) if isinstance(details, dict) else 0
