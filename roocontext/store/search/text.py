"""The content of a stored message, for its text to be searched."""

from typing import Any

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode
from roocontext.log.readings import is_known


def content_of(
    session_id: str, seq: int, format_: str | None, role: str | None, stored: str
) -> Any:
    """The content of a message, or HistoryCorrupt if it cannot be read."""
    if is_known(format_, role):
        try:
            return decode(stored)
        except HistoryCorrupt:
            pass
    raise HistoryCorrupt(
        f"Entry {seq} of session {session_id!r} cannot be searched: its format or role is unknown,"
        " or its content is not JSON.",
        session_id=session_id,
        seq=seq,
    )
