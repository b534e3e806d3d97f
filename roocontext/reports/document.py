"""What a document is: a model of ours, or a value of the library that is shown as it is."""

from functools import cache
from typing import Annotated, Any, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, PlainSerializer

from roocontext.log.moments import from_iso, iso_utc
from roocontext.log.values import as_json

Text: TypeAlias = InstanceOf[str]
"""Text from a model or a file system: it may hold lone surrogates, which a `str` may not here."""

_IN_UTC = PlainSerializer(iso_utc, return_type=str)
_READ = BeforeValidator(lambda given: from_iso(given) if isinstance(given, str) else given)
Time: TypeAlias = Annotated[int, _READ, _IN_UTC]
"""A time of the log: milliseconds since the epoch, and a text in what is printed."""


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
