"""What was reported in a session, in its forks, and in a whole family."""

import pytest

from roocontext import Plan, ReportedUsage, Store
from roocontext.errors import SessionNotFound
from roocontext.reports import usage
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
def test_usage_is_what_was_reported_also_for_what_was_taken_back(chat):
    fill(chat, 2)
    seq = reply(chat)
    chat.rewind(to=1)
    at = chat.message(seq).recorded_at
    assert chat.usage() == [ReportedUsage(chat.id, seq, MODEL, USED, at)]
    assert chat.usage(family=True) == chat.usage()


@pytest.mark.every_leg
def test_a_family_is_a_session_and_all_its_descendants(lab):
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
def test_a_fork_counts_only_what_came_after_it(chat):
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


def test_a_summary_of_the_agents_own_reports_nothing(chat):
    fill(chat, 6)
    seq = chat.commit(Plan.condense(chat.view(), [2, 3, 4], "S")).seq
    at = chat.message(seq).recorded_at
    assert chat.usage() == [ReportedUsage(chat.id, seq, None, None, at, is_summary=True)]


def test_there_has_to_be_such_a_session(lab):
    chat = lab.store.session(lab.store.create("gone").id)
    lab.store.purge("gone")
    with pytest.raises(SessionNotFound):
        chat.usage(family=True)


def test_the_report_sums_the_family_and_says_what_has_no_price(tmp_path):
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
