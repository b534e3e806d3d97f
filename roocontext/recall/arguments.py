"""What a model asks for: its arguments, checked. An error tells it what is wrong."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, get_args

from roocontext.errors import InvalidOption
from roocontext.search.passages import Speaker

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
