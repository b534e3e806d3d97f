"""JSON that people and programs give, read without loss.

What Python's reader would change silently is refused: repeated names, NaN, numbers beyond the range
of a float.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn


def read_exactly(text: str) -> Any:
    """The value of a text; ValueError with the reason, which quotes nothing of it."""
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_float=_float, parse_constant=_no_number
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos}") from None
    except ValueError as error:
        # Python refuses to read an integer of more than 4,300 digits.
        is_long = "digits" in str(error)
        raise ValueError("an integer has too many digits" if is_long else str(error)) from None


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    items = list(pairs)
    fields = dict(items)
    if len(fields) < len(items):
        raise ValueError("a name occurs twice in an object")
    return fields


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is larger than a float can be")
    return number


def _no_number(_text: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")
