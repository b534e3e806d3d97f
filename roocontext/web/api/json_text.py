"""JSON in requests and answers, without loss.

The store keeps integers of any size, lone surrogates and the difference between `1` and `1.0`. Many
languages cannot read all of it: they may send and receive contents as JSON in a text.
"""

import json
from functools import cache
from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings.converse import to_base64
from roocontext.reports.document import Document
from roocontext.reports.exact_json import read_exactly
from roocontext.web.errors import MalformedRequest

_ANY_JSON: Final = (Any, dict[str, Any], list[Any])


def read_json(body: bytes) -> Any:
    """The document of a request's body."""
    try:
        return read_exactly(body.decode())
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"The body is not UTF-8 at byte {error.start}.") from None
    except ValueError as error:
        raise MalformedRequest(f"The body is not JSON: {error}.") from None


def read_json_text(text: str, path: str) -> Any:
    """The value of a text in a document."""
    try:
        return read_exactly(text)
    except ValueError as error:
        raise InvalidMessage(f"{path} is not JSON: {error}.", path=path) from None


def json_text(value: Any) -> str:
    """The text of a value, as the store writes it, with base64 in place of bytes."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=to_base64)


@cache
def any_json_fields(kind: type[Document]) -> frozenset[str]:
    """The fields of a document that hold any JSON, and that `content=text` turns into texts."""
    fields = kind.model_fields.items()
    return frozenset(name for name, field in fields if field.annotation in _ANY_JSON)


def in_texts(document: Document) -> dict[str, Any]:
    """A document whose fields of any JSON are texts: `content_json` instead of `content`."""
    texts, others = any_json_fields(type(document)), document.to_dict()
    made: dict[str, Any] = {}
    for name, value in document:
        if name in texts:
            made[f"{name}_json"] = None if value is None else json_text(value)
        elif isinstance(value, list) and value and isinstance(value[0], Document):
            made[name] = list(map(in_texts, value))
        else:
            made[name] = others[name]
    return made
