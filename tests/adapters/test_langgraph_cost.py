"""A checkpoint costs the same in a short thread and in a long one: counted, not timed."""

import re
import sqlite3

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import TASKS
from langgraph.types import Send

from roocontext import Store
from roocontext.adapters.langgraph import RooContextSaver


@pytest.fixture
def statements(monkeypatch):
    """SQLite's statements with their values: so their length is also that of the data written."""
    asked, connect = [], sqlite3.connect

    def recording(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", recording)
    return asked


class Steps:
    """A thread whose checkpoints have one message more each, a call, and a channel that stays."""

    def __init__(self, path, count):
        self.store = Store.open(path, durability="normal")
        self.saver = RooContextSaver(self.store)
        self.config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self.versions, self.messages = {"stays": "1"}, []
        self.put([said(number) for number in range(count)], {"stays": "1"})
        self.grow()

    def put(self, messages, new=(), sent=()):
        self.versions["messages"] = self.saver.get_next_version(self.versions.get("messages"), None)
        checkpoint = empty_checkpoint()
        self.versions[TASKS] = self.versions["messages"]
        checkpoint["channel_values"] = {"messages": messages, "stays": "x" * 50_000, TASKS: [*sent]}
        checkpoint["channel_versions"] = dict(self.versions)
        new = {**dict(new), **dict.fromkeys(["messages", TASKS], self.versions["messages"])}
        self.config = self.saver.put(self.config, checkpoint, {"step": 1}, new)
        self.messages = messages

    def grow(self):
        messages = [*self.messages, said(len(self.messages))]
        # As an agent calls a tool: with its whole state.
        sent = Send("tools", {"state": {"messages": messages}})
        self.saver.put_writes(self.config, [("messages", messages[-1:]), (TASKS, sent)], "task")
        self.put(messages, sent=[sent])


def length(statement):
    """The length of a statement, whatever the digits of the numbers in it."""
    return len(re.sub(r"\b\d+\b", "0", statement))


def said(number):
    kind = AIMessage if number % 2 else HumanMessage
    return kind("some words " * 10, id=f"{number:09}")


def test_step_and_a_load_cost_the_same_at_any_length(tmp_path, statements):
    cost = {}
    for count in (10, 10_000):
        steps = Steps(tmp_path / f"{count}.db", count)
        last = steps.store.session("langgraph:t").head().seq
        statements.clear()
        steps.grow()
        grown = [*statements]
        assert steps.store.session("langgraph:t").head().seq == last + 3
        steps.put([SystemMessage("summary", id="s"), *steps.messages[-4:]])
        steps.grow()
        statements.clear()
        found = RooContextSaver(steps.store).get_tuple(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        )
        assert len(found.checkpoint["channel_values"]["messages"]) == 6
        cost[count] = grown, [*statements]
        steps.store.close()
    for short, long in zip(*cost.values(), strict=True):
        assert len(short) == len(long) < 30
        size, other = (sum(map(length, texts)) for texts in (short, long))
        assert abs(size - other) < 100
    grown, loaded = cost[10_000]
    # One transaction for the writes of the task, and one for the checkpoint with its message.
    assert [grown.count(command) for command in ("BEGIN IMMEDIATE", "COMMIT")] == [2, 2]
    assert sum(map(len, grown)) < 20_000  # neither the conversation nor the channel that stays
    assert sum(text.startswith("SELECT") for text in loaded) <= 12
