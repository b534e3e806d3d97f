"""One object of any type of the providers' SDKs; each text in it has a mark to find it again by."""

import enum
import types
import typing
from collections.abc import Iterator
from itertools import count
from typing import Any

import typing_extensions
from pydantic import BaseModel

_WRAPPERS = (
    *(typing.Annotated, typing.Required, typing.NotRequired),
    *(typing_extensions.Required, typing_extensions.NotRequired),
)
_FIXED: dict[str, Any] = {
    "data": "AAAA",
    "media_type": "image/png",
    "mime_type": "image/png",
    "arguments": '{"q": "x"}',
    "image_url": "https://example.org/a.png",
    "url": "https://example.org/a.png",
}
_PLAIN: dict[Any, Any] = {bytes: b"\x00\xff\xfe", bool: True, int: 3, float: 1.5, str: "s"}


def members(union: Any) -> Iterator[Any]:
    if typing.get_origin(union) is typing.Annotated:
        yield from members(typing.get_args(union)[0])
    elif typing.get_origin(union) is typing.Union or isinstance(union, types.UnionType):
        for one in typing.get_args(union):
            yield from members(one)
    else:
        yield union


def fields_of(kind: Any, *, whole: bool) -> dict[str, Any]:
    """The fields of an object of this type: the required ones, or all."""
    return dict(_holder(kind, whole, count(1)))


def _value(kind: Any, name: str, whole: bool, numbers: Iterator[int]) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in _WRAPPERS:
        return _value(inner[0], name, whole, numbers)
    if origin in (typing.Literal, typing_extensions.Literal):
        return inner[0]
    if origin is typing.Union or isinstance(kind, types.UnionType):
        first = next(it for it in inner if it is not type(None))
        return _value(first, name, whole, numbers)
    if origin is dict or kind is dict:
        return {"k": "v"}
    if origin is not None:  # a list, or an iterable
        return [_value(inner[0], name, whole, numbers)]
    if kind is str:
        return _FIXED.get(name) or f"{name}_{next(numbers)}_"
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[-1].value
    return dict(_holder(kind, whole, numbers)) if _fields(kind) else {"k": f"k_{next(numbers)}_"}


def _holder(kind: Any, whole: bool, numbers: Iterator[int]) -> Iterator[tuple[str, Any]]:
    for name, (key, inner, required) in _fields(kind).items():
        if required or name == "type" or whole:
            yield key, _value(inner, name, whole, numbers)


def _fields(kind: Any) -> dict[str, tuple[str, Any, bool]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {
            name: (it.alias or name, it.annotation, it.is_required())
            for name, it in kind.model_fields.items()
        }
    if not typing_extensions.is_typeddict(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: (name, it, name in kind.__required_keys__) for name, it in hints.items()}
