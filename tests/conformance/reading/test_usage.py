"""The usage reported in a session, in its forks, in a whole family, and in all sessions."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from roocontext import ArchiveFolder, NewMessage, Plan, Store
from roocontext.errors import InvalidOption, SessionNotFound, SummaryFailed
from roocontext.log.counting import ReportedUsage
from roocontext.log.summary import Summary
from roocontext.reports import usage
from roocontext.summarisers import with_fallback
from roocontext.tokens import spending
from support.async_manager import Scripted, grow, manager
from support.dialogue import fill, restored

USED = {"input_tokens": 1_000, "output_tokens": 100}
MODEL = "claude-sonnet-4-5"
COST = (1_000 * 3 + 100 * 15) / 1_000_000


def reply(chat, model=MODEL):
    chat.append("user", "go on")
    return chat.append("assistant", "done", model=model, usage=USED).seq


def places(rows):
    return [(row.session_id, row.seq) for row in rows]


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


NEW_YEAR = 1_767_225_600_000  # 2026-01-01 00:00 UTC
HOUR = 3_600_000


def at_hours(chat, model, *hours):
    """Replies that happened so many hours after the year began."""
    chat.append_many(
        [
            NewMessage("assistant", "done", model=model, usage=USED, ts=NEW_YEAR + hour * HOUR)
            for hour in hours
        ]
    )


def _at(milliseconds):
    return datetime.fromtimestamp((NEW_YEAR + milliseconds) / 1_000, UTC)


def grouped(groups):
    return [(group.name, places(group.rows)) for group in groups]


@pytest.mark.every_leg
def test_usage_of_all_sessions_is_grouped_by_day_model_or_session(lab):
    one = lab.store.create("one", metadata={"team": "a"})
    two = lab.store.create("two", metadata={"team": "b"})
    at_hours(one, "m-2", 30, 1)
    at_hours(two, "m-1", 2)
    at_hours(two, None, 49)
    assert grouped(lab.store.usage(by="day")) == [
        ("2026-01-01", [("one", 3), ("two", 2)]),
        ("2026-01-02", [("one", 2)]),
        ("2026-01-03", [("two", 3)]),
    ]
    assert grouped(lab.store.usage(by="day", where={"team": "b"}, since=_at(HOUR * 3))) == [
        ("2026-01-03", [("two", 3)])
    ]
    by_model = grouped(lab.store.usage(by="model"))
    assert by_model == [
        ("m-1", [("two", 2)]),
        ("m-2", [("one", 2), ("one", 3)]),
        (None, [("two", 3)]),
    ]
    assert [name for name, _ in grouped(lab.store.usage(by="session"))] == ["one", "two"]
    west = timezone(timedelta(hours=-6))
    assert [name for name, _ in grouped(lab.store.usage(by="day", zone=west))] == [
        "2025-12-31",
        "2026-01-02",
    ]
    recorded = grouped(lab.store.usage(by="day", recorded=True))
    assert sum(len(rows) for _, rows in recorded) == 4
    assert "2026-01-03" not in dict(recorded)


def test_usage_of_a_time_without_a_calendar_is_grouped_by_its_number(lab):
    lab.store.create("one").append("assistant", "x", model="m", usage=USED, ts=10**17)
    assert grouped(lab.store.usage(by="day")) == [(f"{10**17} ms", [("one", 1)])]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "options",
    [
        *({"by": "week"}, {"by": "day", "limit": 3}, {"by": "day", "zone": "Europe/Paris"}),
        {"since": NEW_YEAR},
    ],
)
def test_groups_and_times_that_there_are_not_are_refused(lab, options):
    with pytest.raises(InvalidOption):
        lab.store.usage(**options)


@pytest.mark.every_leg
def test_usage_of_archived_sessions_counts_until_they_are_purged(lab, tmp_path):
    parent = lab.store.create("parent", metadata={"team": "a"})
    chat = lab.store.create("chat", metadata={"team": "a"}, parent="parent")
    at_hours(parent, "m", 1)
    grow(chat)
    at_hours(chat, "m", 1, 30)
    context = manager(chat, limit=1_000_000, summariser=Scripted(SummaryFailed(model="m", **SPENT)))
    context.condense(chat)
    manager(chat, summariser=Scripted()).condense(chat)
    lab.store.create("later").append("assistant", "x", model="m", usage=USED)

    def read():
        return (
            lab.store.usage(),
            lab.store.usage(by="day"),
            lab.store.usage(where={"team": "a"}, since=_at(2 * HOUR), until=_at(31 * HOUR)),
            lab.store.session("parent").usage(family=True),
        )

    before = read()
    assert sorted({(row.is_summary, row.is_failed) for row in before[0]}) == [
        (False, False),
        (True, False),
        (True, True),
    ]
    first = lab.store.usage(limit=2)
    (done,) = lab.store.archive(session="chat", put=ArchiveFolder(tmp_path)).archived
    assert read() == before
    assert [*first, *lab.store.usage(after=first.next)] == before[0]
    assert lab.store.usage(where={"team": "b"}) == []
    restored(lab.store, done.file)
    assert read() == before
    lab.store.archive(session="chat", put=ArchiveFolder(tmp_path))
    lab.store.purge("chat")
    assert {row.session_id for row in lab.store.usage()} == {"parent", "later"}
