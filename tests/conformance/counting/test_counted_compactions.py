"""Counts of messages with a provider's compaction, and what estimates are compared with."""

from functools import partial
from typing import Any

import pytest

from roocontext.reports.gauge import counted_gauge
from roocontext.reports.usage import usage_of
from roocontext.tokens import counter_for, usage_tokens
from support import replies
from support.async_manager import manager
from support.dialogue import WORDS, counts_of, fill, text
from support.replies import CLAUDE, GPT, compacted_answer, gpt, output_text, sealed

pytestmark = pytest.mark.every_leg

COUNTER = counter_for("gpt-4o")
SEALED, SAID = sealed(content="gAAAAAB" * 400), output_text("Done.")
claude = partial(replies.claude, usage=None)


def cost(*blocks: Any, format: str = "anthropic") -> int:  # noqa: A002
    return COUNTER.count("assistant", list(blocks), format)


def gauge_of(chat: Any, **options: Any) -> Any:
    return counted_gauge(chat, GPT, **options)


class TestTokens:
    def test_of_a_sealed_one_are_those_reported_for_it(self, chat):
        fill(chat, 6)
        usage = {
            "input_tokens": 900,
            "output_tokens": 40,
            "input_tokens_details": {},
            "iterations": [
                {"type": "compaction", "input_tokens": 800, "output_tokens": 123},
                {"type": "message", "input_tokens": 130, "output_tokens": 9},
            ],
        }
        done = chat.record(gpt(SEALED, SAID, usage=usage))
        assert chat.tokens(COUNTER) == cost(SAID, format="openai-responses") + 123
        assert counts_of(chat, COUNTER)[done.seq] == chat.tokens(COUNTER)

    def test_of_one_made_on_demand_are_the_output_of_its_call(self, chat):
        fill(chat, 6)
        usage = {"input_tokens": 900, "output_tokens": 77, "input_tokens_details": {}}
        chat.record(
            compacted_answer(usage=usage), chat.request("openai-responses", model=GPT, compact=True)
        )
        assert chat.tokens(COUNTER) == 77

    def test_of_a_sealed_one_without_a_report_are_estimated(self, chat):
        fill(chat, 6)
        done = chat.record(gpt(SEALED, SAID))
        counted = counts_of(chat, COUNTER)[done.seq]
        assert counted == cost(SAID, format="openai-responses") + 2_800 * 3 // 16

    def test_of_a_readable_one_are_those_of_its_text(self, chat):
        fill(chat, 6)
        block = {"type": "compaction", "content": WORDS, "encrypted_content": "x" * 3_000}
        chat.record(claude(block, text("Done.")))
        assert chat.tokens(COUNTER) == cost(text(WORDS)) + cost(text("Done."))

    def test_are_not_of_one_that_is_not_in_effect(self, chat):
        fill(chat, 6)
        before = chat.tokens(COUNTER)
        block = {"type": "compaction", "content": WORDS}
        done = chat.record(claude(block, text("Done.")))
        inside = chat.tokens(COUNTER)
        full = before + cost(text("Done."))
        assert chat.fork(done.seq).tokens(COUNTER) == full
        assert chat.tokens(COUNTER, as_of=done.seq) == full
        assert chat.tokens(COUNTER, as_of=done.covering) == inside
        chat.uncover(done.covering)
        assert chat.tokens(COUNTER) == full
        assert sum(counts_of(chat, COUNTER).values()) == full
        chat.rewind(done.covering)
        assert chat.tokens(COUNTER) == inside
        chat.rewind(done.seq)
        assert chat.tokens(COUNTER) == full
        assert chat.tokens("bytes") == sum(counts_of(chat, "bytes").values())

    @pytest.mark.parametrize(
        "reply",
        [claude({"type": "compaction", "content": WORDS}, text("Done.")), gpt(SEALED, SAID)],
    )
    def test_are_those_of_the_roles_in_the_usage(self, chat, reply):
        fill(chat, 6)
        done = chat.record(reply)
        for _ in range(2):
            roles = usage_of(chat, "gpt-4o").roles
            assert sum(role.tokens for role in roles) == chat.tokens(COUNTER)
            chat.uncover(done.covering)

    @pytest.mark.parametrize("reports", [False, True])
    def test_are_exact_unless_they_are_estimated(self, chat, reports):
        fill(chat, 6)
        context = manager(chat, GPT, limit=100_000, counter=COUNTER)
        iterations = [{"type": "compaction", "input_tokens": 800, "output_tokens": 123}]
        usage = {"input_tokens": 900, "output_tokens": 40, "iterations": iterations}
        done = chat.record(gpt(SEALED, SAID, usage=usage if reports else None))
        after = done.covering
        assert gauge_of(chat).exact is reports
        assert context.manage(chat).exact is reports
        assert context.restore(chat, dry_run=True).exact is reports
        assert context.manage(chat).exact is reports  # by the stored counts too
        assert gauge_of(chat).exact is reports
        assert gauge_of(chat, as_of=done.seq).exact  # no covering yet
        usage = {"input_tokens": 5_000, "output_tokens": 40, "input_tokens_details": {}}
        chat.append("assistant", "So.", model=GPT, usage=usage)
        assert gauge_of(chat).exact  # as the provider reported it
        assert gauge_of(chat, as_of=after).exact is reports
        chat.uncover(after)
        assert gauge_of(chat).exact
        assert context.manage(chat).exact

    def test_go_with_a_redaction_of_the_message(self, chat):
        fill(chat, 6)
        done = chat.record(claude({"type": "compaction", "content": WORDS}, text("Done.")))
        assert chat.tokens(COUNTER) > 10
        chat.redact(done.seq)
        assert chat.tokens(COUNTER) < 10
        assert chat.verify().ok


class TestDrift:
    def test_last_request_of_the_call_is_compared(self, chat):
        fill(chat, 40)
        chat.append("user", "Go on.")
        block, spoken = {"type": "compaction", "content": WORDS}, text("Done.")
        usage = {
            "input_tokens": 60,
            "output_tokens": 5,
            "iterations": [
                {"type": "compaction", "input_tokens": 2_000, "output_tokens": 50},
                {"type": "message", "input_tokens": 60, "output_tokens": 5},
            ],
        }
        chat.record(claude(block, spoken, usage=usage), chat.request(model=CLAUDE))
        context = manager(chat, CLAUDE, limit=100_000, counter=COUNTER)
        context.manage(chat)
        found = context.drift(chat)[CLAUDE]
        assert (found.reported, found.estimated) == (60, cost(text(WORDS)))
        assert usage_tokens(usage)[:2] == (2_060, 55)
        (row,) = usage_of(chat, "gpt-4o").models
        assert (row.input, row.ratio) == (2_060, found.ratio)

    def test_report_of_both_views_is_not_compared(self, chat):
        fill(chat, 40)
        usage = {"input_tokens": 2_000, "output_tokens": 5, "input_tokens_details": {}}
        chat.record(gpt(SEALED, SAID, usage=usage))
        context = manager(chat, GPT, limit=100_000, counter=COUNTER)
        context.manage(chat)
        assert context.drift(chat) == {}

    def test_call_that_only_compacted_had_read_the_whole_view(self, chat):
        fill(chat, 40)
        before = chat.tokens(COUNTER)
        usage = {"input_tokens": before, "output_tokens": 5}
        chat.record(claude({"type": "compaction", "content": WORDS}, usage=usage))
        context = manager(chat, CLAUDE, limit=100_000, counter=COUNTER)
        context.manage(chat)
        assert context.drift(chat)[CLAUDE].estimated == before


class TestThinking:
    """Of a model that binds its thinking to what was sent before it."""

    MODEL = "claude-fable-5-1"
    THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}

    def sent(self, chat: Any) -> str:
        return str(chat.request(model=self.MODEL)["messages"])

    def record(self, chat: Any, *blocks: Any, meanwhile: bool = False) -> Any:
        request = chat.request(model=self.MODEL, system="S", tools=[])
        if meanwhile:
            chat.append("user", "Wait.")
        reply = claude({"type": "compaction", "content": WORDS}, *blocks, model=self.MODEL)
        return chat.record(reply, request)

    @pytest.mark.parametrize("meanwhile", [False, True])
    def test_stays_after_its_own_compaction(self, chat, meanwhile):
        fill(chat, 7)
        self.record(chat, self.THOUGHT, text("Done."), meanwhile=meanwhile)
        chat.append("user", "And?")
        assert "signature" in self.sent(chat)
        assert "compaction" in self.sent(chat)

    def test_goes_when_its_compaction_is_uncovered(self, chat):
        fill(chat, 7)
        done = self.record(chat, self.THOUGHT, text("Done."))
        chat.append("user", "And?")
        chat.uncover(done.covering)
        assert "signature" not in self.sent(chat)
        assert "compaction" not in self.sent(chat)
