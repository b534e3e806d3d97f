"""Messages that quote old entries: the results of recall.

They say nothing new, so search and recall skip them.
"""

from typing import Final

from roocontext.log.draft import RESERVED
from roocontext.log.encoding import decode

QUOTES: Final = "quotes"
"""The name, within what the store keeps in `extra`, of the quoted entries: session ids and seqs."""


def is_quoting(extra: str | None) -> bool:
    """Whether a message with this stored `extra` quotes old entries."""
    # A search in the text first: nearly no message has any.
    if extra is None or f'"{QUOTES}"' not in extra:
        return False
    given = decode(extra)
    kept = given.get(RESERVED) if isinstance(given, dict) else None
    return isinstance(kept, dict) and QUOTES in kept
