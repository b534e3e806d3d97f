"""Tool definitions, system prompts and cache breakpoints of every form."""

import copy

import pytest

from roocontext.errors import InvalidOption
from roocontext.log.forms import forms

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = {
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
    "openai": {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA},
    },
    "openai-responses": {
        "type": "function",
        "name": "read",
        "description": "Reads.",
        "parameters": SCHEMA,
        "strict": False,
    },
    "gemini": {
        "functionDeclarations": [
            {"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}
        ]
    },
}


def tools_in(body):
    return body.get("tools") or body["config"]["tools"]


@pytest.mark.parametrize("form", TOOLS)
@pytest.mark.parametrize("given", TOOLS)
def test_a_tool_of_any_provider_is_defined_for_any_other(form, given):
    (made,) = tools_in(forms[form].body([], tools=[TOOLS[given]]))
    assert made == TOOLS[form]
    assert (made is TOOLS[given]) == (form == given)


def test_a_name_that_the_provider_refuses_is_the_one_that_its_calls_have():
    (made,) = tools_in(forms["openai"].body([], tools=[{**TOOLS["anthropic"], "name": "a b"}]))
    assert made["function"]["name"].startswith("t_a_b_")


@pytest.mark.parametrize(
    ("form", "tool"),
    [
        ("anthropic", {"type": "web_search_20250305", "name": "web_search"}),
        ("openai-responses", {"type": "web_search"}),
        ("gemini", {"googleSearch": {}}),
    ],
)
def test_a_tool_that_a_provider_runs_goes_to_no_other(form, tool):
    for name in TOOLS:
        if name == form:
            assert tools_in(forms[name].body([], tools=[tool]))[0] is tool
        else:
            with pytest.raises(InvalidOption, match="is not a function"):
                forms[name].body([], tools=[tool])


def test_a_tool_that_takes_a_text_becomes_a_function_with_one_input():
    responses = {"type": "custom", "name": "run", "description": "Runs."}
    chat = {"type": "custom", "custom": {"name": "run", "description": "Runs."}}
    assert tools_in(forms["openai"].body([], tools=[chat])) == [chat]
    assert tools_in(forms["openai-responses"].body([], tools=[responses])) == [responses]
    for tool in (chat, responses):
        (made,) = tools_in(forms["anthropic"].body([], tools=[tool]))
        assert (made["name"], made["input_schema"]["required"]) == ("run", ["input"])


def test_the_system_prompt_goes_where_the_provider_wants_it():
    blocks = [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]
    assert forms["anthropic"].body([], system=blocks)["system"] is blocks
    assert forms["openai"].body([], system=blocks)["messages"] == [
        {"role": "system", "content": "Be\n\nkind."}
    ]
    assert forms["openai-responses"].body([], system="Be kind.")["instructions"] == "Be kind."
    assert forms["gemini"].body([], system="x")["config"] == {"system_instruction": "x"}


def test_cache_breakpoints_are_four_at_most_and_change_nothing_stored():
    mark = {"type": "ephemeral"}
    messages = [{"role": "user", "content": "go"}]
    before = copy.deepcopy(messages)
    body = forms["anthropic"].body(
        messages, system="Be kind.", tools=[TOOLS["anthropic"]], cache=True
    )
    assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": mark}]
    assert body["tools"][-1]["cache_control"] == mark
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark
    assert messages == before
    assert "cache_control" not in TOOLS["anthropic"]
    talk = [{"role": role, "content": role} for role in ("user", "assistant") * 2] + messages
    body = forms["anthropic"].body(talk, system="s", tools=[TOOLS["anthropic"]], cache=True)
    marked = [at for at, it in enumerate(body["messages"]) if isinstance(it["content"], list)]
    assert marked == [2, 4]
    own = [{"type": "text", "text": "x", "cache_control": mark}] * 4
    full = forms["anthropic"].body([{"role": "user", "content": own}], system="s", cache=True)
    assert full == {"messages": [{"role": "user", "content": own}], "system": "s"}
    tool = {**TOOLS["anthropic"], "cache_control": mark}
    said = [{"role": "user", "content": [block]} for block in own]
    body = forms["anthropic"].body(said, tools=[tool])
    assert [len(it["content"][0]) for it in body["messages"]] == [2, 3, 3, 3]
