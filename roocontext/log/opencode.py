"""OpenCode's estimate of a text: its UTF-16 length by four."""

from roocontext.log.javascript import units


def estimate(text: str) -> int:
    """Round up, as the documents say."""
    return -(-units(text) // 4)


def estimate_upstream(text: str) -> int:
    """Round half up, as the program does: one character is nothing."""
    return (units(text) + 2) // 4
