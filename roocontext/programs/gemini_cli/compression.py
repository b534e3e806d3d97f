"""Gemini CLI's compression as the program runs it: the attempt and how the outcome is judged.

The recorded version is 0.21. Statuses are recorded by name, because their numbers changed later.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from roocontext.programs.gemini_cli.contents import COMPRESSED, Content, split_point, text_content

THRESHOLD: Final = 0.5
"""The share of the window at which a history is compressed automatically."""

CROWDED: Final = 0.95
"""The share of the room left by the last prompt that a request may take."""

ACKNOWLEDGEMENT: Final = "Got it. Thanks for the additional context!"
"""The model's reply to the summary, which the program writes itself."""

INSTRUCTION: Final = "First, reason in your scratchpad. Then, generate the <state_snapshot>."
"""The last user text of the request for a summary."""

ALIASES: Final = {
    "gemini-3-pro-preview": "chat-compression-3-pro",
    "gemini-3-flash-preview": "chat-compression-3-flash",
    "gemini-2.5-pro": "chat-compression-2.5-pro",
    "gemini-2.5-flash": "chat-compression-2.5-flash",
    "gemini-2.5-flash-lite": "chat-compression-2.5-flash-lite",
}
"""The program's configured name of the model that summarises for each model."""

DEFAULT_ALIAS: Final = "chat-compression-default"


class CompressionStatus(StrEnum):
    """How a compression ended."""

    COMPRESSED = "COMPRESSED"
    INFLATED = "COMPRESSION_FAILED_INFLATED_TOKEN_COUNT"
    COUNT_ERROR = "COMPRESSION_FAILED_TOKEN_COUNT_ERROR"  # declared but never used in 0.21
    EMPTY_SUMMARY = "COMPRESSION_FAILED_EMPTY_SUMMARY"
    NOOP = "NOOP"


class Attempt(NamedTuple):
    """Compress the first `split` contents; 0 means none.

    `tokens` is the count that a NOOP reports. Hooks run (`notifies`) unless the attempt ended
    before the count was compared.
    """

    split: int
    tokens: int
    notifies: bool


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
    """Decide on a curated history; `tokens` is the reported size of the last prompt."""
    if not contents or (failed and not forced):
        return Attempt(0, 0, notifies=False)
    if not forced and tokens < threshold * window:
        return Attempt(0, tokens, notifies=True)
    return Attempt(split_point(contents, fraction), tokens, notifies=True)


def compressed(contents: Sequence[Content], split: int, summary: str) -> list[Content]:
    """The history with the summary and the model's reply in place of the first contents."""
    pair = text_content("user", summary), text_content("model", ACKNOWLEDGEMENT)
    return [*pair, *contents[split:]]


def verdict(before: int, after: int) -> CompressionStatus:
    """Judge the sizes before and after; an equal size is not a failure."""
    return CompressionStatus.INFLATED if after > before else CompressionStatus.COMPRESSED


def latch_after(failed: bool, *, forced: bool, status: str) -> bool:  # noqa: FBT001 - the state it turns into the next one
    """Whether automatic attempts stop, given whether they had `failed` before this one."""
    if status == CompressionStatus.COMPRESSED:
        return False
    if status in (CompressionStatus.INFLATED, CompressionStatus.EMPTY_SUMMARY):
        return failed or not forced
    return failed


def overflows(request: int, *, window: int, last_prompt: int) -> bool:
    """Whether a request takes nearly all the room that the last prompt left, or more."""
    return request > CROWDED * (window - last_prompt)


def alias_for(model: str) -> str:
    """The name of the model that summarises for a model."""
    return ALIASES.get(model, DEFAULT_ALIAS)
