"""Sealed compactions by a provider: what a manager does for a model that cannot read them."""

from typing import Any

import pytest

from roocontext.context import Status
from roocontext.errors import BudgetExceeded, SummarySealed
from roocontext.log.entries import Kind
from roocontext.policies.builtin import policies
from support.async_manager import Scripted, manager
from support.dialogue import WORDS, fill, shown, text
from support.replies import CLAUDE, GPT, claude, gpt, output_text, readable, sealed

pytestmark = pytest.mark.every_leg


def compacted(chat: Any, number: int, model: str = GPT) -> Any:
    """Let the provider compact everything so far, and the user go on."""
    reply = gpt(sealed(number), output_text("Done.", number), number=number, model=model)
    done = chat.record(reply, chat.request("openai-responses", model=model))
    chat.append("user", f"And then, {number}?")
    return done


def grown(chat: Any) -> Any:
    """Two sealed compactions, one of which hides the other."""
    fill(chat, 7)
    first = compacted(chat, 1)
    fill(chat, 8)
    chat.append("user", "Once more.")
    return first, compacted(chat, 2)


def summarising(**options: Any) -> dict[str, Any]:
    return {"limit": 100_000, "summariser": Scripted(), **options}


class TestManage:
    def test_what_the_model_cannot_read_is_uncovered_newest_first(self, chat):
        first, second = grown(chat)
        said = [one.seq for one in chat.audit() if one.kind is Kind.MESSAGE]
        before = shown(chat)
        with pytest.raises(SummarySealed):
            chat.request("anthropic", model=CLAUDE)
        context = manager(chat, CLAUDE, **summarising())
        assert context.will_manage(chat)
        outcome = context.manage(chat)
        assert (outcome.status, outcome.changed) == (Status.UNCOVERED, True)
        assert outcome.uncovered == (second.covering, first.covering)
        assert len(before) < len(shown(chat))
        assert shown(chat) == said
        sizes = [outcome.tokens_before, *(one.tokens_after for one in outcome.restorations)]
        assert sizes == sorted(sizes)
        assert outcome.tokens_after == sizes[-1]
        uncoverings = [one for one in chat.audit() if one.kind is Kind.UNCOVERING]
        assert [one.seq for one in uncoverings] == [it.uncovering for it in outcome.restorations]
        assert uncoverings[0].entry.details["record"]["trigger"] == "manage"
        assert chat.request("anthropic", model=CLAUDE)["messages"]
        assert not context.manage(chat).changed
        assert not context.will_manage(chat)

    def test_then_its_own_policy_condenses(self, chat):
        grown(chat)
        full = manager(chat, CLAUDE, **summarising()).preview(chat).tokens_after
        limit = full * 3 // 4
        context = manager(chat, CLAUDE, **summarising(limit=limit, output=limit // 8))
        foreseen = context.preview(chat)
        assert len(chat.view().messages) == 2
        outcome = context.manage(chat)
        assert (outcome.status, len(outcome.uncovered)) == (Status.CONDENSED, 2)
        assert outcome.tokens_after < limit
        assert (foreseen.status, foreseen.uncovered) == (outcome.status, outcome.uncovered)
        assert foreseen.seqs == outcome.seqs
        assert [(one.seq, one.content) for one in foreseen.view] == [
            (one.seq, one.content) for one in chat.view().messages
        ]
        assert foreseen.tokens_after == outcome.tokens_after
        assert outcome.bytes_after == chat.tokens("bytes")
        assert [one.uncovering for one in foreseen.restorations] == [None, None]
        assert outcome.to_dict()["uncovered"] == list(outcome.uncovered)
        assert chat.request("anthropic", model=CLAUDE)["messages"]

    def test_dry_run_shows_the_full_view_and_writes_nothing(self, chat):
        grown(chat)
        head = chat.head()
        outcome = manager(chat, CLAUDE, **summarising()).preview(chat)
        assert (outcome.status, outcome.dry_run) == (Status.UNCOVERED, True)
        assert [one.seq for one in outcome.view] == [
            one.seq for one in chat.audit() if one.kind is Kind.MESSAGE
        ]
        assert all(one.compacted is None for one in outcome.view)
        assert chat.head() == head

    def test_run_that_ended_in_between_is_continued(self, chat):
        first, second = grown(chat)
        chat.uncover(second.covering)
        outcome = manager(chat, CLAUDE, **summarising()).manage(chat)
        assert outcome.uncovered == (first.covering,)
        full = shown(chat)
        limit = outcome.tokens_after * 3 // 4
        small = manager(chat, CLAUDE, **summarising(limit=limit, output=limit // 8))
        assert small.manage(chat).status in (Status.CONDENSED, Status.TRUNCATED)
        assert len(shown(chat)) < len(full)

    @pytest.mark.values_on_one_leg
    @pytest.mark.parametrize("model", [GPT, f"{GPT}-2026-03-05", ""])
    def test_model_that_can_read_it_keeps_it(self, chat, model):
        grown(chat)
        before = shown(chat), chat.head_seq()
        outcome = manager(chat, model, **summarising()).manage(chat)
        assert not outcome.changed
        assert (shown(chat), chat.head_seq()) == before

    def test_models_of_one_group_read_each_others(self, chat):
        fill(chat, 7)
        compacted(chat, 1, "gpt-5.6-luna")
        assert not manager(chat, "gpt-5.6-sol", **summarising()).manage(chat).changed
        first = chat.request("openai-responses", model="gpt-5.6-sol")["input"][0]
        assert (first["type"], first["encrypted_content"]) == ("compaction", "sealed")
        assert manager(chat, "gpt-5.5", **summarising()).manage(chat).uncovered

    def test_readable_one_stays(self, chat):
        fill(chat, 7)
        chat.record(claude(readable("All so far."), stop_reason="compaction"))
        assert not manager(chat, GPT, **summarising()).manage(chat).changed

    def test_one_that_a_rewind_took_back_is_no_matter(self, chat):
        fill(chat, 7)
        done = compacted(chat, 1)
        chat.rewind(done.seq)
        assert not manager(chat, CLAUDE, **summarising()).manage(chat).changed

    def test_only_manage_uncovers(self, chat):
        grown(chat)
        context = manager(chat, CLAUDE, **summarising())
        for run in (context.condense, context.truncate, context.prune):
            assert run(chat).uncovered == ()
        assert not any(one.kind is Kind.UNCOVERING for one in chat.audit())

    def test_what_must_stay_and_does_not_fit_is_refused_with_the_full_view(self, chat):
        chat.append("user", WORDS * 50)
        compacted(chat, 1)
        context = manager(chat, CLAUDE, **summarising(limit=100, output=10))
        chat.pin(1)
        with pytest.raises(BudgetExceeded):
            context.manage(chat)
        assert shown(chat)[0] == 1


class TestPolicies:
    """Rows that stand for hidden messages are hidden only with a substitute."""

    @pytest.mark.values_on_one_leg
    @pytest.mark.parametrize("policy", policies.known())
    def test_sealed_compaction_stays_in_the_view(self, chat, policy):
        fill(chat, 7)
        done = compacted(chat, 1)
        fill(chat, 30)
        chat.append("user", "Go on.")
        size = manager(chat, GPT, **summarising()).preview(chat).tokens_before
        options = summarising(limit=size // 2, output=size // 20, policy=policy)
        outcome = manager(chat, GPT, **options).manage(chat)
        assert outcome.hidden > 5
        assert done.seq in shown(chat)

    def test_readable_one_is_part_of_the_next_summary(self, chat):
        fill(chat, 7)
        done = chat.record(claude(readable("All so far."), text("x")))
        fill(chat, 30)
        chat.append("user", "Go on.")
        summariser = Scripted()
        context = manager(chat, CLAUDE, **summarising(summariser=summariser))
        assert context.condense(chat).hidden > 5
        assert done.seq not in shown(chat)
        assert "All so far." in str(summariser.requests[0].messages)
