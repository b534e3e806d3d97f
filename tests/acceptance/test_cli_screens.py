"""Screens: nothing that matters is cut, and nothing is wider than the terminal."""

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext import NewMessage, Plan, Session, Store
from roocontext.cli.screens import results, tables, timeline
from roocontext.cli.screens import tree as picture
from roocontext.cli.screens.erasing import draw_redacted
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import live_ranges
from roocontext.reports import history
from roocontext.reports.erasing import redaction
from roocontext.reports.history import Selection
from roocontext.reports.results import Checked, OutcomeReport, verification_of
from roocontext.reports.tree import Stretch, Tree, rewinds_of, stretches_of, tip
from roocontext.reports.usage import UsageReport
from support import showcase
from support.steady_sources import SetClock

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC


# The tree


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=60))
def test_stretches_of_an_audit_agree_with_the_fold(log):
    """A log of messages, and of rewinds to an earlier entry."""
    rewinds = {seq: to % seq for seq, to in enumerate(log, 1) if to is not None}
    controls = [Control(seq, Kind.REWIND, to=to) for seq, to in rewinds.items()]
    stretches = stretches_of(rewinds, len(log))

    covered = [seq for one in stretches for seq in range(one.lo, one.hi + 1)]
    assert covered == [seq for seq in range(1, len(log) + 1) if seq not in rewinds]
    live = {s for lo, hi in live_ranges(controls, len(log)) for s in range(lo, hi + 1)} - {*rewinds}
    assert {s for s in covered if stretch_of(stretches, s).live} == live
    for seq in range(len(log) + 1):
        path: set[int] = set()
        at = tip(rewinds, seq)
        while at:
            one = stretch_of(stretches, at)
            path |= set(range(one.lo, at + 1))
            at = one.after
        then = {s for lo, hi in live_ranges(controls, seq) for s in range(lo, hi + 1)}
        assert path == then - {*rewinds}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = str(tmp_path_factory.mktemp("shown") / "store.db")
    showcase.build(path)
    with Store.open(path, read_only=True) as store:
        yield store


def drawn(columns: int, draw: Callable[[Screen], None], *, within: bool = True) -> str:
    """The lines drawn on a screen of so many columns, none of them wider."""
    from rich.cells import cell_len  # noqa: PLC0415

    file = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        draw(Screen(file))
    wide = [line for line in file.getvalue().splitlines() if cell_len(line) > columns]
    assert not (wide and within)
    return file.getvalue()


def audited(chat: Session, columns: int, *, full: bool = False, after: int = 0) -> str:
    log = timeline.ShownLog(chat.info(), after)
    rows = history.audit_rows(chat, Selection(after=after))
    return drawn(
        columns,
        lambda screen: timeline.draw_audit(screen, rows, log=log, full=full),
        within=not full,  # what is said goes out whole, for other programs too
    )


def test_full_audit_says_everything_that_was_recorded(tmp_path):
    spent = {"input_tokens": 1_100, "output_tokens": 20}
    with Store.open(tmp_path / "store.db") as store:
        chat = store.create("told")
        for number in range(40):
            chat.append("user", f"word {number} " * 400, client_id=f"request-{number}")
        chat.append("assistant", "so", message_id="m\n1", model="m-1", usage=spent, ts=7)
        hidden = range(2, 41, 2)
        chat.commit(Plan.condense(chat.view(), hidden, "A summary", record={"why": "ö" * 90}))
        chat.note("remark", {"text": "long " * 90})
        full = " ".join(audited(chat, 80, full=True, after=39).split())
        short = " ".join(audited(chat, 80, after=39).split())
    for fact in (
        "client_id request-39",
        "word 39 " * 400,
        "message_id m\\n1",
        "model m-1",
        f"usage {json.dumps(spent)}",
        "ts 7 (1970-01-01 00:00:00 UTC)",
        "compaction_id",
        f"hides {', '.join(map(str, hidden))};",
        "long " * 90,
    ):
        assert fact.strip() in full, fact
    assert "ö" * 90 in full.replace(" ", "")
    assert "hides 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24 and 8 more;" in short


def test_full_audit_names_what_a_reply_had_read_and_what_an_answer_answers(tmp_path):
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    reply = {"type": "message", "id": "msg_1", "content": [call], "stop_reason": "tool_use"}
    with Store.open(tmp_path / "store.db") as store:
        chat = store.create("asked")
        chat.append("user", "Look.")
        request = chat.request(system="Be brief.")
        chat.record(reply, request, extra={"commit": "abc"})
        chat.answer(chat.pending()[0], "done")
        full = " ".join(audited(chat, 120, full=True).split())
        rows = [json.loads(row.model_dump_json()) for row in history.audit_rows(chat)]
    kept = {"commit": "abc", "roocontext": {"id": "msg_1", "stop_reason": "tool_use"}}
    assert "asked at entry 2" in full
    assert f"extra {json.dumps(kept)}" in full
    assert "answers call 0 of entry 3" in full
    assert [row["asked_at"] for row in rows] == [None, None, 2, None]
    assert (rows[2]["extra"], rows[3]["answers"]) == (kept, [3, 0])


def test_audit_names_each_day_once(tmp_path):
    clock = SetClock(NOON, step=43_200_000)
    with Store.open(tmp_path / "store.db", clock=clock) as store:
        chat = store.create("days")
        for number in range(4):
            chat.append("user", f"Message {number}")
        screen = audited(chat, 80)
    days = [line for line in screen.splitlines() if line.endswith(" UTC")]
    assert days == sorted({*days})
    assert len(days) >= 2


def branched(rewinds: dict[int, int], last: int) -> Tree:
    """The tree of a log of rewinds and of entries that are no messages."""
    stretches = [
        Stretch.of(one, messages=0, visible=0, rewound_by=None)
        for one in stretches_of(rewinds, last)
    ]
    counts = {"entries": last, "messages": 0, "visible_messages": 0}
    branches = rewinds_of({seq: {"to": to} for seq, to in rewinds.items()})
    told: Any = {"session_id": "parser", "title": None, "hidings": [], **counts}
    return Tree(**told, stretches=stretches, rewinds=branches)


def test_branches_hang_on_branches():
    answer = branched({5: 2, 8: 6, 10: 1}, 12)  # 1-4; 6-7 on 2; 9 on 6; 11-12 on 1
    lines = drawn(80, lambda screen: picture.draw_tree(screen, answer, full=False)).splitlines()
    assert [line.split("  ")[0] for line in lines[3:]] == [
        *("● 1", "│ ↩ 10 rewind from 9 to here", "├─○ 2", "│ │ ↩ 5 rewind from 4 to here"),
        *("│ ├─○ 3-4", "│ ○ 6", "│ │ ↩ 8 rewind from 7 to here", "│ ├─○ 7", "│ ○ 9", "● 11-12"),
    ]


def stretch_of(stretches: list[Any], seq: int) -> Any:
    return next(one for one in stretches if one.lo <= seq <= one.hi)


def test_thousand_rewinds_ever_deeper_are_drawn():
    answer = branched({1_000 + 2 * n: 1_000 - n for n in range(1, 1_000)}, 3_000)
    taken_back = sum(not one.live for one in answer.stretches)
    full = drawn(80, lambda screen: picture.draw_tree(screen, answer, full=True))
    assert full.count("not live") == taken_back
    few = drawn(80, lambda screen: picture.draw_tree(screen, answer, full=False)).splitlines()
    assert len(few) == 3 + 40 + 1 + 160
    lines = full.splitlines()
    assert few[:43] == lines[:43]
    assert few[43] == f"… {len(lines) - 203:,} more lines: --full draws them"
    assert few[44:] == lines[-160:]


def test_record_of_a_plan_may_be_any_json(tmp_path, command_line):
    path = str(tmp_path / "store.db")
    odd = {"before": "b", "after": [1], "counter": {}, "policy": 7, "left": "l", "summary": "s"}
    with Store.open(path) as store:
        chat = store.create("odd")
        for number in range(4):
            chat.append("user", f"Message {number}")
        for record in (odd, {**odd, "summary": {"calls": "x", "cost": "free"}}):
            seq = chat.view().messages[0].seq
            plan = Plan.condense(chat.view(), [seq], "A summary", record=record, compat=True)
            chat.commit(replace(plan, counts=None))
    run = command_line(path)
    for line in ("audit odd", "tree odd", "usage odd", "usage odd --json", "show odd"):
        done = run(*line.split())
        assert (done.code, done.err) == (0, ""), line


# Receipts


def outcome(**told: Any) -> OutcomeReport:
    known: dict[str, Any] = {"session_id": "s", "status": "condensed", "policy": "default"}
    known |= {"trigger": "manual", "counter": "bytes", "exact": True, "dry_run": False, "seqs": [7]}
    known |= {"window": 900, "window_source": "override", "tokens_before": 500, "tokens_after": 200}
    known |= {"detail": "", "reason": "", "calls": 0, "hidden": 0, "cleared": 0}
    known |= {"compaction_ids": [], "uncovered": [], "excess": {}, "options": {}}
    known |= dict.fromkeys(("bytes_before", "bytes_after", "summary_model", "cost", "view"))
    return OutcomeReport(**{**known, **told})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"hidden": 2, "exact": False},
            ["Replaced 2 messages with a summary, entry 7.", "~500 → ~200 tokens of 900"],
        ),
        (
            {"cleared": 3, "hidden": 1_000, "seqs": [7, 8]},
            ["Cleared 3 tool outputs and replaced 1,000 messages with a summary, entries 7, 8."],
        ),
        (
            {"cleared": 1, "hidden": 2, "seqs": [7, 8], "dry_run": True},
            ["Would clear 1 tool output and replace 2 messages with a summary."],
        ),
        (
            {"seqs": [], "status": "noop", "dry_run": True, "tokens_before": 1, "tokens_after": 1},
            ["Nothing would be done.", "1 token of 900"],
        ),
        (
            {"policy": "roo", "tokens_before": 0, "tokens_after": 1, "dry_run": True},
            [
                "Would replace no visible message with a summary.",
                "0 → 1 token of 900",
                "policy roo · counted by bytes",
                "The context would grow by 1 token, as in the program that policy roo imitates.",
            ],
        ),
        (
            {"hidden": 4, "excess": {"tokens": 1_200}, "window_source": "default"},
            [
                "Replaced 4 messages with a summary, entry 7.",
                "500 → 200 tokens of 900",
                "policy default · counted by bytes · no model is known",
                "That is 1,200 tokens over the limit.",
            ],
        ),
    ],
)
def test_outcome_is_shown_by_its_status(told, said):
    screen = drawn(80, lambda screen: results.draw_outcome(screen, outcome(**told)))
    assert screen.splitlines()[: len(said)] == said


def test_thousands_of_good_sessions_are_summed_up():
    def checked(number: int, problem: str | None = None) -> Any:
        head = {"session_id": f"s{number}", "seq": number, "hash": "ab" * 32}
        told = {"ok": problem is None, "entries": number, "head": head, "seq": 3}
        return Checked(session_id=f"s{number}", **told, problem=problem, rebuilt=None)

    def summed_up(rows: list[Any]) -> list[str]:
        verified = verification_of(rows)
        return drawn(80, lambda screen: results.draw_verified(screen, verified)).splitlines()

    ill = [checked(5_000, "The hash is wrong."), checked(5_001, "It is cut.")]
    lines = summed_up([*ill, *(checked(number) for number in range(5_000))])
    assert lines[:4] == [
        "BAD s5000  5,000 entries, entry 3: The hash is wrong.",
        "BAD s5001  5,001 entries, entry 3: It is cut.",
        "ok  s0  0 entries",
        "ok  s1  1 entry, head abababababababab",
    ]
    assert lines[22:] == [
        "… and 4,980 more that are ok",
        "5,002 sessions, 12,507,501 entries: 2 bad",
    ]
    assert summed_up([*map(checked, range(1, 3))])[2] == "2 sessions, 3 entries: all ok"
    assert summed_up([checked(1)]) == ["ok  s1  1 entry, head abababababababab"]


def test_redaction_lists_the_copies_and_the_summaries(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        chat = store.create("parser")
        chat.append_many([NewMessage("user", f"Message {number}") for number in range(3)])
        chat.commit(Plan.condense(chat.view(), [1, 2], "S"))
        for number in range(5):
            chat.fork(session_id=f"fork-{number}")
        planned = redaction(chat, 2, dry_run=True)
    shown = "  user, 11 B: Message 1\n"
    asked = drawn(200, lambda screen: draw_redacted(screen, planned))
    copies = "fork-0 2, fork-1 2, fork-2 2, fork-3 2, fork-4 2"
    assert asked.startswith(
        f"This would erase the content of entry 2, and its copies in {copies}.\n{shown}"
        "Summaries that may quote it: fork-0 4, fork-1 4, fork-2 4, fork-3 4, fork-4 4,"
    )
    alone = planned.model_copy(update={"copies": [["parser", 2]], "summaries": []})
    assert drawn(200, lambda screen: draw_redacted(screen, alone)) == (
        f"This would erase the content of entry 2.\n{shown}"
    )


# Tables


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_long_names_leave_the_numbers_on_the_screen(columns):
    found = {"tokens": 7, "exact": True, "counter": "c" * 300, "model": "m" * 300}
    found |= {"reported": None, "reported_at": None, "has_frame": False}
    name = "mcp__a_server_with_a_name__and_a_tool" * 9
    model = {"model": name, "calls": 1, "input": 1_234_567, "output": 2, "cached": 0, "cost": 0.5}
    model |= {"written": 0, "thinking": None, "unpriced": 1}
    summaries = {"count": 1, "calls": 1, "input": 640, "output": 30, "unpriced": 1, "cost": None}
    answer: Any = {
        "session_id": "s" * 1_000,
        "everything": False,
        "family": True,
        "sessions": 2,
        "priced": "2026-06-01",
        "cost": 0.5,
        "context": {**found, "limit": 200_000, "limit_source": "table"},
        "roles": [{"name": "user", "count": 3, "tokens": 7}],
        "tools": [{"name": name, "count": 2, "tokens": 1_234}],
        "models": [{**model, "estimated": None, "ratio": 1.06}],
        "summaries": summaries,
    }
    screen = drawn(columns, lambda screen: tables.draw_usage(screen, UsageReport(**answer)))
    assert "1,234,567" in screen
    assert "mcp__a_server" in screen
    if columns >= 80:
        assert re.search(r"^mcp__\S+… +2 +1,234$", screen, re.MULTILINE)
