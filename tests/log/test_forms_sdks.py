"""Objects of the SDKs go in as they are, and what goes out is what the SDKs take."""

import typing

import pytest
from anthropic.types import ContentBlockParam
from google.genai import types as genai
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from pydantic import TypeAdapter

from roocontext import Store
from roocontext.log.forms.parts import FIELDS


def test_fields_that_are_sent_are_those_of_the_sdk():
    known = {}
    for block in typing.get_args(ContentBlockParam):
        (kind,) = typing.get_args(typing.get_type_hints(block)["type"])
        known[kind] = set(block.__annotations__)
    for kind, fields in FIELDS.items():
        assert fields == known[kind]


def response():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": "so", "annotations": []}
    called = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f"}
    return "assistant", [
        ResponseReasoningItem.model_validate(thought),
        ResponseOutputMessage.model_validate({**said, "content": [part]}),
        ResponseFunctionToolCall.model_validate({**called, "arguments": "{}"}),
    ]


def content():
    called = genai.FunctionCall(name="f", args={"a_b": 1})
    parts = [
        genai.Part(text="hm", thought=True),
        genai.Part(function_call=called, thought_signature=b"\xff\xfe"),
    ]
    return "model", genai.Content(role="model", parts=parts)


@pytest.fixture
def chat():
    """A session that waits for the model."""
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append("user", "go")
        yield chat


def test_gemini_takes_back_what_it_signed(chat):
    chat.append(*content(), format="gemini", model="gemini-3-pro")
    sent = [genai.Content.model_validate(it) for it in chat.messages("gemini")]
    assert sent[1] == content()[1]
    assert chat.repairs("gemini") == ()


def test_items_of_responses_go_back_as_they_are_and_anthropic_takes_them_converted(chat):
    role, given = response()
    chat.append(role, given, format="openai-responses", model="gpt-5")
    sent, stored = chat.messages("openai-responses"), chat.view().messages[1].content
    assert (sent[1 : 1 + len(stored)], chat.repairs("openai-responses")) == (stored, ())
    blocks = chat.messages(model="claude-opus-4-8")[1]["content"]
    assert TypeAdapter(list[ContentBlockParam]).validate_python(blocks)
