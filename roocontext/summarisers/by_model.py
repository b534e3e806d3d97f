"""Summaries by a model: the same for every provider.

The conversation is sent as the text of one user message, so that any history makes a valid request.
No tools are offered. A conversation that is too long for the model is summarised in pieces. Every
failure becomes a SummaryFailed with the numbers; the SDK's error is its cause. Timeouts and retries
are the client's.

A provider is one function that makes the call with a client (`ModelProvider`). Its reply is read as
`record` reads it. No SDK is imported: errors are classified by the names of their classes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, NamedTuple

from roocontext.errors import SummaryFailed
from roocontext.log.encoding import plain
from roocontext.log.readings import read_message
from roocontext.log.readings.blocks import as_dict, dicts
from roocontext.log.replies import read_reply
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers.in_chunks import TooLong, Unanswerable, ask_in_chunks
from roocontext.summarisers.prompts import Question, without_scratchpad
from roocontext.summarisers.transcript import clean
from roocontext.tokens import limit_for, usage_tokens
from roocontext.tokens.refusals import too_long

_DONE: Final = frozenset({"end_turn", "stop_sequence", "stop", "STOP", "completed"})
_KINDS: Final = {
    "length": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_context_window_exceeded": "too_long",
    **dict.fromkeys(("content_filter", "SAFETY", "RECITATION", "BLOCKLIST", "SPII"), "refusal"),
    "PROHIBITED_CONTENT": "refusal",
}
"""The kinds of the stop reasons; any other stop reason is a kind of its own."""

_STATUSES: Final = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    413: "too_long",
    429: "rate_limit",
    529: "overloaded",
}


class ModelPrices(NamedTuple):
    """The price of a million tokens, in any currency."""

    input: float
    output: float


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """One call of a model: the system prompt and the texts of the user message."""

    model: str
    system: str
    texts: tuple[str, ...]
    max_tokens: int

    @property
    def text(self) -> str:
        """The texts as one."""
        return "\n\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """How a provider's model is asked.

    `call` makes the call with a client and returns a text or a reply that `record` would take; with
    an asynchronous client, an awaitable of it. `model_for` chooses the model, given the client and
    the model that the request names, or returns None.
    """

    name: str
    call: Callable[[Any, ModelQuestion], Any] = field(repr=False)
    model_for: Callable[[Any, str | None], str | None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Asking:
    """A client of a provider, or a function that asks a model, and the options of a summariser.

    If `model` is None, the model that the request names is used if the provider has it, else a
    cheaper one. `prompt` replaces the system prompt of the style. `prices` turns the usage into a
    cost. `fits` is the number of tokens that the model reads; if it is None, the provider's refusal
    shows it. `most_calls` limits the calls for one summary. `max_tokens` is the longest answer, and
    less if the table of models says so.
    """

    client: Any = field(repr=False)
    provider: ModelProvider
    _: KW_ONLY
    model: str | None = None
    max_tokens: int = 8_000
    prompt: str | None = None
    prices: ModelPrices | None = None
    fits: int | None = None
    most_calls: int = 24

    @property
    def name(self) -> str:
        """The name that is recorded with each summary."""
        return self.provider.name

    def begin(self, request: SummaryRequest) -> "_Dialogue":
        """Begin a summary with the first question."""
        named = self.provider.model_for(self.client, request.model)
        return _Dialogue(self, named, request)


@dataclass(frozen=True, slots=True)
class ByModel(_Asking):
    """Summarises with a client of a provider, or with a function that asks a model."""

    def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = self.begin(request)
        while dialogue.question is not None:
            with _receiving() as answer:
                self._ask(dialogue.question, answer)
            dialogue.take(answer)
        return dialogue.summary()

    def _ask(self, question: ModelQuestion, answer: "ModelAnswer") -> None:
        answer.take_reply(self.provider.call(self.client, question))


@dataclass(frozen=True, slots=True)
class AsyncByModel(_Asking):
    """The same with an asynchronous client; cancelling the task cancels the call."""

    async def summarise(self, request: SummaryRequest) -> Summary:
        """Ask for a summary, in pieces if the conversation is too long."""
        dialogue = self.begin(request)
        while dialogue.question is not None:
            with _receiving() as answer:
                await self._ask(dialogue.question, answer)
            dialogue.take(answer)
        return dialogue.summary()

    async def _ask(self, question: ModelQuestion, answer: "ModelAnswer") -> None:
        answer.take_reply(await self.provider.call(self.client, question))


@dataclass(slots=True)
class ModelAnswer:
    """The answer to one call, as far as it came."""

    texts: list[str] = field(default_factory=list)
    model: str | None = None
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    fault: Exception | None = None

    def take_reply(self, reply: Any) -> None:
        """Take a text, or a provider's whole reply."""
        if isinstance(reply, str):
            self.texts, self.stop_reason = [reply], "stop"
            return
        fields = as_dict(plain(reply))
        used = usage_tokens(fields.get("usage") or fields.get("usage_metadata"))
        if used is not None:
            self.input_tokens, self.output_tokens = used.input, used.output
        self.stop_reason = _refusal(fields)
        if self.stop_reason is None:
            read = read_reply(reply)
            used = usage_tokens(read.usage)
            if used is not None:
                self.input_tokens, self.output_tokens = used.input, used.output
            self.model, self.stop_reason = read.model, read.stop_reason
            blocks = read_message(read)[1]
            self.texts = [str(block.get("text")) for block in blocks if block.get("type") == "text"]

    @property
    def text(self) -> str:
        """The answer."""
        return clean(without_scratchpad("".join(self.texts)))


def _refusal(fields: dict[str, Any]) -> str | None:
    """The stop reason of a reply without a message: a refusal, or a failed response."""
    for choice in dicts(fields.get("choices")):
        if as_dict(choice.get("message")).get("refusal"):
            return "refusal"
    for item in dicts(fields.get("output")):
        if any(part.get("type") == "refusal" for part in dicts(item.get("content"))):
            return "refusal"
    feedback = as_dict(fields.get("prompt_feedback") or fields.get("promptFeedback"))
    if feedback.get("block_reason") or feedback.get("blockReason"):
        return "refusal"
    if fields.get("status") in ("failed", "cancelled"):
        code = as_dict(fields.get("error")).get("code")
        return code if isinstance(code, str) else "failed"
    return None


@contextmanager
def _receiving() -> Iterator[ModelAnswer]:
    """Receive one answer; an error of the SDK or of its transport is kept with it."""
    answer = ModelAnswer()
    try:
        yield answer
    except Exception as fault:  # noqa: BLE001 - the SDK also raises errors of its transport
        answer.fault = fault


class _Dialogue:
    """A summary in progress: the next question, and the usage so far."""

    def __init__(self, settings: _Asking, model: str | None, request: SummaryRequest) -> None:
        self._name = settings.name
        self._settings = settings
        self._model = self._writer = settings.model or model or ""
        self._calls = self._input = self._output = 0
        self._text = ""
        if not self._model:
            raise self._failed("no_model", ": name the model that writes the summaries")
        most = limit_for(self._model).output
        self._longest = settings.max_tokens if most is None else min(settings.max_tokens, most)
        self._asked = ask_in_chunks(
            request, fits=settings.fits, most=settings.most_calls, prompt=settings.prompt
        )
        self.question = self._next(None)

    def take(self, answer: ModelAnswer) -> None:
        """Process an answer and choose the next question."""
        self._calls += 1
        self._input += answer.input_tokens
        self._output += answer.output_tokens
        self._writer = answer.model or self._writer
        kind, status = _outcome(answer)
        if kind == "done":
            self.question = self._next(answer.text)
        elif kind == "too_long":
            refusal = None if answer.fault is None else too_long(answer.fault)
            numbers = TooLong() if refusal is None else TooLong(refusal.sent, refusal.limit)
            self.question = self._next(numbers, answer.fault)
        else:
            raise self._failed(kind, status=status) from answer.fault

    def summary(self) -> Summary:
        """The finished summary."""
        return Summary(text=self._text, model=self._writer, **self._paid())

    def _next(
        self, answer: str | TooLong | None, fault: Exception | None = None
    ) -> ModelQuestion | None:
        try:
            put: Question = next(self._asked) if answer is None else self._asked.send(answer)
        except StopIteration as end:
            self._text = end.value
            return None
        except Unanswerable as why:
            raise self._failed(why.kind, f", {why}") from fault or why
        return ModelQuestion(self._model, put.system, put.texts, self._longest)

    def _failed(self, kind: str, why: str = "", *, status: int | None = None) -> SummaryFailed:
        answered = "" if status is None else f" (HTTP {status})"
        spent = f"{self._calls} calls, {self._input} tokens sent, {self._output} received"
        fact = f"{self._name} gave no summary: {kind}{answered}{why}, after {spent}."
        model = self._writer or None
        return SummaryFailed(fact, kind=kind, status=status, model=model, **self._paid())

    def _paid(self) -> dict[str, Any]:
        """The calls so far, and their cost."""
        prices, sent, received = self._settings.prices, self._input, self._output
        cost = prices and (sent * prices.input + received * prices.output) / 1_000_000
        counts = {"calls": self._calls, "input_tokens": sent, "output_tokens": received}
        return {"summariser": self._name, **counts, "cost": cost}


def _outcome(answer: ModelAnswer) -> tuple[str, int | None]:
    """Classify the end of a call: `done`, `too_long`, or a kind of failure; and its status."""
    if answer.fault is not None:
        return _kind_of(answer.fault)
    # The stream ended without its last event: the text may lack its end.
    if answer.stop_reason is None:
        return "cut", None
    if answer.stop_reason not in _DONE:
        return _KINDS.get(answer.stop_reason, answer.stop_reason.lower()), None
    return ("done" if answer.text else "empty"), None


def _kind_of(fault: Any) -> tuple[str, int | None]:
    """Classify an error of the SDK or its transport by the names of its classes."""
    # By name, because the transport's errors are those of another package, which need not be
    # imported.
    names = {kind.__name__ for kind in type(fault).__mro__}
    status = getattr(fault, "status_code", None)
    if status is None and "APIError" in names:  # Google's has it as its code
        status = getattr(fault, "code", None)
    if isinstance(status, int):
        return _refused(fault, status), status
    if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return "timeout", None
    if names & {"APIConnectionError", "ConnectError", "ConnectionError", "ClientConnectionError"}:
        return "connection", None
    if "TransportError" in names:
        return "cut", None
    return ("error" if too_long(fault) is None else "too_long"), None


def _refused(fault: Any, status: int) -> str:
    """Classify an error that the provider reported; in a stream its status is 200."""
    if known := _STATUSES.get(status):
        return known
    if too_long(fault) is not None:
        return "too_long"
    # Google has a status in words, the others a type.
    named = getattr(fault, "type", None) or getattr(fault, "status", None) or "status"
    return str(named).lower().removesuffix("_error")
