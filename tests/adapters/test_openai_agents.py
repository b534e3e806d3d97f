"""The session of the OpenAI Agents SDK: items come back as they were, and nothing is deleted."""

import asyncio
import importlib
import math
import os
import runpy
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents.memory import (
    OpenAIResponsesCompactionSession,
    Session,
    SessionSettings,
    SQLiteSession,
    is_openai_responses_compaction_aware_session,
)
from hypothesis import given
from hypothesis import strategies as st

from roocontext import (
    AsyncContextManager,
    ContextManager,
    FrameworkMissing,
    InvalidMessage,
    Plan,
    Store,
)
from roocontext.adapters.openai_agents import CompactingSession, RooContextSession

USER = {"role": "user", "content": "Which files?"}
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}
CALLS = [
    {"type": "function_call", "call_id": f"c{n}", "name": "ls", "arguments": "{}", "id": f"fc_{n}"}
    for n in (1, 2)
]
OUTPUTS = [
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [
            {"type": "input_text", "text": "b"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
        ],
    },
]
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Two.", "annotations": []}],
}
TURN = [USER, REASONING, *CALLS, *OUTPUTS, ANSWER]
UNUSUAL = [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    {
        "type": "mcp_approval_request",
        "id": "a",
        "name": "n",
        "arguments": "{}",
        "server_label": "s",
    },
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {"type": "tool_search_call", "call_id": "t", "execution": "server", "arguments": {}},
    {"type": "tool_search_output", "call_id": "t", "execution": "server", "tools": []},
    {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "s", "output": []},
    {"type": "item_reference", "id": "msg_9"},
    {"type": "telepathy_call_of_2030", "thought": {"deep": [1, 1.0, None, 2**70]}},
    {"type": "roocontext.item", "item": {"type": "roocontext.item"}},
    {"type": "tool_use", "id": "another format's"},
    {"role": "tool", "content": "a role that the API does not have"},
    {"role": "user", "content": [{"type": "input_text", "text": "lone \ud800, NUL \0"}]},
    {"role": "user"},
    {"type": "message", "role": "user", "content": None},
    {},
    "text",
    None,
]


class Desk:
    """A store, and a loop to await it in."""

    def __init__(self, lab):
        self.url = lab.url
        self.store = lab.store.target
        self.run = lab.store._runner.run
        self.sync = lab.store._runner.run(self.store.run(_given))
        self._number = 0

    def session(self, **options):
        self._number += 1
        return RooContextSession(f"s{self._number}", self.store, **options)

    def add(self, session, items):
        self.run(session.add_items(items))

    def items(self, session, limit=None):
        return self.run(session.get_items(limit))

    def pop(self, session):
        return self.run(session.pop_item())


def _given(plain: Store) -> Store:
    return plain


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


def test_popping_and_clearing_are_rewinds(desk):
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


def test_what_is_popped_stays_in_the_log(desk):
    session = desk.session()
    desk.add(session, TURN)
    desk.pop(session)
    chat = desk.sync.session(session.session_id)
    assert any(one.content == [ANSWER] and one.rewound_by for one in chat.audit())


@pytest.mark.parametrize(
    "items", [[{**USER, "n": math.nan}], [USER, {**USER, 1: 2}], [{**USER, "x": b"y"}], [USER, {1}]]
)
def test_what_json_cannot_hold_is_refused(desk, items):
    session = desk.session()
    with pytest.raises(InvalidMessage):
        desk.add(session, items)
    assert desk.items(session) == []


def condensed(desk, session, count):
    """Condense the first messages of the view."""
    chat = desk.sync.session(session.session_id)
    view = chat.view()
    chat.commit(Plan.condense(view, [one.seq for one in view.messages[:count]], "They are two."))
    return chat


LONG = [{"role": "user", "content": "word " * 50}, {"role": "assistant", "content": "word " * 50}]
SUMMARY = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "They are two."}],
}


def test_popping_keeps_what_was_condensed(desk):
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


def test_popping_keeps_plans_upon_plans(desk):
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


def test_popping_keeps_what_was_uncovered(desk):
    session = desk.session()
    desk.add(session, [*LONG, USER])
    chat = condensed(desk, session, 2)
    desk.add(session, [ANSWER])
    chat.uncover(4)
    assert desk.pop(session) == ANSWER
    assert desk.items(session) == [*LONG, USER]


def test_popping_where_a_plan_cannot_be_written_again(desk):
    session = desk.session()
    desk.add(session, [*LONG, *TURN])
    chat = condensed(desk, session, 2)
    chat.pin(1)
    assert desk.pop(session) == ANSWER
    assert desk.items(session) == [*LONG, *TURN[:-1]]


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
    sessions = [RooContextSession("shared", desk.store) for _ in range(2)]

    async def write(session, name):
        for number in range(20):
            await session.add_items([{**USER, "content": f"{name}{number}"}, ANSWER])

    async def both():
        await asyncio.gather(*map(write, sessions, "ab"))

    desk.run(both())
    items = desk.items(sessions[0])
    assert items[1::2] == [ANSWER] * 40  # each call is one transaction
    for name in "ab":
        said = [it["content"] for it in items[::2] if it["content"][0] == name]
        assert said == [f"{name}{number}" for number in range(20)]


def test_popping_while_another_writes(desk):
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


ITEM = st.sampled_from([*TURN, *UNUSUAL[:12]])


@given(
    st.lists(st.one_of(st.lists(ITEM, max_size=5), st.sampled_from(["pop", "clear"])), max_size=12)
)
def test_it_does_what_the_sdks_session_does(desk, steps):
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
