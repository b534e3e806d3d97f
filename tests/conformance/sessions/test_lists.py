"""Lists of sessions: by the time of their newest entry, purged ones, and beginnings of ids."""

from datetime import UTC, datetime, timedelta

import pytest

from roocontext.errors import InvalidIdentifier, InvalidOption, SessionNotFound
from support.dialogue import fill

MOMENT = datetime(2026, 1, 1, 12, 0, 30, 500_000, tzinfo=UTC)
STEP = timedelta(milliseconds=1)


def ids(found):
    return [info.session_id for info in found]


def listed(lab, **filters):
    """The sessions of every list with these filters."""
    found = ids(lab.store.sessions(**filters))
    assert ids(one.info for one in lab.store.overview(**filters)) == found
    return found


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("wrong", [5, "yesterday", datetime(2026, 1, 1)])  # noqa: DTZ001
def test_list_filter_without_a_zone_is_refused(lab, wrong):
    for filters in ({"since": wrong}, {"until": wrong}):
        with pytest.raises(InvalidOption, match="time zone"):
            lab.store.sessions(**filters)


@pytest.mark.every_leg
def test_purged_sessions_are_listed_by_their_receipts(lab):
    assert lab.store.purged() == []
    receipts = []
    for name in ("a", "b", "c"):
        fill(lab.store.create(name), 2)
        receipts.append(lab.store.purge(name))
    lab.store.create("d")
    found = lab.store.purged()
    assert [(one.session_id, one.messages) for one in found] == [("c", 2), ("b", 2), ("a", 2)]
    assert [one.last_hash for one in found] == [one.last_hash for one in reversed(receipts)]
    assert lab.store.purged(limit=1) == found[:1]
    with pytest.raises(InvalidOption):
        lab.store.purged(limit=0)


def test_overview_of_some_sessions_obeys_the_other_filters(lab):
    for name in ("a", "b", "c"):
        fill(lab.store.create(name, parent=None if name == "a" else "a"), 2)

    def shown(*names, **filters):
        return [one.stats.session_id for one in lab.store.overview(ids=names, **filters)]

    assert shown("b", "a", "unknown") == ["b", "a"]
    assert shown("b", "a", limit=1) == ["b"]
    assert shown("a", "c", parent="a") == ["c"]
    assert shown() == []
    lab.store.purge("b")
    assert shown("b") == []
    with pytest.raises(InvalidOption):
        shown("b", limit=0)
    with pytest.raises(InvalidIdentifier):
        shown("")
    for wrong in (5, "abc"):
        with pytest.raises(InvalidOption, match="a list of ids"):
            lab.store.overview(ids=wrong)


def test_short_id_is_the_shortest_unique_prefix(lab):
    for name in ("tree", "treehouse", "trée", "trellis", "a", "zero", "purged-one", "purged-two"):
        lab.store.create(name)
    lab.store.purge("purged-two")
    found = {one.info.session_id: one.beginning for one in lab.store.overview()}
    assert found == {
        "tree": "tree",
        "treehouse": "treeh",
        "trée": "tré",
        "trellis": "trel",
        "a": "a",
        "zero": "z",
        "purged-one": "purged-o",
    }
    for whole, beginning in found.items():
        try:
            assert lab.store.session(beginning).id == whole
        except SessionNotFound:
            assert ids(lab.store.find(beginning)) == [whole]
