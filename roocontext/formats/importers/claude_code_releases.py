"""Which rules of Claude Code hold for a transcript: some have changed with its releases."""

import re
from typing import Any, TypeAlias

Release: TypeAlias = tuple[int, ...]

NEWEST: Release = (1 << 30,)
ONE_FILE: Release = (2, 1)
"""The first release that looks for a parent in the session's own file only."""
RESULTS_FIRST: Release = (2, 1)
"""The first release that sends a late result ahead of what was written since its call."""
BRIDGES: Release = (2, 1, 91)
"""The first release that lets a row whose parent is missing follow the row before it."""
SENDS_BESIDE: Release = (2, 1, 261)
"""The first release that sends attachments beside the chain, on a call or on a result."""
_ASSUMED: Release = (2, 1)
"""For transcripts that do not say it: somebody has cut them down, so nothing is bridged there."""


def release_of(facts: dict[str, Any]) -> Release:
    """The release that wrote a session last; an early 2.1 if the session does not say it."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", str(facts.get("version")))
    return tuple(int(number or 0) for number in found.groups()) if found else _ASSUMED
