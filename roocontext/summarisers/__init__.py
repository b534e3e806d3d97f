"""Summarisers: models behind a protocol, and an extractive one that needs no model.

Importing this package loads no SDK, creates no client and opens no connection. A summariser that
needs one does so when it is first asked for a summary.
"""

from roocontext.log.summary import OutgoingMessage, Summary, SummaryRequest
from roocontext.summarisers.by_model import AsyncByModel, ByModel, ModelPrices, ModelQuestion
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.prompts import Prompt, prompt_of, prompts, read_prompt, styles
from roocontext.summarisers.protocol import (
    AnySummariser,
    AsyncFallback,
    AsyncSummariser,
    Fallback,
    Summariser,
    as_summariser,
    is_async,
    summarised,
    with_fallback,
)
from roocontext.summarisers.providers import (
    Anthropic,
    AsyncAnthropic,
    summariser_for,
    summariser_over,
    summarisers,
)
from roocontext.summarisers.transcript import transcript

__all__ = [
    "Anthropic",
    "AnySummariser",
    "AsyncAnthropic",
    "AsyncByModel",
    "AsyncFallback",
    "AsyncSummariser",
    "ByModel",
    "Extractive",
    "Fallback",
    "ModelPrices",
    "ModelQuestion",
    "OutgoingMessage",
    "Prompt",
    "Summariser",
    "Summary",
    "SummaryRequest",
    "as_summariser",
    "is_async",
    "prompt_of",
    "prompts",
    "read_prompt",
    "styles",
    "summarised",
    "summariser_for",
    "summariser_over",
    "summarisers",
    "transcript",
    "with_fallback",
]
