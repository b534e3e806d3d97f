"""LiteLLM's objects are replies: those of its types, built here from their published shapes.

They are pydantic models with extra fields: some fields are set after the object was made, and those
that are absent are deleted from it.
"""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from roocontext.log.forms import forms
from roocontext.log.replies import read_reply
from support.rows_of_formats import message

THINKING = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
SIGNED = {"thought_signature": "s"}


class Extra(BaseModel):
    """The base of LiteLLM's types."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class Function(Extra):
    arguments: str
    name: str | None


class ToolCall(Extra):
    """Its fields are set after it was made."""

    def __init__(self, function: Any, id: str, type: str = "function", **params: Any) -> None:  # noqa: A002
        super().__init__(**params)
        self.function = Function(**function)
        self.id = id
        self.type = type


class Message(Extra):
    content: str | None
    role: str
    tool_calls: list[ToolCall] | None
    function_call: Any
    reasoning_content: str | None = None
    thinking_blocks: list[Any] | None = None
    provider_specific_fields: dict[str, Any] | None = None


class Choices(Extra):
    finish_reason: str
    index: int
    message: Message


class ModelResponse(Extra):
    id: str
    created: int
    model: str | None
    object: str
    system_fingerprint: str | None
    choices: list[Choices]

    def model_dump(self, **options: Any) -> Any:
        return super().model_dump(**{"exclude_unset": True, **options})


def response(**fields: Any) -> ModelResponse:
    function = {"arguments": "{}", "name": "run"}
    call = ToolCall(function, "c1", provider_specific_fields=SIGNED)
    said = Message(content=None, role="assistant", tool_calls=[call], function_call=None, **fields)
    choice = Choices(finish_reason="tool_calls", index=0, message=said)
    made = ModelResponse(
        id="r1",
        created=1,
        model="claude-x",
        object="chat.completion",
        system_fingerprint=None,
        choices=[choice],
    )
    made.usage = {"prompt_tokens": 3, "completion_tokens": 4}
    return made


@pytest.mark.parametrize("as_dict", [False, True])
def test_object_of_litellm_is_recorded_and_goes_back_as_it_is(as_dict):
    reply = response(reasoning_content="hm", thinking_blocks=THINKING)
    read = read_reply(reply.model_dump() if as_dict else reply)
    assert (read.format, read.model, read.id) == ("openai", "claude-x", "r1")
    assert read.usage == {"prompt_tokens": 3, "completion_tokens": 4}
    assert read.content == {
        "content": None,
        "role": "assistant",
        "tool_calls": [
            {
                "provider_specific_fields": SIGNED,
                "function": {"arguments": "{}", "name": "run"},
                "id": "c1",
                "type": "function",
            }
        ],
        "reasoning_content": "hm",
        "thinking_blocks": THINKING,
    }
    go = message(1, "user", {"role": "user", "content": "go"}, "openai")
    row = message(2, "assistant", read.content, "openai", read.model)
    out = forms["openai"].compose([go, row], model="claude-x")
    assert out.messages[1] is read.content
    other = forms["openai"].compose([go, row], model="gpt-5").messages[1]
    assert other.keys() == {"role", "content", "tool_calls"}
    assert "provider_specific_fields" not in other["tool_calls"][0]


def test_chunks_of_litellm_are_joined():
    def chunk(finish_reason=None, **delta):
        choice = Extra(finish_reason=finish_reason, index=0, delta=Extra(**delta))
        return Extra(id="r1", model="claude-x", object="chat.completion.chunk", choices=[choice])

    def thought(**fields):
        return {"reasoning_content": fields.get("thinking"), "thinking_blocks": [fields]}

    kind = {"type": "thinking"}
    read = read_reply(
        [
            chunk(role="assistant", content="", **thought(**kind, thinking="h")),
            chunk(content="", **thought(**kind, thinking="m")),
            chunk(content="", **thought(**kind, thinking="", signature="c2ln")),
            chunk(content="so", tool_calls=None),
            chunk("stop", content=None),
        ]
    )
    assert read.content["thinking_blocks"] == THINKING
    assert (read.content["content"], read.content["reasoning_content"]) == ("so", "hm")
