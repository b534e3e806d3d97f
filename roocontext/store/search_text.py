"""The content of a stored message, for its text to be searched."""

from typing import Any

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode
from roocontext.log.readings import is_known


def content_of(seq: int, format_: str | None, role: str | None, stored: str) -> Any:
    """The content of a message, or HistoryCorrupt if no reader knows such a row."""
    if not is_known(format_, role):
        raise HistoryCorrupt(f"Entry {seq} is no message: its format or role is unknown.", seq=seq)
    return decode(stored)
