"""A streamed reply is recorded by its final object as the same reply is that came at once."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from roocontext import Store
from support.fake_models import ANSWER, ModelsServer

TOOLS = [{"name": "run", "description": "Run it.", "input_schema": {"type": "object"}}]


def claude(request: Any) -> Any:
    with (
        anthropic.Anthropic() as client,
        client.messages.stream(model="m", max_tokens=99, **request) as stream,
    ):
        return stream.get_final_message()


def chat_completions(request: Any) -> Any:
    with openai.OpenAI() as client, client.chat.completions.stream(model="m", **request) as stream:
        return stream.get_final_completion()


def responses(request: Any) -> Any:
    with openai.OpenAI() as client, client.responses.stream(model="m", **request) as stream:
        return stream.get_final_response()


def gemini(request: Any) -> Any:
    with genai.Client() as client:
        return list(client.models.generate_content_stream(model="m", **request))


def at_once(form: str, request: Any) -> Any:
    match form:
        case "anthropic":
            with anthropic.Anthropic() as claude:
                return claude.messages.create(model="m", max_tokens=99, **request)
        case "gemini":
            with genai.Client() as google:
                return google.models.generate_content(model="m", **request)
    with openai.OpenAI() as gpt:
        if form == "openai":
            return gpt.chat.completions.create(model="m", **request)
        return gpt.responses.create(model="m", **request)


STREAMS = {
    "anthropic": claude,
    "openai": chat_completions,
    "openai-responses": responses,
    "gemini": gemini,
}


@pytest.mark.parametrize(("form", "stream"), STREAMS.items(), ids=STREAMS)
def test_a_stream_is_recorded_like_a_whole_reply(
    models: ModelsServer, form: str, stream: Callable[[Any], Any]
) -> None:
    with Store.open(":memory:") as store:
        rows = []
        for ask in (stream, lambda request: at_once(form, request)):
            models.asked.clear()
            chat = store.create()
            chat.append("user", "Which files are there?")
            while (turn := chat.waits_for()) != "user":
                if turn == "tools":
                    for call in chat.pending():
                        assert (call.name, call.input) == ("run", {"command": "ls"})
                        chat.answer(call, "parser.py")
                    continue
                request = chat.request(form, tools=TOOLS)
                assert request.repairs == ()
                chat.record(ask(request), request)
            assert ANSWER in str(chat.view().messages[-1].content)
            entries = [one.entry for one in chat.audit() if one.entry.model]
            rows.append(
                [
                    (it.role, it.content, it.usage, it.message_id, it.extra["roocontext"]["id"])
                    for it in entries
                ]
            )
        assert rows[0] == rows[1]
        assert len(rows[0]) == 2
