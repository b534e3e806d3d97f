"""Tool definitions, system prompts and cache breakpoints of every form."""

import copy
from typing import Any

import pytest
from google.genai import types as genai

from roocontext.errors import InvalidOption
from roocontext.log.forms import Rule, forms
from support.provider_rules import frames
from support.rows_of_formats import message

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def defined(form, schema=SCHEMA, **more):
    """The tool `read`, as the provider of a form wants it defined."""
    said = {"name": "read", "description": "Reads."}
    match form:
        case "anthropic":
            return {**said, "input_schema": schema, **more}
        case "openai":
            return {"type": "function", "function": {**said, "parameters": schema, **more}}
        case "openai-responses":
            return {"type": "function", **said, "parameters": schema, "strict": False, **more}
    return {"functionDeclarations": [{**said, "parametersJsonSchema": schema}]}


TOOLS = {form: defined(form) for form in ("anthropic", "openai", "openai-responses", "gemini")}


def tools_in(body):
    return body.get("tools") or body["config"]["tools"]


@pytest.mark.parametrize("form", TOOLS)
@pytest.mark.parametrize("given", TOOLS)
def test_tool_of_any_provider_is_defined_for_any_other(form, given):
    (made,) = tools_in(forms[form].body([], tools=[TOOLS[given]]))
    assert made == TOOLS[form]
    assert (made is TOOLS[given]) == (form == given)


def test_name_that_the_provider_refuses_is_the_one_that_its_calls_have():
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
def test_tool_that_a_provider_runs_goes_to_no_other(form, tool):
    for name in TOOLS:
        if name == form:
            assert tools_in(forms[name].body([], tools=[tool]))[0] is tool
        else:
            with pytest.raises(InvalidOption, match="is not a function"):
                forms[name].body([], tools=[tool])


def test_tool_that_takes_a_text_becomes_a_function_with_one_input():
    responses = {"type": "custom", "name": "run", "description": "Runs."}
    chat = {"type": "custom", "custom": {"name": "run", "description": "Runs."}}
    assert tools_in(forms["openai"].body([], tools=[chat])) == [chat]
    assert tools_in(forms["openai-responses"].body([], tools=[responses])) == [responses]
    for tool in (chat, responses):
        (made,) = tools_in(forms["anthropic"].body([], tools=[tool]))
        assert (made["name"], made["input_schema"]["required"]) == ("run", ["input"])


def test_system_prompt_goes_where_the_provider_wants_it():
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


def test_tool_that_is_loaded_later_carries_no_mark():
    tool, later = TOOLS["anthropic"], {**TOOLS["anthropic"], "defer_loading": True}
    said = [{"role": "user", "content": "go"}]
    marked = {**tool, "cache_control": {"type": "ephemeral"}}
    body = forms["anthropic"].body(said, tools=[tool, later], cache=True)
    assert body["tools"] == [marked, later]
    assert forms["anthropic"].body(said, tools=[later], cache=True)["tools"] == [later]


STRICT = {**SCHEMA, "required": ["path"], "additionalProperties": False}


@pytest.mark.parametrize("given", ["anthropic", "openai", "openai-responses"])
def test_strict_function_stays_strict(given):
    for form in TOOLS:
        wanted = defined(form, STRICT, strict=True)
        assert tools_in(forms[form].body([], tools=[defined(given, STRICT, strict=True)])) == [
            wanted
        ]
    assert "strict" not in str(wanted)  # the last one is Gemini's


def test_function_with_optional_fields_is_not_strict_for_openai():
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
def test_tool_with_something_that_no_other_provider_has_is_refused_by_name(form, tool):
    assert tools_in(forms[form].body([], tools=[tool])) == [tool]
    for name in set(TOOLS) - {form}:
        with pytest.raises(InvalidOption, match=r"'(googleSearch|codeExecution|mcp_toolset|t|n)'"):
            forms[name].body([], tools=[tool])


HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE = {"type": "ephemeral"}


def _lengths(body: dict[str, Any]) -> list[str]:
    """The lifetimes of a request's marks, in its order."""
    found: list[str] = []

    def walk(value: Any) -> None:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                walk(one.get("content"))
                found.extend(
                    [one["cache_control"].get("ttl", "5m")] if "cache_control" in one else []
                )

    for place in ("tools", "system", "messages"):
        walk(body.get(place, []))
    return found


@pytest.mark.parametrize("cache", [True, False])
def test_marks_of_an_hour_come_first(cache):
    def text(words: str, **mark: Any) -> dict[str, Any]:
        return {"type": "text", "text": words, **({"cache_control": mark} if mark else {})}

    talk = [
        {"role": "user", "content": [text("a", **FIVE), text("b", **HOUR)]},
        {"role": "assistant", "content": [text("c")]},
        {"role": "user", "content": [text("d")]},
    ]
    tools, form = [TOOLS["anthropic"]], forms["anthropic"]
    body = form.body(talk, system="s", tools=tools, cache=cache)
    assert _lengths(body) == (["1h", "1h", "1h", "1h"] if cache else ["1h", "1h"])
    body = form.body(talk[2:], system=[text("s", **HOUR)], tools=tools, cache=cache)
    assert _lengths(body) == (["1h", "1h", "5m"] if cache else ["1h"])
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [text("x", **HOUR)],
        "cache_control": FIVE,
    }
    body = form.body(
        [{"role": "user", "content": [result]}], system=[text("s", **FIVE)], cache=cache
    )
    assert _lengths(body) == ["1h", "1h", "5m"]
    assert frames.anthropic(body) == []
    assert talk[0]["content"][0] == text("a", **FIVE)


def test_marks_that_are_stored_are_sent_with_the_longest_first():
    blocks = [{"type": "text", "text": "x", "cache_control": mark} for mark in (FIVE, HOUR, FIVE)]
    rows = [message(seq, "user", [block], "anthropic") for seq, block in enumerate(blocks, 1)]
    out = forms["anthropic"].compose(rows)
    assert _lengths({"messages": out.messages}) == ["1h", "1h", "5m"]
    assert [one.seq for one in out.repairs if one.rule is Rule.FIELD] == [1]
    assert rows[0].content[0]["cache_control"] == FIVE


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ({"content": [], "tool_calls": [CALL]}, {"content": None, "tool_calls": [CALL]}),
        ({"content": "", "tool_calls": [CALL]}, {"content": "", "tool_calls": [CALL]}),
        ({"content": [], "refusal": "No."}, {"content": [{"type": "refusal", "refusal": "No."}]}),
    ],
)
def test_empty_list_of_parts_is_never_sent(content, sent):
    row = message(1, "assistant", {"role": "assistant", **content}, "openai")
    user = message(2, "tool", {"role": "tool", "tool_call_id": "c", "content": []}, "openai")
    out = forms["openai"].compose([row, user] if "tool_calls" in content else [row])
    assert out.messages[-2 if "tool_calls" in content else -1] == {"role": "assistant", **sent}
    is_repaired = any(one.rule is Rule.FIELD and one.seq == 1 for one in out.repairs)
    assert is_repaired == (content["content"] == [])
    assert all(one.get("content") != [] for one in out.messages)
