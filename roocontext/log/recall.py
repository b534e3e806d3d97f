"""What a summary says of the entries it hides, if the model has the tools to read them.

The line is for the model that sees the summary. The next summariser must not see it: the range in
it would be wrong, and it would be counted as a fact of the conversation.
"""

import re
from typing import Final

from roocontext.log.entries import Range

SEARCH_HISTORY: Final = "search_history"
READ_HISTORY: Final = "read_history"
"""The names of the tools."""

_LINE: Final = re.compile(
    r"\s*\[Hidden behind this summary: entries (\d{1,18})-(\d{1,18})\.[^\]\n]*\]\s*\Z"
)


def hidden_line(hidden: Range) -> str:
    """The last line of a summary, which names what it hides and how to get it back."""
    lo, hi = hidden
    return (
        f"[Hidden behind this summary: entries {lo}-{hi}. If a detail is missing here, find it"
        f" with {SEARCH_HISTORY} or {READ_HISTORY}.]"
    )


def hidden_in(text: str) -> Range | None:
    """The range that a summary's last line names, if it has one."""
    found = _LINE.search(text)
    return found and (int(found[1]), int(found[2]))


def without_hidden_line(text: str) -> str:
    """A summary without that line."""
    return _LINE.sub("", text)
