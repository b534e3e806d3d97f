"""Tool ids and names that a provider accepts.

The first use of a valid id is kept. Any other id becomes a hash of the id and its place, so two
never collide and later rows never change what was sent before.
"""

import re
from hashlib import sha256
from typing import Final

_HEX: Final = 24


class CallIds:
    """Hands out ids for the calls of one request."""

    def __init__(self, accepted: re.Pattern[str]) -> None:
        self._accepted = accepted
        self._taken: set[str] = set()

    def take(self, wanted: str, seq: int, block: int) -> str:
        """Return the id itself if it is valid and free, else one made from it and its place."""
        tool_id = wanted
        if wanted in self._taken or not self._accepted.fullmatch(wanted):
            # Not a number that counts up: it would change when a row before it leaves the view.
            tool_id = "call_" + _hash(f"{seq}.{block}.{wanted}")
        self._taken.add(tool_id)
        return tool_id


def name_for(wanted: str, accepted: re.Pattern[str]) -> str:
    """Return the name itself if it is valid, else one made from it."""
    if accepted.fullmatch(wanted):
        return wanted
    kept = re.sub(r"[^a-zA-Z0-9_]", "_", wanted)[:40]
    return f"t_{kept}_{_hash(wanted)[:8]}"


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HEX]
