"""The page of a session: its gauge, pins, failures, and how calls, results and edits are shown."""

from typing import Any

import pytest

from roocontext import Plan, Session
from roocontext.store.sessions.excerpt import Extent
from roocontext.tokens import counter_for
from support.dialogue import call, fill, result, text
from support.web_pages import WebPage, page_of, plain_store

MODEL = "claude-sonnet-4-5"
IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAAA"}


@pytest.fixture
def chat(store: Any) -> Session:
    """A new session, synchronous on every leg."""
    return plain_store(store).create()


class TestGauge:
    """Tokens, limit, reserve, source, drift, bytes, images, compactions: Roo's progress bar."""

    def test_tokens_limit_and_reserve(self, chat):
        chat.append("user", "question")
        chat.append(
            "assistant", "answer", model=MODEL, usage={"input_tokens": 900, "output_tokens": 100}
        )
        page = page_of(chat)
        assert "1,000</b> of 200,000 tokens, 0 %" in page.text
        assert "at most for the answer" in page.text
        assert "the provider reported 1,000 at entry 2" in page.text
        assert '<meter min="0" max="200000" value="1000"' in page.text

    def test_estimate_is_marked(self, chat):
        chat.append("user", "a question " * 400)
        assert "~1,1" in page_of(chat).text
        assert "estimated by bytes/4" in page_of(chat).text

    def test_drift_of_the_reported_tokens(self, chat):
        chat.append("user", "question")
        usage = {"input_tokens": 1_200, "output_tokens": 10}
        seq = chat.append("assistant", "answer", model=MODEL, usage=usage).seq
        assert "the estimate was reported" not in page_of(chat).text
        chat.internals.keep_estimate(seq, counter_for(MODEL), 1_000)
        assert "1.20 times the estimate was reported" in page_of(chat).text

    def test_images_and_bytes(self, chat):
        chat.append("user", [text("look"), {"type": "image", "source": IMAGE}])
        page = page_of(chat)
        assert "<span>1 image</span>" in page.text
        assert " B</span>" in page.text
        fill(chat, 60)
        assert "1 image" not in page_of(chat).text  # the view has another page

    def test_compactions_are_counted(self, chat):
        fill(chat, 6)
        chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
        chat.commit(Plan.truncate(chat.view(), [4, 5], "left out"))
        assert "2 compactions" in page_of(chat).text


class TestPins:
    def test_pinned_messages_are_listed_and_marked(self, chat):
        fill(chat, 4)
        for seq in (2, 3):
            chat.pin(seq)
        chat.unpin(3)
        for extent in Extent:
            page = page_of(chat, extent=extent)
            assert "Pinned by entry 5" in page.by_seq[2].words
            assert "Pinned by" not in page.by_seq[3].words
            assert "pinned: " in page.text

    def test_pins_of_an_earlier_moment(self, chat):
        fill(chat, 4)
        chat.pin(2)
        chat.unpin(2)
        assert "Pinned by entry 5" in page_of(chat, as_of=5).by_seq[2].words
        assert "Pinned by" not in page_of(chat).by_seq[2].words

    def test_many_pins_are_counted(self, chat):
        fill(chat, 20)
        for seq in range(1, 21):
            chat.pin(seq)
        assert "and 8 more" in page_of(chat).text


class TestFailures:
    """A compaction that failed or was refused is a row, and the newest one is on top."""

    FAILED = {
        "event": "failed",
        "policy": "roo",
        "trigger": "auto",
        "reason": "anthropic gave no summary: empty.",
        "failed_summaries": [{"summariser": "anthropic", "calls": 1, "cost": 0.02}],
    }
    REFUSED = {
        "event": "refused",
        "part": "turn",
        "needed": 9_000,
        "limit": 4_096,
        "unit": "tokens",
    }

    def test_failure_is_on_every_tab_until_the_next_compaction(self, chat):
        fill(chat, 6)
        seq = chat.note("compaction", self.FAILED).seq
        for extent in Extent:
            page = page_of(chat, extent=extent)
            assert "The last compaction failed" in page.text
            assert "anthropic gave no summary: empty." in page.text
            assert f"/s/{chat.id}/e/{seq}" in page.text or f"#e{seq}" in page.text
        chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
        assert "The last compaction" not in page_of(chat).text
        assert "compaction failed" in page_of(chat, extent=Extent.ALL).by_seq[seq].words

    def test_refusal_names_both_numbers(self, chat):
        fill(chat, 2)
        seq = chat.note("compaction", self.REFUSED).seq
        page = page_of(chat, extent=Extent.ALL)
        assert "The last compaction was refused" in page.text
        for words in ("compaction refused", "part turn", "needed 9,000", "limit 4,096"):
            assert words in page.by_seq[seq].words

    def test_failure_of_an_earlier_moment(self, chat):
        fill(chat, 4)
        seq = chat.note("compaction", self.FAILED).seq
        assert "The last compaction" not in page_of(chat, as_of=seq - 1).text
        assert "The last compaction" in page_of(chat, as_of=seq).text


class TestRows:
    """Summaries and markers as rows with figures: Roo's condensation and truncation rows."""

    def test_condensation_has_its_tokens_its_cost_and_its_summary(self, chat):
        fill(chat, 8)
        spent = {"calls": 1, "input_tokens": 640, "output_tokens": 30, "cost": 0.002}
        counter = counter_for(MODEL)
        record = {"summary": spent}
        plan = Plan.condense(chat.view(), range(2, 7), "S *um*", counter=counter, record=record)
        seq = chat.commit(plan).seq
        row = page_of(chat).by_seq[seq]
        for words in ("Stands for 2–6", "→", "tokens", "1 call, 640 in, 30 out, $0.0020", "S um"):
            assert words in row.words

    def test_truncation_has_what_it_left_out_and_its_tokens(self, chat):
        fill(chat, 8)
        plan = Plan.truncate(chat.view(), range(2, 7), "left out", counter=counter_for(MODEL))
        seq = chat.commit(plan).seq
        row = page_of(chat).by_seq[seq]
        assert "Leaves out 2–6" in row.words
        assert "→" in row.words


class TestToolCalls:
    def test_result_is_one_block_with_its_call(self, chat):
        chat.append("user", "go")
        chat.append("assistant", [text("I look."), {**call("t1"), "input": {"command": "make"}}])
        chat.append("user", [result("t1", "done")])
        chat.append("assistant", "It works.")
        for extent in Extent:
            page = page_of(chat, extent=extent)
            assert page.text.count('<li class="joined">') == 1
            joined = page.text.partition('<li class="joined">')[2]
            assert joined.startswith('<article id="e3"')
            assert "Result of" in page.by_seq[3].words
            assert "make" not in page.by_seq[3].words

    def test_result_that_follows_something_else_names_its_call(self, chat):
        chat.append("assistant", [{**call("t1"), "input": {"command": "make"}}])
        chat.append("user", "wait")
        chat.append("user", [result("t1", "done")])
        page = page_of(chat)
        assert "joined" not in page.text
        assert "make" in page.by_seq[3].words
        assert "#e1" in page.by_seq[3].links

    def test_result_without_its_call_stands_alone(self, chat):
        chat.append("assistant", [call("t1")])
        chat.append("user", [result("t9", "done")])
        assert "joined" not in page_of(chat).text

    def test_long_output_is_folded_after_its_beginning(self, chat):
        chat.append("assistant", [call("t1")])
        chat.append("user", [result("t1", "".join(f"line {n}\n" for n in range(40)))])
        page = page_of(chat)
        assert "24 more lines" in page.text
        shown, _, folded = page.text.partition("24 more lines")
        assert "line 15\n" in shown
        assert "line 16\n" in folded
        assert "line 39\n" in folded

    def test_edit_is_lines_removed_and_added(self, chat):
        change = {"path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"}
        chat.append("assistant", [{**call("t1"), "name": "edit", "input": change}])
        page = page_of(chat)
        assert "<del>- y = 2\n</del>" in page.text
        assert "<ins>+ y = 3\n</ins>" in page.text
        assert "  x = 1\n" in page.text

    def test_thinking_is_folded(self, chat):
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        chat.append("assistant", [thought, text("Yes.")])
        page = page_of(chat)
        assert '<details class="thinking"><summary>Thinking</summary>' in page.text


def test_only_prompts_of_the_user_have_the_users_colour(chat):
    chat.append("user", "go")
    chat.append("assistant", [call("t1")])
    chat.append("user", [result("t1", "done")])
    assert WebPage(page_of(chat).text).text.count('class="entry user"') == 1
