"""Usage and costs of many sessions: by day, by model and by session."""

import time

import pytest

from roocontext import Plan
from roocontext.reports.usage import spending_of

DAY = 86_400_000
START = 1_767_225_600_000  # 2026-01-01 00:00 UTC
CALL = {"input_tokens": 100, "output_tokens": 10, "cost": 0.5}
FREE = {"input_tokens": 70, "output_tokens": 1}


@pytest.fixture
def spent(lab):
    """Two sessions and a fork, on three days: five calls, one of them for a summary."""
    lab.clock.now, lab.clock.step = START + 1, 1
    one, two = lab.store.create("one"), lab.store.create("two")
    one.append("user", "hello " * 20)
    one.append("assistant", "yes", model="m-1", usage=CALL)
    lab.clock.now = START + DAY
    two.append("assistant", "yes", model="m-1", usage=CALL)
    two.append("assistant", "no", model="m-2", usage=FREE)
    lab.clock.now = START + 2 * DAY
    facts = {"summary": {"calls": 2, "input_tokens": 40, "output_tokens": 4, "cost": 0.25}}
    one.commit(Plan.condense(one.view(), [1], "In short.", record=facts))
    one.fork(session_id="copy").append("user", "no call")
    lab.store.create("gone").append("assistant", "x", model="m-1", usage=CALL)
    lab.store.purge("gone")
    return lab


def rows(answer):
    return [(row.name, row.sessions, row.calls, row.input, row.cost) for row in answer.rows]


def test_calls_are_summed_up_by_day(spent):
    answer = spending_of(spent.store, "day")
    assert rows(answer) == [
        ("2026-01-01", 1, 1, 100, 0.5),
        ("2026-01-02", 1, 2, 170, 0.5),
        ("2026-01-03", 1, 2, 40, 0.25),
    ]
    assert (answer.sessions, answer.calls, answer.unpriced, answer.cost) == (2, 5, 1, 1.25)


def test_calls_are_summed_up_by_model_and_session(spent):
    assert rows(spending_of(spent.store, "model")) == [
        ("m-1", 2, 2, 200, 1.0),
        ("(not named)", 1, 2, 40, 0.25),
        ("m-2", 1, 1, 70, None),
    ]
    assert rows(spending_of(spent.store, "session")) == [
        ("one", 1, 3, 140, 0.75),
        ("two", 1, 2, 170, 0.5),
    ]


def test_days_are_local(spent, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EST5")
        time.tzset()
        names = [row.name for row in spending_of(spent.store).rows]
    time.tzset()
    assert names == ["2025-12-31", "2026-01-01", "2026-01-02"]
