"""A tool whose name a provider refuses has its own name in the log, and another in requests."""

import pytest

from roocontext.log.forms import Rule
from support import four_formats

LONG = "mcp__" + "internal_documentation_server__" * 3
"""A name as MCP clients make it: 98 characters, of which OpenAI and Gemini accept 64."""

DEFINITIONS = {
    "anthropic": {"name": LONG, "input_schema": {"type": "object"}},
    "openai": {"type": "function", "function": {"name": LONG, "parameters": {"type": "object"}}},
    "openai-responses": {"type": "function", "name": LONG, "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": LONG}]},
    "bedrock-converse": {
        "toolSpec": {"name": LONG, "inputSchema": {"json": {"type": "object"}}},
    },
}


def reply(form, name):
    """A reply that calls a tool by this name, signed by Gemini."""
    if form == "bedrock-converse":
        use = {"toolUse": {"toolUseId": "c1", "name": name, "input": {}}}
        message = {"role": "assistant", "content": [use]}
        return {"output": {"message": message}, "stopReason": "tool_use"}
    _, content = four_formats.asking(form, ("c1", name))
    if form == "gemini":
        content["parts"][-1]["thoughtSignature"] = "c2ln"
    return four_formats.reply(form, content)


def name_in(form, request):
    """The name of the only tool."""
    holder = {"gemini": "config", "bedrock-converse": "toolConfig"}.get(form)
    (tool,) = (request if holder is None else request[holder])["tools"]
    tool = tool.get("functionDeclarations", [tool])[0]
    return tool.get("function", tool.get("toolSpec", tool))["name"]


def names_sent(form, messages):
    """The names in the calls of the history."""
    text = str(messages)
    return {name for name in (LONG, name_of(form)) if f"'name': '{name}'" in text}


def name_of(form):
    """The name that is sent: the tool's own where it is accepted."""
    limit = 128 if form == "anthropic" else 64
    return LONG if len(LONG) <= limit else SENT


SENT = "t_mcp__internal_documentation_server__inte_b53f8733"


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("given", DEFINITIONS)
@pytest.mark.parametrize("form", DEFINITIONS)
def test_long_name_goes_out_short_and_comes_back_long(chat, form, given):
    chat.append("user", "Look it up.")
    request = chat.request(form, tools=[DEFINITIONS[given]], model="m")
    assert name_in(form, request) == name_of(form)
    reported = [(it.seq, it.rule, it.block) for it in request.repairs]
    assert reported == ([(0, Rule.NAME, 0)] if name_of(form) != LONG else [])
    chat.record(reply(form, name_of(form)), request)
    (call,) = chat.pending()
    assert call.name == LONG
    chat.answer(call, "found")
    for other in DEFINITIONS:
        following = chat.request(other, model="m")
        sent = following.get("messages") or following.get("input") or following["contents"]
        assert name_in(other, following) == name_of(other)
        assert names_sent(other, sent) == {name_of(other)}
        # Another name changes nothing else of what the model wrote.
        assert form != "gemini" or other != "gemini" or "c2ln" in str(sent)


@pytest.mark.parametrize(("sent", "name"), [(SENT, LONG), ("t_other_12345678", "t_other_12345678")])
def test_without_the_request_the_recorded_tools_tell_the_name(chat, sent, name):
    chat.append("user", "Look it up.")
    chat.request("openai", tools=[DEFINITIONS["anthropic"]])
    chat.record(reply("openai", sent))
    assert chat.pending()[0].name == name
