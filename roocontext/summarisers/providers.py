"""Summaries by the models of Anthropic, OpenAI, servers with its API, and Google, or any function.

The provider follows from the methods of the client, so that clients of gateways, of clouds and of
instrumentation work like the SDKs' own. Answers of Anthropic's models are streamed, so that even a
call that fails in the middle has its usage.

Also the registry of summarisers. The built-in ones register with the same call as a plugin. A
summariser that is chosen by its name alone asks a new client of the provider's SDK. The SDKs are
extras: each is imported only when one of its clients is created. The key and the address are those
of the environment, as the SDK reads them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.registry import Registry
from roocontext.summarisers.by_model import (
    AsyncByModel,
    ByModel,
    ModelAnswer,
    ModelProvider,
    ModelQuestion,
)
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.protocol import AnySummariser

CHEAPER_ANTHROPIC: Final = "claude-haiku-4-5"
CHEAPER_OPENAI: Final = "gpt-5-mini"
CHEAPER_GEMINI: Final = "gemini-2.5-flash"
"""The models used when none is named: summaries need no larger one."""

LONGEST: Final = 16_000
"""The longest answer: reasoning counts as a part of it."""

_OPENAI_MODELS: Final = re.compile(r"gpt|o\d|chatgpt|ft:")


def _chat(client: Any, question: ModelQuestion) -> Any:
    # Other servers know the older name of the limit alone, and OpenAI's newer models refuse it.
    limit = "max_completion_tokens" if _is_openai(client) or _is_azure(client) else "max_tokens"
    return client.chat.completions.create(
        model=question.model,
        messages=[
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.text},
        ],
        **{limit: question.max_tokens},
    )


def _responses(client: Any, question: ModelQuestion) -> Any:
    return client.responses.create(
        model=question.model,
        instructions=question.system,
        input=[{"role": "user", "content": question.text}],
        max_output_tokens=question.max_tokens,
        store=False,
    )


def _gemini(client: Any, question: ModelQuestion) -> Any:
    return client.models.generate_content(
        model=question.model,
        contents=[{"role": "user", "parts": [{"text": text} for text in question.texts]}],
        config={
            "system_instruction": question.system,
            "max_output_tokens": question.max_tokens,
        },
    )


def _openai_model(client: Any, named: str | None) -> str | None:
    """The named model; at OpenAI itself, only one of its own."""
    if not _is_openai(client):
        return named
    name = (named or "").rpartition("/")[2]
    return name if _OPENAI_MODELS.match(name) else CHEAPER_OPENAI


def _gemini_model(_client: Any, named: str | None) -> str | None:
    name = (named or "").rpartition("/")[2]
    return name if name.startswith(("gemini", "gemma")) else CHEAPER_GEMINI


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


def _anthropic_model(_client: Any, named: str | None) -> str:
    # Bedrock and Vertex have names of their own: only what is before a slash is left out.
    name = (named or "").rpartition("/")[2]
    return name if "claude" in name else CHEAPER_ANTHROPIC


ANTHROPIC: Final = ModelProvider("anthropic", _streamed, _anthropic_model)


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


CHAT: Final = ModelProvider("openai", _chat, _openai_model)
RESPONSES: Final = ModelProvider("openai-responses", _responses, _openai_model)
GEMINI: Final = ModelProvider("gemini", _gemini, _gemini_model)


def summariser_over(
    client: Any, model: str | None = None, *, provider: ModelProvider | None = None
) -> AnySummariser:
    """Create the summariser for a client: of an SDK, or a function that asks a model.

    A function takes a `ModelQuestion`, and returns a text or a reply of any provider. It may be a
    coroutine function. A client of OpenAI's SDK is asked by its Responses API if it is OpenAI's
    own, and by Chat Completions if it is for another server.
    """
    if provider is None:
        provider = _provider_of(client)
    elif not _has(client, *_METHODS[provider.name]):
        method = ".".join(_METHODS[provider.name])
        raise InvalidOption(
            f"The summariser {provider.name} needs a client with {method}, not"
            f" {type(client).__name__}.",
            advice="Pass client=, a client of the provider's SDK.",
            name="client",
        )
    if provider is ANTHROPIC:
        return (AsyncAnthropic if _is_async(client) else Anthropic)(client, model=model)
    made = AsyncByModel if _is_async(client) else ByModel
    return made(client, provider, model=model, max_tokens=LONGEST)


_METHODS: Final = {
    "anthropic": ("messages", "stream"),
    "openai": ("chat", "completions", "create"),
    "openai-responses": ("responses", "create"),
    "gemini": ("models", "generate_content"),
}
"""The method of a client that each provider needs."""


def _provider_of(client: Any) -> ModelProvider:
    if _has(client, *_METHODS["anthropic"]):
        return ANTHROPIC
    if _has(client, *_METHODS["openai-responses"]) and _is_openai(client):
        return RESPONSES
    if _has(client, *_METHODS["openai"]):
        return CHAT
    if _has(client, *_METHODS["gemini"]):
        return GEMINI
    if callable(client) and not isinstance(client, type):
        name = getattr(client, "__name__", type(client).__name__)
        return ModelProvider(name, lambda function, put: function(put), lambda _, named: named)
    raise InvalidOption(
        "client must be a client of the SDK of Anthropic, OpenAI or Google, or a function that asks"
        f" a model, not {type(client).__name__}. For anything else, pass a summariser.",
        name="client",
    )


def _has(client: Any, *path: str) -> bool:
    for name in path:
        client = getattr(client, name, None)
    return callable(client)


def _is_async(client: Any) -> bool:
    """True for the SDKs' asynchronous clients, whose methods are plain functions, and functions."""
    names = (kind.__name__ for kind in type(client).__mro__)
    is_called = iscoroutinefunction(client) or iscoroutinefunction(getattr(client, "__call__", 0))  # noqa: B004 - of an object
    return is_called or any(name.startswith("Async") for name in names)


def _is_openai(client: Any) -> bool:
    host = re.match(r"https?://([^/:]+)", str(getattr(client, "base_url", "")))
    return host is not None and host[1].endswith("api.openai.com")


def _is_azure(client: Any) -> bool:
    return any("Azure" in kind.__name__ for kind in type(client).__mro__)


SummariserFactory: TypeAlias = Callable[[str | None, Any], AnySummariser]
"""Takes the name of the model that writes the summary, and the caller's client, or None."""

summarisers: Registry[SummariserFactory] = Registry("roocontext.summarisers")


def summariser_for(name: str, *, model: str | None = None, client: Any = None) -> AnySummariser:
    """Create the summariser with this name; UnknownPlugin if there is none."""
    return summarisers[name](model, client)


class _Sdk(NamedTuple):
    """An SDK: its package and extra, the variable with the key, and how to create a client.

    `create` returns None if there is no key.
    """

    package: str
    extra: str
    key: str
    create: Callable[[], Any]


def _anthropic_client() -> Any:
    import anthropic  # noqa: PLC0415 - an extra, loaded on first use

    client = anthropic.Anthropic()
    return client if client.api_key or client.auth_token or client.credentials else None


def _openai_client() -> Any:
    import openai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return openai.OpenAI()
    except openai.OpenAIError:
        return None


def _gemini_client() -> Any:
    from google import genai  # noqa: PLC0415 - an extra, loaded on first use

    try:
        return genai.Client()
    except ValueError:
        return None


_ANTHROPIC_SDK: Final = _Sdk("anthropic", "anthropic", "ANTHROPIC_API_KEY", _anthropic_client)
_OPENAI_SDK: Final = _Sdk("openai", "openai", "OPENAI_API_KEY", _openai_client)
_GOOGLE_SDK: Final = _Sdk("google-genai", "gemini", "GEMINI_API_KEY", _gemini_client)


def _new_client(summariser: str, sdk: _Sdk) -> Any:
    """Create the client that a summariser asks if none is given to it."""
    try:
        client = sdk.create()
    except ImportError:
        raise InvalidOption(
            f"The summariser {summariser} needs the package {sdk.package}, which is not installed.",
            advice=f"Install the extra: pip install 'roocontext[{sdk.extra}]'.",
            name="summariser",
        ) from None
    if client is None:
        raise InvalidOption(
            f"The summariser {summariser} needs a key.",
            advice=f"Set {sdk.key}, or pass a client.",
            name="summariser",
        )
    return client


def _register(provider: ModelProvider, sdk: _Sdk) -> None:
    def create(model: str | None, client: Any) -> AnySummariser:
        asked = _new_client(provider.name, sdk) if client is None else client
        return summariser_over(asked, model, provider=provider)

    summarisers.register(provider.name, create)


_register(ANTHROPIC, _ANTHROPIC_SDK)
_register(CHAT, _OPENAI_SDK)
_register(RESPONSES, _OPENAI_SDK)
_register(GEMINI, _GOOGLE_SDK)
summarisers.register("extractive", lambda _model, _client: Extractive())
