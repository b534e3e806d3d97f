"""Lists, filters and searches use the time at which things happened, or the store's clock."""

from typing import Any

import pytest

from roocontext.reports import naming, usage
from support.dialogue import at, fill
from support.pages import every_page

JANUARY = 1_768_000_000_000
DAY = 86_400_000
USED = {"input_tokens": 10, "output_tokens": 1}


@pytest.fixture
def three(lab: Any) -> Any:
    """Sessions that were recorded on one day: of January, of that day, and of a time to come."""
    lab.clock.now, lab.clock.step = JANUARY + 100 * DAY, 1_000
    for name, ts in (("now", None), ("old", JANUARY), ("future", JANUARY + 900 * DAY)):
        chat = lab.store.create(name)
        chat.append("user", f"the word {name}", ts=ts)
        chat.append("assistant", "yes", ts=ts, model="m", usage=USED)
    return lab


def listed(lab: Any, **asked: Any) -> list[str]:
    return [info.session_id for info in lab.store.sessions(**asked)]


def test_sessions_are_listed_in_the_order_in_which_they_happened(three):
    # The time that is to come counts as that of its recording, which was the last.
    assert listed(three) == ["future", "now", "old"]
    assert listed(three, recorded=True) == ["future", "old", "now"]
    three.store.session("old").set_title("another title")
    assert listed(three) == ["future", "now", "old"]
    assert listed(three, recorded=True) == ["old", "future", "now"]
    overview = [one.info.session_id for one in three.store.overview()]
    assert overview == listed(three)
    assert naming.session_named(three.store, "last") == "future"
    old = three.store.session("old").info()
    assert (old.happened_at, old.listed_at) == (JANUARY, JANUARY)


@pytest.mark.parametrize("recorded", [False, True])
def test_pages_of_a_list_follow_each_other(lab, recorded):
    lab.clock.now, lab.clock.step = -3_000, 0
    for number, ts in enumerate([-1, -60_001, -60_001, 5, None, -60_001, -59_999, 200_000]):
        chat = lab.store.create(f"s{number}")
        chat.append("user", "x", ts=ts)
        lab.clock.now += 500 * (number % 3)
    whole = lab.store.sessions(recorded=recorded)
    pages = every_page(lab.store.sessions, limit=2, recorded=recorded)
    assert [one for page in pages for one in page] == whole
    keys = [(one.updated_at if recorded else one.listed_at, one.updated_at) for one in whole]
    assert keys == sorted(keys, reverse=True)
    assert {one.session_id for one in whole} == {f"s{number}" for number in range(8)}


def test_list_is_filtered_by_the_time_that_it_shows(three):
    since = at(JANUARY + DAY)
    assert listed(three, since=since) == ["future", "now"]
    assert listed(three, until=since) == ["old"]
    assert listed(three, since=since, recorded=True) == ["future", "old", "now"]
    assert listed(three, until=since, recorded=True) == []


def test_calls_are_booked_on_the_day_on_which_they_happened(three):
    before = at(JANUARY + DAY)
    (row,) = three.store.usage(until=before)
    assert (row.session_id, row.happened_at) == ("old", JANUARY)
    assert three.store.usage(until=before, recorded=True) == []
    assert len(three.store.usage(since=before, recorded=True)) == 3
    days = usage.spending_of(three.store)
    assert (len(days.rows), days.calls) == (3, 3)
    (day,) = usage.spending_of(three.store, recorded=True).rows
    assert day.calls == 3


@pytest.mark.parametrize("is_indexed", [False, True])
def test_search_is_ordered_by_the_time_at_which_messages_happened(three, is_indexed):
    if is_indexed:
        three.store.index()

    def found(**asked: Any) -> list[str]:
        page = three.store.search("word", order="newest", **asked)
        return [hit.session_id for hit in page]

    assert found() == ["future", "now", "old"]
    assert found(recorded=True) == ["future", "old", "now"]
    before = at(JANUARY + DAY)
    assert found(until=before) == ["old"]
    assert found(until=before, recorded=True) == []
    first = three.store.search("word", order="newest", limit=1)
    following = three.store.search("word", order="newest", limit=1, after=first.next)
    assert [hit.session_id for hit in (*first, *following)] == ["future", "now"]


def test_reads_of_the_past_go_by_either_clock(lab):
    lab.clock.now, lab.clock.step = JANUARY + 100 * DAY, 0
    chat = lab.store.create()
    fill(chat, 1)
    chat.append("user", "x", ts=JANUARY + 101 * DAY)
    chat.note("remark", {})
    then = at(lab.clock.now)
    for recorded, seq in ((False, 1), (True, 3)):
        asked: Any = {"as_of": then, "recorded": recorded}
        assert chat.view(**asked).seq == seq
        assert len(chat.messages(**asked)) == len(chat.messages(as_of=seq))
        assert chat.repairs(**asked) == chat.repairs(as_of=seq)
        assert chat.tokens("bytes", **asked) == chat.tokens("bytes", as_of=seq)
        assert len(chat.notes("remark", **asked)) == (seq == 3)
        assert (chat.newest_note("remark", **asked) is None) == (seq == 1)
        assert chat.diff(then, recorded=recorded).old == seq
        assert chat.pins(**asked) == frozenset()
        assert chat.frame(**asked) is None
