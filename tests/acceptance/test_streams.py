"""Every object that the SDKs return for a reply is recorded as the same message.

Whole or streamed, from the sync or the async client, as an object or as the dict that it dumps:
the real SDKs ask a server on loopback, which refuses what the provider refuses.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from roocontext import Session, Store
from support.fake_models import ANSWER

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
# Strict, because the oldest SDK of OpenAI streams no other tools.
TOOLS = [{"name": "run", "description": "Run it.", "strict": True, "input_schema": SCHEMA}]


Request = Any
CLIENTS: dict[str, tuple[Any, Any]] = {
    "anthropic": (anthropic.Anthropic, anthropic.AsyncAnthropic),
    "openai": (openai.OpenAI, openai.AsyncOpenAI),
    "openai-responses": (openai.OpenAI, openai.AsyncOpenAI),
}
RESOURCES: dict[str, Callable[[Any], Any]] = {
    "anthropic": lambda client: client.messages,
    "openai": lambda client: client.chat.completions,
    "openai-responses": lambda client: client.responses,
}
OPTIONS: dict[str, dict[str, Any]] = {"anthropic": {"model": "m", "max_tokens": 99}}
STREAMED: dict[str, dict[str, Any]] = {"openai": {"stream_options": {"include_usage": True}}}
WHOLE = {
    "anthropic": "get_final_message",
    "openai": "get_final_completion",
    "openai-responses": "get_final_response",
}


def given(form: str, request: Request, **more: Any) -> dict[str, Any]:
    return {**OPTIONS.get(form, {"model": "m"}), **request, **more}


def whole(form: str, request: Request) -> Any:
    with CLIENTS[form][0]() as client:
        return RESOURCES[form](client).create(**given(form, request))


def events(form: str, request: Request) -> Any:
    with CLIENTS[form][0]() as client:
        asked = given(form, request, stream=True, **STREAMED.get(form, {}))
        return list(RESOURCES[form](client).create(**asked))


def streamed(form: str, request: Request, *, as_events: bool = False) -> Any:
    with (
        CLIENTS[form][0]() as client,
        RESOURCES[form](client).stream(**given(form, request)) as stream,
    ):
        return list(stream) if as_events else getattr(stream, WHOLE[form])()


async def whole_async(form: str, request: Request) -> Any:
    async with CLIENTS[form][1]() as client:
        return await RESOURCES[form](client).create(**given(form, request))


async def streamed_async(form: str, request: Request) -> Any:
    async with (
        CLIENTS[form][1]() as client,
        RESOURCES[form](client).stream(**given(form, request)) as stream,
    ):
        return await getattr(stream, WHOLE[form])()


def gemini(request: Request) -> Any:
    with genai.Client() as client:
        return client.models.generate_content(model="m", **request)


def gemini_streamed(request: Request) -> Any:
    with genai.Client() as client:
        return list(client.models.generate_content_stream(model="m", **request))


async def gemini_async(request: Request) -> Any:
    async with genai.Client().aio as client:
        return await client.models.generate_content(model="m", **request)


async def gemini_async_streamed(request: Request) -> Any:
    async with genai.Client().aio as client:
        stream = await client.models.generate_content_stream(model="m", **request)
        return [chunk async for chunk in stream]


def dumped(ask: Callable[[Any], Any], **options: Any) -> Callable[[Any], Any]:
    return lambda request: ask(request).model_dump(mode="json", **options)


WAYS = [whole, streamed, events, partial(streamed, as_events=True), whole_async, streamed_async]
ASKED: dict[str, list[Callable[[Any], Any]]] = {
    form: [*(partial(way, form) for way in WAYS), dumped(partial(whole, form), exclude_unset=True)]
    for form in CLIENTS
}
ASKED["openai-responses"].append(lambda request: events("openai-responses", request)[-1].response)
ASKED["gemini"] = [gemini, gemini_streamed, gemini_async, gemini_async_streamed]
ASKED["gemini"].append(dumped(gemini, by_alias=True, exclude_none=True))


def loop(session: Session, form: str, ask: Callable[[Any], Any]) -> None:
    session.append("user", "Which files are there?")
    while (turn := session.waits_for()) != "user":
        if turn == "tools":
            for call in session.pending():
                assert (call.name, call.input) == ("run", {"command": "ls"})
                session.answer(call, "parser.py")
            continue
        request = session.request(form, tools=TOOLS)
        assert request.repairs == ()
        reply = ask(request)
        session.record(asyncio.run(reply) if asyncio.iscoroutine(reply) else reply, request)


@pytest.mark.parametrize("form", ASKED)
def test_reply_is_recorded_alike_however_it_came(models, form):
    with Store.open(":memory:") as store:
        recorded = []
        for ask in ASKED[form]:
            models.asked.clear()
            session = store.create()
            loop(session, form, ask)
            assert ANSWER in str(session.view().messages[-1].content)
            entries = [one.entry for one in session.audit() if one.entry.model]
            kept = [it.extra["roocontext"] for it in entries]
            ends = [[one.get(name) for name in ("id", "stop_reason")] for one in kept]
            said = [(it.role, it.content, it.usage, it.message_id) for it in entries]
            recorded.append([*zip(said, ends, strict=True)])
        for one in recorded[1:]:
            assert one == recorded[0]
        assert len(recorded[0]) == 2
