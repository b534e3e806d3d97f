"""Summaries by an Anthropic model, through the SDK.

The conversation is sent as the text of one user message, so that any history makes a valid request.
No tools are offered. Every failure becomes a SummaryFailed with the numbers; the SDK's error is its
cause. Timeouts and retries are the client's. The SDK is an extra: it is imported only to create a
client or to recognise one.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roocontext.errors import InvalidOption, SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.in_chunks import TooLong, Unanswerable, ask_in_chunks
from roocontext.summarisers.prompts import Question, without_scratchpad
from roocontext.summarisers.transcript import clean

if TYPE_CHECKING:
    import anthropic

NAME: Final = "anthropic"

CHEAPER: Final = "claude-haiku-4-5"
"""The model used when none is named: summaries need no larger one."""

_DONE: Final = frozenset({"end_turn", "stop_sequence"})
_STATUSES: Final = {413: "too_long", 429: "rate_limit", 529: "overloaded"}
_TOO_LONG: Final = re.compile(
    r"prompt is too long|exceed context limit|context window", re.IGNORECASE
)
_NUMBERS: Final = re.compile(r"(\d+)(?: tokens)?(?: \+ (\d+))? > (\d+)")


class ModelPrices(NamedTuple):
    """The price of a million tokens, in any currency."""

    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The options of a summariser.

    If `model` is None, the Claude model that the request names is used, else CHEAPER. `prompt`
    replaces the system prompt of the style. `prices` turns the usage into a cost. `fits` is the
    number of tokens that the model reads; if it is None, the provider's refusal shows it.
    `most_calls` limits the calls for one summary.
    """

    model: str | None = None
    max_tokens: int = 8_000
    prompt: str | None = None
    prices: ModelPrices | None = None
    fits: int | None = None
    most_calls: int = 24

    @property
    def name(self) -> str:
        """The name that is recorded with each summary."""
        return NAME


@dataclass(frozen=True, slots=True)
class Anthropic(ModelSettings):
    """Summarises with a client of the SDK."""

    client: "anthropic.Anthropic" = field(repr=False)

    def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = _Dialogue(self, request)
        while dialogue.question is not None:
            # Streamed, because the SDK refuses a call that is not if its answer may take over ten
            # minutes.
            with _receiving() as response, self.client.messages.stream(**dialogue.call()) as stream:
                for event in stream:
                    response.take(event)
            dialogue.take(response)
        return dialogue.summary()


@dataclass(frozen=True, slots=True)
class AsyncAnthropic(ModelSettings):
    """The same with an asynchronous client; cancelling the task cancels the call."""

    client: "anthropic.AsyncAnthropic" = field(repr=False)

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = _Dialogue(self, request)
        while dialogue.question is not None:
            with _receiving() as response:
                async with self.client.messages.stream(**dialogue.call()) as stream:
                    async for event in stream:
                        response.take(event)
            dialogue.take(response)
        return dialogue.summary()


def over(client: Any, model: str | None = None) -> Anthropic | AsyncAnthropic:
    """Create the summariser for a client, by default a new one."""
    if find_spec("anthropic") is None:
        raise InvalidOption(
            "The summariser anthropic needs the package anthropic, which is not installed.",
            advice="Install the extra: pip install 'roocontext[anthropic]'.",
            name="summariser",
        )
    import anthropic  # noqa: PLC0415 - an extra, loaded on first use

    if isinstance(client, anthropic.AsyncAnthropic):
        return AsyncAnthropic(client, model=model)
    if client is None:
        client = anthropic.Anthropic()
        if not (client.api_key or client.auth_token or client.credentials):
            raise InvalidOption(
                "The summariser anthropic needs a key.",
                advice="Set ANTHROPIC_API_KEY, or pass a client.",
                name="summariser",
            )
    if not callable(getattr(getattr(client, "messages", None), "stream", None)):
        raise InvalidOption(
            f"client must be a client of the Anthropic SDK, not {type(client).__name__}. For"
            " another provider, pass a summariser, which may be any function of the request.",
            name="client",
        )
    return Anthropic(client, model=model)


@dataclass(slots=True)
class _Response:
    """The response to one call, as far as it came."""

    texts: list[str] = field(default_factory=list)
    model: str | None = None
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    fault: Exception | None = None

    def take(self, event: Any) -> None:
        """Record one event of the stream."""
        match event.type:
            case "message_start":
                usage = event.message.usage
                cached = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
                # `input_tokens` leaves out what was written to the cache or read from it.
                self.input_tokens = usage.input_tokens + sum(count or 0 for count in cached)
                self.output_tokens = usage.output_tokens
                self.model = event.message.model
            case "text":
                self.texts.append(event.text)
            case "message_delta":
                self.stop_reason = event.delta.stop_reason
                self.output_tokens = event.usage.output_tokens

    @property
    def text(self) -> str:
        """The answer."""
        return clean(without_scratchpad("".join(self.texts)))


@contextmanager
def _receiving() -> Iterator[_Response]:
    response = _Response()
    try:
        yield response
    except Exception as fault:  # noqa: BLE001 - the SDK also raises errors of its transport
        response.fault = fault


class _Dialogue:
    """A summary in progress: the next question, and the usage so far."""

    def __init__(self, settings: ModelSettings, request: SummaryRequest) -> None:
        # Bedrock and Vertex have names of their own: only what is before a slash is left out.
        name = (request.model or "").rpartition("/")[2]
        named = name if "claude" in name else None
        self._model = self._writer = settings.model or named or CHEAPER
        self._settings = settings
        self._calls = self._input = self._output = 0
        self._text = ""
        self._asked = ask_in_chunks(
            request, fits=settings.fits, most=settings.most_calls, prompt=settings.prompt
        )
        self.question = self._next(None)

    def call(self) -> dict[str, Any]:
        """The arguments for the SDK's call."""
        assert self.question is not None
        texts = [{"type": "text", "text": text} for text in self.question.texts]
        return {
            "model": self._model,
            "max_tokens": self._settings.max_tokens,
            "system": self.question.system,
            "messages": [{"role": "user", "content": texts}],
        }

    def take(self, response: _Response) -> None:
        """Process a response and choose the next question."""
        self._calls += 1
        self._input += response.input_tokens
        self._output += response.output_tokens
        self._writer = response.model or self._writer
        kind, status = _outcome(response)
        if kind == "done":
            self.question = self._next(response.text)
        elif kind == "too_long":
            self.question = self._next(_too_long(response.fault), response.fault)
        else:
            raise self._failed(kind, status=status) from response.fault

    def summary(self) -> Summary:
        """The finished summary."""
        return Summary(
            text=self._text,
            summariser=NAME,
            model=self._writer,
            calls=self._calls,
            input_tokens=self._input,
            output_tokens=self._output,
            cost=self._cost(),
        )

    def _next(
        self, answer: str | TooLong | None, fault: Exception | None = None
    ) -> Question | None:
        try:
            return next(self._asked) if answer is None else self._asked.send(answer)
        except StopIteration as end:
            self._text = end.value
            return None
        except Unanswerable as why:
            raise self._failed(why.kind, f", {why}") from fault or why

    def _failed(self, kind: str, why: str = "", *, status: int | None = None) -> SummaryFailed:
        answered = "" if status is None else f" (HTTP {status})"
        spent = f"{self._calls} calls, {self._input} tokens sent, {self._output} received"
        return SummaryFailed(
            f"{NAME} gave no summary: {kind}{answered}{why}, after {spent}.",
            summariser=NAME,
            kind=kind,
            status=status,
            model=self._writer,
            calls=self._calls,
            input_tokens=self._input,
            output_tokens=self._output,
            cost=self._cost(),
        )

    def _cost(self) -> float | None:
        prices = self._settings.prices
        if prices is None:
            return None
        return (self._input * prices.input + self._output * prices.output) / 1_000_000


def _outcome(response: _Response) -> tuple[str, int | None]:
    """Classify the end of a call: `done`, `too_long`, or a kind of failure; and its status."""
    if response.fault is not None:
        return _kind_of(response.fault)
    # The stream ended without its last event: the text may lack its end.
    if response.stop_reason is None:
        return "cut", None
    if response.stop_reason == "model_context_window_exceeded":
        return "too_long", None
    if response.stop_reason not in _DONE:
        return response.stop_reason, None
    return ("done" if response.text else "empty"), None


def _kind_of(fault: Any) -> tuple[str, int | None]:
    """Classify an error of the SDK or its transport by the names of its classes."""
    # By name, because the transport's errors are those of another package, which need not be
    # imported.
    names = {kind.__name__ for kind in type(fault).__mro__}
    if "APIStatusError" in names:
        return _refused(fault), fault.status_code
    if names & {"APITimeoutError", "TimeoutException"}:
        return "timeout", None
    if "APIConnectionError" in names:
        return "connection", None
    return ("cut" if "TransportError" in names else "error"), None


def _refused(fault: Any) -> str:
    """Classify an error that the provider reported; in a stream its status is 200."""
    named = str(fault.type or "").removesuffix("_error")
    kind = _STATUSES.get(fault.status_code) or named or "status"
    # The provider has no code of its own for it.
    if kind == "invalid_request" and _TOO_LONG.search(str(fault.message)):
        return "too_long"
    return kind


def _too_long(fault: Any) -> TooLong:
    """The numbers in a refusal, if it has any."""
    numbers = _NUMBERS.search(str(getattr(fault, "message", "")))
    if numbers is None:
        return TooLong()
    return TooLong(int(numbers[1]) + int(numbers[2] or 0), int(numbers[3]))
