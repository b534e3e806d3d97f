"""The usage reported in a session, in its forks, and in a whole family."""

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.errors import SessionNotFound, SummaryFailed
from roocontext.log.counting import ReportedUsage
from roocontext.log.summary import Summary
from roocontext.reports import usage
from roocontext.summarisers import with_fallback
from roocontext.tokens import spending
from support.async_manager import Scripted, grow, manager
from support.dialogue import fill

USED = {"input_tokens": 1_000, "output_tokens": 100}
MODEL = "claude-sonnet-4-5"
COST = (1_000 * 3 + 100 * 15) / 1_000_000


def reply(chat, model=MODEL):
    chat.append("user", "go on")
    return chat.append("assistant", "done", model=model, usage=USED).seq


def places(rows):
    return [(row.session_id, row.seq) for row in rows]


@pytest.mark.every_leg
def test_usage_includes_rewound_replies(chat):
    fill(chat, 2)
    seq = reply(chat)
    chat.rewind(to=1)
    at = chat.message(seq).recorded_at
    assert chat.usage() == [ReportedUsage(chat.id, seq, MODEL, USED, at)]
    assert chat.usage(family=True) == chat.usage()


@pytest.mark.every_leg
def test_usage_of_a_family_includes_all_descendants(lab):
    names = [("root", None), ("one", "root"), ("two", "root"), ("deep", "one"), ("apart", None)]
    seqs = {}
    for name, parent in names:
        seqs[name] = reply(lab.store.create(name, parent=parent))
    root, one = lab.store.session("root"), lab.store.session("one")
    assert places(root.usage()) == [("root", 2)]
    family = [("root", 2), ("one", 2), ("two", 2), ("deep", 2)]
    assert places(root.usage(family=True)) == family
    assert places(one.usage(family=True)) == [("one", 2), ("deep", 2)]
    lab.store.purge("one")
    assert places(root.usage(family=True)) == [("root", 2), ("two", 2), ("deep", 2)]


@pytest.mark.every_leg
def test_usage_of_a_fork_counts_only_later_replies(chat):
    reply(chat)
    copy = chat.fork(session_id="copy")
    assert copy.usage() == []
    seq = reply(copy)
    again = copy.fork(session_id="again")
    last = reply(again)
    assert places(copy.usage()) == [("copy", seq)]
    assert places(again.usage()) == [("again", last)]
    assert len(chat.usage()) == 1


@pytest.mark.every_leg
def test_summaries_report_what_their_calls_cost(chat):
    grow(chat)
    context = manager(chat, summariser=Scripted())
    context.condense(chat)
    (row,) = chat.usage()
    assert (row.is_summary, row.model) == (True, "m")
    assert (row.usage["calls"], row.usage["cost"]) == (1, 0.25)


SPENT = {"calls": 2, "input_tokens": 1_000, "output_tokens": 100}


@pytest.mark.every_leg
def test_calls_of_a_failed_summary_are_counted(chat):
    """One note keeps what they cost, by the model that was asked."""
    grow(chat)
    failed = SummaryFailed(summariser="dear", kind="overloaded", model=MODEL, **SPENT)
    context = manager(chat, limit=1_000_000, summariser=Scripted(failed))
    outcome = context.condense(chat)
    assert (outcome.status, outcome.calls) == ("failed", 2)
    (row,) = chat.usage()
    assert (row.model, row.is_summary, row.is_failed) == (MODEL, True, True)
    assert {name: row.usage[name] for name in SPENT} == SPENT
    (note,) = chat.notes("compaction")
    assert row.seq == note.seq
    (spent,) = spending(chat.usage())
    assert (spent.calls, spent.input, spent.cost) == (2, 1_000, COST)
    fork = chat.fork()
    assert fork.usage() == []


@pytest.mark.every_leg
def test_useless_summary_is_counted(chat):
    grow(chat)
    long = Summary(text="word " * 9_000, summariser="dear", model=MODEL, **SPENT)
    context = manager(chat, limit=1_000_000, summariser=Scripted(long))
    assert context.condense(chat).status == "failed"
    (row,) = chat.usage()
    assert (row.model, row.is_failed, row.usage["calls"]) == (MODEL, True, 2)


def test_failure_before_a_fallback_is_priced_by_its_model(chat):
    grow(chat)
    first = Scripted(SummaryFailed(kind="overloaded", model=MODEL, **SPENT))
    second = Scripted(Summary(text="Short.", summariser="b", model="unheard-of", calls=1))
    outcome = manager(chat, summariser=with_fallback(first, second)).condense(chat)
    assert (outcome.calls, outcome.summary_model) == (3, "unheard-of")
    lost, row = chat.usage()
    assert (lost.seq, lost.model, lost.is_failed) == (row.seq, MODEL, True)
    assert (row.model, row.is_failed, row.usage["calls"]) == ("unheard-of", False, 1)
    assert [(one.model, one.calls, one.cost) for one in spending([lost, row])] == [
        (MODEL, 2, COST),
        ("unheard-of", 1, None),
    ]


@pytest.mark.parametrize("content", [{}, {"summaries": 5}, {"summaries": [5, "x", {"model": 7}]}])
def test_note_of_another_author_does_no_harm(chat, content):
    chat.note("compaction", content)
    assert spending(chat.usage()) == ()


def test_report_counts_summaries_and_sums_what_failed(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        chat = store.create()
        grow(chat)
        failed = SummaryFailed(kind="overloaded", model=MODEL, **SPENT)
        manager(chat, summariser=Scripted(failed)).condense(chat)
        found = usage.usage_of(chat)
        assert (found.summaries.count, found.summaries.calls) == (0, 2)
        assert (found.cost, found.summaries.unpriced) == (COST, 0)


def test_summary_of_the_agents_own_reports_nothing(chat):
    fill(chat, 6)
    seq = chat.commit(Plan.condense(chat.view(), [2, 3, 4], "S")).seq
    at = chat.message(seq).recorded_at
    assert chat.usage() == [ReportedUsage(chat.id, seq, None, None, at, is_summary=True)]


def test_usage_of_an_unknown_session_is_refused(lab):
    chat = lab.store.session(lab.store.create("gone").id)
    lab.store.purge("gone")
    with pytest.raises(SessionNotFound):
        chat.usage(family=True)


def test_report_sums_the_family_and_lists_models_without_a_price(tmp_path):
    with Store.open(tmp_path / "store.db") as store:
        root = store.create("root")
        reply(root)
        child = store.create("child", parent="root")
        reply(child)
        reply(child, "unheard-of")
        alone = usage.usage_of(root)
        assert (alone.family, alone.sessions, alone.cost) == (False, 1, COST)
        found = usage.usage_of(root, family=True)
        assert (found.family, found.sessions) == (True, 2)
        assert found.cost == pytest.approx(2 * COST)
        rows = {row.model: row for row in found.models}
        assert (rows[MODEL].calls, rows[MODEL].input, rows[MODEL].unpriced) == (2, 2_000, 0)
        unknown = rows["unheard-of"]
        assert (unknown.calls, unknown.cost, unknown.unpriced) == (1, None, 1)
        assert found.priced == "2026-06-01"


def test_usage_of_sessions_with_metadata(lab):
    used = {"input_tokens": 3, "output_tokens": 2}
    for name, tenant in (("a", "acme"), ("b", "other"), ("c", "acme")):
        chat = lab.store.create(name, metadata={"tenant": tenant, "plan": "pro"})
        chat.append_many([NewMessage("assistant", "hi", model="m", usage=used)] * 3)
    page = lab.store.usage(where={"tenant": "acme", "plan": "pro"}, limit=4)
    rest = lab.store.usage(where={"tenant": "acme", "plan": "pro"}, limit=4, after=page.next)
    assert [row.session_id for row in (*page, *rest)] == ["a"] * 3 + ["c"] * 3
    assert lab.store.usage(where={"tenant": "nobody"}) == []
    assert len(lab.store.usage(where={})) == 9
