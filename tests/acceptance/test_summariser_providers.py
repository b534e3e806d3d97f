"""Summaries by OpenAI, Gemini and functions, through the real SDKs and a server on loopback."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from roocontext import ContextManager, Store
from roocontext.errors import InvalidOption, SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers import (
    Anthropic,
    AsyncAnthropic,
    AsyncByModel,
    ByModel,
    ModelPrices,
    ModelQuestion,
    summariser_for,
    summariser_over,
)
from support.fake_models import ModelsServer
from support.replies import WIRE, chat_completion, gemini_response, gpt, output_text

SHORT = [{"role": "user", "content": "Why is the last token lost?"}]
LONG = [
    {"role": ("user", "assistant")[n % 2], "content": f"<<{n}>> " + "word " * 400}
    for n in range(20)
]


STOPPED = {"full": ("length", "max_output_tokens"), "refused": ("content_filter",) * 2}


def said(path: str, text: str, stopped: str = "done") -> dict[str, Any]:
    """A reply in the shape of the API at this path."""
    chat_reason, reason = STOPPED.get(stopped, ("stop", None))
    if path.endswith("/chat/completions"):
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
        return chat_completion(text, finish_reason=chat_reason, model="writer", usage=usage)
    if path.endswith("/responses"):
        usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
        fields = WIRE | {"usage": usage | {"input_tokens_details": {"cached_tokens": 0}}}
        if reason:
            fields |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        return gpt(output_text(text), model="writer", **fields)
    reason = {"done": "STOP", "full": "MAX_TOKENS", "refused": "SAFETY"}[stopped]
    part = {"text": text}
    return gemini_response(part, finish_reason=reason, model="writer", tokens=(100, 7))


def refused(status: int, message: str) -> dict[str, Any]:
    words = {429: "RESOURCE_EXHAUSTED", 400: "INVALID_ARGUMENT"}.get(status, "INTERNAL")
    kind = "invalid_request_error" if status == 400 else "server_error"
    return {"error": {"code": status, "message": message, "status": words, "type": kind}}


class SummaryServer(ModelsServer):
    """Checks requests as the providers do; answers by script, and then with a summary."""

    def __init__(self, *script: Any, window: int | None = None) -> None:
        super().__init__()
        self.script = list(script)
        self.window = window
        self.tried = 0

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | str]:
        self.tried += 1
        status, checked = super().answer(path, body)
        if status != 200:
            return status, checked
        tokens = len(str(body)) // 4
        if self.window is not None and tokens > self.window:
            text = f"maximum context length is {self.window} tokens. You requested {tokens} tokens."
            return 400, refused(400, f"This model's {text}")
        step = self.script.pop(0) if self.script else "done"
        if isinstance(step, int):
            return step, refused(step, "No.")
        if isinstance(step, float):
            time.sleep(step)
            step = "done"
        is_empty = step == "empty"
        stopped = "done" if is_empty else step
        return 200, said(path.partition("?")[0], "" if is_empty else "A summary.", stopped)


@pytest.fixture
def serve() -> Iterator[Any]:
    with ExitStack() as running:
        yield lambda *script, **options: running.enter_context(SummaryServer(*script, **options))


def client_of(provider: str, server: SummaryServer, timeout: float = 20.0, kind: Any = None) -> Any:
    """A client of this provider's SDK, of the synchronous kind unless told otherwise."""
    if provider == "gemini":
        http = types.HttpOptions(base_url=server.url, timeout=int(timeout * 1000))
        return genai.Client(api_key="none", http_options=http)
    url = f"{server.url}/v1"
    return (kind or openai.OpenAI)(api_key="none", base_url=url, max_retries=0, timeout=timeout)


@pytest.fixture(params=["openai", "openai-responses", "gemini"])
def provider(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["sync", "async"])
def summarise(request: pytest.FixtureRequest, provider: str) -> Any:
    """Ask the server through the provider's SDK."""

    def with_sync(server, asked, timeout, **settings):
        client = client_of(provider, server, timeout)
        made = summariser_for(provider, client=client)
        assert isinstance(made, ByModel)
        return ByModel(client, made.provider, **settings).summarise(asked)

    def with_async(server, asked, timeout, **settings):
        async def ask() -> Summary:
            client = client_of(provider, server, timeout, openai.AsyncOpenAI)
            client = client.aio if provider == "gemini" else client
            made = summariser_for(provider, client=client)
            assert isinstance(made, AsyncByModel)
            return await AsyncByModel(client, made.provider, **settings).summarise(asked)

        return asyncio.run(ask())

    chosen = with_sync if request.param == "sync" else with_async

    def ask(server, asked=None, timeout=20.0, **settings):
        return chosen(server, asked or request_of(), timeout, **{"model": "gemini-x", **settings})

    return ask


def request_of(messages: Any = SHORT, **options: Any) -> SummaryRequest:
    return SummaryRequest(messages=messages, **options)


def test_summary_has_its_cost(serve, summarise, provider):
    server = serve()
    summary = summarise(server, prices=ModelPrices(10.0, 100.0), max_tokens=77)
    assert summary == Summary(
        text="A summary.",
        summariser=provider,
        model="writer",
        calls=1,
        input_tokens=100,
        output_tokens=7,
        cost=0.0017,
    )
    (asked,) = server.asked
    assert "77" in str(asked.body)
    assert "tools" not in asked.body
    assert "Why is the last token lost?" in str(asked.body)


@pytest.mark.parametrize(
    ("step", "kind", "status"),
    [
        ("empty", "empty", None),
        ("full", "max_tokens", None),
        ("refused", "refusal", None),
        (429, "rate_limit", 429),
        (401, "authentication", 401),
    ],
)
def test_failure_is_typed_and_has_its_numbers(serve, summarise, provider, step, kind, status):
    server = serve(step)
    with pytest.raises(SummaryFailed) as failed:
        summarise(server)
    assert (failed.value.kind, failed.value.status) == (kind, status)
    assert failed.value.summariser == provider
    assert failed.value.calls == 1
    assert failed.value.input_tokens == (100 if status is None else 0)
    assert (failed.value.__cause__ is None) == (status is None)
    assert "token lost" not in str(failed.value)


def test_call_that_takes_too_long_is_a_timeout(serve, summarise):
    with pytest.raises(SummaryFailed) as failed:
        summarise(serve(1.5), timeout=0.5)
    assert failed.value.kind == "timeout"


def test_conversation_that_is_too_long_is_summarised_in_pieces(serve, summarise):
    server = serve(window=4_000)
    summary = summarise(server, request_of(LONG))
    assert summary.text == "A summary."
    assert summary.calls == server.tried > 3
    pieces = [str(asked.body) for asked in server.asked[1:]]
    for n in range(20):
        assert sum(f"<<{n}>>" in piece for piece in pieces) == 1


def test_longest_answer_is_that_of_the_model(serve):
    server = serve()
    client = client_of("openai", server)
    summariser_over(client, "gpt-4-turbo").summarise(request_of())
    assert server.asked[0].body["max_tokens"] == 4_096


def test_provider_follows_from_the_client():
    keys = {"api_key": "none"}
    azure = {"api_version": "2026-01-01", "azure_endpoint": "https://a.openai.azure.com"}
    vertex = {"region": "r", "project_id": "p", "access_token": "t"}
    for client, kind, name in [
        (openai.OpenAI(**keys), ByModel, "openai-responses"),
        (openai.AsyncOpenAI(**keys), AsyncByModel, "openai-responses"),
        (openai.OpenAI(**keys, base_url="http://localhost:1/v1"), ByModel, "openai"),
        (openai.AzureOpenAI(**keys, **azure), ByModel, "openai"),
        (openai.AsyncAzureOpenAI(**keys, **azure), AsyncByModel, "openai"),
        (genai.Client(**keys), ByModel, "gemini"),
        (genai.Client(**keys).aio, AsyncByModel, "gemini"),
        (anthropic.AsyncAnthropic(**keys), AsyncAnthropic, "anthropic"),
        (anthropic.AsyncAnthropicVertex(**vertex), AsyncAnthropic, "anthropic"),
        (lambda question: "x", ByModel, "<lambda>"),
    ]:
        made = summariser_over(client)
        assert type(made) is kind
        assert made.name == name


def test_function_is_asked_with_pieces_and_may_return_a_reply():
    asked: list[ModelQuestion] = []

    def my_model(question: ModelQuestion) -> Any:
        asked.append(question)
        if len(question.text) > 12_000:
            raise RuntimeError("The prompt is too long: 9000 tokens > 3000 maximum")
        return said("/chat/completions", "A summary.")

    summary = summariser_over(my_model, "m").summarise(request_of(LONG))
    assert (summary.text, summary.summariser, summary.model) == ("A summary.", "my_model", "writer")
    assert summary.calls == len(asked) > 2
    assert summary.input_tokens == 100 * (len(asked) - 1)

    async def later(question: ModelQuestion) -> str:
        return f"By {question.model}."

    made = summariser_over(later)
    assert asyncio.run(made.summarise(request_of(model="big"))).text == "By big."


def test_model_without_a_name_is_refused_before_it_is_asked(serve):
    server = serve()
    made = summariser_over(client_of("openai", server))
    with pytest.raises(SummaryFailed, match="name the model") as failed:
        made.summarise(request_of())
    assert (failed.value.kind, server.tried) == ("no_model", 0)


@pytest.mark.parametrize("client", [object(), 5, dict, {}])
def test_other_clients_are_refused(client):
    with pytest.raises(InvalidOption, match="a function that asks a model"):
        summariser_over(client)
    with pytest.raises(InvalidOption, match="client="):
        summariser_for("openai", client=object())


KEYS = [
    *("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
]


@pytest.mark.parametrize(
    ("name", "address", "key"),
    [
        ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    ],
)
def test_summariser_without_a_client_makes_its_own(serve, monkeypatch, name, address, key):
    server = serve("done")
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InvalidOption, match=key):
        summariser_for(name)
    monkeypatch.setenv(key, "none")
    monkeypatch.setenv(address, server.url + ("/v1" if address.startswith("OPENAI") else ""))
    made = summariser_for(name, model="my-model")
    assert isinstance(made, Anthropic if name == "anthropic" else ByModel)
    if name != "anthropic":  # which this server does not speak
        assert made.summarise(SummaryRequest(messages=SHORT)).summariser == name
    made.client.close()


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("openai", "openai", "openai"),
        ("openai-responses", "openai", "openai"),
        ("gemini", "google.genai", "gemini"),
        ("anthropic", "anthropic", "anthropic"),
    ],
)
def test_missing_sdk_is_named_with_the_extra(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delattr("google.genai", raising=False)
    with pytest.raises(InvalidOption, match=rf"roocontext\[{extra}\]"):
        summariser_for(name)


def test_manager_uses_the_client_and_extracts_if_it_fails(serve):
    server = serve("done", "refused")
    client = client_of("openai", server)
    with Store.open(":memory:") as store:
        chat = store.create()
        for number in range(60):
            role = ("user", "assistant")[number % 2]
            chat.append(role, f"{number} " + "word " * 100)
        context = ContextManager("my-model", client=client, limit=100_000)
        assert context.condense(chat).summary_model == "writer"
        for number in range(40):
            chat.append(("user", "assistant")[number % 2], f"{number} " + "word " * 100)
        assert context.condense(chat).summary_model is None
    assert server.asked[0].body["model"] == "my-model"
