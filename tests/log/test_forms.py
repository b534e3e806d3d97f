"""Law L5 for every form: any history in any format is accepted by each provider."""

import copy
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from roocontext.log.forms import OPENING, UNANSWERED, Rule, form_named, forms
from roocontext.log.readings.converse import in_base64
from support import four_formats, wrong_contents
from support.examples import examples
from support.provider_rules import CHECKS
from support.provider_rules.anthropic import displaced, thoughtless
from support.rows_of_formats import MODELS, acts, formats, histories, marks, message, rows

models = st.sampled_from([None, "gpt-5", "claude-x", "gemini-3", "gemini-2"])


def strict(form):
    """The form; that of Chat Completions for OpenAI itself, whichever server the replies are of."""
    return form_named(form, "openai" if form == "openai" else None)


hostile = st.lists(st.one_of(wrong_contents.cases, st.tuples(formats, acts)), max_size=4)


def hostile_rows(history):
    made = []
    for seq, it in enumerate(history, 1):
        if len(it) == 3:
            name, role, content = it
            made.append(message(seq, role, content, name, MODELS[name]))
        else:
            made.append(structs.replace(rows([it])[0], seq=seq))
    return made


@settings(max_examples=examples(80))
@given(st.one_of(histories.map(rows), hostile.map(hostile_rows)), formats, models, st.booleans())
def test_any_history_is_accepted_by_every_provider(messages, form, model, complete):
    """Malformed contents too."""
    before = copy.deepcopy(messages)
    out = strict(form).compose(messages, model=model, complete=complete)
    assert CHECKS[form](out.messages, complete=complete, model=model) == []
    assert messages == before


own_rows_of_anthropic = st.lists(
    st.one_of(wrong_contents.anthropic_cases, st.tuples(st.just("anthropic"), acts)), max_size=9
).map(hostile_rows)


@given(own_rows_of_anthropic)
def test_repairs_are_reported_if_and_only_if_another_object_is_sent(messages):
    """And thinking is sent as it is stored, in its order, with nothing put before it."""
    out = forms["anthropic"].compose(messages)
    sent = [(it["role"], id(it["content"])) for it in out.messages]
    assert (sent == [(row.role, id(row.content)) for row in messages]) == (not out.repairs)
    assert displaced([row.content for row in messages], out.messages) == []
    for repair in out.repairs:
        content = messages[repair.seq - 1].content
        assert repair.block is None or isinstance(content, str) or content[repair.block]
    stored = [id(it) for row in messages for it in row.content if isinstance(it, dict)]
    for it in flat(out.messages):
        if it[1]["type"] == "thinking":
            stored = stored[stored.index(id(it[1])) + 1 :]


DROPPED = {Rule.DUPLICATE, Rule.MISPLACED, Rule.MALFORMED, Rule.UNKNOWN}


@given(histories, formats, models)
def test_every_text_call_and_result_goes_out_once_and_in_order(history, form, model):
    """Results go to their calls; texts and calls stay in the order of their rows."""
    out = forms[form].compose(rows(history), model=model)
    sent = json.dumps(out.messages, default=repr)
    lost = {repair.seq for repair in out.repairs if repair.rule in DROPPED}
    found = []
    for seq, (_, act) in enumerate(history, 1):
        for mark in marks(seq, *act):
            assert sent.count(mark) == 1 or (seq in lost and sent.count(mark) == 0), mark
            if mark[0] in "TCD" and mark in sent:
                found.append((sent.index(mark), seq))
    assert [seq for _, seq in sorted(found)] == [seq for _, seq in found]


thinking_loops = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["claude-x", "claude-y"]), st.booleans()), max_size=5
)
"""Steps of a loop: whether the user speaks first, who replies, and if the prefix has changed."""


@given(thinking_loops, st.booleans())
def test_running_tool_loop_that_lost_its_thinking_is_reported(loop, complete):
    history, replies, changed = [("anthropic", ("say", "user"))], {}, set()
    for number, (speaks, model, is_changed) in enumerate(loop):
        if speaks:
            history.append(("anthropic", ("say", "user")))
        history.append(("anthropic", ("call", f"c{number}", "run", True, True)))
        replies[len(history)] = model
        changed |= {len(history)} if is_changed else set()
        history.append(("anthropic", ("answer", f"c{number}", "text")))
    messages = [
        structs.replace(row, model=replies[row.seq]) if row.seq in replies else row
        for row in rows(history)
    ]
    out = forms["anthropic"].compose(
        messages, model="claude-x", drop_thinking=changed, complete=complete
    )
    reported = [repair.seq for repair in out.repairs if repair.rule is Rule.UNTHINKING]
    assert len(thoughtless(out.messages)) == len(reported)
    foreign = {seq for seq, model in replies.items() if model != "claude-x"}
    assert changed | foreign >= set(reported)


@given(histories, formats)
def test_output_of_a_form_goes_out_unchanged_as_the_stored_objects(history, form):
    once = forms[form].compose(rows(history), model=MODELS[form])
    own = own_rows(form, once.messages)
    again = forms[form].compose(own, model=MODELS[form])
    assert again.messages == once.messages
    assert again.repairs == ()
    assert all(
        sent is row.content or sent.get("content") is row.content
        for sent, row in zip(again.messages, own, strict=True)
        if in_base64(sent) == sent  # bytes are stored in base64
    )


def own_rows(form, sent):
    """Rows that were stored in the form's own format, of what it sent."""
    made = []
    for seq, item in enumerate(sent, 1):
        role = item.get("role") or ("user" if item["type"].endswith("_output") else "assistant")
        content = item["content"] if form == "anthropic" else in_base64(item)
        made.append(message(seq, role, content, form, MODELS[form]))
    return made


def flat(sent):
    """The blocks of outgoing messages, a string being one block of text."""
    found = []
    for item in sent:
        blocks = item.get("content", item.get("parts"))
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        found += [(item.get("role"), block) for block in blocks or []]
        found += [("call", call) for call in item.get("tool_calls", [])]
        if "role" not in item or "tool_call_id" in item:
            found.append(item)
    return found


@given(histories, formats, st.integers(0, 9))
def test_sent_messages_are_the_prefix_of_the_next_request(history, form, cut):
    """Unless the model was not to act, or a result came after a request had gone out without it."""
    messages, model = rows(history), MODELS[form]
    before = forms[form].compose(messages[:cut], model=model)
    after = forms[form].compose(messages, model=model)
    asked = forms[form].compose(messages[:cut], model=model, complete=True)
    if asked == before and unanswered(before) <= unanswered(after):
        sent = flat(before.messages)
        assert flat(after.messages)[: len(sent)] == sent


def unanswered(out):
    return {it for it in out.repairs if it.rule is Rule.UNANSWERED}


def stored(rows):
    """Messages of rows that are a format, a role, a content and other fields."""
    return [
        structs.replace(message(at, role, content, format_, MODELS[format_]), **more)
        for at, (format_, role, content, more) in enumerate(rows, 1)
    ]


def sent(form, *rows, model=None, complete=False):
    """Messages as sent, of such rows."""
    out = forms[form].compose(stored(rows), model=model or MODELS[form], complete=complete)
    assert CHECKS[form](out.messages, complete=complete, model=model) == []
    return out.messages, [(it.seq, it.rule) for it in out.repairs]


GO = ("openai", "user", {"role": "user", "content": "go"}, {})


def chat_call(tool_id, name="f"):
    function = {"name": name, "arguments": "{}"}
    asked = [{"id": tool_id, "type": "function", "function": function}]
    return "openai", "assistant", {"role": "assistant", "content": None, "tool_calls": asked}, {}


def test_answer_that_names_its_call_has_the_id_of_that_call():
    output = [{"type": "function_call_output", "call_id": "z", "output": "ok"}]
    answer = ("openai-responses", "user", output, {"answers": (2, 0)})
    expected = {"openai-responses": [(3, Rule.RENAMED)], "anthropic": [(2, Rule.UNTHINKING)]}
    expected["bedrock-converse"] = expected["anthropic"]
    for form in forms.known():
        _, repairs = sent(form, GO, chat_call("a"), answer, complete=True)
        assert repairs == expected.get(form, [])


@pytest.mark.parametrize("stored", four_formats.FORMATS)
def test_answers_stay_with_their_calls_beside_one_without_a_name(stored):
    calls = [("a", ""), ("b", "f"), ("c", "f")]
    answers = [
        (stored, *four_formats.result(stored, call, f"said {call[0]}"), {"answers": (2, at)})
        for at, call in enumerate(calls)
    ]
    for form in forms.known():
        rows = [GO, (stored, *four_formats.asking(stored, *calls), {}), *answers]
        messages, repairs = sent(form, *rows, complete=True)
        assert re.findall(r"said (\w)", str(messages)) == ["b", "c", "a"]
        assert {(2, Rule.MALFORMED), (3, Rule.ORPHAN)} <= {*repairs}


def test_items_lose_their_ids_with_the_reasoning_that_they_refer_to():
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}  # it was stored by the provider
    calls = [
        {"type": "function_call", "id": f"fc_{at}", "call_id": at, "name": "f", "arguments": "{}"}
        for at in "ab"
    ]
    search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
    rows = [("openai-responses", "assistant", it, {}) for it in (thought, search, *calls)]
    messages, repairs = sent("openai-responses", GO, *rows)
    assert [it.get("id") for it in messages[1:]] == [None, None]
    assert (3, Rule.SEPARATED) in repairs
    later = [{**search, "id": "ws_2"}, {**calls[0], "id": "fc_3", "call_id": "c"}]
    rows += [GO, ("openai-responses", "assistant", later, {})]
    messages, _ = sent("openai-responses", GO, *rows)
    assert [it.get("id") for it in messages[-2:]] == ["ws_2", "fc_3"]


def test_messages_of_chat_that_become_one_are_reported():
    messages, repairs = sent("openai", GO, chat_call("a"), chat_call("b"))
    assert [len(it.get("tool_calls", [])) for it in messages] == [0, 2]
    assert repairs == [(3, Rule.MERGED)]


def test_output_is_of_the_type_of_its_call_and_says_so():
    call = {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}
    output = {"type": "function_call_output", "call_id": "a", "output": "ok"}
    rows = [("openai-responses", "assistant", [call], {}), ("openai-responses", "user", output, {})]
    messages, repairs = sent("openai-responses", GO, *rows)
    assert [it["type"] for it in messages[1:]] == ["shell_call", "shell_call_output"]
    assert repairs == [(3, Rule.RETYPED)]


def test_call_whose_item_needs_an_id_becomes_a_function_call_without_one():
    call = {"type": "computer_call", "id": "cu_1", "call_id": "a", "action": {"type": "wait"}}
    rows = [("openai-responses", "assistant", [call], {})]
    assert sent("openai-responses", *rows)[0] == [call]
    (foreign,), repairs = sent("openai-responses", *rows, model="gpt-6")
    assert (foreign["type"], repairs) == ("function_call", [(1, Rule.FIELD)])


def test_empty_id_of_gemini_counts_as_none():
    parts = [{"functionCall": {"name": name, "id": "", "args": {}}} for name in ("f", "g")]
    rows = [("gemini", "model", {"role": "model", "parts": parts}, {})]
    messages, repairs = sent("gemini", GO, *rows, complete=True)
    assert "id" not in messages[1]["parts"][0]["functionCall"]
    assert (2, Rule.RENAMED) in repairs


def test_id_that_is_used_again_is_sent_once():
    called = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    items = [{**called, "call_id": it} for it in "ab"]
    messages, _ = sent("openai-responses", GO, ("openai-responses", "assistant", items, {}))
    assert [it.get("id") for it in messages[1:]] == ["fc_1", None]
    parts = [{"functionCall": {"name": name, "id": "x", "args": {}}} for name in "fg"]
    messages, repairs = sent(
        "gemini", GO, ("gemini", "model", {"role": "model", "parts": parts}, {})
    )
    assert [it["functionCall"].get("id") for it in messages[1]["parts"]] == ["x", None]
    assert (2, Rule.RENAMED) in repairs


def test_system_message_with_an_image_goes_out_as_the_users():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = {"role": "system", "content": [{"type": "text", "text": "See."}, image]}
    messages, repairs = sent("openai", ("openai", "system", content, {}))
    assert messages == [{**content, "role": "user"}]
    assert repairs == [(1, Rule.FIELD)]


def say(role, said, **more):
    return "openai", role, {"role": role, "content": said}, more


def asked_and_recorded(form, *rows):
    """A request's messages, and those sent after its reply is recorded; the first are a prefix."""
    made = stored(rows)
    asked = forms[form].compose(made[:-1], model=MODELS[form], complete=True)
    after = forms[form].compose(made, model=MODELS[form])
    assert CHECKS[form](after.messages, model=MODELS[form]) == []
    assert flat(after.messages)[: len(flat(asked.messages))] == flat(asked.messages)
    return after


def test_reply_follows_the_last_line_of_its_request():
    for form in forms.known():
        rows = [
            say("user", "go"),
            say("assistant", "I sum up."),
            say("assistant", "So.", asked_at=2),
        ]
        after = asked_and_recorded(form, *rows)
        assert str(after.messages).count(OPENING) == 1
        assert [(it.seq, it.rule) for it in after.repairs] == [(3, Rule.APART)]


def test_reply_follows_the_synthetic_results_of_its_request():
    for form in forms.known():
        rows = [GO, chat_call("a"), say("assistant", "So.", asked_at=2)]
        after = asked_and_recorded(form, *rows)
        assert str(after.messages).count(UNANSWERED) == 1
        assert str(after.messages).index(UNANSWERED) < str(after.messages).index("So.")


def test_reply_that_was_asked_for_earlier_joins_the_one_before():
    rows = [say("user", "go"), say("assistant", "One."), say("assistant", "Two.", asked_at=1)]
    messages, repairs = sent("anthropic", *rows)
    assert [it["role"] for it in messages] == ["user", "assistant"]
    assert repairs == []
