"""The cost of a request in Gemini CLI, replicated for the vectors."""

from collections.abc import Callable
from typing import Any

from roocontext.log.readings import Block
from roocontext.programs.gemini_cli.counter import estimate

CountTokens = Callable[[list[Block]], int | None]


def request_tokens(request: Any, count_tokens: CountTokens | None = None) -> int:
    """The cost of a request; the endpoint is only asked when there are files in it.

    An endpoint that answers without a total counts as 0, one that fails leaves the estimate.
    """
    given = request if isinstance(request, list) else [request]
    parts = [{"text": part} if isinstance(part, str) else part for part in given]
    if count_tokens and any("inlineData" in part or "fileData" in part for part in parts):
        try:
            return count_tokens(parts) or 0
        except Exception:  # noqa: BLE001 - whatever the endpoint's client raises
            return estimate(parts)
    return estimate(parts)
