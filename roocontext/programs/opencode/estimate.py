"""OpenCode's estimate of a text: its UTF-16 length divided by four."""

from roocontext.tokens.builtin import always
from roocontext.tokens.javascript import units
from roocontext.tokens.reading import TextCounter


def estimate(text: str) -> int:
    """Round up, as documented."""
    return -(-units(text) // 4)


def estimate_upstream(text: str) -> int:
    """Round half up, as the program does: a single character is 0 tokens."""
    return (units(text) + 2) // 4


counter = always(TextCounter("opencode", estimate))
counter_upstream = always(TextCounter("opencode-upstream", estimate_upstream))
