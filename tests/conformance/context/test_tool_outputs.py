"""The output of any tool becomes its call's answer, and the model sees it, whatever its shape."""

import json

import pytest

from roocontext.log.forms import forms

ASKED = {
    "anthropic": (
        "assistant",
        [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}],
    ),
    "openai": (
        "assistant",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
            ],
        },
    ),
    "openai-responses": (
        "assistant",
        [{"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"}],
    ),
    "gemini": ("model", {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}),
}
OUTPUTS = (
    [{"type": "file", "name": "parser.py"}, {"type": "dir", "name": "parser.py.d"}],
    [{"type": "message", "name": "parser.py"}],
    [{"type": "function_call", "name": "parser.py"}],
    [{"type": "text", "line": "parser.py"}],
    {"type": "tool_use", "name": "parser.py"},
    [{"type": "text", "text": "parser.py"}],
    [{"type": "text", "text": "ok"}, {"type": "file", "name": "parser.py"}],
)


@pytest.mark.one_leg
@pytest.mark.parametrize("stored", ASKED)
def test_output_that_is_a_list_of_typed_objects_reaches_the_model(chat, stored):
    for output in OUTPUTS:
        role, content = ASKED[stored]
        chat.append(role, content, format=stored)
        (call,) = chat.pending()
        chat.answer(call, output)
        for form in forms.known():
            assert "parser.py" in json.dumps(chat.messages(form)[-1]), (form, output)
            assert not [it for it in chat.repairs(form) if it.rule == "output"]
