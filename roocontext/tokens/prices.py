"""The cost of a call, by a dated table of prices: prices.toml, or a file of the caller.

A model that the table does not have has no cost. A wrong price would be worse than none, so a name
is never shortened to the name of its family.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption
from roocontext.tokens.limits import bare
from roocontext.tokens.usage import Usage

_MILLION: Final = 1_000_000
_SNAPSHOT: Final = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|[-@]latest|-v\d+(?::\d+)?)+$")
_RATES: Final = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


class Rates(NamedTuple):
    """Dollars for a million tokens of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float

    def cost(self, usage: Usage) -> float:
        """The cost of these tokens, in dollars."""
        # `Usage.input` is everything that was sent, whichever provider reported it.
        plain = usage.input - usage.cached - usage.written
        dollars = (
            max(plain, 0) * self.input
            + usage.output * self.output
            + usage.cached * self.cache_read
            + (usage.written - usage.written_1h) * self.cache_write
            + usage.written_1h * self.cache_write_1h
        )
        return dollars / _MILLION


class Price(NamedTuple):
    """The rates of a model, and those of requests with more than `above` tokens, if they differ."""

    rates: Rates
    above: int | None = None
    long: Rates | None = None

    def is_long(self, usage: Usage) -> bool:
        """True if a call with this usage has the rates of long requests."""
        return self.above is not None and usage.input > self.above

    def cost(self, usage: Usage) -> float:
        """The cost of a call with this usage, in dollars."""
        return (self.long if self.is_long(usage) and self.long else self.rates).cost(usage)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model, and the date on which they were valid."""

    date: str
    models: Mapping[str, Price]

    def of(self, model: str | None) -> Price | None:
        """The price of a model, by its name without provider and date; None if it is unknown."""
        if not model:
            return None
        name = bare(model)
        # The name itself first: a snapshot may have a price of its own.
        return self.models.get(name) or self.models.get(_SNAPSHOT.sub("", name))


def prices(path: str | Path | None = None) -> Prices:
    """The built-in table of prices, or one from a file of the same shape."""
    return _built_in() if path is None else _parsed(Path(path).read_text("utf-8"))


@cache
def _built_in() -> Prices:
    return _parsed(files(__package__).joinpath("prices.toml").read_text("utf-8"))


def _parsed(text: str) -> Prices:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(f"The table of prices is not TOML: {error}.", name="prices") from None
    date, lines = table.get("date"), table.get("models")
    if not (isinstance(date, str) and isinstance(lines, dict)):
        raise InvalidOption(
            "The table of prices must have a date, as text, and models.", name="prices"
        )
    return Prices(date, {bare(model): _price(model, line) for model, line in lines.items()})


def _price(model: str, line: Any) -> Price:
    if not isinstance(line, dict):
        raise _wrong(model)
    if line.keys().isdisjoint(("above", "long")):
        return Price(_rates(model, line))
    base = dict(line)
    above, long = base.pop("above", None), base.pop("long", None)
    if type(above) is not int:
        raise _wrong(model)
    return Price(_rates(model, base), above, _rates(model, long))


def _rates(model: str, line: Any) -> Rates:
    if not isinstance(line, dict):
        raise _wrong(model)
    numbers = {
        name: number
        for name, number in line.items()
        if type(number) in (int, float) and 0 <= number < _MILLION
    }
    if numbers.keys() != line.keys() or not {"input", "output"} <= numbers.keys() <= {*_RATES}:
        raise _wrong(model)
    write = numbers.get("cache_write", numbers["input"])
    return Rates(
        numbers["input"],
        numbers["output"],
        numbers.get("cache_read", numbers["input"]),
        write,
        numbers.get("cache_write_1h", write),
    )


def _wrong(model: str) -> InvalidOption:
    return InvalidOption(
        f"The price of {model!r} must have input and output, and may have {', '.join(_RATES[2:])},"
        " above and long, in dollars for a million tokens.",
        name="prices",
    )
