"""The parameters and documents that requests have. Unknown names are refused, never ignored."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER
from roocontext.log.forms import forms
from roocontext.web.api.json_text import read_json_text
from roocontext.web.errors import InvalidDocument, MalformedRequest

MOST_ENTRIES: Final = 1_000
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_A_TIME: Final = "a time such as `2026-01-31T09:30:00Z`"


def number_in(value: Any) -> Any:
    """The number that a text holds; any other value as it is."""
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _point(value: Any) -> Any:
    """An entry's number, or a time with its offset."""
    number = number_in(value)
    if isinstance(number, str):
        return _time(number)
    if type(number) is not int or not 0 <= number <= MAX_INTEGER:
        raise ValueError(f"It should be the number of an entry, or {_A_TIME}.")
    return number


def _time(value: Any) -> datetime:
    try:
        when = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"It should be {_A_TIME}.") from None
    if when.tzinfo is None:
        raise ValueError("A time needs its offset, such as `2026-01-31T09:30:00Z`.")
    return when


def _form(value: str) -> str:
    if forms.first([value]) is None:
        raise ValueError(f"It should be one of {', '.join(forms.known())}.")
    return value


SeqInput: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER), BeforeValidator(number_in)]
SeqOrZero: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(number_in)]
LimitInput: TypeAlias = Annotated[int, Field(ge=1, le=MOST_ENTRIES), BeforeValidator(number_in)]
FlagInput: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
TimeInput: TypeAlias = Annotated[datetime, BeforeValidator(_time)]
PointInput: TypeAlias = Annotated[
    Annotated[int, Field(ge=0, le=MAX_INTEGER)] | datetime, BeforeValidator(_point)
]
MillisInput: TypeAlias = Annotated[int, Field(ge=MIN_INTEGER, le=MAX_INTEGER)]
FormName: TypeAlias = Annotated[
    str, Field(json_schema_extra={"enum": sorted(forms)}), AfterValidator(_form)
]
"""A form of roocontext or of a plugin. The schema names those of roocontext."""
ContentAs: TypeAlias = Literal["json", "text"]


class Input(BaseModel):
    """The base of the parameters and documents of requests."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


class Parameters(Input):
    """The parameters of a query string."""


class InputDocument(Input):
    """The document in the body of a request.

    A field of any JSON may be given as text instead: `content_json` in place of `content`.
    """

    @model_validator(mode="after")
    def _once(self) -> Self:
        for name in self.model_fields_set:
            if name.endswith("_json") and name.removesuffix("_json") in self.model_fields_set:
                raise ValueError(f"Give `{name}` or `{name.removesuffix('_json')}`, not both.")
        return self

    def values(self) -> dict[str, Any]:
        """The values of the fields, by their names."""
        names = [name for name in type(self).model_fields if not name.endswith("_json")]
        return {name: self.value(name) for name in names}

    def value(self, name: str) -> Any:
        """The value of a field, which may be given as text."""
        text = getattr(self, f"{name}_json", None)
        if text is None:
            return getattr(self, name)
        value = read_json_text(text, f"{name}_json")
        annotation = type(self).model_fields[name].annotation
        origins: Iterable[Any] = map(get_origin, get_args(annotation))
        kinds = tuple(filter(None, origins))
        if kinds and not isinstance(value, kinds):
            line = f"{name}_json: it holds a {type(value).__name__}, which {name} cannot be."
            raise InvalidDocument(line, path=f"{name}_json")
        return value


def read_query(kind: type[Parameters], raw: bytes) -> Any:
    """The parameters of a query string."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=100,
        )
    except (UnicodeError, ValueError):
        raise MalformedRequest("The query of the address is malformed.", name="") from None
    many = {
        field.alias or name
        for name, field in kind.model_fields.items()
        if get_origin(field.annotation) is list
    }
    values: dict[str, Any] = {name: [] for name in many}
    for name, value in pairs:
        if name in many:
            values[name].append(value)
        elif name in values:
            raise MalformedRequest(f"The parameter {name!r} is given twice.", name=name)
        else:
            values[name] = value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        path, reason = _first(error)
        raise MalformedRequest(f"Parameter {path or 'of the query'}: {reason}", name=path) from None


def read_body(kind: type[InputDocument], document: Any, path: str = "") -> Any:
    """The document of a body."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        where, reason = _first(error)
        where = ".".join(filter(None, (path, where)))
        raise InvalidDocument(f"{where or 'The body'}: {reason}", path=where) from None


def _first(error: ValidationError) -> tuple[str, str]:
    """Where the first mistake is, and what it is."""
    mistake = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(map(str, mistake["loc"]))
    return path, f"{mistake['msg'].removeprefix('Value error, ').rstrip('.')}."
