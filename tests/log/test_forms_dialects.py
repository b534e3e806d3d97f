"""The form `openai` for servers that are compatible with it, each by its own rules."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from roocontext.errors import InvalidOption
from roocontext.log.forms import Rule, form_named, forms
from roocontext.log.forms.dialects import DIALECTS
from roocontext.log.readings import reader
from support.provider_rules.dialects import FIELDS, violations
from support.rows_of_formats import histories, message, rows

MODELS = ("deepseek-v4-pro", "gemini-3-flash", "deepseek/deepseek-v4", "mine", None)
ADDED = {
    "deepseek": {"reasoning_content": "H{}."},
    "blank": {"reasoning_content": ""},
    "vllm": {"reasoning": "H{}."},
    "openrouter": {
        "reasoning": "H{}.",
        "reasoning_details": [{"type": "reasoning.text", "text": "H{}.", "signature": "c2ln"}],
    },
    "litellm": {
        "reasoning_content": "H{}.",
        "thinking_blocks": [{"type": "thinking", "thinking": "H{}.", "signature": "c2ln"}],
    },
}
servers = st.sampled_from([*ADDED, "gemini", "mistral", "none"])
dialects = st.sampled_from([None, *DIALECTS])
authors = st.lists(st.tuples(servers, st.sampled_from(MODELS)), min_size=9, max_size=9)


def from_servers(history, written):
    """Rows whose replies in Chat Completions have what servers add, each by its model."""
    made = rows(history)
    for index, (row, (server, model)) in enumerate(zip(made, written, strict=False)):
        if row.format != "openai" or row.role != "assistant":
            continue
        content = copy.deepcopy(row.content)
        content.pop("reasoning_content", None)
        if server in ADDED:
            content |= json.loads(json.dumps(ADDED[server]).replace("{}", str(row.seq)))
        if server == "gemini":
            for call in content.get("tool_calls", [])[:1]:
                call["extra_content"] = {"google": {"thought_signature": f"H{row.seq}."}}
        if server == "mistral" and isinstance(content.get("content"), str):
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": f"H{row.seq}."}]}
            content["content"] = [thought, {"type": "text", "text": content["content"]}]
        made[index] = structs.replace(row, content=content, model=model)
    return made


def reasons(messages, model):
    """Whether a model's reasoning is on: it has not replied yet, or its replies have some."""
    own = [
        it for it in messages if (it.format, it.role, it.model) == ("openai", "assistant", model)
    ]
    names = ("reasoning_content", "reasoning")
    return not own or any(isinstance(it.content.get(name), str) for it in own for name in names)


@given(histories, authors, dialects, st.sampled_from(MODELS), st.booleans())
def test_any_history_is_accepted_by_every_compatible_server(
    history, written, dialect, model, complete
):
    messages = from_servers(history, written)
    before = copy.deepcopy(messages)
    out = form_named("openai", dialect).compose(messages, model=model, complete=complete)
    facts = {"complete": complete, "model": model, "reasons": reasons(messages, model)}
    if dialect is not None:
        assert violations(out.messages, dialect, **facts) == []
    else:
        assert any(violations(out.messages, name, **facts) == [] for name in DIALECTS)
    assert messages == before


@given(histories, authors)
def test_reply_of_every_server_can_be_stored(history, written):
    for row in from_servers(history, written):
        reader(row.format).check(row.role, row.content)


@given(histories, authors, dialects, st.sampled_from(MODELS[:-1]))
def test_reasoning_goes_back_to_the_model_that_wrote_it_and_to_no_other(
    history, written, dialect, model
):
    messages = from_servers(history, written)
    for form in forms.known():
        out = form_named(form, dialect if form == "openai" else None).compose(messages, model=model)
        sent = json.dumps(out.messages, default=repr)
        others = [it.seq for it in messages if it.model != model]
        assert not [seq for seq in others if f"H{seq}." in sent]


@given(histories, authors, st.sampled_from([*DIALECTS]), st.sampled_from(MODELS), st.integers(0, 9))
def test_what_was_sent_to_a_server_is_the_prefix_of_what_is_sent_next(
    history, written, dialect, model, cut
):
    messages = from_servers(history, written)
    if reasons(messages[:cut], model) != reasons(messages, model):
        return
    form = form_named("openai", dialect)
    before, asked = (form.compose(messages[:cut], model=model, complete=it) for it in (False, True))
    after = form.compose(messages, model=model)
    late = {it for it in before.repairs if it.rule is Rule.UNANSWERED} - {*after.repairs}
    if asked == before and not late:
        assert flat(after.messages)[: len(flat(before.messages))] == flat(before.messages)


def flat(messages):
    found = []
    for one in messages:
        content = one.get("content")
        found += content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        found += one.get("tool_calls", [])
    return [it for it in found if it != {"type": "text", "text": ""}]


GO = message(1, "user", {"role": "user", "content": "go"}, "openai")


def reply(seq, model="mine", calls=(), **fields):
    """A reply in Chat Completions; each call is an id, and fields that its server adds."""
    asked = [
        {"id": tool_id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}
        for tool_id, more in calls
    ]
    content = {"role": "assistant", "content": None if asked else "so", **fields}
    return message(
        seq, "assistant", content | ({"tool_calls": asked} if asked else {}), "openai", model
    )


def answer(seq, tool_id):
    return message(
        seq, "tool", {"role": "tool", "tool_call_id": tool_id, "content": "ok"}, "openai"
    )


def sent(*history, dialect=None, model="mine", complete=False):
    out = form_named("openai", dialect).compose(history, model=model, complete=complete)
    return out.messages, [(it.seq, it.rule) for it in out.repairs]


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({"reasoning_content": "hm"}, "qwen"),
        ({"reasoning": "hm"}, "vllm"),
        ({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text"}]}, "openrouter"),
        ({"reasoning_content": "hm", "thinking_blocks": [{"type": "thinking"}]}, "litellm"),
        ({"extra_content": {"google": {"thought_signature": "s"}}}, "gemini"),
    ],
)
def test_what_a_server_added_goes_back_to_it_as_the_stored_object(fields, chosen):
    history = (GO, reply(2, **fields))
    messages, repairs = sent(*history)
    assert messages[1] is history[1].content
    assert repairs == []
    assert violations(messages, chosen) == []
    assert sent(*history, dialect=chosen)[0] == messages


def test_field_of_a_call_goes_back_to_its_model_only():
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    history = (GO, reply(2, "gemini-3-flash", [("a", signed)]), answer(3, "a"))
    messages, _ = sent(*history, model="gemini-3-flash")
    assert messages[1] is history[1].content
    (_, other, *_), repairs = sent(*history, model="gpt-5")
    assert "extra_content" not in other["tool_calls"][0]
    assert repairs == [(2, Rule.THINKING)]


def test_call_of_another_model_gets_the_documented_signature_of_gemini():
    history = (GO, reply(2, "gpt-5", [("a", {}), ("b", {})]))
    (_, asked, *_), _ = sent(*history, model="gemini-3-flash")
    signatures = [it.get("extra_content") for it in asked["tool_calls"]]
    assert signatures == [
        {"google": {"thought_signature": "skip_thought_signature_validator"}},
        None,
    ]
    assert "extra_content" not in sent(*history, model="gemini-2.5-pro")[0][1]["tool_calls"][0]


@pytest.mark.parametrize("model", ["deepseek-v4-pro", "kimi-k2.6"])
def test_reply_without_reasoning_gets_a_line_where_the_server_requires_some(model):
    history = (GO, reply(2, "gpt-5", [("a", {})]), answer(3, "a"), reply(4, "gpt-5", [("b", {})]))
    messages, repairs = sent(*history, model=model)
    lines = [it["reasoning_content"] for it in messages if "reasoning_content" in it]
    assert len(set(lines)) == 2
    assert repairs == [(2, Rule.UNREASONED), (4, Rule.UNREASONED)]
    assert violations(messages, DIALECTS["deepseek"].name, reasons=True) == []


def test_blank_reasoning_is_replaced_where_the_server_requires_some():
    history = (GO, reply(2, "deepseek-chat", [("a", {})], reasoning_content=""), answer(3, "a"))
    messages, repairs = sent(*history, model="deepseek-chat")
    assert messages[1]["reasoning_content"].startswith("[No reasoning")
    assert repairs == [(2, Rule.UNREASONED)]


HM = {"reasoning_content": "hm"}
PLAIN = {"role": "assistant", "content": "so"}
NEVER = reply(2, "deepseek-chat", [("a", {})])
CUSTOM = {"id": "a", "type": "custom", "custom": {"name": "run", "input": "ls"}}
FUNCTION = {"name": "run", "arguments": '{"input":"ls"}'}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CUSTOM]}
TAKES_TEXT = message(2, "assistant", ASKED, "openai", "mine")


@pytest.mark.parametrize(
    ("row", "to", "expected", "rules"),
    [
        (reply(2, **HM), {"dialect": "vllm"}, {**PLAIN, "reasoning": "hm"}, []),
        (reply(2, **HM), {"dialect": "openai"}, PLAIN, [Rule.THINKING]),
        (reply(2, **HM), {"dialect": "xai"}, PLAIN, [Rule.THINKING]),
        (NEVER, {"model": "deepseek-chat"}, NEVER.content, []),
        (TAKES_TEXT, {}, ASKED, []),
        (
            TAKES_TEXT,
            {"dialect": "vllm"},
            {**ASKED, "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION}]},
            [Rule.FIELD],
        ),
    ],
)
def test_reply_goes_out_as_the_server_reads_it(row, to, expected, rules):
    messages, repairs = sent(GO, row, **to)
    assert (messages[1], repairs) == (expected, [(2, rule) for rule in rules])


@pytest.mark.parametrize("name", FIELDS)
def test_developer_message_is_a_system_message_where_the_role_is_unknown(name):
    rule = message(1, "developer", {"role": "developer", "content": "Be kind."}, "openai")
    (first,), repairs = sent(rule, dialect=name)
    assert violations([first], name) == []
    assert (first["role"] == "developer") == (repairs == [])


def test_mistral_gets_its_thinking_in_the_content_and_ids_of_nine_characters():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    own = reply(2, "mistral-medium-latest", content=[thought, {"type": "text", "text": "so"}])
    history = (
        GO,
        own,
        reply(3, "gpt-5", [("call_abc", {}), ("call.abc", {})]),
        answer(4, "call_abc"),
    )
    messages, repairs = sent(*history, model="mistral-medium-latest", complete=True)
    assert messages[1] is own.content
    assert violations(messages, "mistral", complete=True) == []
    assert len({it["tool_call_id"] for it in messages if it["role"] == "tool"}) == 2
    assert (3, Rule.RENAMED) in repairs
    (_, other, *_), repairs = sent(GO, own, model="gpt-5")
    assert other == {"role": "assistant", "content": "so"}
    assert repairs == [(2, Rule.THINKING)]


def test_mistral_gets_a_line_of_the_assistant_between_a_result_and_the_user():
    said = message(4, "user", {"role": "user", "content": "stop"}, "openai")
    rule = message(5, "system", {"role": "system", "content": "Be kind."}, "openai")
    history = (
        GO,
        reply(2, calls=[("abcdefgh1", {})]),
        answer(3, "abcdefgh1"),
        said,
        reply(6),
        rule,
    )
    messages, repairs = sent(*history, dialect="mistral", complete=True)
    assert [it["role"] for it in messages] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant", "user"),
    ]
    assert repairs == [(4, Rule.APART), (5, Rule.FIELD)]


def test_instruction_after_the_users_words_is_the_users_for_mistral():
    rules = [
        message(seq, "developer", {"role": "developer", "content": "Be kind."}, "openai")
        for seq in (1, 3)
    ]
    said = message(2, "user", {"role": "user", "content": "go"}, "openai")
    messages, repairs = sent(rules[0], said, rules[1], dialect="mistral", complete=True)
    assert violations(messages, "mistral", complete=True) == []
    assert [it["role"] for it in messages] == ["system", "user", "user"]
    assert repairs[-1] == (3, Rule.FIELD)
    longer, _ = sent(rules[0], said, rules[1], reply(4), dialect="mistral")
    assert longer[:3] == messages


def test_unknown_dialect_is_refused_with_the_known_ones():
    with pytest.raises(InvalidOption, match="deepseek, gemini, kimi"):
        form_named("openai", "acme")
    with pytest.raises(InvalidOption, match="Only the form 'openai'"):
        form_named("anthropic", "deepseek")


def test_reasoning_of_a_server_is_read_as_thinking_and_never_as_words():
    for row in (reply(2, reasoning_content="hm"), reply(2, reasoning_details=[{"text": "hm"}])):
        out = forms["anthropic"].compose([GO, row], model="claude-x")
        assert "hm" not in json.dumps(out.messages)
        assert out.messages[1]["content"] == [{"type": "text", "text": "so"}]
