"""What a document is: a model of ours, or a value of the library that is shown as it is."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Self, TypeAlias, get_args

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, PlainSerializer

from roocontext.log.moments import from_iso, iso_utc

Text: TypeAlias = InstanceOf[str]
"""Text from a model or a file system: it may hold lone surrogates, which a `str` may not here."""

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

    model_config = ConfigDict(
        extra="forbid", frozen=True, from_attributes=True, protected_namespaces=()
    )

    @classmethod
    def of(cls, *values: Any, **given: Any) -> Self:
        """Make a document: each field is given, or is that of the first value which has one."""
        for value in values:
            for name in cls.model_fields.keys() - given.keys():
                if hasattr(value, name):
                    given[name] = getattr(value, name)
        return cls.model_validate(given)

    def to_dict(self) -> dict[str, Any]:
        """The document as `--json` prints it: dicts, lists and scalars."""
        times = _times(type(self))
        return {
            name: iso_utc(value) if name in times and value is not None else as_json(value)
            for name, value in self
        }


@cache
def _times(kind: type[Document]) -> frozenset[str]:
    """The fields of a document that are times."""
    return frozenset(
        name
        for name, field in kind.model_fields.items()
        if _IN_UTC in field.metadata or Time in get_args(field.annotation)
    )


def as_json(value: Any) -> Any:
    """Turn a document or a value of the library into dicts, lists and scalars.

    It is not left to pydantic, which refuses lone surrogates and contents of many levels.
    """
    # A dict is JSON already. It may be 500 levels deep: two frames a level would be too many.
    if type(value) in _SCALARS or type(value) is dict:
        return value
    if isinstance(value, Document):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    elif isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return list(map(as_json, value))
    return value
