"""When OpenCode's context overflows: what a call has used against what its model holds.

Tokens and limits are given as the program keeps them. The newer rule is the one of 2026.
"""

from typing import Final

OUTPUT_MAX: Final = 32_000
"""The most that is kept free for an answer, and what is kept when a model's own is not known."""


def passes(tokens: int, *, context: int, reserved: int) -> bool:
    """Whether so many tokens are more than what is left; a context of 0 is unknown and never is."""
    return context != 0 and tokens > context - reserved


def reserve(output: int, most: int = OUTPUT_MAX) -> int:
    """What is kept free for the answer of a model that can give that much; 0 is not known."""
    return min(output, most) or most
