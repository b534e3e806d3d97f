"""Replies of every SDK become one message, with the extra data that the log keeps."""

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as genai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from roocontext.errors import InvalidIdentifier, InvalidMessage
from roocontext.log.readings import reader
from roocontext.log.replies import Reply, read_reply
from support.sdk_replies import ANTHROPIC, CHAT, ITEMS, RESPONSE

CALL = CHAT["choices"][0]["message"]["tool_calls"][0]
PARTS = [{"functionCall": {"name": "run", "args": {}}, "thoughtSignature": "c2ln"}]
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}],
    "modelVersion": "gemini-x",
    "responseId": "r1",
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
}

READ = {
    "anthropic": Reply(
        *("anthropic", "assistant", ANTHROPIC["content"], "claude-x", ANTHROPIC["usage"]),
        *("msg_1", "tool_use"),
    ),
    "chat": Reply(
        *("openai", "assistant", CHAT["choices"][0]["message"], "gpt-x", CHAT["usage"]),
        *("chatcmpl-1", "tool_calls"),
    ),
    "response": Reply(
        *("openai-responses", "assistant", ITEMS, "gpt-y", RESPONSE["usage"]),
        *("resp_1", "completed"),
    ),
    "gemini": Reply(
        *("gemini", "model", GEMINI["candidates"][0]["content"], "gemini-x"),
        *(GEMINI["usageMetadata"], "r1", "STOP"),
    ),
}
DICTS = {"anthropic": ANTHROPIC, "chat": CHAT, "response": RESPONSE, "gemini": GEMINI}
MODELS = {
    "anthropic": AnthropicMessage,
    "chat": ChatCompletion,
    "response": Response,
    "gemini": genai.GenerateContentResponse,
}


@pytest.mark.parametrize("name", DICTS)
@pytest.mark.parametrize("as_object", [True, False])
def test_reply_is_read_from_the_object_and_from_a_dict_alike(name, as_object):
    given = MODELS[name].model_validate(DICTS[name]) if as_object else DICTS[name]
    read = read_reply(given)
    assert read == READ[name]
    reader(read.format).check(read.role, read.content)
    assert read.kept() == {"id": read.id, "stop_reason": read.stop_reason}


def test_request_id_of_the_sdk_is_kept():
    reply = AnthropicMessage.model_validate(ANTHROPIC)
    reply._request_id = "req_1"
    assert read_reply(reply).kept()["request_id"] == "req_1"


def test_geminis_names_in_python_are_read_too():
    content = {"role": "model", "parts": [{"text": "so"}]}
    read = read_reply(
        {
            "candidates": [{"content": content, "finish_reason": "STOP"}],
            "model_version": "gemini-x",
            "response_id": "r1",
            "usage_metadata": {"prompt_token_count": 3},
        }
    )
    told = (read.model, read.id, read.stop_reason, read.usage)
    assert told == ("gemini-x", "r1", "STOP", {"prompt_token_count": 3})


def chunk(*parts, **fields):
    content = {"role": "model", "parts": list(parts)} if parts else None
    candidate = {"content": content, **fields}
    return genai.GenerateContentResponse.model_validate(
        {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}
    )


def test_chunks_of_a_streamed_reply_of_gemini_are_joined():
    chunks = [
        chunk({"text": "let me ", "thought": True}),
        chunk({"text": "see", "thought": True}),
        chunk({"text": "one "}),
        chunk({"text": "two"}),
        chunk({"text": "", "thoughtSignature": "c2ln"}),
        chunk(PARTS[0]),
        chunk(finishReason="STOP"),
    ]
    read = read_reply(chunks)
    assert read.content["parts"] == [
        {"text": "let me see", "thought": True},
        {"text": "one two"},
        {"text": "", "thoughtSignature": "c2ln"},
        PARTS[0],
    ]
    assert (read.id, read.model, read.stop_reason) == ("r1", "gemini-x", "STOP")


def test_what_a_provider_adds_to_the_message_is_kept():
    added = {"container": {"id": "c"}, "stop_details": {"type": "refusal"}}
    assert read_reply({**ANTHROPIC, **added}).kept() == {
        "id": "msg_1",
        "stop_reason": "tool_use",
        **added,
    }
    metadata = {"groundingMetadata": {"webSearchQueries": ["x"]}, "citationMetadata": {}}
    candidate = {**GEMINI["candidates"][0], **metadata}
    for reply in (
        {**GEMINI, "candidates": [candidate]},
        genai.GenerateContentResponse.model_validate({**GEMINI, "candidates": [candidate]}),
    ):
        kept = read_reply(reply).kept()
        assert kept["groundingMetadata"] == metadata["groundingMetadata"]
        assert "citationMetadata" not in kept


def test_additions_of_the_sdks_helpers_are_left_out():
    block = {"type": "text", "text": "{}", "parsed_output": {}}
    assert read_reply({**ANTHROPIC, "content": [block]}).content == [{"type": "text", "text": "{}"}]
    called = {**CALL, "function": {**CALL["function"], "parsed_arguments": {}}}
    message = {"role": "assistant", "content": "{}", "parsed": {}, "tool_calls": [called]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    assert read_reply({**CHAT, "choices": [choice]}).content == {
        "role": "assistant",
        "content": "{}",
        "tool_calls": [CALL],
    }
    part = {"type": "output_text", "text": "{}", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    items = [
        {**said, "content": [{**part, "parsed": {}}]},
        {**ITEMS[1], "parsed_arguments": {}},
    ]
    assert read_reply({**RESPONSE, "output": items}).content == [
        {**said, "content": [part]},
        ITEMS[1],
    ]


def test_incomplete_response_says_why_it_stopped():
    why = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert read_reply({**RESPONSE, **why}).stop_reason == "max_output_tokens"


def test_reply_of_gemini_without_content_has_no_parts():
    candidate = {"finishReason": "MALFORMED_FUNCTION_CALL"}
    read = read_reply({**GEMINI, "candidates": [candidate]})
    assert read.content == {"role": "model", "parts": []}
    reader("gemini").check(read.role, read.content)


@pytest.mark.parametrize("odd", ["", "a\0b", "x" * 1_001, "\ud800" * 400, 7])
def test_unstorable_id_is_dropped(odd):
    assert read_reply({**ANTHROPIC, "id": odd}).id is None


@pytest.mark.parametrize("reply", [ANTHROPIC, CHAT, RESPONSE], ids=["anthropic", "chat", "item"])
@pytest.mark.parametrize("odd", ["a\0b", "x" * 201, "\ud800"])
def test_unstorable_name_of_a_model_is_refused(reply, odd):
    with pytest.raises(InvalidIdentifier, match="model"):
        read_reply({**reply, "model": odd})
    with pytest.raises(InvalidIdentifier, match="model"):
        read_reply({**GEMINI, "modelVersion": odd})


def test_value_that_is_no_name_of_a_model_is_none():
    assert [read_reply({**ANTHROPIC, "model": odd}).model for odd in ("", 7, None)] == [None] * 3


CHUNK = {"index": 0, "delta": {"content": "so"}, "finish_reason": None}
REFUSED = {
    "a text": ("so", "reply"),
    "nothing": (None, "reply"),
    "a message of ours": ({"role": "assistant", "content": "so"}, "reply"),
    "an item of a response": (
        {"type": "message", "role": "assistant", "content": []},
        "reply",
    ),
    "no chunks": ([], "reply"),
    "two choices": ({**CHAT, "choices": CHAT["choices"] * 2}, "reply.choices"),
    "no choice": ({**CHAT, "choices": []}, "reply.choices"),
    "a chunk": ({**CHAT, "choices": [CHUNK]}, "reply.choices[0].message"),
    "a response in progress": ({**RESPONSE, "status": "in_progress"}, "reply.status"),
    "a failed response": ({**RESPONSE, "status": "failed", "output": []}, "reply.status"),
    "no candidate": ({**GEMINI, "candidates": []}, "reply.candidates"),
    "a blocked prompt": ({"promptFeedback": {"blockReason": "SAFETY"}}, "reply.promptFeedback"),
    "a blocked prompt in Python": (
        genai.GenerateContentResponse.model_validate({"promptFeedback": {"blockReason": "SAFETY"}}),
        "reply.promptFeedback",
    ),
}


@pytest.mark.parametrize(("given", "path"), REFUSED.values(), ids=REFUSED)
def test_wrong_reply_is_refused(given, path):
    with pytest.raises(InvalidMessage) as caught:
        read_reply(given)
    assert caught.value.path == path
