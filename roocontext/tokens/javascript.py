"""JavaScript's rules for printing, measuring and testing values, to imitate programs written in it.

`JSON.stringify` has only doubles, moves keys that look like array indices to the front, and escapes
lone surrogates. `length` counts UTF-16 units. An empty object or array is true. Each of these rules
changes a count or a decision.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from roocontext.log.encoding import whole

_SAFE_INTEGER: Final = 1 << 53
_LAST_INDEX: Final = (1 << 32) - 2
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LONE: Final = re.compile(
    "[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]",
)
_quote = json.JSONEncoder(ensure_ascii=False).encode


def units(text: str) -> int:
    """The `length` of the text in JavaScript."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def code_points(text: str) -> str:
    """Join adjacent surrogates, as iterating over a string does in JavaScript."""
    return text if text.isascii() else whole(text, lone="surrogatepass")


def stringify(value: Any) -> str:
    """The value as `JSON.stringify` prints it, compact."""
    return "".join(_printed(value))


def truthy(value: Any) -> bool:
    """True if the value is true in JavaScript."""
    return isinstance(value, dict | list) or bool(value)


def _printed(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", _quote(value))
    elif isinstance(value, dict):
        yield "{"
        for place, (key, item) in enumerate(sorted(value.items(), key=_place)):
            yield f"{',' if place else ''}{stringify(key)}:"
            yield from _printed(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for place, item in enumerate(value):
            yield "," if place else ""
            yield from _printed(item)
        yield "]"
    elif isinstance(value, bool) or value is None:
        yield json.dumps(value)
    else:
        yield _number(value)


def _place(pair: tuple[str, Any]) -> int:
    """Sort key: array indices ascending, then all other keys in their order."""
    key = pair[0]
    if _INDEX.fullmatch(key) and int(key) <= _LAST_INDEX:
        return int(key)
    return _LAST_INDEX + 1


def _number(value: float) -> str:
    """A number as a double, in JavaScript's digits and notation."""
    if isinstance(value, int) and abs(value) <= _SAFE_INTEGER:
        return str(value)
    try:
        double = float(value)
    except OverflowError:
        return "null"
    if not isfinite(double):
        return "null"
    return "0" if double == 0 else _notation(double)


def _notation(double: float) -> str:
    sign = "-" if double < 0 else ""
    shortest = Decimal(repr(abs(double))).normalize().as_tuple()
    digits = "".join(map(str, shortest.digits))
    point = len(digits) + int(shortest.exponent)
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"
