"""What a document is: a model of ours, or a value of the library that is shown as it is."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, SkipValidation

from roocontext.log.moments import from_iso, iso_utc

Text: TypeAlias = SkipValidation[str]
"""Text from a model or a file system: it may hold lone surrogates, which pydantic refuses."""

_IN_UTC = PlainSerializer(iso_utc, return_type=str)
_READ = BeforeValidator(lambda given: from_iso(given) if isinstance(given, str) else given)
Time: TypeAlias = Annotated[int, _READ, _IN_UTC]
"""A time of the log: milliseconds since the epoch, and a text in what is printed."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Document(BaseModel):
    """A document that differs from the value of the library it is made of.

    Documents are stable: a name is never given another meaning, and none goes away within a major
    version. Times are in UTC, with the offset: `2026-01-31T09:30:00.000+00:00`; `ts`, which is the
    agent's own, stays as it is, in milliseconds since the epoch. `happened_at` is the `ts`, or else
    `recorded_at`. A seq is an entry's place in its session.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def as_json(value: Any) -> Any:
    """Turn a document into dicts, lists and scalars.

    It is not left to pydantic: a message may hold lone surrogates, which pydantic refuses.
    """
    # A dict is JSON already. It may be 500 levels deep: two frames a level would be too many.
    if type(value) in _SCALARS or type(value) is dict:
        return value
    if isinstance(value, Enum):
        return value.value
    named = fields_of(value)
    if named is not None:
        times = _times(type(value)) if isinstance(value, BaseModel) else ()
        return {
            name: iso_utc(item) if name in times and item is not None else as_json(item)
            for name, item in named.items()
        }
    if isinstance(value, list | tuple | frozenset):
        return list(map(as_json, value))
    return value


@cache
def _times(kind: type[BaseModel]) -> frozenset[str]:
    """The fields of a document that are times."""
    return frozenset(
        name
        for name, field in kind.model_fields.items()
        if _IN_UTC in field.metadata or Time in get_args(field.annotation)
    )


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has names for them."""
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return value
    named: Mapping[str, Any] | None = value._asdict() if hasattr(value, "_asdict") else None
    return named
