"""The session of the OpenAI Agents SDK: items come back as they were, and nothing is deleted."""

import asyncio
import importlib
import math
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from agents.memory import (
    OpenAIResponsesCompactionSession,
    Session,
    SessionSettings,
    is_openai_responses_compaction_aware_session,
)
from agents.run_internal.items import digest_input_item

from roocontext import AsyncContextManager, AsyncStore, ContextManager, InvalidMessage, Plan
from roocontext.adapters.openai_agents import CompactingSession, RooContextSession
from roocontext.errors import FrameworkMissing
from support.agents_desk import ANSWER, CALLS, LONG, OUTPUTS, REASONING, TURN, UNUSUAL, USER, Desk


@pytest.fixture(scope="module")
def desk(leg, opened):
    with opened(leg[0], "async") as lab:
        yield Desk(lab)


def test_items_come_back_as_they_were(desk):
    session = desk.session()
    assert isinstance(session, Session)
    assert not is_openai_responses_compaction_aware_session(session)
    assert desk.items(session) == []
    desk.add(session, [])
    desk.add(session, TURN)
    desk.add(session, UNUSUAL)
    assert desk.items(session) == [*TURN, *UNUSUAL]
    assert list(map(repr, desk.items(session))) == list(map(repr, [*TURN, *UNUSUAL]))


def test_turn_is_stored_as_messages(desk):
    session = desk.session()
    desk.add(session, TURN)
    chat = desk.sync.session(session.session_id)
    assert [(one.role, one.content) for one in chat.view().messages] == [
        ("user", USER),
        ("assistant", [REASONING, *CALLS]),
        ("user", OUTPUTS),
        ("assistant", [ANSWER]),
    ]
    assert chat.pending() == []
    assert [one["role"] for one in chat.messages("anthropic")] == ["user", "assistant"] * 2


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0, []), (1, TURN[-1:]), (3, TURN[-3:]), (7, TURN), (99, TURN), (-1, TURN), (None, TURN)],
)
def test_limit_returns_the_latest_items(desk, limit, expected):
    session = desk.session()
    desk.add(session, TURN)
    assert desk.items(session, limit) == expected


def test_limit_of_the_settings_is_used(desk):
    for settings in (SessionSettings(limit=2), {"limit": 2}):
        session = desk.session(session_settings=settings)
        desk.add(session, TURN)
        assert desk.items(session) == TURN[-2:]
        assert desk.items(session, 3) == TURN[-3:]


@pytest.mark.parametrize(
    "items", [[{**USER, "n": math.nan}], [USER, {**USER, 1: 2}], [{**USER, "x": b"y"}], [USER, {1}]]
)
def test_non_json_is_refused(desk, items):
    session = desk.session()
    with pytest.raises(InvalidMessage):
        desk.add(session, items)
    assert desk.items(session) == []


def test_other_formats_are_converted(desk):
    session = desk.session()
    desk.add(session, [USER])
    chat = desk.sync.session(session.session_id)
    chat.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}])
    chat.append("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}])
    desk.add(session, [ANSWER])
    assert desk.items(session) == [
        USER,
        {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "a.py"},
        ANSWER,
    ]


def test_redacted_items_that_the_format_cannot_hold_become_text(desk):
    session = desk.session()
    desk.add(session, [USER, {"role": "tool", "content": "secret"}, "secret"])
    chat = desk.sync.session(session.session_id)
    for message in chat.view().messages:
        chat.redact(message.seq)
    gone = {"role": "assistant", "content": "[redacted]"}
    assert desk.items(session) == [{**USER, "content": "[redacted]"}, gone, gone]
    assert desk.run(session.pop_item()) == gone
    assert desk.items(session) == [{**USER, "content": "[redacted]"}, gone]


@pytest.mark.parametrize("kind", [ContextManager, AsyncContextManager])
def test_manager_compacts_the_session(desk, kind):
    manager = kind(limit=1_500)
    session = CompactingSession(f"managed-{kind.__name__}", desk.store, manager)
    assert is_openai_responses_compaction_aware_session(session)
    desk.run(session.run_compaction())  # of no session yet
    desk.add(session, LONG)
    desk.run(session.run_compaction({"response_id": "resp_1"}))
    assert desk.items(session) == LONG
    desk.add(session, [*LONG, *LONG, USER, ANSWER])
    desk.run(session.run_compaction({"force": True}))
    items = desk.items(session)
    assert items[0]["role"] == "user"
    assert "Summary" in str(items[0]["content"])
    assert items[-2:] == [USER, ANSWER]
    assert desk.sync.session(session.session_id).stats().messages == 9


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


def test_compaction_of_the_sdk_hides_the_items(desk):
    session = desk.session()
    desk.add(session, TURN)
    compaction, _ = compacting(session)
    desk.run(compaction.run_compaction({"force": True}))
    assert desk.items(session) == [QUESTION, COMPACTED]
    chat = desk.sync.session(session.session_id)
    assert chat.stats().messages == 6
    chat.undo(force=True)  # it was one rewind
    assert desk.items(session) == TURN
    chat.undo()
    desk.add(session, [USER])
    assert [desk.run(session.pop_item()) for _ in range(2)] == [USER, COMPACTED]
    assert desk.items(session) == [QUESTION]
    assert chat.verify().ok


def automatic(items):
    """A run as the SDK's runner describes it: it asked the model with these items."""
    return SimpleNamespace(
        usage=None,
        _session_compaction_is_automatic=True,
        _session_compaction_model_exchange=(tuple(map(digest_input_item, items)), None),
    )


@pytest.mark.parametrize("budget", [None, 3])
def test_sdk_compacts_the_end_of_a_history_that_it_does_not_read_whole(desk, budget):
    session = desk.session(session_settings={"limit": 5})
    desk.add(session, [*TURN, USER, ANSWER])
    compaction, client = compacting(
        session, max_rollback_items=budget, should_trigger_compaction=lambda _: True
    )
    run = automatic([*TURN[-2:], USER, ANSWER])
    desk.run(compaction.run_compaction({"response_id": "resp_1"}, wrapper=run))
    assert client.asked == [USER, ANSWER]  # from a message of the user on
    assert run._session_compaction_completed
    everything = desk.run(session.get_items(100))
    assert everything == [*TURN, QUESTION, COMPACTED]


def test_sdk_replaces_what_it_has_read_and_nothing_else(desk):
    session = desk.session()
    assert desk.run(session._get_compaction_snapshot(3)).complete
    desk.add(session, TURN)
    chat = desk.sync.session(session.session_id)
    for limit, is_complete in ((3, False), (len(TURN), True), (100, True)):
        snapshot = desk.run(session._get_compaction_snapshot(limit))
        assert (snapshot.items, snapshot.complete) == (TURN[-limit:], is_complete)
    stale = desk.run(session._get_compaction_snapshot(2))
    inside = desk.run(session._get_compaction_snapshot(4))  # from within a message of the model
    assert not desk.run(inside.replace_suffix(4, [COMPACTED]))  # nothing is there
    assert desk.run(inside.replace_suffix(0, [COMPACTED]))
    assert desk.items(session) == [*TURN[:3], COMPACTED]
    for snapshot in (stale, inside):
        assert not desk.run(snapshot.replace_suffix(0, [USER]))
    assert desk.items(session) == [*TURN[:3], COMPACTED]
    assert chat.verify().ok


def test_expired_compaction_of_the_sdk_is_left_out(desk):
    session = desk.session()
    old = [{**USER, "content": f"old {number}"} for number in range(3)]
    desk.add(session, [*old[:2], ANSWER, old[2], USER, ANSWER])

    async def replace(limit, output):
        expired = {"prune_prefix": lambda item: item in old}
        snapshot = await session._get_compaction_snapshot(limit, **expired)
        return await snapshot.replace_suffix(0, output)

    assert desk.run(replace(1, [COMPACTED]))
    assert desk.items(session) == [ANSWER, old[2], USER, COMPACTED]
    assert desk.run(replace(1, []))
    assert desk.items(session) == [ANSWER, old[2], USER]
    chat = desk.sync.session(session.session_id)
    assert "old 0" in str([one.content for one in chat.audit()])
    assert chat.verify().ok


def test_rows_hidden_by_a_manager_stay_hidden_when_the_sdk_compacts(desk):
    session = desk.session()
    desk.add(session, [*TURN, *TURN, USER, ANSWER])
    chat = desk.sync.session(session.session_id)
    view = chat.view()
    chat.commit(Plan.condense(view, [one.seq for one in view.messages[:4]], "A summary."))
    before = desk.items(session)
    snapshot = desk.run(session._get_compaction_snapshot(2))
    assert desk.run(snapshot.replace_suffix(0, [COMPACTED]))
    assert desk.items(session) == [*before[:-2], COMPACTED]
    partly = desk.run(session._get_compaction_snapshot(len(before)))
    assert desk.items(session)[0] == before[0]
    assert desk.run(partly.replace_suffix(0, [QUESTION]))  # all of it, the summary too
    assert desk.items(session) == [QUESTION]
    chat.undo(force=True)
    assert desk.items(session) == [*before[:-2], COMPACTED]
    assert chat.verify().ok


def test_two_writers_lose_nothing(desk):
    async def write(store, name):
        session = RooContextSession("shared", store)
        for number in range(20):
            await session.add_items([{**USER, "content": f"{name}{number}"}, ANSWER])

    async def both():
        async with await AsyncStore.open(desk.url, durability="normal") as other:
            await asyncio.gather(write(desk.store, "a"), write(other, "b"))

    desk.run(both())
    items = desk.items(RooContextSession("shared", desk.store))
    assert items[1::2] == [ANSWER] * 40  # each call is one transaction
    for name in "ab":
        asked = [it["content"] for it in items[::2] if it["content"][0] == name]
        assert asked == [f"{name}{number}" for number in range(20)]


def test_redacted_items_leave_a_skeleton(desk):
    session = desk.session()
    desk.add(session, TURN)
    chat = desk.sync.session(session.session_id)
    chat.redact(1)
    assert desk.items(session) == [{"role": "user", "content": "[redacted]"}, *TURN[1:]]


def test_sdk_without_the_protocol_is_one_clear_error(monkeypatch):
    monkeypatch.delitem(sys.modules, "roocontext.adapters.openai_agents")
    monkeypatch.setitem(sys.modules, "agents.memory", ModuleType("agents.memory"))
    with pytest.raises(FrameworkMissing, match=r"openai-agents >=0.24,<0.25. Version 0.24"):
        importlib.import_module("roocontext.adapters.openai_agents")


def test_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "openai_agents.py"))
    for expected in ("13 messages in the log, 3 of them visible", "26 messages in the log, "):
        asyncio.run(example["main"](str(tmp_path / "agents.db")))
        shown = capsys.readouterr()
        assert "Look again. -> There are 40 files." in shown.out
        assert expected in shown.out
        assert shown.err == ""
