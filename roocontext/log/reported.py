"""What providers reported for the calls of a session: data that the store and the sums share."""

from typing import Any, Final, NamedTuple

COMPACTION: Final = "compaction"
"""The kind of the notes about compactions."""

FAILED_SUMMARIES: Final = "summaries"
"""Where such a note keeps the calls that gave no usable summary."""


class ReportedUsage(NamedTuple):
    """The usage of one reply, or of the calls that a summariser made for one summary.

    `usage` is what was recorded, in the provider's own words. Of a summary it is what the
    summariser reported, and None if nothing was. With `is_failed`, its calls gave no summary.
    `recorded_at` is when the entry was written.
    """

    session_id: str
    seq: int
    model: str | None
    usage: Any
    recorded_at: int
    is_summary: bool = False
    is_failed: bool = False
