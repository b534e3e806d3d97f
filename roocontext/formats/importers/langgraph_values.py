"""Values that LangGraph's serializer has written, read without LangGraph.

Of an object of a class the serializer keeps the names of the class and its fields. Here only the
fields are read: no class is imported and no constructor is called, so that a database of unknown
origin can do no harm. For that reason pickled values are refused.
"""

from base64 import b64encode
from datetime import datetime
from functools import partial
from hashlib import blake2b
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec

from roocontext.errors import InvalidMessage, UnreadableSource
from roocontext.formats.databases import decoded
from roocontext.formats.langchain_conversations import Content, digest_of

_MESSAGE: Final = {"type", "content", "additional_kwargs", "response_metadata"}
"""Fields that every message of LangChain has, and no other object."""
_ARRAY: Final = 6
_OBJECTS: Final = range(6)
"""The kinds of objects: each is a list of the module, the class, and the value or the fields."""
_DELTA: Final = 7
_TYPES: Final = {
    **{
        f"{kind.capitalize()}Message": kind
        for kind in ("human", "system", "tool", "function", "chat")
    },
    "AIMessage": "ai",
    **{
        f"{kind}MessageChunk": f"{kind}MessageChunk"
        for kind in ("Human", "System", "Tool", "Function", "Chat", "AI")
    },
}
"""The types of LangChain's classes, which older releases did not write."""


class StoredMessage(NamedTuple):
    """A message in the format `langchain`, and its digest."""

    content: Content
    digest: bytes

    @property
    def id(self) -> str | None:
        """LangChain's id of the message."""
        name = self.content["data"].get("id")
        return name if isinstance(name, str) and name else None


Known = dict[bytes, Any]
"""The objects that were read, by their digests: each checkpoint has most of them again."""


def read_value(kind: str | None, data: bytes | None, known: Known) -> Any:
    """A value of a checkpoint. Messages are read as StoredMessage."""
    match kind:
        case "null" | "empty":
            return None
        case "bytes" | "bytearray":
            return data
        case "msgpack":
            return _packed(data or b"", known)
        case "json":
            return _revived(json_value(data or b"null"))
    why = "pickle would run code" if kind == "pickle" else "only msgpack and JSON are known"
    raise UnreadableSource(f"a value is stored as {kind!r}: {why}", advice="")


def json_value(value: Any) -> Any:
    """A value that is stored as JSON."""
    try:
        return decoded(value)
    except ValueError:
        raise UnreadableSource("a value is damaged", advice="") from None


def conversation(value: Any) -> list[StoredMessage] | None:
    """The messages of a channel; None if its value is no conversation."""
    if type(value) is list and value and all(type(item) is StoredMessage for item in value):
        return value
    return None


def _packed(data: bytes, known: Known) -> Any:
    try:
        return msgspec.msgpack.Decoder(ext_hook=partial(_object, known)).decode(data)
    except UnreadableSource:
        raise
    except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
        raise UnreadableSource("a value is damaged", advice="") from None


def _object(known: Known, code: int, data: memoryview) -> Any:
    key = blake2b(data, digest_size=16).digest()
    if key not in known:
        known[key] = _read_object(code, _packed(bytes(data), known))
    return known[key]


def _read_object(code: int, value: Any) -> Any:
    if code in _OBJECTS and isinstance(value, list) and len(value) > 2:
        return _message(value[2]) or value[2]
    if code in (_ARRAY, _DELTA):
        return value
    raise UnreadableSource(f"an object is of the unknown kind {code}", advice="")


def _message(fields: Any) -> StoredMessage | None:
    if not (isinstance(fields, dict) and fields.keys() >= _MESSAGE):
        return None
    kind = fields["type"]
    data = {
        name: plain_value(value)
        for name, value in fields.items()
        if name == "content" or not (name == "type" or _is_default(kind, name, value))
    }
    content = {"type": kind, "data": data}
    try:
        return StoredMessage(content, digest_of(content))
    except InvalidMessage:  # it is nested too deeply: the import reports it
        return StoredMessage(content, blake2b(repr(id(content)).encode()).digest())


def _is_default(kind: Any, name: str, value: Any) -> bool:
    is_empty = value is None or (isinstance(value, list | dict) and not value)
    is_success = name == "status" and value == "success" and kind == "tool"
    return is_empty or is_success or (name == "example" and value is False)


def plain_value(value: Any) -> Any:
    """A value as JSON can hold it: bytes in base64, keys as text, and so on."""
    if isinstance(value, StoredMessage):
        return value.content
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    is_odd = isinstance(value, datetime) or (isinstance(value, float) and not isfinite(value))
    return str(value) if is_odd else value


def _revived(value: Any) -> Any:
    """A JSON value of an older release, in which an object names its class."""
    match value:
        case {"lc": 1 | 2, "type": "constructor", "id": [*_, str(named)], **rest}:
            fields = _revived(rest.get("kwargs"))
            if isinstance(fields, dict) and named in _TYPES:
                empty: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
                return _message({"content": "", **empty, "type": _TYPES[named], **fields})
            return fields if fields is not None else _revived(rest.get("args"))
        case dict():
            return {name: _revived(item) for name, item in value.items()}
        case list():
            return [_revived(item) for item in value]
    return value
