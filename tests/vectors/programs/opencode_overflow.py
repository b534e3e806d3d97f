"""OpenCode's two rules for an overflow, replicated for the vectors.

Tokens and limits are given as the program keeps them. The newer rule is the one of 2026.
"""

from collections.abc import Mapping
from typing import Any, Final

from roocontext.programs.opencode.prune import OUTPUT_MAX, passes, reserve
from roocontext.tokens.javascript import truthy

BUFFER: Final = 20_000
"""The most that the newer rule keeps free of a limit for the input alone."""


def is_overflow(
    tokens: Mapping[str, Any],
    limit: Mapping[str, Any],
    *,
    autocompact: bool = True,
    output_max: int = OUTPUT_MAX,
) -> bool:
    """The rule of 2025: reasoning and what was written to the cache are not counted."""
    used = tokens["input"] + tokens["cache"]["read"] + tokens["output"]
    reserved = reserve(limit.get("output") or 0, output_max)
    return autocompact and passes(used, context=limit["context"], reserved=reserved)


def is_overflow_newer(
    tokens: Mapping[str, Any],
    limit: Mapping[str, Any],
    *,
    config: Mapping[str, Any],
    output_max: int = OUTPUT_MAX,
) -> bool:
    """The rule of 2026: everything counts, full is over, and the reserve is a setting."""
    compaction = config.get("compaction") or {}
    if compaction.get("auto") is False or limit["context"] == 0:
        return False
    cache = tokens["cache"]
    parts = tokens["input"] + tokens["output"] + cache["read"] + cache["write"]
    longest = reserve(limit.get("output") or 0, output_max)
    usable = limit["context"] - longest
    if truthy(limit.get("input")):
        kept = compaction.get("reserved")
        usable = limit["input"] - (min(BUFFER, longest) if kept is None else kept)
    return bool((tokens.get("total") or parts) >= usable)
