"""A graph's messages to its tasks come back equal, and no conversation is written twice."""

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.prebuilt import create_react_agent
from langgraph.types import Send

from roocontext.adapters.langgraph import RooContextSaver
from support.langgraph_thread import Thread, at, said
from support.scripted_chat_model import TOOLS, ScriptedChatModel

TASKS = "__pregel_tasks"
CALL = {"name": "look", "args": {"at": "x"}, "id": "c1", "type": "tool_call"}
LONG = [*said(*(f"text {number}" for number in range(40)))]


def changed() -> list[Any]:
    messages = deepcopy(LONG)
    messages[20].content = "another"
    return messages


def called(messages: Any) -> Send:
    """As an agent calls a tool: with its whole state."""
    return Send("tools", {"tool_call": CALL, "state": {"messages": messages, "left": 3}})


# What is sent, and how many of its messages must be written.
SENT = {
    "a state under a name": (called(LONG), 0),
    "a state by itself": (Send("x", {"messages": LONG}), 0),
    "a state with a message more": (called([*LONG, HumanMessage("more", id="m")]), 0),
    "the beginning of a conversation": (called(LONG[:10]), 0),
    "a message that was changed": (called(changed()), 19),
    "another conversation": (called(LONG[5:]), 35),
    "a conversation of another name": (Send("x", {"others": LONG}), 40),
    "a conversation in a list": (Send("x", [LONG]), 40),
    "a conversation that is deeper": (Send("x", {"a": {"b": {"messages": LONG}}}), 40),
    "a state under a number": (Send("x", {1: {"messages": LONG}}), 40),
    "a state under a pair": (Send("x", {(1, "a"): {"messages": LONG}}), 40),
    "no conversation": (Send("x", {"messages": [], "state": {"messages": "text"}}), 0),
    "no dict": (Send("x", 5), 0),
    "no send": ({"messages": LONG}, 40),
}


@pytest.mark.parametrize("kind", SENT)
def test_sent_state_comes_back_equal(thread: Thread, kind):
    value, written = SENT[kind]
    thread.put(messages=LONG)
    sizes = []
    for write in (
        lambda: thread.saver.put_writes(thread.config, [(TASKS, value)], "task"),
        lambda: thread.put(messages=LONG, **{TASKS: [value, value]}),
    ):
        before = thread.session.head().seq
        write()
        (note,) = [one for one in thread.session.audit(after=before) if one.entry.note]
        sizes.append(len(str(note.content)))
    again = RooContextSaver(thread.store)
    found = again.get_tuple(thread.config)
    assert found.checkpoint["channel_values"] == {"messages": LONG, TASKS: [value, value]}
    (parent,) = [one for one in again.list(at(thread.name)) if one.pending_writes]
    assert parent.pending_writes == [("task", TASKS, value)]
    # A message takes more than 100 bytes.
    assert (sizes[0] > 3_000, sizes[1] > 6_000) == (written > 10, written > 10)


def test_parallel_calls_are_sent_the_same_state(thread):
    sent = [called(LONG) for _ in range(3)]
    thread.put(messages=LONG, **{TASKS: sent})
    found = thread.values()[TASKS]
    assert found == sent
    states = [one.arg["state"]["messages"] for one in found]
    states[0][0].content = "changed"
    assert states[1] == LONG


def test_sent_state_stays_when_the_conversation_changes(thread):
    thread.put(messages=LONG)
    thread.saver.put_writes(thread.config, [(TASKS, called(LONG))], "task")
    first = thread.put(messages=LONG, **{TASKS: [called(LONG)]})
    thread.put(messages=[SystemMessage("summary", id="s"), *LONG[-2:]], **{TASKS: []})
    thread.put(first, messages=LONG[:3], **{TASKS: [called(LONG[:3])]})
    thread.saver.prune([thread.name])
    again = RooContextSaver(thread.store)
    assert again.get_tuple(at(thread.name)).checkpoint["channel_values"][TASKS] == [
        called(LONG[:3])
    ]
    thread.saver.copy_thread(thread.name, f"{thread.name}-copy")
    copied = again.get_tuple(at(f"{thread.name}-copy")).checkpoint["channel_values"]
    assert copied[TASKS] == [called(LONG[:3])]


def test_redaction_reaches_the_sent_state(thread):
    thread.put(messages=LONG, **{TASKS: [called(LONG)]})
    thread.session.redact(thread.session.view().messages[7].seq)
    (found,) = thread.values()[TASKS]
    assert found.arg["state"]["messages"][7].content == "[redacted]"
    assert found.arg["state"]["messages"][8:] == LONG[8:]


@pytest.mark.parametrize("engine", ["file", "postgres"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agent_that_stops_before_its_tools_continues_in_another_process(opened, engine):
    with opened(engine, "sync") as lab:

        def agent(**options: Any) -> Any:
            saver = RooContextSaver(lab.store)
            return create_react_agent(ScriptedChatModel(), TOOLS, checkpointer=saver, **options)

        for turn in range(8):
            agent(interrupt_before=["tools"]).invoke(
                {"messages": [("user", f"place {turn}")]}, at("t"), durability="sync"
            )
            (waiting,) = agent().get_state(at("t")).tasks
            assert waiting.name == "tools"
            end = agent().invoke(None, at("t"), durability="sync")
            assert end["messages"][-1].text == f"I saw what is at place {turn}."
        notes = [len(str(one.content)) for one in lab.store.session("langgraph:t").audit()]
        assert max(notes) < 3_000
        assert lab.store.session("langgraph:t").verify().ok
