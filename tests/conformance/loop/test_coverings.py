"""Compaction by the provider: what a recorded reply compacted is hidden, as by a summary."""

from typing import Any

import pytest
from msgspec.structs import replace

from roocontext import Kind, NewMessage, Plan
from roocontext.errors import InvalidOption, NotTheModelsTurn, SummarySealed
from roocontext.reports.why import why
from support.async_driver import plain_session
from support.dialogue import text
from support.recalling import read, recall_for, search
from support.replies import (
    CLAUDE,
    GPT,
    claude,
    compacted_answer,
    gpt,
    output_text,
    readable,
    sealed,
)

REPLY = claude(readable("All so far."), text("Going on."))
SEALED, SPOKEN = sealed(), output_text("Done.")


@pytest.fixture
def long(chat: Any) -> Any:
    """A session that waits for the model, with a few messages."""
    for number in range(3):
        chat.append("user", f"question {number}")
        if number < 2:
            chat.append("assistant", f"answer {number}", model=CLAUDE)
    return chat


def seqs(chat: Any, **options: Any) -> list[int]:
    return [message.seq for message in chat.view(**options).messages]


def compacted(chat: Any) -> Any:
    """Record a reply that compacted what its request had read."""
    return chat.record(REPLY, chat.request("anthropic", model=CLAUDE))


@pytest.mark.every_leg
class TestRecord:
    def test_compaction_hides_what_its_request_had_read(self, long):
        done = compacted(long)
        assert (done.seq, done.covering, done.hidden, done.unread) == (6, 7, 5, ())
        assert done.head_seq == 7 == long.head_seq()
        assert seqs(long) == [6]
        covering = next(one for one in long.audit() if one.seq == 7)
        assert covering.kind is Kind.COVERING
        assert covering.entry.compaction_id
        assert covering.entry.details["source"] == [6, 0]
        assert [one.hidden_by for one in long.audit()][:5] == [7] * 5
        assert long.verify().ok

    def test_repeated_record_says_what_became_of_the_covering(self, long):
        request = long.request("anthropic", model=CLAUDE)
        long.append("user", "wait")
        first = long.record(REPLY, request)
        assert (first.hidden, first.unread, first.undone_by) == (5, (6,), None)
        uncovering = long.uncover(first.covering)
        again = long.record(REPLY, request)
        assert again == replace(first, new=False, undone_by=uncovering.seq)
        rewind = long.rewind(first.seq)
        assert long.record(REPLY, request).undone_by == rewind.seq
        assert seqs(long.fork(first.seq)) == [1, 2, 3, 4, 5, 6, 7]
        cut = long.fork(first.seq).record(REPLY, request)
        assert (cut.seq, cut.compacted, cut.covering) == (first.seq, True, None)

    def test_reply_with_a_failed_compaction_first_does_not_begin_a_request(self, long):
        long.record(claude(readable(None), text("Going on."), readable("All so far.")))
        long.append("user", "go on")
        sent = long.request("anthropic", model=CLAUDE)["messages"]
        assert [one["role"] for one in sent] == ["user", "assistant", "user"]

    def test_request_as_of_the_middle_of_a_plan(self, long):
        companion = NewMessage("user", "Before it.")
        plan = Plan.condense(long.view(), [1, 2], "Short.", companions=[companion], lead=1)
        assert long.commit(plan).rows == (6, 7)
        request = long.request("anthropic", model=CLAUDE, as_of=6)
        done = long.record(REPLY, request)
        assert (done.seq, done.hidden, done.unread) == (8, 5, ())
        assert seqs(long) == [8]
        assert long.verify().ok

    def test_compaction_on_demand_that_a_newer_one_overtook_is_left_out(self, long):
        early = long.request("anthropic", model=CLAUDE, compact=True)
        long.append("user", "Wait.")
        request = long.request("anthropic", model=CLAUDE)
        first = long.record(claude(readable("All."), stop_reason="compaction", number=0), early)
        done = long.record(claude(readable("All and wait."), text("Going on.")), request)
        assert seqs(long) == [first.seq, done.seq]
        long.append("user", "Now?")
        sent = long.request("anthropic", model=CLAUDE)
        assert sent["messages"][0]["content"] == [readable("All and wait."), text("Going on.")]
        assert [(one.seq, one.rule) for one in sent.repairs] == [(first.seq, "uncompacted")]


@pytest.mark.every_leg
class TestTurns:
    def test_pause_leaves_the_turn_with_the_model(self, long):
        request = long.request("anthropic", model=CLAUDE)
        long.record(claude(readable("All so far."), stop_reason="compaction"), request)
        assert long.waits_for() == "model"
        request = long.request("anthropic", model=CLAUDE)
        paused = {"role": "assistant", "content": [readable("All so far.")]}
        assert request["messages"] == [paused]
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        long.record(claude(thought, text("Going on."), number=2), request)
        blocks = [readable("All so far."), thought, text("Going on.")]
        assert long.messages() == [{"role": "assistant", "content": blocks}]


@pytest.mark.every_leg
class TestOtherModels:
    def test_readable_compaction_goes_as_text_to_models_that_do_not_compact(self, long):
        compacted(long)
        blocks, said = REPLY["content"], {"role": "user", "content": [text("All so far.")]}
        for model in (CLAUDE, "claude-sonnet-5"):
            assert long.messages(model=model) == [{"role": "assistant", "content": blocks}]
        assert long.messages(model="claude-haiku-4-5") == [
            said,
            {"role": "assistant", "content": blocks[1:]},
        ]

    def test_sealed_compaction_is_refused_for_others_and_sent_to_its_model(self, long):
        request = long.request("openai-responses", model=GPT)
        long.record(gpt(SEALED, SPOKEN), request)
        assert seqs(long) == [6]
        sent = long.messages("openai-responses", model=GPT)
        assert [one["type"] for one in sent] == ["compaction", "message"]
        with pytest.raises(SummarySealed) as refused:
            long.messages("anthropic", model=CLAUDE)
        assert refused.value.seq == 6
        with pytest.raises(SummarySealed):
            long.messages("openai-responses", model="gpt-5.5")


@pytest.mark.every_leg
class TestOnDemand:
    def test_anthropics_request_has_the_field_and_no_made_line(self, long):
        long.append("assistant", "answer 2", model=CLAUDE)
        request = long.request("anthropic", model=CLAUDE, compact=True)
        assert request["compaction"] == {"type": "summarize"}
        assert request["messages"][-1]["role"] == "assistant"
        done = long.record(claude(readable("All so far."), stop_reason="compaction"), request)
        assert done.hidden == 6
        assert long.waits_for() == "user"
        long.append("user", "go on")
        sent = long.request("anthropic", model=CLAUDE)["messages"]
        assert [one["role"] for one in sent] == ["assistant", "user"]

    def test_compact_request_with_pending_calls_is_refused(self, long):
        call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
        long.record(claude(call, stop_reason="tool_use"))
        with pytest.raises(NotTheModelsTurn):
            long.request("anthropic", model=CLAUDE, compact=True)

    def test_compact_request_of_an_empty_session_is_refused(self, store):
        """No provider accepts a request without messages."""
        with pytest.raises(NotTheModelsTurn):
            store.create().request("anthropic", model=CLAUDE, compact=True)

    def test_compact_request_in_another_form_is_refused(self, long):
        with pytest.raises(InvalidOption):
            long.request("gemini", compact=True)

    def test_answer_of_responses_compact_is_recorded(self, long):
        """Messages of the history that it kept stay where they are; others are companions."""
        request = long.request("openai-responses", model=GPT, compact=True)
        assert set(request) == {"input"}
        usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {}}
        answer = compacted_answer("question 0", "question 2", "never said", usage=usage)
        done = long.record(answer, request)
        assert (done.hidden, done.covering) == (3, done.seq + 1)
        assert [one.content for one in long.view().messages][:2] == ["question 0", "question 2"]
        assert seqs(long) == [1, 5, 6, 7]
        companion = long.view().messages[2]
        assert (companion.kind, companion.content) == (Kind.COMPANION, [answer["output"][2]])
        sent = long.messages("openai-responses", model=GPT)
        assert [one["type"] for one in sent] == ["message", "message", "message", "compaction"]
        assert long.verify().ok
        assert long.record(answer, request) == replace(done, new=False)
        long.uncover(done.covering)
        assert seqs(long) == [1, 2, 3, 4, 5, 7]


def test_kept_messages_are_found_in_the_order_in_which_they_were_sent(long):
    """A summary comes before older messages, although its entry is a later one."""
    plan = Plan.condense(long.view(), [1, 2], "Short.", compat=True)
    summary = long.commit(plan).seq
    request = long.request("openai-responses", model=GPT, compact=True)
    assert seqs(long) == [summary, 3, 4, 5]
    done = long.record(compacted_answer("Short.", "question 1", "question 2"), request)
    assert done.hidden == 1
    assert seqs(long) == [summary, 3, 5, done.seq]


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_redacted_compaction_is_left_out_and_what_it_hides_stays_hidden(long, model):
    done = long.record(REPLY)
    long.append("user", "more")
    long.redact(done.seq)
    form = "anthropic" if model == CLAUDE else "openai"
    assert "compaction" not in str(long.messages(form, model=model))
    assert seqs(long) == [done.seq, done.covering + 1]


def test_audit_names_the_pins_that_were_not_kept(long):
    long.pin(2)
    done = long.record(REPLY)
    record = next(one for one in long.audit() if one.seq == done.covering).entry.details["record"]
    assert record["pins"] == [2]


@pytest.mark.every_leg
def test_search_recall_audit_and_why_name_the_covering(store, long):
    done = long.record(gpt(SEALED, SPOKEN), long.request("openai-responses", model=GPT))
    (hit,) = [one for one in store.search("question 1", session=long.id) if one.seq == 3]
    assert (hit.visible, hit.hidden_by, hit.condense_parent) == (
        False,
        done.covering,
        done.covering,
    )
    recall = recall_for(store, long)
    assert "question 1" in search(recall, "question 1").text
    assert "> question 1" in read(recall, 3, last=3).text
    hidden = [one for one in long.audit() if one.hidden_by == done.covering]
    assert [one.seq for one in hidden] == [1, 2, 3, 4, 5]
    answer = why(plain_session(long), 3)
    assert (answer.visible, [one.uncover for one in answer.reasons]) == (False, [done.covering])
