"""Summaries by the models of OpenAI, of servers with its API, of Google, or by any function.

The provider follows from the methods of the client, so that clients of gateways, of clouds and of
instrumentation work like the SDKs' own.
"""

import re
from inspect import iscoroutinefunction
from typing import Any, Final

from roocontext.errors import InvalidOption
from roocontext.summarisers import anthropic
from roocontext.summarisers.by_model import (
    AsyncByModel,
    ByModel,
    ModelProvider,
    ModelQuestion,
)
from roocontext.summarisers.protocol import AnySummariser

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
        if _has(client, "messages", "stream"):
            return anthropic.over(client, model)
        provider = _provider_of(client)
    elif not _has(client, *_METHODS[provider.name]):
        method = ".".join(_METHODS[provider.name])
        raise InvalidOption(
            f"The summariser {provider.name} needs a client with {method}, not"
            f" {type(client).__name__}.",
            advice="Pass client=, a client of the provider's SDK.",
            name="client",
        )
    made = AsyncByModel if _is_async(client) else ByModel
    return made(client, provider, model=model, max_tokens=LONGEST)


_METHODS: Final = {
    "openai": ("chat", "completions", "create"),
    "openai-responses": ("responses", "create"),
    "gemini": ("models", "generate_content"),
}
"""The method of a client that each provider needs."""


def _provider_of(client: Any) -> ModelProvider:
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
