"""Gemini CLI's compression as the program runs it: what it tries, and how it judges the outcome.

The recorded version is 0.21. Statuses are kept by name, because their numbers have changed since.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from roocontext.programs.gemini_cli.contents import COMPRESSED, Content, split_point, text_content

THRESHOLD: Final = 0.5
"""From how much of the window on a history is compressed by itself."""

CROWDED: Final = 0.95
"""How much of the room that the last prompt left a request may take."""

ACKNOWLEDGEMENT: Final = "Got it. Thanks for the additional context!"
"""What the model is made to say to the summary."""

INSTRUCTION: Final = "First, reason in your scratchpad. Then, generate the <state_snapshot>."
"""What the user says last when the summary is asked for."""

ALIASES: Final = {
    "gemini-3-pro-preview": "chat-compression-3-pro",
    "gemini-3-flash-preview": "chat-compression-3-flash",
    "gemini-2.5-pro": "chat-compression-2.5-pro",
    "gemini-2.5-flash": "chat-compression-2.5-flash",
    "gemini-2.5-flash-lite": "chat-compression-2.5-flash-lite",
}
"""The name under which the program's configuration has the model that sums up for a model."""

DEFAULT_ALIAS: Final = "chat-compression-default"


class Status(StrEnum):
    """How a compression ended."""

    COMPRESSED = "COMPRESSED"
    INFLATED = "COMPRESSION_FAILED_INFLATED_TOKEN_COUNT"
    COUNT_ERROR = "COMPRESSION_FAILED_TOKEN_COUNT_ERROR"  # declared; nothing ends so in 0.21
    EMPTY_SUMMARY = "COMPRESSION_FAILED_EMPTY_SUMMARY"
    NOOP = "NOOP"


class Attempt(NamedTuple):
    """What is to be done: compress the first `split` contents; 0 is nothing.

    `tokens` is the count that a NOOP reports. Hooks are told unless it was over before that.
    """

    split: int
    tokens: int
    told: bool


def attempt(
    contents: Sequence[Content],
    tokens: int,
    *,
    window: int,
    forced: bool,
    failed: bool,
    threshold: float = THRESHOLD,
    fraction: float = COMPRESSED,
) -> Attempt:
    """Decide on a curated history whose last prompt was reported to have so many tokens."""
    if not contents or (failed and not forced):
        return Attempt(0, 0, told=False)
    if not forced and tokens < threshold * window:
        return Attempt(0, tokens, told=True)
    return Attempt(split_point(contents, fraction), tokens, told=True)


def compressed(contents: Sequence[Content], split: int, summary: str) -> list[Content]:
    """The history in which the summary and the model's thanks stand for the first contents."""
    said = text_content("user", summary), text_content("model", ACKNOWLEDGEMENT)
    return [*said, *contents[split:]]


def verdict(before: int, after: int) -> Status:
    """Whether it was worth it; as many tokens as before are no failure."""
    return Status.INFLATED if after > before else Status.COMPRESSED


def latch_after(failed: bool, *, forced: bool, status: str) -> bool:  # noqa: FBT001 - the state it turns into the next one
    """Whether automatic attempts are over, if they were `failed` before this one."""
    if status == Status.COMPRESSED:
        return False
    if status in (Status.INFLATED, Status.EMPTY_SUMMARY):
        return failed or not forced
    return failed


def overflows(request: int, *, window: int, last_prompt: int) -> bool:
    """Whether a request takes nearly all that the last prompt left of the window, or more."""
    return request > CROWDED * (window - last_prompt)


def alias_for(model: str) -> str:
    """Which model sums up for a model."""
    return ALIASES.get(model, DEFAULT_ALIAS)
