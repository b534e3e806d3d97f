"""LangGraph's own agent loop: turns with tools, a compaction, a killed process, a fork."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

from roocontext import AsyncStore, InvalidOption
from roocontext.adapters.langgraph import RooContextSaver
from support.scripted_chat_model import TOOLS, ScriptedChatModel

ROOT = Path(__file__).parents[2]
CONFIG = {"configurable": {"thread_id": "t"}}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def agent(store):
    saver = RooContextSaver(store)
    return create_react_agent(ScriptedChatModel(), TOOLS, checkpointer=saver)


def texts(messages):
    return [message.text for message in messages]


def shown(chat):
    return [message.content["data"]["content"] for message in chat.view().messages]


def turn(number):
    place = f"place {number}"
    return [place, "Let me look.", f"what is at {place}", f"I saw what is at {place}."]


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_agent_of_fifty_turns_survives_a_compaction_a_kill_and_a_fork(opened, engine):
    with opened(engine, "sync") as lab:
        graph = agent(lab.store)
        for number in range(20):
            graph.invoke({"messages": [("user", f"place {number}")]}, CONFIG)
        compact(graph)
        command = [sys.executable, "-W", "ignore", "-m", "support.langgraph_process"]
        process = subprocess.Popen(
            [*command, lab.url, "t", "20", "44"],
            stdout=subprocess.PIPE,
            cwd=ROOT / "tests",
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "LANGSMITH_TRACING": "false"},
        )
        for _ in range(6):
            process.stdout.readline()
        process.kill()  # in the middle of a turn, wherever it is
        rest, _ = process.communicate()
        begun = int(rest.split()[-1]) if rest else 25
        chat = lab.store.session("langgraph:t")
        assert chat.verify().ok

        # It continues where it was: the graph first finishes what was begun.
        graph = agent(lab.store)
        if graph.get_state(CONFIG).next:
            graph.invoke(None, CONFIG)
        seen = [text for text in shown(chat) if text.startswith("I saw")]
        done = 1 + max(int(text.rsplit(" ", 1)[1].rstrip(".")) for text in seen)
        assert begun <= done <= begun + 1
        assert done < 50
        for number in range(done, 50):
            graph.invoke({"messages": [("user", f"place {number}")]}, CONFIG)
        assert texts(graph.get_state(CONFIG).values["messages"]) == shown(chat)
        expected = ["what was said"] + [text for number in range(19, 50) for text in turn(number)]
        assert [text for text in shown(chat) if text in set(expected)] == expected

        # Time travel: a branch from right after turn 29, which is a rewind.
        past = next(
            one
            for one in graph.get_state_history(CONFIG)
            if not one.next and texts(one.values["messages"])[-1].endswith("place 29.")
        )
        graph.invoke({"messages": [("user", "place 99")]}, past.config)
        assert shown(chat)[-8:] == [*turn(29), *turn(99)]
        assert texts(graph.get_state(CONFIG).values["messages"]) == shown(chat)

        # The audit has all of it, each message once; and it is readable.
        written = [one for one in chat.audit() if one.role]
        said = [one.content["data"]["content"] for one in written]
        for number in (*range(50), 99):
            assert turn(number)[0] in said
            assert [text for text in turn(number)[2:] if said.count(text) != 1] == []
        assert len({one.entry.message_id for one in written}) == len(written)
        assert chat.verify().ok
        assert len([one for one in written if one.content["data"].get("tool_calls")]) == 51
        (hit,) = lab.store.search('"what is at place 7"', tool="look")
        assert hit.seq in {one.seq for one in written}
        assert chat.waits_for() == "user"
        assert {one.model for one in chat.usage() if one.model} == {"scripted-1"}


def compact(graph):
    """As a summarising node of a graph does: all goes, but a summary and the newest turn."""
    messages = graph.get_state(CONFIG).values["messages"]
    update = [
        RemoveMessage(REMOVE_ALL_MESSAGES),
        SystemMessage("what was said", id="summary"),
        *messages[-4:],
    ]
    graph.update_state(CONFIG, {"messages": update}, as_node="agent")


def test_agent_with_an_asynchronous_store_is_the_same(tmp_path):
    async def run():
        async with await AsyncStore.open(tmp_path / "a.db", durability="normal") as store:
            graph = agent(store)
            for number in range(3):
                await graph.ainvoke({"messages": [("user", f"place {number}")]}, CONFIG)
            chat = await store.session("langgraph:t")
            view = await chat.view()
            history = [one async for one in graph.aget_state_history(CONFIG)]
            with pytest.raises(InvalidOption, match="event loop"):
                graph.get_state(CONFIG)
            return [one.content["data"]["content"] for one in view.messages], history, graph

    said, history, _ = asyncio.run(run())
    assert said == [text for number in range(3) for text in turn(number)]
    assert texts(history[0].values["messages"]) == said


def test_subgraph_is_a_child_session_and_its_interrupt_is_resumed(opened):
    def ask(state: MessagesState):
        return {"messages": [AIMessage(f"You said {interrupt('what?')}.")]}

    inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    outer = StateGraph(MessagesState).add_node("inner", inner.compile(checkpointer=True))
    with opened("file", "sync") as lab:
        graph = outer.add_edge(START, "inner").compile(checkpointer=RooContextSaver(lab.store))
        graph.invoke({"messages": [("user", "hello")]}, CONFIG)
        graph = outer.compile(checkpointer=RooContextSaver(lab.store))
        end = graph.invoke(Command(resume="yes"), CONFIG)
        assert texts(end["messages"]) == ["hello", "You said yes."]
        (child,) = lab.store.session("langgraph:t").children()
        assert child.metadata["checkpoint_ns"] == "inner"
        assert shown(lab.store.session(child.session_id)) == ["hello", "You said yes."]


def test_delta_channel_is_rebuilt_after_pruned_checkpoints(opened):
    def joined(state, writes):
        return [*state, *(one for write in writes for one in write)]

    class State(TypedDict):
        log: Annotated[list, DeltaChannel(joined, snapshot_frequency=4)]

    builder = StateGraph(State).add_node("add", lambda state: {"log": [len(state["log"])]})
    with opened("file", "sync") as lab:
        saver = RooContextSaver(lab.store)
        graph = builder.add_edge(START, "add").compile(checkpointer=saver)
        for _ in range(7):
            graph.invoke({"log": []}, CONFIG)
            assert graph.get_state(CONFIG).values["log"] == [*range(_ + 1)]
        saver.prune(["t"])
        assert len([*graph.get_state_history(CONFIG)]) == 1
        assert saver.get_tuple(CONFIG).parent_config is None
        assert graph.get_state(CONFIG).values["log"] == [*range(7)]
        assert graph.invoke({"log": []}, CONFIG)["log"] == [*range(8)]


def test_example_continues_its_thread(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "langgraph_agent.py"), tmp_path / "a.db"]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    )
    assert first[-1] == "4 messages of other branches are in the audit."
    assert second[-1] == "8 messages of other branches are in the audit."
    assert [len(first), len(second)] == [9, 17]
    assert second[:8] == first[:-1]
