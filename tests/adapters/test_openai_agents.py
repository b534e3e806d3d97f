"""The session of the OpenAI Agents SDK: items come back as they were, and nothing is deleted.

Popping the newest item is a rewind that keeps all else.
"""

import asyncio
import math
import runpy
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from agents.memory import (
    OpenAIResponsesCompactionSession,
    Session,
    SessionSettings,
    SQLiteSession,
    is_openai_responses_compaction_aware_session,
)
from agents.run_internal.items import digest_input_item
from hypothesis import given
from hypothesis import strategies as st

from roocontext import (
    AsyncContextManager,
    ContextManager,
    Counts,
    InvalidMessage,
    NewMessage,
    Plan,
    Store,
)
from roocontext.adapters.openai_agents import CompactingSession
from roocontext.log.counting import Size
from support.openai_agents_driver import (
    ANSWER,
    CALLS,
    LONG,
    OUTPUTS,
    REASONING,
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


def begun(driver, items):
    """A session of the SDK that holds these items, and ours."""
    session = driver.session()
    driver.add(session, items)
    return session, driver.sync.session(session.session_id)


def test_items_come_back_as_they_were(driver):
    session = driver.session()
    assert isinstance(session, Session)
    assert not is_openai_responses_compaction_aware_session(session)
    assert driver.items(session) == []
    driver.add(session, [])
    driver.add(session, TURN)
    driver.add(session, iter(UNUSUAL))
    assert driver.items(session) == [*TURN, *UNUSUAL]
    assert list(map(repr, driver.items(session))) == list(map(repr, [*TURN, *UNUSUAL]))


def test_turn_is_stored_as_messages(driver):
    _, chat = begun(driver, TURN)
    assert [(one.role, one.content) for one in chat.view().messages] == [
        ("user", USER),
        ("assistant", [REASONING, *CALLS]),
        ("user", OUTPUTS),
        ("assistant", [ANSWER]),
    ]
    assert chat.pending() == []
    assert [one["role"] for one in chat.messages("anthropic")] == ["user", "assistant"] * 2


def test_limit_of_the_settings_is_used(driver):
    for settings in (SessionSettings(limit=2), {"limit": 2}):
        session = driver.session(session_settings=settings)
        driver.add(session, TURN)
        assert (driver.items(session), driver.items(session, 3)) == (TURN[-2:], TURN[-3:])


@pytest.mark.parametrize(
    "items", [[{**USER, "n": math.nan}], [USER, {**USER, 1: 2}], [{**USER, "x": b"y"}], [USER, {1}]]
)
def test_non_json_is_refused(driver, items):
    session = driver.session()
    with pytest.raises(InvalidMessage):
        driver.add(session, items)
    assert driver.items(session) == []


def test_other_formats_are_converted(driver):
    session, chat = begun(driver, [USER])
    chat.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}])
    chat.append("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}])
    driver.add(session, [ANSWER])
    assert driver.items(session) == [
        USER,
        {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "a.py"},
        ANSWER,
    ]


def test_redacted_items_that_the_format_cannot_hold_become_text(driver):
    session, chat = begun(driver, [USER, {"role": "tool", "content": "secret"}, "secret"])
    for message in chat.view().messages:
        chat.redact(message.seq)
    gone = {"role": "assistant", "content": "[redacted]"}
    assert driver.items(session) == [{**USER, "content": "[redacted]"}, gone, gone]
    assert driver.run(session.pop_item()) == gone
    assert driver.items(session) == [{**USER, "content": "[redacted]"}, gone]


@pytest.mark.parametrize("kind", [ContextManager, AsyncContextManager])
def test_manager_compacts_the_session(driver, kind):
    session = CompactingSession(f"managed-{kind.__name__}", driver.store, kind(limit=1_500))
    assert is_openai_responses_compaction_aware_session(session)
    driver.run(session.run_compaction())  # of no session yet
    driver.add(session, LONG)
    driver.run(session.run_compaction({"response_id": "resp_1"}))
    assert driver.items(session) == LONG
    driver.add(session, [*LONG, *LONG, USER, ANSWER])
    driver.run(session.run_compaction({"force": True}))
    items = driver.items(session)
    assert items[0]["role"] == "user"
    assert "Summary" in str(items[0]["content"])
    assert items[-2:] == [USER, ANSWER]
    assert driver.sync.session(session.session_id).stats().messages == 9


COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
QUESTION = {"type": "message", "role": "user", "content": "What was asked."}


def compacting(session, **options):
    """The SDK's own compaction, with a server that keeps a question and adds a compaction."""

    class Compacted:
        output = [QUESTION, COMPACTED]
        usage = None

    class Client:
        class responses:  # noqa: N801 - as the SDK's client names it
            @staticmethod
            async def compact(**request):
                Client.asked = request["input"]
                return Compacted

    mode = {"client": Client, "compaction_mode": "input", **options}
    return OpenAIResponsesCompactionSession(session.session_id, session, **mode), Client


def compact(driver, session):
    compaction, _ = compacting(session)
    driver.run(compaction.run_compaction({"force": True}))


def test_compaction_of_the_sdk_hides_the_items(driver):
    session, chat = begun(driver, TURN)
    compact(driver, session)
    assert driver.items(session) == [QUESTION, COMPACTED]
    assert chat.stats().messages == 6
    (covering,) = [one for one in chat.audit() if one.kind == "covering"]
    assert covering.entry.details["record"]["trigger"] == "run_compaction"
    assert not [one for one in chat.audit() if one.kind == "rewind"]
    driver.add(session, [USER])
    assert [driver.run(session.pop_item()) for _ in range(2)] == [USER, COMPACTED]
    assert driver.items(session) == TURN  # as when a summary is popped
    assert chat.verify().ok


def test_message_that_the_sdk_s_compaction_keeps_stays(driver):
    session, chat = begun(driver, [QUESTION, *TURN])
    compact(driver, session)
    assert driver.items(session) == [QUESTION, COMPACTED]
    assert [one.kind for one in chat.audit() if one.visible] == ["message", "message"]
    assert (driver.run(session.pop_item()), driver.items(session)) == (COMPACTED, [QUESTION, *TURN])


def test_item_that_the_sdk_s_compaction_keeps_with_a_change_is_shown_with_it(driver):
    session, _ = begun(driver, TURN)
    # As the SDK strips ids, which the API refuses without the reasoning before the answer.
    changed = {name: value for name, value in ANSWER.items() if name != "id"}
    assert changed != ANSWER
    assert driver.run(session._atomic_replace_items([changed, COMPACTED]))
    assert driver.items(session) == [changed, COMPACTED]


def test_popped_compaction_goes_with_what_the_provider_added_though_uncovered(driver):
    session, chat = begun(driver, TURN)
    compact(driver, session)
    (covering,) = [one for one in chat.audit() if one.kind == "covering"]
    chat.uncover(covering.seq)
    assert driver.items(session) == [*TURN, COMPACTED]
    assert (driver.run(session.pop_item()), driver.items(session)) == (COMPACTED, TURN)
    assert chat.verify().ok


def test_compaction_that_hides_nothing_is_stored_with_all_its_items(driver):
    session, _ = begun(driver, [QUESTION])
    added = {"role": "developer", "content": "Be brief."}
    assert driver.run(session._atomic_replace_items([QUESTION, added, COMPACTED]))
    assert driver.items(session) == [QUESTION, added, COMPACTED]


def automatic(items):
    """A run as the SDK's runner describes it: it asked the model with these items."""
    return SimpleNamespace(
        usage=None,
        _session_compaction_is_automatic=True,
        _session_compaction_model_exchange=(tuple(map(digest_input_item, items)), None),
    )


@pytest.mark.parametrize("budget", [None, 3])
def test_sdk_compacts_the_end_of_a_history_that_it_does_not_read_whole(driver, budget):
    session = driver.session(session_settings={"limit": 5})
    driver.add(session, [*TURN, USER, ANSWER])
    compaction, client = compacting(
        session, max_rollback_items=budget, should_trigger_compaction=lambda _: True
    )
    run = automatic([*TURN[-2:], USER, ANSWER])
    driver.run(compaction.run_compaction({"response_id": "resp_1"}, wrapper=run))
    assert client.asked == [USER, ANSWER]  # from a message of the user on
    assert run._session_compaction_completed
    assert driver.run(session.get_items(100)) == [*TURN, QUESTION, COMPACTED]


def test_sdk_replaces_what_it_has_read_and_nothing_else(driver):
    session = driver.session()
    assert driver.run(session._get_compaction_snapshot(3)).complete
    driver.add(session, TURN)
    chat = driver.sync.session(session.session_id)
    for limit, is_complete in ((3, False), (len(TURN), True), (100, True)):
        snapshot = driver.run(session._get_compaction_snapshot(limit))
        assert (snapshot.items, snapshot.complete) == (TURN[-limit:], is_complete)
    stale = driver.run(session._get_compaction_snapshot(2))
    inside = driver.run(session._get_compaction_snapshot(4))  # from within a message of the model
    assert not driver.run(inside.replace_suffix(4, [COMPACTED]))  # nothing is there
    assert driver.run(inside.replace_suffix(0, [COMPACTED]))
    assert driver.items(session) == [*TURN[:3], COMPACTED]
    for snapshot in (stale, inside):
        assert not driver.run(snapshot.replace_suffix(0, [USER]))
    assert driver.items(session) == [*TURN[:3], COMPACTED]
    assert chat.verify().ok


def test_expired_compaction_of_the_sdk_is_left_out(driver):
    session = driver.session()
    old = [{**USER, "content": f"old {number}"} for number in range(3)]
    driver.add(session, [*old[:2], ANSWER, old[2], USER, ANSWER])

    async def replace(limit, output):
        expired = {"prune_prefix": lambda item: item in old}
        snapshot = await session._get_compaction_snapshot(limit, **expired)
        return await snapshot.replace_suffix(0, output)

    assert driver.run(replace(1, [COMPACTED]))
    assert driver.items(session) == [ANSWER, old[2], USER, COMPACTED]
    assert driver.run(replace(1, []))
    assert driver.items(session) == [ANSWER, old[2], USER]
    chat = driver.sync.session(session.session_id)
    assert "old 0" in str([one.content for one in chat.audit()])
    assert chat.verify().ok


def test_rows_hidden_by_a_manager_stay_hidden_when_the_sdk_compacts(driver):
    session, chat = begun(driver, [*TURN, *TURN, USER, ANSWER])
    view = chat.view()
    chat.commit(Plan.condense(view, [one.seq for one in view.messages[:4]], "A summary."))
    before = driver.items(session)
    snapshot = driver.run(session._get_compaction_snapshot(2))
    assert driver.run(snapshot.replace_suffix(0, [COMPACTED]))
    assert driver.items(session) == [*before[:-2], COMPACTED]
    # What the compaction stands for would be shown again.
    last = driver.run(session._get_compaction_snapshot(1))
    assert not driver.run(last.replace_suffix(0, [QUESTION]))
    partly = driver.run(session._get_compaction_snapshot(len(before)))
    assert driver.items(session)[0] == before[0]
    assert driver.run(partly.replace_suffix(0, [QUESTION]))  # all of it, the summary too
    assert driver.items(session) == [QUESTION]
    chat.undo(force=True)
    assert driver.items(session) == [*before[:-2], COMPACTED]
    assert chat.verify().ok


def test_redacted_items_leave_a_skeleton(driver):
    session, chat = begun(driver, TURN)
    chat.redact(1)
    assert driver.items(session) == [{"role": "user", "content": "[redacted]"}, *TURN[1:]]


def test_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "openai_agents.py"))
    for expected in ("13 messages in the log, 3 of them visible", "26 messages in the log, "):
        asyncio.run(example["main"](str(tmp_path / "agents.db")))
        shown = capsys.readouterr()
        assert "Look again. -> There are 40 files." in shown.out
        assert expected in shown.out
        assert shown.err == ""


ITEM = st.sampled_from([*TURN, *UNUSUAL[:12]])


def test_pop_and_clear_are_undone(driver):
    session, chat = begun(driver, TURN)
    assert driver.pop(session) == ANSWER
    assert any(one.content == [ANSWER] and one.rewound_by for one in chat.audit())
    driver.run(session.clear_session())
    chat.undo()
    assert driver.items(session) == TURN[:-1]
    assert chat.verify().ok


def test_pop_keeps_summaries(driver):
    session, _ = begun(driver, [*LONG, *TURN])
    chat = condensed(driver, session, 2)
    expected = [SUMMARY, *TURN]
    assert driver.items(session) == expected
    while len(expected) > 1:
        assert (driver.pop(session), driver.items(session)) == (expected.pop(), expected)
    # A summary is taken back as a whole.
    assert (driver.pop(session), driver.items(session)) == (SUMMARY, LONG)
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
    assert (before[0]["content"][0]["text"], before[4]["output"]) == ("(cut)", "(cleared)")
    assert (driver.pop(session), driver.items(session)) == (ANSWER, before[:-1])
    (marker,) = (one for one in chat.audit(after=chat.head_seq() - 2) if one.kind == "marker")
    assert marker.entry.details["record"]["trigger"] == "test"
    driver.pop(session)
    assert driver.items(session) == before[:-2]
    assert chat.verify().ok


def test_pop_keeps_uncoverings(driver):
    session, _ = begun(driver, [*LONG, USER])
    chat = condensed(driver, session, 2)
    driver.add(session, [ANSWER])
    chat.uncover(4)
    assert (driver.pop(session), driver.items(session)) == (ANSWER, [*LONG, USER])


def test_pop_of_a_plan_that_cannot_be_repeated_shows_its_rows(driver):
    session, _ = begun(driver, [*LONG, *TURN])
    condensed(driver, session, 2).pin(1)
    assert (driver.pop(session), driver.items(session)) == (ANSWER, [*LONG, *TURN[:-1]])


def test_pop_keeps_what_a_rewind_left_of_a_plan(driver):
    session, chat = begun(driver, [*LONG, USER])
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
    assert (driver.pop(session), driver.items(session)) == (USER, before[:-1])


TEXT, CALL = {"type": "text", "text": "Hm."}, {"type": "tool_use", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "content": "a.py"}
CALLED = [[TEXT, {**CALL, "id": "a"}], [{**RESULT, "tool_use_id": "a"}]]
TWICE = [[{**CALL, "id": n} for n in "ab"], [{**RESULT, "tool_use_id": n} for n in "ab"]]
SILENT = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]


@pytest.mark.parametrize(
    "contents", [[SILENT], [SILENT, [TEXT]], [[], "x"], CALLED[:1], CALLED, TWICE, [*TWICE, SILENT]]
)
def test_items_of_another_format_are_read_and_popped_one_by_one(driver, contents):
    session, chat = begun(driver, [USER])
    for number, content in enumerate(contents):
        chat.append(("assistant", "user")[number % 2], content)
    items = driver.items(session)
    while items:
        for limit in (1, 2, 3):
            assert driver.items(session, limit) == items[-limit:]
        assert (driver.pop(session), driver.items(session)) == (items.pop(), items)
    assert driver.pop(session) is None


def test_pop_during_writes_loses_no_item(driver):
    session, _ = begun(driver, [USER])
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
