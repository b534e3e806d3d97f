"""Summaries by an Anthropic model, through the SDK: Anthropic's own API, Bedrock or Vertex.

Answers are streamed, so that even a call that fails in the middle has its usage.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from roocontext.errors import InvalidOption
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.by_model import (
    Dialogue,
    ModelAnswer,
    ModelQuestion,
    ModelSettings,
    receiving,
)

if TYPE_CHECKING:
    import anthropic

NAME: Final = "anthropic"

CHEAPER: Final = "claude-haiku-4-5"
"""The model used when none is named: summaries need no larger one."""


@dataclass(frozen=True, slots=True)
class Anthropic(ModelSettings):
    """Summarises with a client of the SDK."""

    client: "anthropic.Anthropic" = field(repr=False)

    @property
    def name(self) -> str:
        """The name that is recorded with each summary."""
        return NAME

    def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = Dialogue(self, NAME, _model_for(request.model), request)
        while dialogue.question is not None:
            # Streamed, because the SDK refuses a call that is not if its answer may take over ten
            # minutes.
            call = _call(dialogue.question)
            with receiving() as answer, self.client.messages.stream(**call) as stream:
                for event in stream:
                    _take(answer, event)
            dialogue.take(answer)
        return dialogue.summary()


@dataclass(frozen=True, slots=True)
class AsyncAnthropic(ModelSettings):
    """The same with an asynchronous client; cancelling the task cancels the call."""

    client: "anthropic.AsyncAnthropic" = field(repr=False)

    @property
    def name(self) -> str:
        """The name that is recorded with each summary."""
        return NAME

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = Dialogue(self, NAME, _model_for(request.model), request)
        while dialogue.question is not None:
            with receiving() as answer:
                async with self.client.messages.stream(**_call(dialogue.question)) as stream:
                    async for event in stream:
                        _take(answer, event)
            dialogue.take(answer)
        return dialogue.summary()


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


def _model_for(named: str | None) -> str:
    # Bedrock and Vertex have names of their own: only what is before a slash is left out.
    name = (named or "").rpartition("/")[2]
    return name if "claude" in name else CHEAPER


def _call(question: ModelQuestion) -> dict[str, Any]:
    """The arguments for the SDK's call."""
    texts = [{"type": "text", "text": text} for text in question.texts]
    return {
        "model": question.model,
        "max_tokens": question.max_tokens,
        "system": question.system,
        "messages": [{"role": "user", "content": texts}],
    }


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
