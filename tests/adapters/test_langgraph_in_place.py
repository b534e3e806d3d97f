"""Messages that a graph changes in place: what a checkpoint was given is what comes back."""

from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from roocontext.adapters.langgraph import RooContextSaver
from support.examples import examples
from support.langgraph_thread import Thread

CALL = {"name": "f", "args": {"x": [1]}, "id": "t", "type": "tool_call"}


def fresh(number: int) -> Any:
    match number % 3:
        case 0:
            return HumanMessage([{"type": "text", "text": "go"}], id=f"m{number}")
        case 1:
            return AIMessage("", tool_calls=[deepcopy(CALL)], id=f"m{number}")
    return ToolMessage("done", tool_call_id="t", artifact={"rows": [1]}, id=f"m{number}")


def rename(message: Any) -> None:
    message.name = f"{message.name}+"


def say_more(message: Any) -> None:
    if isinstance(message.content, list):
        message.content[0]["text"] += "!"
    else:
        message.content += "!"


def call_otherwise(message: Any) -> None:
    for call in getattr(message, "tool_calls", ()):
        call["args"]["x"].append(2)


def note(message: Any) -> None:
    message.additional_kwargs.setdefault("deep", {"er": []})["er"].append({"n": None})


def set_extra(message: Any) -> None:
    message.custom = [*getattr(message, "custom", ()), 5]


def set_artifact(message: Any) -> None:
    if isinstance(message, ToolMessage):
        message.artifact = {*(message.artifact or ()), f"{len(message.artifact or ())}"}


def lose_kwargs(message: Any) -> None:
    message.additional_kwargs.clear()


IN_PLACE = [rename, say_more, call_otherwise, note, set_extra, set_artifact, lose_kwargs]
STEPS = st.lists(
    st.tuples(st.sampled_from([*IN_PLACE, list.append, list.pop]), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(60))
@given(STEPS)
def test_values_changed_in_place_come_back(shared_store, steps):
    thread = Thread(RooContextSaver(shared_store), shared_store.create().id)
    messages = [fresh(number) for number in range(3)]
    thread.put(messages=messages)
    for number, (change, place) in enumerate(steps, len(messages)):
        if change is list.append:
            messages.append(fresh(number))
        elif change is list.pop:
            messages.pop(place % len(messages))
        else:
            change(messages[place % len(messages)])
        messages = messages or [fresh(number)]
        thread.put(messages=messages)
        assert Thread(RooContextSaver(shared_store), thread.name).values()["messages"] == messages
    assert thread.session.verify().ok


@pytest.mark.parametrize(
    ("before", "after"),
    [({1}, [1]), ([1], {1}), (UUID(int=1), str(UUID(int=1))), (1, True), (True, 1.0)],
)
def test_value_of_another_type_is_another_value(thread, before, after):
    for value in (before, after):
        message = HumanMessage("x", id="m", additional_kwargs={"value": value})
        thread.put(messages=[message])
        assert repr(thread.values()["messages"]) == repr([message])
