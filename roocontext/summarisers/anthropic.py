"""Summaries by a model of Anthropic, through their SDK: the only place that knows it.

The conversation goes out as one message of the user, as text, so that any history is a valid
request; tools are never offered. Whatever goes wrong becomes a SummaryFailed that has the numbers,
and the SDK's error as its cause. Time-outs and retries are the client's. The SDK is an extra, and
is imported only to make a client or to tell its errors apart.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roocontext.errors import InvalidOption, SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.in_chunks import TooLong, Unanswerable, asked
from roocontext.summarisers.prompts import Question, spoken
from roocontext.summarisers.shorten import clean

if TYPE_CHECKING:
    import anthropic

NAME: Final = "anthropic"

CHEAPER: Final = "claude-haiku-4-5"
"""The model that is asked when nobody names one: summarising needs no larger."""

_DONE: Final = frozenset({"end_turn", "stop_sequence"})
_STATUSES: Final = {413: "too_long", 429: "rate_limit", 529: "overloaded"}
_TOO_LONG: Final = re.compile(
    r"prompt is too long|exceed context limit|context window", re.IGNORECASE
)
_NUMBERS: Final = re.compile(r"(\d+)(?: tokens)?(?: \+ (\d+))? > (\d+)")


class Prices(NamedTuple):
    """What a million tokens cost, in any currency."""

    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a model is asked.

    Without `model` it is the Claude model that the request names, or CHEAPER. `prompt` stands in
    for the style's system prompt. `prices` turn the usage into a cost. `fits` is how many tokens
    the model reads; without it, the provider says so when it must. `most_calls` bounds the calls
    that one summary may take.
    """

    model: str | None = None
    max_tokens: int = 8_000
    prompt: str | None = None
    prices: Prices | None = None
    fits: int | None = None
    most_calls: int = 24

    @property
    def name(self) -> str:
        """The name that summaries carry."""
        return NAME


@dataclass(frozen=True, slots=True)
class Anthropic(Settings):
    """Asks with a client of the SDK."""

    client: "anthropic.Anthropic" = field(repr=False)

    def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if it must be."""
        talk = _Talk(self, request)
        while talk.question is not None:
            with _hearing() as heard, self.client.messages.stream(**talk.call()) as stream:
                for event in stream:
                    heard.take(event)
            talk.take(heard)
        return talk.summary()


@dataclass(frozen=True, slots=True)
class AsyncAnthropic(Settings):
    """The same with an asynchronous client; cancelling it ends the call."""

    client: "anthropic.AsyncAnthropic" = field(repr=False)

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if it must be."""
        talk = _Talk(self, request)
        while talk.question is not None:
            with _hearing() as heard:
                async with self.client.messages.stream(**talk.call()) as stream:
                    async for event in stream:
                        heard.take(event)
            talk.take(heard)
        return talk.summary()


def over(client: Any, model: str | None = None) -> Anthropic | AsyncAnthropic:
    """The summariser that goes with a client; without one, with a client of its own."""
    if find_spec("anthropic") is None:
        raise InvalidOption(
            "The summariser anthropic needs the extra: pip install 'roocontext[anthropic]'.",
            name="summariser",
        )
    import anthropic  # noqa: PLC0415 - an extra, loaded when it is asked for

    if isinstance(client, anthropic.AsyncAnthropic):
        return AsyncAnthropic(client, model=model)
    if client is None:
        client = anthropic.Anthropic()
        if not (client.api_key or client.auth_token or client.credentials):
            raise InvalidOption(
                "The summariser anthropic needs a key: set ANTHROPIC_API_KEY, or give a client.",
                name="summariser",
            )
    if not callable(getattr(getattr(client, "messages", None), "stream", None)):
        raise InvalidOption(
            f"client is a client of the Anthropic SDK, not {type(client).__name__}: for another"
            " provider give a summariser, which may be any function of the request.",
            name="client",
        )
    return Anthropic(client, model=model)


@dataclass(slots=True)
class _Heard:
    """What came back of one call, and how it ended."""

    texts: list[str] = field(default_factory=list)
    model: str | None = None
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    fault: Exception | None = None

    def take(self, event: Any) -> None:
        """Note one event of the stream."""
        match event.type:
            case "message_start":
                usage = event.message.usage
                cached = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
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
        return clean(spoken("".join(self.texts)))


@contextmanager
def _hearing() -> Iterator[_Heard]:
    heard = _Heard()
    try:
        yield heard
    except Exception as fault:  # noqa: BLE001 - the SDK passes on what its transport raises
        heard.fault = fault


class _Talk:
    """A summary on its way: what to ask next, and what was spent so far."""

    def __init__(self, settings: Settings, request: SummaryRequest) -> None:
        named = request.model if (request.model or "").startswith("claude") else None
        self._model = self._writer = settings.model or named or CHEAPER
        self._settings = settings
        self._calls = self._input = self._output = 0
        self._text = ""
        self._asked = asked(
            request, fits=settings.fits, most=settings.most_calls, prompt=settings.prompt
        )
        self.question = self._next(None)

    def call(self) -> dict[str, Any]:
        """What the SDK is called with."""
        assert self.question is not None
        said = [{"type": "text", "text": text} for text in self.question.texts]
        return {
            "model": self._model,
            "max_tokens": self._settings.max_tokens,
            "system": self.question.system,
            "messages": [{"role": "user", "content": said}],
        }

    def take(self, heard: _Heard) -> None:
        """Take what came of the question, and turn to the next."""
        self._calls += 1
        self._input += heard.input_tokens
        self._output += heard.output_tokens
        self._writer = heard.model or self._writer
        kind, status = _outcome(heard)
        if kind == "done":
            self.question = self._next(heard.text)
        elif kind == "too_long":
            self.question = self._next(_too_long(heard.fault), heard.fault)
        else:
            raise self._failed(kind, status=status) from heard.fault

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


def _outcome(heard: _Heard) -> tuple[str, int | None]:
    """How a call ended: `done`, `too_long`, or a kind of failure; and its status."""
    if heard.fault is not None:
        return _kind_of(heard.fault)
    if heard.stop_reason is None:
        return "cut", None
    if heard.stop_reason == "model_context_window_exceeded":
        return "too_long", None
    if heard.stop_reason not in _DONE:
        return heard.stop_reason, None
    return ("done" if heard.text else "empty"), None


def _kind_of(fault: Any) -> tuple[str, int | None]:
    """What went wrong. Errors of the SDK and of its transport are told by their names."""
    names = {kind.__name__ for kind in type(fault).__mro__}
    if "APIStatusError" in names:
        return _refused(fault), fault.status_code
    if names & {"APITimeoutError", "TimeoutException"}:
        return "timeout", None
    if "APIConnectionError" in names:
        return "connection", None
    return ("cut" if "TransportError" in names else "error"), None


def _refused(fault: Any) -> str:
    """The kind of an error that the provider told; an event of a stream has the status 200."""
    told = str(fault.type or "").removesuffix("_error")
    kind = _STATUSES.get(fault.status_code) or told or "status"
    if kind == "invalid_request" and _TOO_LONG.search(str(fault.api_message)):
        return "too_long"
    return kind


def _too_long(fault: Any) -> TooLong:
    """The numbers of a refusal, if it has any."""
    found = _NUMBERS.search(str(getattr(fault, "api_message", "")))
    if found is None:
        return TooLong()
    return TooLong(int(found[1]) + int(found[2] or 0), int(found[3]))
