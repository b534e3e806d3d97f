"""Popping the newest item of a session of the OpenAI Agents SDK is a rewind that keeps all else."""

import threading

import pytest
from agents.memory import SQLiteSession
from hypothesis import given
from hypothesis import strategies as st

from roocontext import Plan, Store
from support.agents_desk import (
    ANSWER,
    CALLS,
    LONG,
    OUTPUTS,
    SUMMARY,
    TURN,
    UNUSUAL,
    USER,
    Desk,
    condensed,
)


@pytest.fixture(scope="module")
def desk(leg, opened):
    with opened(leg[0], "async") as lab:
        yield Desk(lab)


ITEM = st.sampled_from([*TURN, *UNUSUAL[:12]])


def test_pop_and_clear_are_rewinds(desk):
    session = desk.session()
    assert desk.pop(session) is None
    desk.run(session.clear_session())
    desk.add(session, TURN)
    for left in range(len(TURN) - 1, -1, -1):
        assert desk.pop(session) == TURN[left]
        assert desk.items(session) == TURN[:left]
    assert desk.pop(session) is None
    desk.add(session, TURN)
    desk.run(session.clear_session())
    assert desk.items(session) == []
    chat = desk.sync.session(session.session_id)
    chat.undo()
    assert desk.items(session) == TURN
    assert chat.verify().ok


def test_pop_keeps_summaries(desk):
    session = desk.session()
    desk.add(session, [*LONG, *TURN])
    chat = condensed(desk, session, 2)
    expected = [SUMMARY, *TURN]
    assert desk.items(session) == expected
    while len(expected) > 1:
        assert desk.pop(session) == expected.pop()
        assert desk.items(session) == expected
    # A summary is taken back as a whole.
    assert desk.pop(session) == SUMMARY
    assert desk.items(session) == LONG
    assert chat.verify().ok
    chat.undo()
    assert desk.items(session) == [SUMMARY]


def test_pop_keeps_plans_upon_plans(desk):
    session = desk.session()
    outputs = [{**OUTPUTS[0], "output": "long " * 50}, OUTPUTS[1]]
    desk.add(session, [*LONG, USER, *CALLS, *outputs, ANSWER])
    chat = condensed(desk, session, 1)
    view = chat.view()
    chat.commit(
        Plan.truncate(view, [view.messages[0].seq, view.messages[1].seq], "(cut)", trigger="test")
    )
    view = chat.view()
    chat.commit(Plan.clear(view, [(view.messages[3].seq, 0)], "(cleared)"))
    before = desk.items(session)
    assert before[0]["content"][0]["text"] == "(cut)"
    assert before[4]["output"] == "(cleared)"
    assert desk.pop(session) == ANSWER
    assert desk.items(session) == before[:-1]
    (marker,) = (one for one in chat.audit(after=chat.head_seq() - 2) if one.kind == "marker")
    assert marker.entry.details["record"]["trigger"] == "test"
    desk.pop(session)
    assert desk.items(session) == before[:-2]
    assert chat.verify().ok


def test_pop_keeps_uncoverings(desk):
    session = desk.session()
    desk.add(session, [*LONG, USER])
    chat = condensed(desk, session, 2)
    desk.add(session, [ANSWER])
    chat.uncover(4)
    assert desk.pop(session) == ANSWER
    assert desk.items(session) == [*LONG, USER]


def test_pop_of_a_plan_that_cannot_be_repeated_shows_its_rows(desk):
    session = desk.session()
    desk.add(session, [*LONG, *TURN])
    chat = condensed(desk, session, 2)
    chat.pin(1)
    assert desk.pop(session) == ANSWER
    assert desk.items(session) == [*LONG, *TURN[:-1]]


def test_pop_during_writes_loses_no_item(desk):
    session = desk.session()
    desk.add(session, [USER])
    other = Store.open(desk.url)
    writer = threading.Thread(
        target=lambda: [
            other.session(session.session_id).append("user", USER, format="openai-responses")
            for _ in range(30)
        ]
    )
    writer.start()
    popped = [desk.pop(session) for _ in range(10)]
    writer.join()
    other.close()
    assert len(desk.items(session)) == 31 - sum(item is not None for item in popped)


def test_popped_items_stay_in_the_log(desk):
    session = desk.session()
    desk.add(session, TURN)
    desk.pop(session)
    chat = desk.sync.session(session.session_id)
    assert any(one.content == [ANSWER] and one.rewound_by for one in chat.audit())


@given(
    st.lists(st.one_of(st.lists(ITEM, max_size=5), st.sampled_from(["pop", "clear"])), max_size=12)
)
def test_session_does_what_the_sdks_session_does(desk, steps):
    ours, theirs = desk.session(), SQLiteSession("s")
    for step in steps:
        for session in (ours, theirs):
            if step == "pop":
                desk.run(session.pop_item())
            elif step == "clear":
                desk.run(session.clear_session())
            else:
                desk.add(session, step)
        for limit in (None, 1, 3):
            assert desk.items(ours, limit) == desk.items(theirs, limit)
    theirs.close()
