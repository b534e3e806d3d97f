"""System prompts and tools that a provider refuses are not sent; absurd usage is not summed."""

import json

import pytest

from roocontext.log.forms import forms
from roocontext.tokens.spending import spending

LONE = "a file \ud800 here"


@pytest.mark.one_leg
@pytest.mark.parametrize("form", forms.known())
def test_prompt_and_tools_that_are_not_unicode_are_sent_as_unicode(chat, form):
    chat.append("user", "hi")
    tool = {"name": "ls", "description": LONE, "input_schema": {"type": "object"}}
    request = chat.request(form, system=LONE, tools=[tool])
    sent = json.dumps(dict(request), ensure_ascii=False)
    assert sent.encode().decode().count("a file \ufffd here") == 2
    assert chat.frame().system == LONE


@pytest.mark.one_leg
@pytest.mark.parametrize("form", forms.known())
def test_blank_prompt_is_not_sent(chat, form):
    chat.append("user", "hi")
    bare = dict(chat.request(form))
    for blank in (" \n", [{"type": "text", "text": ""}], [{"type": "text", "text": "\t"}]):
        assert dict(chat.request(form, system=blank)) == bare
    texts = [{"type": "text", "text": " "}, {"type": "text", "text": "Be brief."}]
    assert "Be brief." in json.dumps(dict(chat.request(form, system=texts)))


@pytest.mark.one_leg
@pytest.mark.parametrize(
    "usage",
    [
        {"cost": 10**400},
        {"cost": 1e308},
        {"input_tokens": 10**400, "output_tokens": 7},
        {"prompt_tokens": 5, "completion_tokens": 10**400},
    ],
)
def test_absurd_numbers_are_left_out_of_the_sums(chat, usage):
    for reported in (usage, usage, {"input_tokens": 10, "output_tokens": 5}):
        chat.append("assistant", "yes", usage=reported, model="claude-sonnet-4-5")
    (spent,) = spending(chat.usage())
    assert spent.calls == 3
    assert spent.input < 100
    assert spent.cost < 1
