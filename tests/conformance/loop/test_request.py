"""Requests for the model's turn, and the replies that are recorded."""

from functools import partial

import pytest

from roocontext import Plan, RooContextError
from roocontext.errors import (
    DuplicateMessage,
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    NotTheModelsTurn,
    UnknownPlugin,
)
from roocontext.log.forms import UNANSWERED
from support.dialogue import call, fill, result, text, work
from support.provider_rules import CHECKS
from support.provider_rules.anthropic import thoughtless, violations
from support.replies import USAGE, claude

pytestmark = pytest.mark.every_leg

TOOLS = [{"name": "run", "description": "Run it.", "input_schema": {"type": "object"}}]
ITEMS = {
    "anthropic": "messages",
    "openai": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}


reply = partial(claude, model="claude-x-20260205")


def entry(chat, seq):
    (found,) = (found.entry for found in chat.audit(after=seq - 1) if found.seq == seq)
    return found


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("form", ITEMS)
def test_request_is_what_the_provider_accepts(chat, form):
    chat.append("user", "Look.")
    work(chat, ["t1", "t2"])
    made = chat.request(form, system="Be brief.", tools=TOOLS)
    items = made[ITEMS[form]][form == "openai" :]
    assert CHECKS[form](items, complete=True) == []
    assert dict(**made) == dict(made)
    assert (made.form, made.model, made.repairs) == (form, None, chat.repairs(form))
    assert made.seq == chat.head().seq
    assert "Be brief." in str(dict(made))
    assert "Run it." in str(dict(made))


def test_frame_is_recorded_and_left_out_afterwards(chat):
    chat.append("user", "Look.")
    first = chat.request(system="Be brief.", tools=TOOLS)
    assert (first["system"], first["tools"]) == ("Be brief.", TOOLS)
    assert [note.seq for note in chat.notes("frame")] == [2]
    assert first.seq == 2
    again = chat.request()
    assert (dict(again), again.seq) == (dict(first), 2)
    other = chat.request(system="Be long.")
    assert (other["system"], other["tools"], other.seq) == ("Be long.", TOOLS, 3)
    assert "tools" not in chat.request(tools=[])
    assert chat.request(cache=True)["system"][0]["cache_control"]


def test_request_of_a_past_call_can_be_seen_again(chat):
    chat.append("user", "Look.")
    asked = [chat.request(system="Be brief.", tools=TOOLS)]
    chat.record(reply(call("t1"), number=1), asked[0])
    chat.append("user", [result("t1")])
    asked.append(chat.request(system="Be long."))
    seq = chat.record(reply(text("Done."), number=2), asked[1]).seq
    chat.append("user", "More.")
    view = chat.view()
    chat.commit(Plan.condense(view, [one.seq for one in view.messages if one.seq <= seq], "S"))
    asked.append(chat.request(tools=[]))
    chat.record(reply(text("So."), number=3), asked[2])
    chat.rewind(1)
    chat.request(system="Another.")
    recorded = [one.entry.asked_at for one in chat.audit() if one.entry.role == "assistant"]
    assert recorded == [one.seq for one in asked]
    for one in asked:
        before = chat.head()
        past = chat.request(as_of=one.seq)
        assert (dict(past), past.seq) == (dict(one), one.seq)
        assert chat.head() == before


def test_request_on_another_turn_is_refused(chat):
    def refused(**options):
        before = chat.head()
        with pytest.raises(NotTheModelsTurn) as caught:
            chat.request(system="Be brief.", **options)
        assert chat.head() == before
        return caught.value

    assert refused(prefill=True, unanswered=True).waits_for == "user"
    fill(chat, 2)
    assert refused(unanswered=True).waits_for == "user"
    prefilled = chat.request(prefill=True)["messages"]
    assert prefilled == chat.messages()
    chat.append("user", "Look.")
    chat.append("assistant", [call("t1"), call("t2")])
    error = refused(prefill=True)
    assert (error.waits_for, error.pending) == ("tools", ((4, 0), (4, 1)))
    assert "pending()" in str(error)
    asked = chat.request(unanswered=True)["messages"]
    assert violations(asked, complete=True) == []
    assert str(asked).count(UNANSWERED) == 2


def test_thinking_goes_to_the_model_that_is_asked_for_by_its_short_name(chat):
    chat.append("user", "Look.")
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    chat.record(reply(thought, call("t1")), chat.request(model="claude-x"))
    chat.append("user", [result("t1")])
    assert chat.request(model="claude-x").model == "claude-x"
    assert chat.request().model == "claude-x-20260205"
    for own in (None, "claude-x", "anthropic/claude-x", "claude-x@20260205", "claude-x-20260205"):
        assert thought in chat.request(model=own)["messages"][1]["content"]
    for other in ("claude", "claude-x-mini", "claude-y", "claude-x-latest", "claude-x-20260301"):
        assert thought not in chat.request(model=other)["messages"][1]["content"]


def test_request_goes_to_the_model_of_the_newest_reply_also_if_that_is_hidden(chat):
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    fill(chat, 1)
    old = chat.append("assistant", [thought, text("So.")], model="claude-x").seq
    assert chat.request(prefill=True).model == "claude-x"
    work(chat, ["t1"])
    new = chat.append("assistant", "Done.", model="claude-y").seq
    chat.append("user", "Go on.")
    before = chat.head_seq()
    chat.commit(Plan.condense(chat.view(), range(old + 1, new + 1), "S"))
    assert thought not in chat.messages()[1]["content"]
    for made in (chat.request(), chat.request(as_of=chat.head_seq())):
        assert made.model == "claude-y"
        assert thought not in made["messages"][1]["content"]
    chat.rewind(old)
    chat.append("user", "Look again.")
    assert chat.request().model == "claude-x"
    assert chat.request(as_of=before).model == "claude-y"


def test_recorded_reply_holds_all_its_facts(chat):
    chat.append("user", "Look.")
    asked = chat.request()
    receipt = chat.record(reply(text("So.")), asked, extra={"commit": "abc"})
    written = entry(chat, receipt.seq)
    assert (written.role, written.content) == ("assistant", [text("So.")])
    assert (written.model, written.usage) == ("claude-x-20260205", USAGE)
    assert (written.asked_at, written.message_id) == (asked.seq, "msg_1")
    assert written.extra == {
        "commit": "abc",
        "roocontext": {"id": "msg_1", "stop_reason": "end_turn"},
    }
    assert chat.waits_for() == "user"
    assert chat.verify().ok


def test_redacted_reply_is_still_recorded_once(chat):
    chat.append("user", "Look.")
    first = chat.record(reply(text("So.")), chat.request())
    chat.redact(first.seq)
    again = chat.record(reply(text("So.")), extra={"other": 1})
    assert (again.seq, again.hash, again.new) == (first.seq, first.hash, False)


def test_another_reply_with_the_same_id_is_not_lost(chat):
    """Some servers count to a thousand."""
    chat.append("user", "Look.")
    first = chat.record(reply(text("So.")))
    other = chat.record(reply(text("Or so.")))
    assert other.new
    assert other.seq == first.seq + 1
    named = chat.append("user", "So.", message_id="msg_2")
    assert chat.record(reply(text("So."), number=2)).seq == named.seq + 1


def test_reply_that_was_recorded_before_its_stream_ended_is_refused_as_whole(chat):
    chat.append("user", "Look.")
    asked = chat.request()
    partial = chat.record(reply(text("So"), stop_reason=None), asked)
    head = chat.head()
    with pytest.raises(DuplicateMessage, match="entry 2") as caught:
        chat.record(reply(text("So it is.")), asked)
    assert (caught.value.seq, chat.head()) == (partial.seq, head)
    chat.rewind(caught.value.seq - 1)
    whole = chat.record(reply(text("So it is.")), asked)
    assert (whole.new, len(chat.view().messages)) == (True, 2)
    assert not chat.record(reply(text("So it is.")), asked).new
    assert chat.record(reply(text("So"), stop_reason=None)).new


def test_reply_without_an_id_is_new_each_time(chat):
    chat.append("user", "Look.")
    one, two = (chat.record(reply(text("So."), id=None)) for _ in range(2))
    assert (one.new, two.new) == (True, True)


def test_message_that_came_while_the_model_ran_is_answered(chat):
    chat.append("user", "Look.")
    asked = chat.request()
    chat.append("user", "And there.")
    chat.record(reply(text("So.")), asked)
    assert chat.waits_for() == "model"
    assert chat.request()["messages"][-1]["role"] == "user"


def test_redacted_frame_is_not_silently_left_out(chat):
    chat.append("user", "Look.")
    chat.request(system="Be brief.", tools=TOOLS)
    chat.redact(2)
    for options in ({}, {"system": "Be long."}, {"tools": []}):
        with pytest.raises(InvalidOption, match="entry 2, were redacted"):
            chat.request(**options)
    assert "system" not in chat.request(as_of=2)
    assert chat.request(system="Be long.", tools=[])["system"] == "Be long."


WRONG = {
    "a form": ({"form": "cohere"}, UnknownPlugin),
    "no form": ({"form": None}, InvalidOption),
    "a model": ({"model": ""}, InvalidIdentifier),
    "a prompt": ({"system": 7}, InvalidOption),
    "tools": ({"tools": "run"}, InvalidOption),
    "a tool that only another provider has": ({"tools": [{"google_search": {}}]}, InvalidOption),
    "a time": ({"as_of": "now"}, RooContextError),
    "a later time": ({"as_of": 9}, RooContextError),
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(("options", "error"), WRONG.values(), ids=WRONG)
def test_wrong_options_are_refused(chat, options, error):
    chat.append("user", "Look.")
    with pytest.raises(error):
        chat.request(**{"system": "Be brief.", **options})
    assert chat.head().seq == 1


def test_unreadable_reply_is_refused(chat):
    chat.append("user", "Look.")
    for given, options, error in (
        ({"choices": []}, {}, InvalidMessage),
        (reply(text("So.")), {"request": {"seq": 1}}, InvalidOption),
        (reply(text("So.")), {"extra": [1]}, InvalidMessage),
        (reply(text("So.")), {"extra": {"roocontext": 1}}, InvalidMessage),
        (reply({"type": 7}), {}, InvalidMessage),
    ):
        with pytest.raises(error):
            chat.record(given, **options)
    assert chat.head().seq == 1


BOUND = "claude-fable-5-1-20260901"
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def thoughtful(chat, number=1, model=BOUND):
    """One step of the loop: a reply that thinks and calls, and the answer to it."""
    asked = chat.request()
    seq = chat.record(reply(THOUGHT, call(f"t{number}"), number=number, model=model), asked).seq
    chat.append("user", [result(f"t{number}")])
    return seq


def thinking(chat, **options):
    return [THOUGHT in message["content"] for message in chat.request(**options)["messages"][1::2]]


def prepared(chat, model=BOUND):
    chat.append("user", "Look.")
    chat.internals.keep_frame(system="Be brief.", tools=TOOLS)
    return [thoughtful(chat, number, model) for number in (1, 2, 3)]


def test_changed_prefix_drops_the_thinking_after_it(chat):
    _, second, _ = prepared(chat)
    before = chat.head_seq()
    chat.commit(Plan.clear(chat.view(), [(second + 1, 0)], "[cleared]"))
    assert thinking(chat) == [True, True, False]
    chat.uncover(chat.head_seq())
    assert thinking(chat) == [True, True, True]
    chat.rewind(before)
    chat.commit(Plan.condense(chat.view(), [1], "S"))
    assert thinking(chat) == [False, False, False]
    assert thinking(chat, as_of=before) == [True, True, True]
    chat.rewind(before)
    chat.redact(second + 1)
    assert thinking(chat) == [True, True, False]
    thoughtful(chat, 4)
    assert thinking(chat) == [True, True, False, True]


def test_late_result_drops_the_thinking_after_its_call(chat):
    chat.append("user", "Look.")
    chat.record(reply(THOUGHT, call("t1"), model=BOUND), chat.request())
    asked = chat.request(unanswered=True)
    chat.record(reply(THOUGHT, text("No result?"), number=2, model=BOUND), asked)
    assert [THOUGHT in it["content"] for it in chat.messages()[1::2]] == [True, True]
    chat.answer((2, 0), "late")
    assert thinking(chat) == [True, False]


def test_changed_frame_drops_all_earlier_thinking(chat):
    prepared(chat)
    assert thinking(chat, system="Be long.") == [False, False, False]
    thoughtful(chat, 4)
    assert thinking(chat) == [False, False, False, True]
    assert thinking(chat, system="Be brief.") == [True, True, True, False]


def test_message_that_came_while_the_model_ran_unbinds_its_thinking(chat):
    chat.append("user", "Look.")
    asked = chat.request()
    chat.append("user", "And there.")
    chat.record(reply(THOUGHT, call("t1"), model=BOUND), asked)
    chat.append("user", [result("t1")])
    assert thinking(chat) == [False]


def test_failed_compaction_that_is_not_sent_unbinds_the_thinking_beside_it(chat):
    chat.append("user", "Look.")
    failed = {"type": "compaction", "content": None}
    chat.record(reply(failed, THOUGHT, call("t1"), model=BOUND), chat.request())
    chat.append("user", [result("t1")])
    thoughtful(chat, 2)
    assert thinking(chat) == [False, True]


def test_messages_and_their_report_leave_out_the_same_thinking(chat):
    _, second, _ = prepared(chat)
    chat.commit(Plan.clear(chat.view(), [(second + 1, 0)], "[cleared]"))
    made = chat.request()
    assert chat.messages() == made["messages"]
    assert chat.repairs() == made.repairs
    assert THOUGHT not in chat.messages()[-2]["content"]
    assert chat.messages(model="claude-fable-5-1") == chat.messages()
    chat.internals.keep_frame(system="Be long.")
    assert not any(THOUGHT in message["content"] for message in chat.messages()[1::2])
    chat.uncover(second + 4)
    assert all(THOUGHT in message["content"] for message in chat.messages(as_of=8)[1::2])


def test_request_says_that_thinking_must_be_off(chat):
    """Binding takes precedence over the rule that the running tool loop begins with thinking."""
    _, second, third = prepared(chat)
    made = chat.request()
    assert not made.thinking_off
    assert thoughtless(made["messages"]) == []
    chat.commit(Plan.clear(chat.view(), [(second + 1, 0)], "[cleared]"))
    made = chat.request()
    assert made.thinking_off
    assert [repair.seq for repair in made.repairs if repair.rule == "unthinking"] == [third]
    assert len(thoughtless(made["messages"])) == 1
    chat.append("user", "Go on.")
    chat.record(reply(text("So."), number=8, model=BOUND), chat.request())
    chat.append("user", "And now?")
    assert not chat.request().thinking_off


def test_another_provider_in_mid_tool_call_needs_thinking_off(chat):
    chat.append("user", "Look.")
    asked = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [asked]}
    chat.append("assistant", said, format="openai", model="gpt-5")
    chat.answer((2, 0), "done")
    assert chat.request("anthropic", model="claude-opus-4-5").thinking_off
    for form in ("openai", "openai-responses", "gemini"):
        assert not chat.request(form).thinking_off


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-fable-5", "claude-opus-5-20260205"])
def test_models_without_binding_keep_their_thinking(chat, model):
    _, second, _ = prepared(chat, model)
    chat.commit(Plan.clear(chat.view(), [(second + 1, 0)], "[cleared]"))
    assert thinking(chat, system="Be long.") == [True, True, True]


LISTED = {"functionCall": {"name": "ls", "args": {}}}


def gemini_reply(*parts):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "g"}


def test_reply_without_an_id_is_recorded_once(chat):
    chat.append("user", "hi")
    request = chat.request("gemini")
    first = chat.record(gemini_reply(LISTED), request)
    again = chat.record(gemini_reply(LISTED), request)
    assert (again.seq, again.new) == (first.seq, False)
    assert len(chat.pending()) == 1
    chat.answer((first.seq, 0), "parser.py")
    assert not chat.record(gemini_reply(LISTED), request).new
    assert chat.record(gemini_reply({"text": "no"}), request).new
    assert chat.record(gemini_reply(LISTED), chat.request("gemini", unanswered=True)).new
    chat.rewind(to=first.seq, keep_target=False)
    assert chat.record(gemini_reply(LISTED), request).new


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("form", ["gemini", "anthropic", "openai", "openai-responses"])
def test_results_without_ids_answer_their_calls_also_one_by_one(chat, form):
    chat.append("user", "hi")
    chat.record(gemini_reply(LISTED, LISTED))
    for said in ("one", "two"):
        response = {"name": "ls", "response": {"output": said}}
        part = {"functionResponse": response}
        chat.append("user", {"role": "user", "parts": [part]}, format="gemini")
    assert chat.waits_for() == "model"
    rules = {repair.rule for repair in chat.repairs(form)}
    assert not rules & {"duplicate", "orphan", "unanswered"}
    sent = str(chat.messages(form))
    assert 0 < sent.index("'one'") < sent.index("'two'")


def test_dialect_that_is_named_counts(chat):
    chat.append("user", "List the files.")
    reasoned = {"role": "assistant", "content": "So.", "reasoning_content": "They ask for files."}
    chat.append("assistant", reasoned, format="openai", model="mine")
    for named, field in (("vllm", "reasoning"), (None, "reasoning_content")):
        for sent in (
            chat.request("openai", dialect=named, prefill=True)["messages"],
            chat.messages("openai", dialect=named),
        ):
            assert sent[1][field] == "They ask for files."
    assert chat.repairs("openai", dialect="openai")[0].rule == "thinking"
    for wrong in ("acme", ["deepseek"]):
        with pytest.raises(InvalidOption):
            chat.request("openai", dialect=wrong, prefill=True)
