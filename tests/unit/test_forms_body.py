"""Tool definitions, system prompts and cache breakpoints of every form."""

import copy

import pytest
from google.genai import types as genai

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


STRICT = {**SCHEMA, "required": ["path"], "additionalProperties": False}


@pytest.mark.parametrize("given", ["anthropic", "openai", "openai-responses"])
def test_a_strict_function_stays_strict(given):
    tool = {
        "anthropic": {"name": "read", "input_schema": STRICT, "strict": True},
        "openai": {
            "type": "function",
            "function": {"name": "read", "parameters": STRICT, "strict": True},
        },
        "openai-responses": {
            "type": "function",
            "name": "read",
            "parameters": STRICT,
            "strict": True,
        },
    }
    for form, wanted in tool.items():
        assert tools_in(forms[form].body([], tools=[tool[given]])) == [wanted]
    assert "strict" not in str(forms["gemini"].body([], tools=[tool[given]]))


def test_a_function_with_optional_fields_is_not_strict_for_openai():
    tool = {"name": "read", "input_schema": {**STRICT, "required": []}, "strict": True}
    (chat,) = tools_in(forms["openai"].body([], tools=[tool]))
    (item,) = tools_in(forms["openai-responses"].body([], tools=[tool]))
    assert "strict" not in chat["function"]
    assert item["strict"] is False
    nested = {**STRICT, "properties": {"path": {"anyOf": [{"type": "object"}]}}}
    (item,) = tools_in(forms["openai-responses"].body([], tools=[{**tool, "input_schema": nested}]))
    assert item["strict"] is False


def test_geminis_functions_are_declared_in_one_tool():
    tools = [TOOLS["openai"], {**TOOLS["anthropic"], "name": "write"}]
    (made,) = tools_in(forms["gemini"].body([], tools=tools))
    assert [it["name"] for it in made["functionDeclarations"]] == ["read", "write"]
    back = tools_in(forms["anthropic"].body([], tools=[made]))
    assert [(it["name"], it["input_schema"]) for it in back] == [
        ("read", SCHEMA),
        ("write", SCHEMA),
    ]


@pytest.mark.parametrize("as_given", [lambda it: it, lambda it: it.model_dump(exclude_none=True)])
def test_geminis_schema_becomes_json_schema(as_given):
    items = genai.Schema(type="STRING", max_length=9)
    found = genai.Schema(type="ARRAY", items=items, nullable=True, min_items=1)
    named = {"any_of": found, "n": genai.Schema(any_of=[genai.Schema(type="INTEGER")])}
    schema = genai.Schema(type="OBJECT", properties=named, property_ordering=["n"], required=["n"])
    declared = genai.FunctionDeclaration(name="read", parameters=schema)
    tool = as_given(genai.Tool(function_declarations=[declared]))
    (made,) = tools_in(forms["anthropic"].body([], tools=[tool]))
    assert made["input_schema"] == {
        "type": "object",
        "properties": {
            "any_of": {
                "type": ["array", "null"],
                "items": {"type": "string", "maxLength": 9},
                "minItems": 1,
            },
            "n": {"anyOf": [{"type": "integer"}]},
        },
        "required": ["n"],
    }


@pytest.mark.parametrize(
    ("form", "tool"),
    [
        ("gemini", {"googleSearch": {}, "functionDeclarations": [{"name": "read"}]}),
        ("gemini", {"googleSearch": {}, "codeExecution": {}}),
        ("anthropic", {"type": "mcp_toolset", "mcp_server_name": "m"}),
        ("anthropic", {"type": "tool_search_tool_bm25", "name": "t"}),
        ("openai-responses", {"type": "namespace", "name": "n", "tools": []}),
    ],
)
def test_a_tool_with_something_that_no_other_provider_has_is_refused_by_name(form, tool):
    assert tools_in(forms[form].body([], tools=[tool])) == [tool]
    for name in set(TOOLS) - {form}:
        with pytest.raises(InvalidOption, match=r"'(googleSearch|codeExecution|mcp_toolset|t|n)'"):
            forms[name].body([], tools=[tool])
