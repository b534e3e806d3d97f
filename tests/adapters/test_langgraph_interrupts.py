"""A person in the loop: what is paused is answered, answered again, and copied."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from roocontext.adapters.langgraph import RooContextSaver
from support.langgraph_thread import Thread, at


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def asking(node: Any, saver: Any) -> Any:
    return StateGraph(State).add_node("ask", node).add_edge(START, "ask").compile(saver)


def ask_once(state: State) -> Any:
    return {"log": [interrupt("a?")]}


def ask_twice(state: State) -> Any:
    return {"log": [interrupt("a?"), interrupt("b?")]}


def shown(graph: Any, thread: Any) -> list[Any]:
    """The state that a graph reports of each of its checkpoints."""
    return [
        (one.values, one.next, [[asked.value for asked in task.interrupts] for task in one.tasks])
        for one in graph.get_state_history(thread)
    ]


@pytest.mark.parametrize("answers", [("yes", "no"), ("yes", "yes"), ("yes", "no", "yes", "no")])
def test_paused_checkpoint_is_answered_again(saver, thread: Thread, answers):
    histories = []
    for one in (saver, InMemorySaver()):
        graph, at_thread = asking(ask_once, one), at(thread.name)
        graph.invoke({"log": ["begun"]}, at_thread)
        paused = graph.get_state(at_thread).config
        for answer in answers:
            result = graph.invoke(Command(resume=answer), paused)
            assert result["log"] == ["begun", "yes"]  # LangGraph keeps the first answer
        histories.append(shown(graph, at_thread))
    assert histories[0] == histories[1]
    assert thread.session.verify().ok


def test_two_questions_of_a_node_are_answered_with_an_update(saver, thread):
    histories = []
    for one in (saver, InMemorySaver()):
        graph, at_thread = asking(ask_twice, one), at(thread.name)
        graph.invoke({"log": ["begun"]}, at_thread)
        state = graph.get_state(at_thread)
        (asked,) = state.interrupts
        for _ in range(3):
            command = Command(resume={asked.id: "an answer"}, update={"log": ["the same"]})
            result = graph.invoke(command, state.config)
        histories.append((result["log"], shown(graph, at_thread)))
    assert histories[0] == histories[1]


def test_checkpoints_are_copied_in_again(saver, thread):
    at_thread = at(thread.name)
    source = InMemorySaver()
    graph = asking(ask_twice, source)
    graph.invoke({"log": ["begun"]}, at_thread)
    graph.invoke(Command(resume="first"), at_thread)
    graph.invoke(Command(resume="second"), at_thread)
    for _ in range(2):
        copy(source, saver, at_thread)
        assert shown(asking(ask_twice, saver), at_thread) == shown(graph, at_thread)
    copied, last = asking(ask_twice, saver), thread.session.head().seq
    copy(source, RooContextSaver(thread.store), at_thread)
    assert shown(copied, at_thread) == shown(graph, at_thread)
    # Only what a task may write again and again is written again.
    assert [one for one in thread.session.audit(after=last) if "!" not in one.entry.note] == []


def copy(source: Any, target: Any, config: Any) -> None:
    for one in reversed([*source.list(config)]):
        before = one.parent_config or at(config["configurable"]["thread_id"])
        target.put(before, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        writes: dict[str, list[Any]] = {}
        for task, channel, value in one.pending_writes or ():
            writes.setdefault(task, []).append((channel, value))
        for task, some in writes.items():
            target.put_writes(one.config, some, task)
