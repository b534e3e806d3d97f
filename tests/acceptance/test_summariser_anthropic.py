"""Summaries by a model, through the real SDK and a server that speaks its protocol on loopback."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from roocontext.errors import SummaryFailed
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers import Anthropic, AsyncAnthropic, ModelPrices
from support.fake_provider import (
    BLANK,
    EMPTY,
    FULL,
    REFUSAL,
    Answer,
    Broken,
    Half,
    Hang,
    ModelServer,
    Refused,
    overloaded,
    rate_limited,
)

SHORT = [{"role": "user", "content": "Why is the last token lost?"}]

Summarise = Callable[..., Summary]


@pytest.fixture(params=["sync", "async"])
def summarise(request: pytest.FixtureRequest) -> Summarise:
    """Ask the server through one of the two clients."""

    def with_sync(server: ModelServer, asked: SummaryRequest, retries: int = 0, **settings: Any):
        client = server.client(max_retries=retries, timeout=settings.pop("timeout", 20))
        return Anthropic(client, **settings).summarise(asked)

    def with_async(server: ModelServer, asked: SummaryRequest, retries: int = 0, **settings: Any):
        async def ask() -> Summary:
            timeout = settings.pop("timeout", 20)
            async with server.async_client(max_retries=retries, timeout=timeout) as client:
                return await AsyncAnthropic(client, **settings).summarise(asked)

        return asyncio.run(ask())

    return with_sync if request.param == "sync" else with_async


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    with ExitStack() as running:
        yield lambda *script, **options: running.enter_context(ModelServer(*script, **options))


def request_of(messages: Any = SHORT, **options: Any) -> SummaryRequest:
    return SummaryRequest(messages=messages, **options)


def failure(summarise: Summarise, server: ModelServer, **options: Any) -> SummaryFailed:
    with pytest.raises(SummaryFailed) as failed:
        summarise(server, request_of(), **options)
    assert "token lost" not in str(failed.value)
    return failed.value


def test_summary_has_its_cost(serve, summarise):
    server = serve(Answer("Line 6 was mended.", input_tokens=2_000, output_tokens=500))
    settings = {"model": "claude-x", "max_tokens": 77, "prompt": "Be brief."}
    summary = summarise(server, request_of(), prices=ModelPrices(1.0, 4.0), **settings)
    assert summary == Summary(
        text="Line 6 was mended.",
        summariser="anthropic",
        model="claude-x",
        calls=1,
        input_tokens=2_000,
        output_tokens=500,
        cost=0.004,
    )
    (asked,) = (request.body for request in server.requests)
    assert (asked["stream"], asked["max_tokens"], asked["system"]) == (True, 77, "Be brief.")
    assert not {"tools", "tool_choice"} & {*asked}


def test_cheaper_model_is_asked_unless_one_is_named(serve, summarise):
    server = serve()
    for model, settings, asked in (
        (None, {}, "claude-haiku-4-5"),
        ("chat-compression-2.5-pro", {}, "claude-haiku-4-5"),
        ("claude-opus-5", {}, "claude-opus-5"),
        ("anthropic/claude-opus-5", {}, "claude-opus-5"),
        ("us.anthropic.claude-opus-4-6-v1:0", {}, "us.anthropic.claude-opus-4-6-v1:0"),
        ("claude-opus-5", {"model": "my-claude"}, "my-claude"),
    ):
        summarise(server, request_of(model=model), **settings)
        assert server.requests[-1].body["model"] == asked


@pytest.mark.parametrize(
    ("reply", "kind", "status"),
    [
        (EMPTY, "empty", None),
        (BLANK, "empty", None),
        (Answer("<scratchpad>thought</scratchpad>\n"), "empty", None),
        (REFUSAL, "refusal", None),
        (FULL, "max_tokens", None),
        (Answer("x", stop_reason="pause_turn"), "pause_turn", None),
        (Half(), "cut", None),
        (Half(rude=False), "cut", None),
        (Broken(), "overloaded", 200),
        (Broken("api_error", "Internal"), "api", 200),
        (rate_limited(), "rate_limit", 429),
        (overloaded(), "overloaded", 529),
        (Refused(401, "authentication_error"), "authentication", 401),
        (Refused(400, "invalid_request_error", "max_tokens: too large"), "invalid_request", 400),
    ],
)
def test_every_failure_is_typed_and_has_its_numbers(serve, summarise, reply, kind, status):
    server = serve(reply)
    failed = failure(summarise, server)
    assert (failed.kind, failed.status, failed.summariser) == (kind, status, "anthropic")
    assert failed.calls == 1
    assert len(server.requests) == 1
    begun = isinstance(reply, Answer | Half | Broken)
    assert (failed.input_tokens > 0) is begun
    assert failed.cost is None
    by_the_sdk = status is not None or reply == Half()
    assert (failed.__cause__ is not None) is by_the_sdk


def test_hanging_reply_ends_with_the_clients_timeout(serve, summarise):
    for reply in (Hang(), Hang(begun=True)):
        server = serve(reply)
        assert failure(summarise, server, timeout=0.2).kind == "timeout"
        server.wait_for(1)
        assert server.requests[0].left.wait(20)


def test_missing_server_is_a_typed_failure(serve, summarise):
    server = serve()
    server.__exit__()
    failed = failure(summarise, server)
    assert (failed.kind, failed.calls, failed.input_tokens) == ("connection", 1, 0)


def test_transient_errors_are_retried_by_the_client(serve, summarise):
    server = serve(rate_limited(), overloaded(), Answer("At last."))
    assert summarise(server, request_of(), retries=2).text == "At last."
    assert len(server.requests) == 3


def test_prompt_that_is_too_long_is_summarised_in_pieces(serve, summarise):
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"<<{n}>> " + "word " * 400}
        for n in range(20)
    ]
    answer = Answer("Of this part.", input_tokens=100, output_tokens=7)
    server = serve(window=4_000, otherwise=answer)
    summary = summarise(server, request_of(messages, previous="Earlier: the goal."))
    asked = server.requests[1:]
    assert summary.calls == len(server.requests)
    assert summary.output_tokens == 7 * len(asked)
    assert summary.input_tokens == 100 * len(asked)
    for n in range(20):
        assert sum(f"<<{n}>>" in piece.text for piece in asked) == 1
    assert all(f"part {n} of it" in piece.text for n, piece in enumerate(asked[:-1], 1))
    merging = asked[-1].text
    assert "[part 1]\nOf this part.\n\n[part 2]\nOf this part." in merging
    assert "Earlier: the goal." in merging
    assert not any("Earlier: the goal." in piece.text for piece in asked[:-1])


def test_window_that_is_full_while_answering_is_too_small(serve, summarise):
    messages = [{"role": "user", "content": "word " * 4_000} for _ in range(4)]
    server = serve(Answer("half", stop_reason="model_context_window_exceeded"))
    summary = summarise(server, request_of(messages))
    assert summary.text == "A summary."
    assert len(server.requests) > 2


def test_cost_of_earlier_pieces_is_in_a_later_failure(serve, summarise):
    messages = [{"role": "user", "content": "word " * 400} for _ in range(20)]
    part = Answer("A part.", input_tokens=100, output_tokens=10)
    server = serve(part, part, Broken())
    with pytest.raises(SummaryFailed) as failed:
        summarise(server, request_of(messages), fits=4_000, prices=ModelPrices(1.0, 1.0))
    assert failed.value.calls == 3
    assert failed.value.output_tokens == 21
    assert failed.value.cost > 0.0002


def test_cancelling_ends_the_call_and_is_passed_on(serve):
    server = serve(Hang(), Hang(begun=True))

    async def cancel(number: int) -> None:
        async with server.async_client() as client:
            task = asyncio.create_task(AsyncAnthropic(client).summarise(request_of()))
            await asyncio.to_thread(server.wait_for, number)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    for number in (1, 2):
        asyncio.run(cancel(number))
        assert server.requests[number - 1].left.wait(20)


def test_sdk_is_not_loaded_before_it_is_used():
    program = (
        "import sys, roocontext.summarisers as s;"
        "s.summariser_for('extractive');"
        "assert 'anthropic' not in sys.modules and 'httpx2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
