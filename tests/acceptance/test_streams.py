"""Every object that the SDKs return for a reply is recorded as the same message.

Whole or streamed, from the sync or the async client, as an object or as the dict that it dumps:
the real SDKs ask a server on loopback, which refuses what the provider refuses.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from roocontext import Session, Store
from support.fake_models import ANSWER, ModelsServer

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
# Strict, because the oldest SDK of OpenAI streams no other tools.
TOOLS = [{"name": "run", "description": "Run it.", "strict": True, "input_schema": SCHEMA}]
SONNET = {"model": "m", "max_tokens": 99}


def claude(request: Any) -> Any:
    with anthropic.Anthropic() as client:
        return client.messages.create(**SONNET, **request)


def claude_streamed(request: Any) -> Any:
    with (
        anthropic.Anthropic() as client,
        client.messages.stream(**SONNET, **request) as stream,
    ):
        return stream.get_final_message()


def claude_events(request: Any) -> Any:
    with anthropic.Anthropic() as client:
        return list(client.messages.create(**SONNET, stream=True, **request))


def claude_helpers_events(request: Any) -> Any:
    with (
        anthropic.Anthropic() as client,
        client.messages.stream(**SONNET, **request) as stream,
    ):
        return list(stream)


async def claude_async(request: Any) -> Any:
    async with anthropic.AsyncAnthropic() as client:
        return await client.messages.create(**SONNET, **request)


async def claude_async_streamed(request: Any) -> Any:
    async with (
        anthropic.AsyncAnthropic() as client,
        client.messages.stream(**SONNET, **request) as stream,
    ):
        return await stream.get_final_message()


def chat(request: Any) -> Any:
    with openai.OpenAI() as client:
        return client.chat.completions.create(model="m", **request)


def chat_streamed(request: Any) -> Any:
    with openai.OpenAI() as client, client.chat.completions.stream(model="m", **request) as stream:
        return stream.get_final_completion()


def chat_chunks(request: Any) -> Any:
    usage: Any = {"include_usage": True}
    with openai.OpenAI() as client:
        chunks = client.chat.completions.create(
            model="m", stream=True, stream_options=usage, **request
        )
        return list(chunks)


def chat_helpers_events(request: Any) -> Any:
    with openai.OpenAI() as client, client.chat.completions.stream(model="m", **request) as stream:
        return list(stream)


async def chat_async(request: Any) -> Any:
    async with openai.AsyncOpenAI() as client:
        return await client.chat.completions.create(model="m", **request)


async def chat_async_streamed(request: Any) -> Any:
    async with (
        openai.AsyncOpenAI() as client,
        client.chat.completions.stream(model="m", **request) as stream,
    ):
        return await stream.get_final_completion()


def responses(request: Any) -> Any:
    with openai.OpenAI() as client:
        return client.responses.create(model="m", **request)


def responses_streamed(request: Any) -> Any:
    with openai.OpenAI() as client, client.responses.stream(model="m", **request) as stream:
        return stream.get_final_response()


def responses_last_event(request: Any) -> Any:
    with openai.OpenAI() as client:
        *_, last = client.responses.create(model="m", stream=True, **request)
        return last.response


def responses_events(request: Any) -> Any:
    with openai.OpenAI() as client:
        return list(client.responses.create(model="m", stream=True, **request))


def responses_helpers_events(request: Any) -> Any:
    with openai.OpenAI() as client, client.responses.stream(model="m", **request) as stream:
        return list(stream)


async def responses_async(request: Any) -> Any:
    async with openai.AsyncOpenAI() as client:
        return await client.responses.create(model="m", **request)


async def responses_async_streamed(request: Any) -> Any:
    async with (
        openai.AsyncOpenAI() as client,
        client.responses.stream(model="m", **request) as stream,
    ):
        return await stream.get_final_response()


def gemini(request: Any) -> Any:
    with genai.Client() as client:
        return client.models.generate_content(model="m", **request)


def gemini_streamed(request: Any) -> Any:
    with genai.Client() as client:
        return list(client.models.generate_content_stream(model="m", **request))


async def gemini_async(request: Any) -> Any:
    async with genai.Client().aio as client:
        return await client.models.generate_content(model="m", **request)


async def gemini_async_streamed(request: Any) -> Any:
    async with genai.Client().aio as client:
        stream = await client.models.generate_content_stream(model="m", **request)
        return [chunk async for chunk in stream]


def dumped(ask: Callable[[Any], Any], **options: Any) -> Callable[[Any], Any]:
    """The plain data of a reply."""
    return lambda request: ask(request).model_dump(mode="json", **options)


ASKED = {
    "anthropic": [
        claude,
        claude_streamed,
        claude_events,
        claude_helpers_events,
        claude_async,
        claude_async_streamed,
        dumped(claude, exclude_unset=True),
    ],
    "openai": [
        chat,
        chat_streamed,
        chat_chunks,
        chat_helpers_events,
        chat_async,
        chat_async_streamed,
        dumped(chat, exclude_unset=True),
    ],
    "openai-responses": [
        responses,
        responses_streamed,
        responses_last_event,
        responses_events,
        responses_helpers_events,
        responses_async,
        responses_async_streamed,
        dumped(responses, exclude_unset=True),
    ],
    "gemini": [
        gemini,
        gemini_streamed,
        gemini_async,
        gemini_async_streamed,
        dumped(gemini, by_alias=True, exclude_none=True),
    ],
}


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
def test_reply_is_recorded_alike_however_it_came(models: ModelsServer, form: str) -> None:
    with Store.open(":memory:") as store:
        recorded = []
        for ask in ASKED[form]:
            models.asked.clear()
            session = store.create()
            loop(session, form, ask)
            assert ANSWER in str(session.view().messages[-1].content)
            entries = [one.entry for one in session.audit() if one.entry.model]
            recorded.append(
                [
                    (
                        *(it.role, it.content, it.usage, it.message_id),
                        {k: it.extra["roocontext"].get(k) for k in ("id", "stop_reason")},
                    )
                    for it in entries
                ]
            )
        for one in recorded[1:]:
            assert one == recorded[0]
        assert len(recorded[0]) == 2


ORPHANS = {
    "anthropic": (claude, {"type": "tool_result", "tool_use_id": "t1", "content": ""}),
    "openai": (chat, {"role": "tool", "tool_call_id": "t1", "content": ""}),
    "openai-responses": (
        responses,
        {"type": "function_call_output", "call_id": "t1", "output": ""},
    ),
    "gemini": (gemini, {"functionResponse": {"name": "run", "response": {}}}),
}
ITEMS = {"openai-responses": "input", "gemini": "contents"}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("form", ORPHANS)
def test_server_refuses_what_the_provider_refuses(form: str) -> None:
    """An answer to no call, and a tool whose name is not allowed."""
    ask, orphan = ORPHANS[form]
    with Store.open(":memory:") as store:
        session = store.create()
        session.append("user", "Which files are there?")
        ask(session.request(form, tools=TOOLS))
        request = dict(session.request(form))
    key = ITEMS.get(form, "messages")
    held = {"anthropic": "content", "gemini": "parts"}.get(form)
    wrong = {"role": "user", held: [orphan]} if held else orphan
    named = json.loads(json.dumps(request).replace('"run"', '"r n"'))
    for broken in ({**request, key: [wrong]}, named):
        with pytest.raises(
            (anthropic.APIStatusError, openai.APIStatusError, genai.errors.APIError)
        ):
            ask(broken)
