"""The base class of documents."""

from functools import cache
from typing import Annotated, Any, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, PlainSerializer

from roocontext.log.moments import from_iso, iso_utc
from roocontext.log.values import as_json

Text: TypeAlias = InstanceOf[str]
"""Text from a model or a file system: it may hold lone surrogates, which pydantic refuses."""

_IN_UTC = PlainSerializer(iso_utc, return_type=str)
_READ = BeforeValidator(lambda value: from_iso(value) if isinstance(value, str) else value)
Time: TypeAlias = Annotated[int, _READ, _IN_UTC]
"""A time of the log: milliseconds since the epoch, printed as text."""


class Document(BaseModel):
    """A document that differs from the value of the library that it is made of.

    Documents are stable: within a major version, no name is removed or given another meaning.
    Times are in UTC, with the offset: `2026-01-31T09:30:00.000+00:00`. `ts` is the agent's own time
    and stays in milliseconds since the epoch; `happened_at` is the `ts`, or else `recorded_at`. A
    seq is an entry's place in its session.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, from_attributes=True, protected_namespaces=()
    )

    @classmethod
    def of(cls, *values: Any, **given: Any) -> Self:
        """Make a document from given fields and from values, the first of which has precedence.

        A field that none of them has is None.
        """
        fields = dict.fromkeys(cls.model_fields)
        for value in reversed(values):
            fields |= {name: getattr(value, name) for name in fields if hasattr(value, name)}
        return cls.model_validate(fields | given)

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
