"""Contents as agents and SDKs give them: deep ones, objects of an SDK, items of another API."""

from typing import Any

import pytest
from google.genai import types as genai
from pydantic import BaseModel

from roocontext import Plan
from roocontext.errors import InvalidMessage
from roocontext.log.encoding import MAX_DEPTH
from roocontext.log.forms.repairs import Rule
from support.dialogue import call, fill, result, state, text
from support.provider_rules.anthropic import violations


def deep(levels: int, leaf: Any = "leaf") -> Any:
    """As many lists and objects within each other, by turns."""
    for level in range(levels):
        leaf = [leaf] if level % 2 else {"in": leaf}
    return leaf


DEEPEST = {
    "an unknown block": ("user", [{"type": "odd", "of": deep(MAX_DEPTH - 2)}], "anthropic"),
    "a call": ("assistant", [{**call("t1"), "input": {"of": deep(MAX_DEPTH - 3)}}], "anthropic"),
    "openai": ("user", {"role": "user", "content": "x", "of": deep(MAX_DEPTH - 1)}, "openai"),
    "gemini": (
        "model",
        {"parts": [{"functionCall": {"name": "f", "args": deep(MAX_DEPTH - 4)}}]},
        "gemini",
    ),
}


@pytest.mark.parametrize("name", DEEPEST)
def test_content_of_the_greatest_depth_goes_through_everything(chat, name):
    role, content, form = DEEPEST[name]
    chat.append("user", "go")
    seq = chat.append(role, content, format=form, usage=deep(MAX_DEPTH)).seq
    chat.note("remark", {"of": deep(MAX_DEPTH - 1)})
    chat.set_metadata({"of": deep(MAX_DEPTH - 2)})
    assert chat.message(seq).content == content
    assert chat.view().messages[-1].content == content
    assert [found.content for found in chat.audit() if found.seq == seq] == [content]
    assert chat.verify().ok
    assert violations(chat.messages()) == []
    chat.repairs()
    fork = chat.fork()
    assert fork.message(seq).content == content
    assert fork.verify().ok
    assert chat.redact(seq).seq == seq
    assert fork.message(seq).content != content
    assert chat.verify().ok


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("name", DEEPEST)
def test_content_that_is_one_level_deeper_is_refused(chat, name):
    role, content, form = DEEPEST[name]
    fill(chat, 2)
    before = state(chat)
    if form == "anthropic":
        content = [{**content[0], "of": deep(MAX_DEPTH - 1)}]
    else:
        content = {**content, "of": deep(MAX_DEPTH)}
    for ask in (
        lambda: chat.append(role, content, format=form),
        lambda: chat.append("user", "x", usage=deep(MAX_DEPTH + 1)),
        lambda: chat.note("remark", {"of": deep(MAX_DEPTH)}),
        lambda: chat.set_metadata({"of": deep(MAX_DEPTH)}),
    ):
        with pytest.raises(InvalidMessage, match="nested deeper than 500 levels"):
            ask()
    assert state(chat) == before


ASKED = genai.Content(
    role="model",
    parts=[
        genai.Part(text="let me see"),
        genai.Part(
            function_call=genai.FunctionCall(name="read_file", args={"file_path": "a.py"}),
            thought_signature=b"\xff\xfe\xfb",
        ),
    ],
)
ANSWERED = genai.Content(
    role="user",
    parts=[
        genai.Part.from_function_response(name="read_file", response={"output": "done"}),
        genai.Part.from_bytes(data=b"\xff\xfe\xfb", mime_type="image/png"),
    ],
)
CALL_ID = "call_c0657d3007a0841423021446"  # made from its place, for a call without an id
SENT = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [
            text("let me see"),
            {
                "type": "tool_use",
                "id": CALL_ID,
                "name": "read_file",
                "input": {"file_path": "a.py"},
            },
        ],
    },
    {
        "role": "user",
        "content": [
            result(CALL_ID, "done"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "//77"},
            },
        ],
    },
]


def test_objects_of_an_sdk_are_stored_as_they_are_on_the_wire(chat):
    chat.append("user", "go")
    seq = chat.append("model", ASKED, format="gemini").seq
    chat.append("user", {"role": "user", "parts": ANSWERED.parts}, format="gemini")
    assert chat.message(seq).content == {
        "role": "model",
        "parts": [
            {"text": "let me see"},
            {
                "functionCall": {"name": "read_file", "args": {"file_path": "a.py"}},
                "thoughtSignature": "__77",
            },
        ],
    }
    assert chat.messages() == SENT
    assert [(repair.seq, repair.rule) for repair in chat.repairs()] == [(seq, Rule.UNTHINKING)]


def test_sdk_dump_without_aliases_is_stored_and_read(chat):
    chat.append("user", "go")
    asked = ASKED.model_dump(mode="json")
    answered = ANSWERED.model_dump(mode="json")
    chat.append("model", asked, format="gemini")
    seq = chat.append("user", answered, format="gemini").seq
    assert chat.message(seq).content == answered
    assert chat.messages() == SENT
    chat.commit(Plan.clear(chat.view(), [(seq, 0)], "-"))
    assert chat.messages()[2]["content"][0] == result(CALL_ID, "-")
    chat.redact(seq)
    assert chat.message(seq).content["parts"][0] == {
        "functionResponse": {"name": "read_file", "response": {"output": "[redacted]"}}
    }
    assert chat.verify().ok


class Unprintable(BaseModel):
    """An object that its own library cannot write as JSON."""

    of: Any


def test_object_that_cannot_be_dumped_is_refused(chat):
    before = state(chat)
    for odd in (Unprintable(of=object()), Unprintable(of=deep(400))):
        with pytest.raises(InvalidMessage, match="Unprintable"):
            chat.append("user", [{"type": "odd", "of": odd}])
    assert state(chat) == before
