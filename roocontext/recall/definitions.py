"""The definitions of the recall tools, and the arguments of a call, checked.

The structs describe the arguments for the model, and check them. The error of the check is sent
back to the model.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from roocontext.errors import InvalidOption
from roocontext.log.forms import forms
from roocontext.log.forms.tools import Function
from roocontext.log.summary import READ_HISTORY, SEARCH_HISTORY
from roocontext.search.passages import Speaker

MOST_PAGES: Final = 50

_Session: TypeAlias = Annotated[
    str | None, Meta(description="The id of a session of a sub-agent. Default: this session.")
]
_Rewound: TypeAlias = Annotated[
    bool, Meta(description="Include messages that were taken back by a rewind. Default: false.")
]
_Entry: TypeAlias = Annotated[int, Meta(ge=1, lt=1 << 53)]


class SearchCall(Struct, frozen=True):
    """The arguments of a search."""

    query: Annotated[
        str,
        Meta(
            description='Words that a message must all hold. "Two words" in quotation marks must'
            " follow each other, and begin* finds what begins like that."
        ),
    ]
    role: Annotated[
        Speaker | None,
        Meta(description="Only messages of this speaker; `tool` is the outputs of tools."),
    ] = None
    tool: Annotated[
        str | None, Meta(description="Only the calls and outputs of the tool with this name.")
    ] = None
    since: Annotated[
        datetime | None,
        Meta(description="Only messages of this time (UTC) or later: 2026-01-31T09:30."),
    ] = None
    until: Annotated[datetime | None, Meta(description="Only messages before this time (UTC).")] = (
        None
    )
    session: _Session = None
    rewound: _Rewound = False
    page: Annotated[int, Meta(ge=1, le=MOST_PAGES, description="The page of hits. Default: 1.")] = 1


class ReadCall(Struct, frozen=True):
    """The arguments of a read."""

    first: Annotated[_Entry, Meta(description="The number of the first entry.")]
    last: Annotated[
        _Entry | None, Meta(description="The number of the last entry. Default: as many as fit.")
    ] = None
    offset: Annotated[
        int,
        Meta(
            ge=0,
            lt=1 << 53,
            description="How many characters of the first message to skip. Default: 0.",
        ),
    ] = 0
    session: _Session = None
    rewound: _Rewound = False


Call = TypeVar("Call", SearchCall, ReadCall)

_SAID: Final = ("type", "enum", "minimum", "description")
"""What every provider understands of a schema."""


def _parameters(kind: type[Call]) -> dict[str, Any]:
    """The schema of the arguments, without nulls: a model leaves out what it does not want."""
    (schema,) = msgspec.json.schema(kind)["$defs"].values()
    fields = {
        name: field | field.pop("anyOf", [{}])[0] for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": {
            name: {"type": "string"} | {key: field[key] for key in _SAID if key in field}
            for name, field in fields.items()
        },
        "required": schema["required"],
    }


FUNCTIONS: Final = (
    Function(
        SEARCH_HISTORY,
        "Search the whole history of this session and of its sub-agents, also what was summarised"
        " or cleared and is no longer in your context. Returns the messages that hold all words,"
        " each with its entry number and an excerpt. Use it when a detail such as a file name, a"
        " number or an error text is missing.",
        _parameters(SearchCall),
    ),
    Function(
        READ_HISTORY,
        "Read messages of the history of this session as they were written, by their entry"
        " numbers, also those that are no longer in your context. Long messages come in parts.",
        _parameters(ReadCall),
    ),
)


def definitions(form: str = "anthropic") -> list[dict[str, Any]]:
    """The tools in a provider's form; `Session.request` converts those of any form."""
    # A form of another package may define no tools.
    composer = forms[form] if isinstance(form, str) and forms.first([form]) else None
    make: Callable[..., list[dict[str, Any]]] | None = getattr(composer, "made_tools", None)
    if make is None:
        known = ", ".join(forms.known())
        raise InvalidOption(f"form must be one of {known} that defines tools.", name="form")
    return make(FUNCTIONS)


def read_call(arguments: Any, kind: type[Call]) -> Call:
    """Read the arguments of a call; InvalidOption says which of them is wrong."""
    if not isinstance(arguments, Mapping):
        raise InvalidOption("The arguments must be an object.", name="input")
    # Some models send an empty text for an argument that they leave out.
    fields = {name: value for name, value in arguments.items() if value not in (None, "")}
    for name, value in fields.items():
        if isinstance(value, float) and value.is_integer():
            fields[name] = int(value)  # Gemini sends every number as a float
        elif name in ("since", "until"):
            fields[name] = _moment(name, value)
    try:
        return msgspec.convert(fields, kind)
    # msgspec compares text as UTF-8, which has no lone surrogates.
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidOption(f"Wrong arguments: {error}.", name="input") from None


def _moment(name: str, value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        line = f"{name} must be a date or time such as 2026-01-31 or 2026-01-31T09:30."
        raise InvalidOption(line, name=name) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
