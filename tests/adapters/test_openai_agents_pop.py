"""Popping the newest item of a session of the OpenAI Agents SDK is a rewind that keeps all else."""

import threading

import pytest
from agents.memory import SQLiteSession
from hypothesis import given
from hypothesis import strategies as st

from roocontext import Counts, NewMessage, Plan, Store
from roocontext.log.counting import Size
from support.openai_agents_driver import (
    ANSWER,
    CALLS,
    LONG,
    OUTPUTS,
    SUMMARY,
    TURN,
    UNUSUAL,
    USER,
    OpenAIAgentsDriver,
    condensed,
)


@pytest.fixture(scope="module")
def driver(leg, opened):
    with opened(leg[0], "async") as lab:
        yield OpenAIAgentsDriver(lab)


ITEM = st.sampled_from([*TURN, *UNUSUAL[:12]])


def test_pop_and_clear_are_undone(driver):
    session = driver.session()
    driver.add(session, TURN)
    assert driver.pop(session) == ANSWER
    chat = driver.sync.session(session.session_id)
    assert any(one.content == [ANSWER] and one.rewound_by for one in chat.audit())
    driver.run(session.clear_session())
    chat.undo()
    assert driver.items(session) == TURN[:-1]
    assert chat.verify().ok


def test_pop_keeps_summaries(driver):
    session = driver.session()
    driver.add(session, [*LONG, *TURN])
    chat = condensed(driver, session, 2)
    expected = [SUMMARY, *TURN]
    assert driver.items(session) == expected
    while len(expected) > 1:
        assert driver.pop(session) == expected.pop()
        assert driver.items(session) == expected
    # A summary is taken back as a whole.
    assert driver.pop(session) == SUMMARY
    assert driver.items(session) == LONG
    assert chat.verify().ok
    chat.undo()
    assert driver.items(session) == [SUMMARY]


def test_pop_keeps_plans_upon_plans(driver):
    session = driver.session()
    outputs = [{**OUTPUTS[0], "output": "long " * 50}, OUTPUTS[1]]
    driver.add(session, [*LONG, USER, *CALLS, *outputs, ANSWER])
    chat = condensed(driver, session, 1)
    view = chat.view()
    chat.commit(
        Plan.truncate(view, [view.messages[0].seq, view.messages[1].seq], "(cut)", trigger="test")
    )
    view = chat.view()
    chat.commit(Plan.clear(view, [(view.messages[3].seq, 0)], "(cleared)"))
    before = driver.items(session)
    assert before[0]["content"][0]["text"] == "(cut)"
    assert before[4]["output"] == "(cleared)"
    assert driver.pop(session) == ANSWER
    assert driver.items(session) == before[:-1]
    (marker,) = (one for one in chat.audit(after=chat.head_seq() - 2) if one.kind == "marker")
    assert marker.entry.details["record"]["trigger"] == "test"
    driver.pop(session)
    assert driver.items(session) == before[:-2]
    assert chat.verify().ok


def test_pop_keeps_uncoverings(driver):
    session = driver.session()
    driver.add(session, [*LONG, USER])
    chat = condensed(driver, session, 2)
    driver.add(session, [ANSWER])
    chat.uncover(4)
    assert driver.pop(session) == ANSWER
    assert driver.items(session) == [*LONG, USER]


def test_pop_of_a_plan_that_cannot_be_repeated_shows_its_rows(driver):
    session = driver.session()
    driver.add(session, [*LONG, *TURN])
    chat = condensed(driver, session, 2)
    chat.pin(1)
    assert driver.pop(session) == ANSWER
    assert driver.items(session) == [*LONG, *TURN[:-1]]


def test_pop_keeps_what_a_rewind_left_of_a_plan(driver):
    session = driver.session()
    driver.add(session, [*LONG, USER])
    chat = driver.sync.session(session.session_id)
    rows = tuple(NewMessage("user", text) for text in ("What did we do?", "This."))
    counts = Counts("c", Size(60), Size(20))
    head = chat.head_seq()
    hides = ((1, head - 1),)
    chat.commit(
        Plan(head_seq=head, action="condense", hides=hides, rows=rows, lead=1, counts=counts)
    )
    chat.rewind(head + 1)
    before = driver.items(session)
    assert [item["content"][0]["text"] for item in before[len(LONG) : -1]] == ["What did we do?"]
    assert driver.pop(session) == USER
    assert driver.items(session) == before[:-1]


TEXT, CALL = {"type": "text", "text": "Hm."}, {"type": "tool_use", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "content": "a.py"}
CALLED = [[TEXT, {**CALL, "id": "a"}], [{**RESULT, "tool_use_id": "a"}]]
TWICE = [[{**CALL, "id": n} for n in "ab"], [{**RESULT, "tool_use_id": n} for n in "ab"]]
SILENT = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]


@pytest.mark.parametrize(
    "contents", [[SILENT], [SILENT, [TEXT]], [[], "x"], CALLED[:1], CALLED, TWICE, [*TWICE, SILENT]]
)
def test_items_of_another_format_are_read_and_popped_one_by_one(driver, contents):
    session = driver.session()
    driver.add(session, [USER])
    chat = driver.sync.session(session.session_id)
    for number, content in enumerate(contents):
        chat.append(("assistant", "user")[number % 2], content)
    items = driver.items(session)
    while items:
        for limit in (1, 2, 3):
            assert driver.items(session, limit) == items[-limit:]
        assert driver.pop(session) == items.pop()
        assert driver.items(session) == items
    assert driver.pop(session) is None


def test_pop_during_writes_loses_no_item(driver):
    session = driver.session()
    driver.add(session, [USER])
    other = Store.open(driver.url)
    writer = threading.Thread(
        target=lambda: [
            other.session(session.session_id).append("user", USER, format="openai-responses")
            for _ in range(30)
        ]
    )
    writer.start()
    popped = [driver.pop(session) for _ in range(10)]
    writer.join()
    other.close()
    assert len(driver.items(session)) == 31 - sum(item is not None for item in popped)


@given(
    st.lists(st.one_of(st.lists(ITEM, max_size=5), st.sampled_from(["pop", "clear"])), max_size=12)
)
def test_session_does_what_the_sdks_session_does(driver, steps):
    ours, theirs = driver.session(), SQLiteSession("s")
    for step in steps:
        for session in (ours, theirs):
            if step == "pop":
                driver.run(session.pop_item())
            elif step == "clear":
                driver.run(session.clear_session())
            else:
                driver.add(session, step)
        for limit in (None, -1, 0, 1, 3, 99):
            assert driver.items(ours, limit) == driver.items(theirs, limit)
    theirs.close()
