"""The page of a session: its gauge, pins, failures, and how calls, results and edits are shown."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from roocontext import Plan, Session
from roocontext.store.sessions.excerpt import Extent
from roocontext.tokens import counter_for
from roocontext.web.pages.addresses import PageView
from roocontext.web.pages.session import session_body
from support.dialogue import call, fill, keep_estimate, result, text
from support.web_pages import WebPage, page_of

MODEL = "claude-sonnet-4-5"
IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAAA"}


class TestGauge:
    """Drift, bytes, images, compactions; the other figures are rows of the guide, below."""

    @pytest.mark.parametrize("compacted", [(), ({"type": "compaction", "input_tokens": 9_000},)])
    def test_drift_of_the_reported_tokens_of_the_last_request(self, chat, compacted):
        chat.append("user", "question")
        usage = {"input_tokens": 1_200, "output_tokens": 10}
        usage |= {"iterations": [*compacted, {"type": "message", **usage}]}
        seq = chat.append("assistant", "answer", model=MODEL, usage=usage).seq
        assert "the estimate was reported" not in page_of(chat).text
        keep_estimate(chat, seq, counter_for(MODEL), 1_000)
        assert "1.20 times the estimate was reported" in page_of(chat).text

    def test_images_and_bytes(self, chat):
        chat.append("user", [text("look"), {"type": "image", "source": IMAGE}])
        page = page_of(chat)
        assert "<span>1 image</span>" in page.text
        assert " B</span>" in page.text
        fill(chat, 60)
        chat.append("user", [{"type": "image", "source": IMAGE}])
        # The view has another page, and images of its own there.
        assert "<span>1 image</span>" not in page_of(chat).text

    def test_compactions_are_counted(self, chat):
        fill(chat, 6)
        chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
        chat.commit(Plan.truncate(chat.view(), [4, 5], "left out"))
        assert "2 compactions" in page_of(chat).text


def test_time_that_no_calendar_has_is_no_time_for_machines(chat):
    chat.append("user", "hello", ts=1 << 62)
    assert "<time title=" in page_of(chat).text


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

    def test_many_pins_are_counted(self, chat):
        fill(chat, 20)
        for seq in range(1, 21):
            chat.pin(seq)
        assert "and 8 more" in page_of(chat).text


REASON = {"event": "failed", "reason": "anthropic gave no summary: empty."}
FAILED = {**REASON, "policy": "roo", "trigger": "auto"}
FAILED |= {"failed_summaries": [{"summariser": "anthropic", "calls": 1, "cost": 0.02}]}
REFUSED = {"event": "refused", "part": "turn", "needed": 9_000, "limit": 4_096, "unit": "tokens"}


def test_failure_of_an_earlier_moment_is_shown_at_that_moment(chat):
    fill(chat, 4)
    seq = chat.note("compaction", FAILED).seq
    assert "The last compaction" not in page_of(chat, as_of=seq - 1).text
    assert "The last compaction" in page_of(chat, as_of=seq).text


class TestToolCalls:
    def test_result_is_one_block_with_its_call(self, chat):
        chat.append("user", "go")
        chat.append("assistant", [text("I look."), {**call("t1"), "input": {"command": "make"}}])
        chat.append("user", [result("t1", "done")])
        chat.append("assistant", "It works.")
        for extent in Extent:
            page = page_of(chat, extent=extent)
            assert page.text.count('<li class="joined">') == 1
            assert page.text.partition('<li class="joined">')[2].startswith('<article id="e3"')
            assert "Result of" in page.by_seq[3].words
            assert "make" not in page.by_seq[3].words

    def test_results_of_parallel_calls_are_one_block_and_name_their_calls(self, chat):
        calls = [{**call(f"t{n}"), "input": {"command": f"make part-{n}"}} for n in (1, 2, 3)]
        chat.append("assistant", [text("I build."), *calls])
        for number in (2, 3, 1):
            chat.append("user", [result(f"t{number}", f"done {number}")])
        chat.append("user", "next")
        for extent in Extent:
            page = page_of(chat, extent=extent)
            assert page.text.count('<li class="joined">') == 3
            for seq, number in ((2, 2), (3, 3), (4, 1)):
                row = page.by_seq[seq]
                assert f"make part-{number}" in row.words
                assert f"done {number}" in row.words
                assert "#e1" in row.links

    def test_results_of_parallel_calls_in_one_message_name_their_calls(self, chat):
        calls = [{**call(f"t{n}"), "input": {"command": f"make part-{n}"}} for n in (1, 2)]
        chat.append("assistant", calls)
        chat.append("user", [result("t1", "done 1"), result("t2", "done 2")])
        row = page_of(chat).by_seq[2].words
        places = [row.index(words) for words in ("part-1", "done 1", "part-2", "done 2")]
        assert places == sorted(places)

    def test_result_after_another_calls_results_is_no_part_of_their_block(self, chat):
        chat.append("assistant", [call("t1"), call("t2")])
        chat.append("user", [result("t1", "done")])
        chat.append("user", "wait")
        chat.append("user", [result("t2", "done")])
        assert page_of(chat).text.count('<li class="joined">') == 1

    def test_result_that_follows_something_else_names_its_call(self, chat):
        chat.append("assistant", [{**call("t1"), "input": {"command": "make"}}])
        chat.append("user", "wait")
        chat.append("user", [result("t1", "done")])
        page = page_of(chat)
        assert "joined" not in page.text
        assert "make" in page.by_seq[3].words
        assert "#e1" in page.by_seq[3].links

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

    def test_lines_that_are_repeated_are_not_compared_with_each_other(self, chat):
        # 400 of them took seconds, so that a page of such edits kept the server busy for minutes.
        added = "".join(f"x\ny{n}\n" for n in range(199))
        change = {"old_string": "same\n" + "x\n" * 399, "new_string": f"same\n{added}"}
        chat.append("assistant", [{**call("t1"), "name": "edit", "input": change}])
        page = page_of(chat)
        assert "  same\n" in page.text
        assert page.text.count("<ins>") == 1

    def test_thinking_is_folded(self, chat):
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        chat.append("assistant", [thought, text("Yes.")])
        assert '<details class="thinking"><summary>Thinking</summary>' in page_of(chat).text


def test_only_prompts_of_the_user_have_the_users_colour(chat):
    chat.append("user", "go")
    chat.append("assistant", [call("t1")])
    chat.append("user", [result("t1", "done")])
    assert WebPage(page_of(chat).text).text.count('class="entry user"') == 1


# What Roo Code shows

GUIDE = Path(__file__).parents[2] / "docs" / "cli" / "page.md"


def rows_of_the_guide() -> list[str]:
    """The first cells of the table in the guide."""
    table = GUIDE.read_text().partition("| in Roo Code |")[2].partition("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def context_window_progress(chat: Session) -> None:
    chat.append("user", "question")
    usage = {"input_tokens": 50_000, "output_tokens": 1_000}
    chat.append("assistant", "answer", model=MODEL, usage=usage)
    page = page_of(chat)
    for words in (
        "51,000</b> of 200,000 tokens, 26 %",
        "64,000 at most for the answer",
        "the provider reported 51,000 at entry 2",
        '<meter min="0" max="200000" value="51000"',
    ):
        assert words in page.text


def inexact_estimate(chat: Session) -> None:
    chat.append("user", "a question " * 400)
    assert "<b>~1,1" in page_of(chat).text
    assert "estimated by bytes/4" in page_of(chat).text


def condensation_row(chat: Session) -> None:
    fill(chat, 8)
    spent = {"calls": 1, "input_tokens": 640, "output_tokens": 30, "cost": 0.002}
    view, counter = chat.view(), counter_for(MODEL)
    plan = Plan.condense(
        view, range(2, 7), "It *said*.", counter=counter, record={"summary": spent}
    )
    seq = chat.commit(plan).seq
    row = page_of(chat).by_seq[seq]
    for words in ("Stands for 2–6", " → ", "tokens", "1 call, 640 in, 30 out, $0.0020", "It said."):
        assert words in row.words
    assert f"/s/{chat.id}/e/2" in row.links


def truncation_row(chat: Session) -> None:
    fill(chat, 8)
    plan = Plan.truncate(chat.view(), range(2, 7), "left out", counter=counter_for(MODEL))
    seq = chat.commit(plan).seq
    row = page_of(chat).by_seq[seq]
    for words in ("Leaves out 2–6", " → ", "tokens"):
        assert words in row.words
    assert f"/s/{chat.id}/e/2" in row.links


def condensation_error(chat: Session) -> None:
    """On every tab until the next compaction."""
    fill(chat, 6)
    seq = chat.note("compaction", FAILED).seq
    for extent in Extent:
        page = page_of(chat, extent=extent)
        assert "The last compaction failed" in page.text
        assert "anthropic gave no summary: empty." in page.text
        assert f"/s/{chat.id}/e/{seq}" in page.text or f"#e{seq}" in page.text
    chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
    assert "The last compaction" not in page_of(chat).text
    assert "compaction failed" in page_of(chat, extent=Extent.ALL).by_seq[seq].words


def refused_for_its_size(chat: Session) -> None:
    fill(chat, 2)
    seq = chat.note("compaction", REFUSED).seq
    for extent in Extent:
        page = page_of(chat, extent=extent)
        assert "The last compaction was refused" in page.text
        assert "needed 9,000, limit 4,096" in page.text
    for words in ("compaction refused", "part turn"):
        assert words in page_of(chat, extent=Extent.ALL).by_seq[seq].words


def editing_or_deleting(chat: Session) -> None:
    fill(chat, 4)
    view = PageView(chat.id)
    body = session_body(view, chat.internals.excerpt(view.extent), changes=True)
    assert f"/s/{chat.id}/e/3/change" in WebPage(body).by_seq[3].links


SHOWN: Mapping[str, Callable[[Session], None]] = {
    "context window progress: tokens used, kept for the answer, the window": (
        context_window_progress
    ),
    "the estimate that may be inexact": inexact_estimate,
    "condensation row: tokens before and after, cost, the summary": condensation_row,
    "truncation row: messages left out, tokens before and after": truncation_row,
    "condensation error": condensation_error,
    "a system prompt or a turn that is too large": refused_for_its_size,
    "editing or deleting a message, which rewinds the task": editing_or_deleting,
}
"""How each row of the table is found on a page."""


def test_every_row_of_the_guide_is_checked():
    assert rows_of_the_guide() == [*SHOWN]


@pytest.mark.parametrize("row", SHOWN)
def test_page_shows_what_roo_code_shows(chat, row):
    SHOWN[row](chat)
