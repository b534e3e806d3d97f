"""The names that a mistyped one may mean. What cannot be taken back is offered for a slip only."""

from collections.abc import Collection
from difflib import SequenceMatcher, get_close_matches
from typing import Final

_DANGEROUS: Final = frozenset({"redact", "purge", "--yes", "--force"})
"""What erases content, and what answers a question in advance."""

_SLIP: Final = 0.85
"""How similar a dangerous name has to be: one letter too many or too few is."""


def similar(name: str, known: Collection[str]) -> list[str]:
    """The known names that are similar to this one, the most similar first."""
    return [
        one
        for one in get_close_matches(name, known)
        if one not in _DANGEROUS or SequenceMatcher(None, name, one).ratio() >= _SLIP
    ]
