"""The definitions of the tools, as each provider takes them.

What a model asks for: its arguments, checked. An error tells it what is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, get_args

from roocontext.errors import InvalidOption
from roocontext.log.forms.tools import (
    Function,
    anthropic_tools,
    chat_tools,
    gemini_tools,
    responses_tools,
)
from roocontext.log.summary import READ_HISTORY, SEARCH_HISTORY
from roocontext.search.passages import Speaker

_SESSION: Final = {
    "type": "string",
    "description": "The id of a session of a sub-agent. Default: this session.",
}
_REWOUND: Final = {
    "type": "boolean",
    "description": "Include messages that were taken back by a rewind. Default: false.",
}

FUNCTIONS: Final = (
    Function(
        SEARCH_HISTORY,
        "Search the whole history of this session and of its sub-agents, also what was summarised"
        " or cleared and is no longer in your context. Returns the messages that hold all words,"
        " each with its entry number and an excerpt. Use it when a detail such as a file name, a"
        " number or an error text is missing.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": 'Words that a message must all hold. "Two words" in quotation'
                    " marks must follow each other, and begin* finds what begins like that.",
                },
                "role": {
                    "type": "string",
                    "enum": list(get_args(Speaker)),
                    "description": "Only messages of this speaker; `tool` is the outputs of tools.",
                },
                "tool": {
                    "type": "string",
                    "description": "Only the calls and outputs of the tool with this name.",
                },
                "since": {
                    "type": "string",
                    "description": "Only messages of this time (UTC) or later: 2026-01-31T09:30.",
                },
                "until": {
                    "type": "string",
                    "description": "Only messages before this time (UTC).",
                },
                "session": _SESSION,
                "rewound": _REWOUND,
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The page of hits. Default: 1.",
                },
            },
            "required": ["query"],
        },
    ),
    Function(
        READ_HISTORY,
        "Read messages of the history of this session as they were written, by their entry"
        " numbers, also those that are no longer in your context. Long messages come in parts.",
        {
            "type": "object",
            "properties": {
                "first": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The number of the first entry.",
                },
                "last": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The number of the last entry. Default: as many as fit.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How many characters of the first message to skip. Default: 0.",
                },
                "session": _SESSION,
                "rewound": _REWOUND,
            },
            "required": ["first"],
        },
    ),
)

_SHAPES: Final[Mapping[str, Callable[[Sequence[Function]], list[dict[str, Any]]]]] = {
    "anthropic": anthropic_tools,
    "openai": chat_tools,
    "openai-responses": responses_tools,
    "gemini": gemini_tools,
}


def definitions(form: str = "anthropic") -> list[dict[str, Any]]:
    """The tools as a provider takes them; `Session.request` converts those of any form."""
    if form not in _SHAPES:
        raise InvalidOption(f"form must be one of {', '.join(_SHAPES)}.", name="form")
    return _SHAPES[form](FUNCTIONS)


MOST_PAGES: Final = 50
_SPEAKERS: Final = get_args(Speaker)


class SearchCall(NamedTuple):
    """The arguments of a search."""

    query: str
    role: str | None
    tool: str | None
    since: datetime | None
    until: datetime | None
    session: str | None
    rewound: bool
    page: int


class ReadCall(NamedTuple):
    """The arguments of a read."""

    first: int
    last: int | None
    offset: int
    session: str | None
    rewound: bool


def search_call(given: Any) -> SearchCall:
    """Read the arguments of a search."""
    taken = _object(given)
    query = _text(taken, "query")
    if not query:
        raise InvalidOption("query is missing.", name="query")
    role = _text(taken, "role")
    if role not in (None, *_SPEAKERS):
        raise InvalidOption(f"role is one of {', '.join(_SPEAKERS)}.", name="role")
    page = _number(taken, "page", least=1)
    if page is not None and page > MOST_PAGES:
        raise InvalidOption(f"page is at most {MOST_PAGES}. Use more words.", name="page")
    return SearchCall(
        query,
        role,
        _text(taken, "tool"),
        _moment(taken, "since"),
        _moment(taken, "until"),
        _text(taken, "session"),
        _flag(taken, "rewound"),
        page or 1,
    )


def read_call(given: Any) -> ReadCall:
    """Read the arguments of a read."""
    taken = _object(given)
    first = _number(taken, "first", least=1)
    if first is None:
        raise InvalidOption("first is missing.", name="first")
    return ReadCall(
        first,
        _number(taken, "last", least=1),
        _number(taken, "offset", least=0) or 0,
        _text(taken, "session"),
        _flag(taken, "rewound"),
    )


def _object(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidOption("The arguments are an object.", name="input")
    return given


# An empty text is what some models send for "not given".


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidOption(f"{name} is a text.", name=name)
    return value or None


def _number(given: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = given.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # Gemini sends every number as a float
    if value is not None and (type(value) is not int or not least <= value < 1 << 53):
        raise InvalidOption(f"{name} is a whole number, at least {least}.", name=name)
    return value


def _moment(given: Mapping[str, Any], name: str) -> datetime | None:
    text = _text(given, name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        line = f"{name} is a date or time such as 2026-01-31 or 2026-01-31T09:30."
        raise InvalidOption(line, name=name) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidOption(f"{name} is true or false.", name=name)
    return bool(value)
