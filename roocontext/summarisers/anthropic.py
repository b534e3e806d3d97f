"""Summaries by an Anthropic model, through the SDK: Anthropic's own API, Bedrock or Vertex.

Answers are streamed, so that even a call that fails in the middle has its usage.
"""

from dataclasses import dataclass
from typing import Any, Final

from roocontext.errors import InvalidOption
from roocontext.summarisers.by_model import (
    AsyncByModel,
    ByModel,
    ModelAnswer,
    ModelProvider,
    ModelQuestion,
)

NAME: Final = "anthropic"

CHEAPER: Final = "claude-haiku-4-5"
"""The model used when none is named: summaries need no larger one."""


def _streamed(client: Any, question: ModelQuestion) -> Any:
    """The stream of an answer.

    Not a plain call: the SDK refuses one whose answer may take over ten minutes.
    """
    texts = [{"type": "text", "text": text} for text in question.texts]
    return client.messages.stream(
        model=question.model,
        max_tokens=question.max_tokens,
        system=question.system,
        messages=[{"role": "user", "content": texts}],
    )


def _model_for(_client: Any, named: str | None) -> str:
    # Bedrock and Vertex have names of their own: only what is before a slash is left out.
    name = (named or "").rpartition("/")[2]
    return name if "claude" in name else CHEAPER


ANTHROPIC: Final = ModelProvider(NAME, _streamed, _model_for)


@dataclass(frozen=True, slots=True)
class Anthropic(ByModel):
    """Summarises with a client of the SDK."""

    provider: ModelProvider = ANTHROPIC

    def _ask(self, question: ModelQuestion, answer: ModelAnswer) -> None:
        with self.provider.call(self.client, question) as stream:
            for event in stream:
                _take(answer, event)


@dataclass(frozen=True, slots=True)
class AsyncAnthropic(AsyncByModel):
    """The same with an asynchronous client; cancelling the task cancels the call."""

    provider: ModelProvider = ANTHROPIC

    async def _ask(self, question: ModelQuestion, answer: ModelAnswer) -> None:
        async with self.provider.call(self.client, question) as stream:
            async for event in stream:
                _take(answer, event)


def over(client: Any, model: str | None = None) -> Anthropic | AsyncAnthropic:
    """Create the summariser for a client."""
    if not callable(getattr(getattr(client, "messages", None), "stream", None)):
        raise InvalidOption(
            f"client must be a client of the Anthropic SDK, not {type(client).__name__}. For"
            " another provider, pass a summariser, which may be any function of the request.",
            name="client",
        )
    # The clients for Bedrock and Vertex do not derive from the main one.
    if any(kind.__name__.startswith("Async") for kind in type(client).__mro__):
        return AsyncAnthropic(client, model=model)
    return Anthropic(client, model=model)


def _take(answer: ModelAnswer, event: Any) -> None:
    """Record one event of the stream."""
    match event.type:
        case "message_start":
            usage = event.message.usage
            cached = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
            # `input_tokens` leaves out what was written to the cache or read from it.
            answer.input_tokens = usage.input_tokens + sum(count or 0 for count in cached)
            answer.output_tokens = usage.output_tokens
            answer.model = event.message.model
        case "text":
            answer.texts.append(event.text)
        case "message_delta":
            answer.stop_reason = event.delta.stop_reason
            answer.output_tokens = event.usage.output_tokens
