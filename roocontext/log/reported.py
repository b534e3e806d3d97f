"""What providers reported for the calls of a session: data that the store and the sums share."""

from typing import Any, NamedTuple


class ReportedUsage(NamedTuple):
    """The usage of one reply, or of the calls that wrote one summary.

    `usage` is what was recorded, in the provider's own words. Of a summary it is what the
    summariser reported, and None if nothing was. `recorded_at` is when the entry was written.
    """

    session_id: str
    seq: int
    model: str | None
    usage: Any
    recorded_at: int
    is_summary: bool = False
