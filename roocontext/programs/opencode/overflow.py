"""OpenCode's overflow rule: the tokens that a call used, compared with the model's context."""

from typing import Final

OUTPUT_MAX: Final = 32_000
"""The most tokens reserved for an answer; also the reserve if the model's limit is unknown."""


def passes(tokens: int, *, context: int, reserved: int) -> bool:
    """Whether the tokens exceed the context less the reserve; a context of 0 means unknown."""
    return context != 0 and tokens > context - reserved


def reserve(output: int, most: int = OUTPUT_MAX) -> int:
    """The tokens reserved for the answer of a model with this output limit; 0 means unknown."""
    return min(output, most) or most
