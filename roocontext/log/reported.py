"""What providers reported for the calls of a session: data that the store and the sums share."""

from typing import Any, Final, NamedTuple

from roocontext.log.moments import happened

COMPACTION: Final = "compaction"
"""The kind of the notes about compactions."""

FAILED_SUMMARIES: Final = "summaries"
"""Where such a note keeps the calls that gave no usable summary."""


class ReportedUsage(NamedTuple):
    """The usage of one reply, or of the calls that a summariser made for one summary.

    `usage` is what was recorded, in the provider's own words. Of a summary it is what the
    summariser reported, and None if nothing was. With `is_failed`, its calls gave no summary.
    `ts` and `recorded_at` are those of the entry.
    """

    session_id: str
    seq: int
    model: str | None
    usage: Any
    recorded_at: int
    is_summary: bool = False
    is_failed: bool = False
    ts: int | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)
