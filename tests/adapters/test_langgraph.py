"""LangGraph's checkpoints as messages of a session, and back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from roocontext.adapters.langgraph import RooContextSaver
from support.examples import examples
from support.langgraph_thread import Thread, at, said


def test_fork_is_a_rewind_and_each_branch_comes_back(thread):
    configs = [thread.put(messages=said(*"abcd"[:count])) for count in range(1, 5)]
    assert thread.shown() == thread.written() == [*"abcd"]
    fork = thread.put(configs[1], messages=[*said("a", "b"), HumanMessage("x", id="x")])
    assert (thread.shown(), thread.written()) == (["a", "b", "x"], ["a", "b", "c", "d", "x"])
    assert thread.values(configs[3])["messages"] == said(*"abcd")
    assert [one.content for one in thread.values(fork)["messages"]] == ["a", "b", "x"]
    back = thread.put(configs[3], messages=said(*"abcde"))
    assert (thread.shown(), thread.written()) == ([*"abcde"], ["a", "b", "c", "d", "x", "e"])
    assert thread.saver.get_tuple(back).parent_config == at(
        thread.name, configs[3]["configurable"]["checkpoint_id"]
    )


def test_summary_of_the_graph_hides_what_it_stands_for(thread):
    before = thread.put(messages=said(*"abcdef"))
    summary = SystemMessage("what was said", id="s")
    thread.put(messages=[summary, *said(*"abcdef")[4:], HumanMessage("g", id="g")])
    assert thread.shown() == ["what was said", "e", "f", "g"]
    assert thread.written() == ["a", "b", "c", "d", "e", "f", "what was said", "g"]
    assert [m.text for m in thread.values()["messages"]] == ["what was said", "e", "f", "g"]
    assert thread.values(before)["messages"] == said(*"abcdef")
    again = SystemMessage("shorter", id="t")
    thread.put(messages=[again, HumanMessage("g", id="g")])
    assert thread.shown() == ["shorter", "g"]
    thread.put(messages=[again, HumanMessage("g", id="g"), AIMessage("h", id="h")])
    assert thread.shown() == ["shorter", "g", "h"]
    assert thread.session.verify().ok


def test_messages_removed_by_a_graph_are_hidden_by_a_marker(thread):
    thread.put(messages=[SystemMessage("be brief", id="0"), *said(*"abcdef")])
    thread.put(messages=[SystemMessage("be brief", id="0"), *said(*"abcdef")[3:]])
    assert thread.shown()[0] == "be brief"
    assert thread.shown()[1].startswith("[Earlier messages")
    assert thread.shown()[2:] == ["d", "e", "f"]
    assert [m.text for m in thread.values()["messages"]] == ["be brief", "d", "e", "f"]
    more = [*said(*"abcdef")[4:], HumanMessage("g", id="g")]
    thread.put(messages=[SystemMessage("be brief", id="0"), *more])
    assert (thread.shown()[2:], thread.written().count("e")) == (["e", "f", "g"], 1)


def test_removed_message_with_a_pin_is_rewound(thread):
    thread.put(messages=said(*"abcd"))
    thread.session.pin(thread.session.view().messages[1].seq)
    thread.put(messages=said(*"abcd")[2:])
    assert (thread.shown(), thread.values()["messages"]) == (["c", "d"], said(*"abcd")[2:])


def test_messages_of_others_are_rewound(thread):
    thread.put(messages=said("a", "b"))
    thread.session.append("user", "by hand")
    thread.put(messages=said(*"abc"))
    assert (thread.shown(), thread.values()["messages"]) == ([*"abc"], said(*"abc"))


def test_several_channels_of_messages_share_a_session(thread):
    thread.put(messages=said("a"), notes=said("x"))
    thread.put(messages=said("a", "b"), notes=said("x", "y"), one=said("z")[0])
    assert thread.shown() == ["a", "x", "b", "y"]
    kept = {"messages": said("a", "b"), "notes": said("x", "y"), "one": said("z")[0]}
    assert thread.values() == kept
    thread.put(messages=said("a", "b"), notes=said("n"))
    assert sorted(thread.shown()) == ["a", "b", "n"]
    assert thread.values() == {"messages": said("a", "b"), "notes": said("n")}


class Own(HumanMessage):
    """A message of a class that only this application has."""


ODD = [
    HumanMessage([{"type": "text", "text": "x"}, {"type": "image", "url": "https://x"}], id="1"),
    AIMessage("", id="2", tool_calls=[{"name": "f", "args": {"big": 2**80}, "id": "c"}]),
    ToolMessage("x", id="3", tool_call_id="c", artifact={"a": [1, 2.5, None]}, status="error"),
    HumanMessage("\ud800 \0", id="4", unknown={"of": "the future"}),
    AIMessage("x", id="5", additional_kwargs={"bytes": b"\0\xff"}),
    HumanMessage("no id"),
]


@pytest.mark.parametrize("message", ODD, ids=range(len(ODD)))
def test_messages_come_back_equal(thread, message):
    thread.put(messages=[message])
    (found,) = thread.values()["messages"]
    assert found == message
    assert type(found) is type(message)
    assert found.__dict__ == message.__dict__
    thread.put(messages=[found, HumanMessage("next", id="n")])
    assert len(thread.written()) == 2


def test_class_of_the_applications_own_is_stored_as_the_serializer_gives_it(thread):
    thread.put(messages=[Own("x", id="1", additional_kwargs={"when": {1, 2}})])
    (found,) = thread.values()["messages"]
    assert thread.shown() == ["x"]
    assert found.additional_kwargs == {"when": {1, 2}}


def test_values_of_any_kind_come_back_as_the_serializer_gives_them(thread):
    values = {"set": {1, 2}, "bytes": b"\0", "none": None, "text": "\0", "big": 2**62}
    first = thread.put(**values)
    assert thread.values() == values
    thread.put(first, **values)
    assert thread.values() == values


CHANGES = ["grow", "grow", "fork", "trim", "sum up", "edit", "pop", "again", "empty"]
STEPS = st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 9)), min_size=1, max_size=14)


def after(step: str, place: int, messages: list[BaseMessage], new: BaseMessage) -> Any:
    """The conversation that a step of a graph makes of another."""
    match step:
        case "trim":
            return messages[place:]
        case "sum up":
            return [new, *messages[place:]]
        case "pop":
            return messages[:place]
        case "empty":
            return []
        case "edit" if messages:
            place %= len(messages)
            changed = AIMessage(f"changed into {new.content}", id=messages[place].id)
            return [*messages[:place], changed, *messages[place + 1 :]]
    return [*messages, new]


@settings(max_examples=examples(40))
@given(STEPS)
def test_checkpoints_of_any_graph_come_back(shared_store, steps):
    thread = Thread(RooContextSaver(shared_store), shared_store.create().id)
    put: list[tuple[Any, list[BaseMessage]]] = []
    config, messages = at(thread.name), []
    for number, (step, place) in enumerate(steps):
        if step == "again":
            thread.saver = RooContextSaver(shared_store)  # another process
        if step == "fork" and put:
            config, messages = put[place % len(put)]
        messages = after(step, place, messages, HumanMessage(f"m{number}", id=f"m{number}"))
        config = thread.put(config, messages=messages)
        put.append((config, messages))
        shown = [text for text in thread.shown() if not text.startswith("[Earlier")]
        assert shown == [message.content for message in messages]
    for config, messages in put:
        assert thread.values(config)["messages"] == messages
    assert [one.config for one in thread.saver.list(at(thread.name))] == [
        config for config, _ in reversed(put)
    ]
    assert thread.session.verify().ok
