"""LangGraph: `SqliteSaver` and `PostgresSaver`, under a graph whose state is a list of messages.

A version is a checkpoint. A rewind continues from an earlier checkpoint of the thread ("time
travel"), and a compaction replaces the list as LangChain's summarization does it.
"""

import os
import sqlite3

os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from adapters.drivers.shapes import TOOL
from roocontext.testing import Capability, History, Message, Receipt, Sent, View


class Thread:
    """One thread of a graph."""

    lacks = {Capability.FORK: "neither saver implements copy_thread"}

    def __init__(self, place):
        self._saver = self.saver(place)
        graph = StateGraph(MessagesState)
        graph.add_node("agent", lambda state: {})
        graph.add_edge(START, "agent")
        self._graph = graph.compile(checkpointer=self._saver)
        self._config = {}

    def open(self, session):
        self._config = {"configurable": {"thread_id": session}}
        return Receipt(self.view().version)

    def append(self, new):
        return self._update([to_langchain(new.message, new.retry_key)])

    def view(self):
        state = self._graph.get_state(self._config)
        messages = tuple(map(to_message, state.values.get("messages", ())))
        return View(_checkpoint(state.config), messages)

    def sent(self):
        return Sent(self.view().messages)

    def history(self):
        """The messages of all checkpoints, the oldest first."""
        found = {}
        for state in reversed(list(self._graph.get_state_history(self._config))):
            for message in state.values.get("messages", ()):
                found.setdefault(message.model_dump_json(), message)
        return History(tuple(map(to_message, found.values())))

    def rewind(self, to):
        return self._update([], at=to)

    def condense(self, plan):
        kept = self._graph.get_state(self._config).values["messages"][plan.first :]
        everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
        return self._update([everything, HumanMessage(plan.summary), *kept])

    def fork(self, copy):
        raise AssertionError("The driver lacks this capability.")

    def delete(self):
        self._saver.delete_thread(self._config["configurable"]["thread_id"])

    def _update(self, messages, at=None):
        config = self._config
        if at:
            config = {
                "configurable": {**config["configurable"], "checkpoint_ns": "", "checkpoint_id": at}
            }
        done = self._graph.update_state(config, {"messages": messages}, as_node="agent")
        return Receipt(_checkpoint(done))


class OnSQLite(Thread):
    """`SqliteSaver` on a file."""

    def saver(self, place):
        self._connection = sqlite3.connect(place, check_same_thread=False)
        return SqliteSaver(self._connection)

    def close(self):
        self._connection.close()


class OnPostgres(Thread):
    """`PostgresSaver` by the URL of a database."""

    def saver(self, place):
        self._opened = PostgresSaver.from_conn_string(place)
        saver = self._opened.__enter__()
        saver.setup()
        return saver

    def close(self):
        self._opened.__exit__(None, None, None)


def to_langchain(message, name):
    """A message as one of LangChain's."""
    first = message.content[0] if message.content else {}
    if first.get("type") == "tool_result":
        return ToolMessage(first["content"], tool_call_id=first["tool_use_id"], id=name)
    if first.get("type") == "tool_use":
        call = {"name": first["name"], "args": first["input"], "id": first["id"]}
        return AIMessage("", tool_calls=[call], id=name)
    kind = HumanMessage if message.role == "user" else AIMessage
    return kind(message.content, id=name)


def to_message(message):
    """One of LangChain's messages as the suite's."""
    if isinstance(message, ToolMessage):
        result = {"tool_use_id": message.tool_call_id, "content": message.content}
        return Message("user", [{"type": "tool_result", **result}])
    if isinstance(message, AIMessage) and message.tool_calls:
        (call,) = message.tool_calls
        called = {"id": call["id"], "name": TOOL, "input": call["args"]}
        return Message("assistant", [{"type": "tool_use", **called}])
    role = "user" if isinstance(message, HumanMessage) else "assistant"
    if isinstance(message.content, str):
        return Message(role, [{"type": "text", "text": message.content}])
    return Message(role, message.content)


def _checkpoint(config):
    return config["configurable"].get("checkpoint_id", "")
