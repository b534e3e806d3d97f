"""Names in records of other programs: those that were removed before publication name nothing."""

import re
from typing import Any

_LETTERS = re.compile(r"[^A-Za-z]+")


def non_empty(value: Any) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def name(value: Any) -> str | None:
    """An id that can distinguish records: all that read REDACTED are the same."""
    return value if isinstance(value, str) and value and not is_removed(value) else None


def is_removed(value: Any) -> bool:
    """Whether an id was replaced before the record was published."""
    return isinstance(value, str) and "REDACTED" in value and _LETTERS.sub("", value) == "REDACTED"
