"""The session of the OpenAI Agents SDK: items come back as they were, and nothing is deleted."""

import asyncio
import importlib
import math
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest
from agents.memory import (
    OpenAIResponsesCompactionSession,
    Session,
    SessionSettings,
    is_openai_responses_compaction_aware_session,
)

from roocontext import (
    AsyncContextManager,
    AsyncStore,
    ContextManager,
    FrameworkMissing,
    InvalidMessage,
)
from roocontext.adapters.openai_agents import CompactingSession, RooContextSession
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


def test_a_turn_is_messages_of_ours(desk):
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
def test_the_latest_items(desk, limit, expected):
    session = desk.session()
    desk.add(session, TURN)
    assert desk.items(session, limit) == expected


def test_the_limit_of_the_settings(desk):
    for settings in (SessionSettings(limit=2), {"limit": 2}):
        session = desk.session(session_settings=settings)
        desk.add(session, TURN)
        assert desk.items(session) == TURN[-2:]
        assert desk.items(session, 3) == TURN[-3:]


@pytest.mark.parametrize(
    "items", [[{**USER, "n": math.nan}], [USER, {**USER, 1: 2}], [{**USER, "x": b"y"}], [USER, {1}]]
)
def test_what_json_cannot_hold_is_refused(desk, items):
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


def test_redacted_items_that_the_format_cannot_hold(desk):
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
def test_compaction_is_the_managers(desk, kind):
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


def test_the_sdks_own_compaction_over_our_session(desk):
    class Client:
        class responses:  # noqa: N801 - as the SDK's client names it
            @staticmethod
            async def compact(**request):
                class Compacted:
                    output = [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}]
                    usage = None

                return Compacted

    session = desk.session()
    desk.add(session, TURN)
    compacting = OpenAIResponsesCompactionSession(
        session.session_id, session, client=Client, compaction_mode="input"
    )
    desk.run(compacting.run_compaction({"force": True}))
    compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    assert desk.items(session) == [compacted]
    assert desk.sync.session(session.session_id).stats().messages == 5


def test_two_writers_at_once(desk):
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


def test_redacted_items(desk):
    session = desk.session()
    desk.add(session, TURN)
    chat = desk.sync.session(session.session_id)
    chat.redact(1)
    assert desk.items(session) == [{"role": "user", "content": "[redacted]"}, *TURN[1:]]


def test_a_version_without_the_protocol(monkeypatch):
    monkeypatch.delitem(sys.modules, "roocontext.adapters.openai_agents")
    monkeypatch.setitem(sys.modules, "agents.memory", ModuleType("agents.memory"))
    with pytest.raises(FrameworkMissing, match=r"openai-agents >=0.24,<0.25. Version 0.24"):
        importlib.import_module("roocontext.adapters.openai_agents")


def test_the_example_runs(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "openai_agents.py"))
    for expected in ("13 messages in the log, 3 of them visible", "26 messages in the log, "):
        asyncio.run(example["main"](str(tmp_path / "agents.db")))
        shown = capsys.readouterr()
        assert "Look again. -> There are 40 files." in shown.out
        assert expected in shown.out
        assert shown.err == ""
