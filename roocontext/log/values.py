"""Values as plain JSON, as `to_dict` returns and `--json` prints them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import msgspec

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Value:
    """The base of the values that the library returns."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


def as_json(value: Any) -> Any:
    """Turn a document or a value of the library into dicts, lists and scalars.

    pydantic cannot do this: it refuses lone surrogates and deeply nested contents.
    """
    # A dict is JSON already. It may be 500 levels deep: two frames a level would be too many.
    if type(value) in _SCALARS or type(value) is dict:
        return value
    if isinstance(value, Enum | bytes):
        return value.value if isinstance(value, Enum) else value.hex()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | frozenset) and not hasattr(value, "_asdict"):
        return list(map(as_json, value))
    return fields_as_json(value)


def fields_as_json(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, a struct or a named tuple, as plain JSON."""
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, msgspec.Struct):
        named = msgspec.structs.asdict(value)
    else:
        named = value._asdict()
    return {name: as_json(item) for name, item in named.items()}
