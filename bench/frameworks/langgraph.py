"""LangGraph: a step of a graph, and loading a thread, beside LangGraph's own durable checkpointers.

A step is what a graph does for each of its nodes: the writes of a task, and a checkpoint with one
message more. LangGraph's savers are as durable as ours: SQLite in WAL mode with synchronous FULL,
PostgreSQL with the server's synchronous_commit.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.types import TASKS
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Send

from bench.data import content
from bench.report import Line
from bench.sites import Site, SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext.adapters.langgraph import RooContextSaver

KEPT = 20
"""How many messages stay after a compaction."""


def lines(site: Site, sizes: Sizes) -> Iterator[Line]:
    """The lines of one engine."""
    ours, theirs = RooContextSaver(site.store("langgraph")), _theirs(site, "langgraph_own")
    with theirs as own:
        pairs = {
            count: (_Thread(ours, count), _Thread(own, count)) for count in sizes.conversations
        }
        for count, pair in pairs.items():
            for thread in pair:
                thread.step(_messages(count))
            what = f"a step of a graph at {count:,} messages"
            yield _line(site, pair, f"step.{count}", what, _Thread.grow, sizes.commits)
            what = f"a call of a tool by an agent at {count:,} messages"
            yield _line(site, pair, f"call.{count}", what, _Thread.call, sizes.heavy)
            for thread in pair:
                thread.step([SystemMessage("What was said.", id="s"), *thread.messages[-KEPT:]])
        for name in ("langgraph", "langgraph_own"):
            site.settle(name)
        for count, pair in pairs.items():
            what = f"load {KEPT} messages that a compaction of {count:,} has left"
            yield _line(site, pair, f"load.{count}", what, _Thread.load, sizes.reads)


class _Thread:
    """A thread that is grown as a graph grows it."""

    def __init__(self, saver: BaseCheckpointSaver[str], count: int) -> None:
        self.saver = saver
        self._thread = {"thread_id": f"of {count}", "checkpoint_ns": ""}
        self.config: Any = {"configurable": self._thread}
        self.messages: list[BaseMessage] = []
        self._version: str | None = None

    def grow(self, _: int) -> None:
        """One message more."""
        self.step([*self.messages, _message(len(self.messages))])

    def call(self, _: int) -> None:
        """One message more, which calls a tool: LangGraph's agents send it their whole state."""
        messages = [*self.messages, _message(len(self.messages))]
        self.step(messages, Send("tools", {"state": {"messages": messages}}))

    def step(self, messages: list[BaseMessage], *sent: Send) -> None:
        """The writes of a task, and the checkpoint that they lead to."""
        if "checkpoint_id" in self.config["configurable"]:
            writes = [("messages", messages[-1:]), *((TASKS, one) for one in sent)]
            self.saver.put_writes(self.config, writes, "task")
        self._version = self.saver.get_next_version(self._version, None)
        versions = dict.fromkeys(["messages", TASKS], self._version)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages, TASKS: [*sent]}
        checkpoint["channel_versions"] = dict(versions)
        self.config = self.saver.put(self.config, checkpoint, {"step": 1}, versions)
        self.messages = messages

    def load(self, _: int) -> None:
        """What a graph does at the beginning of each run."""
        found = self.saver.get_tuple({"configurable": self._thread})
        assert found is not None
        assert len(found.checkpoint["channel_values"]["messages"]) == len(self.messages)


def _messages(count: int) -> list[BaseMessage]:
    return [_message(number) for number in range(count)]


def _message(number: int) -> BaseMessage:
    kind = AIMessage if number % 2 else HumanMessage
    said = content(number)
    return kind(said if isinstance(said, str) else said[0]["text"], id=f"m{number}")


@contextmanager
def _theirs(site: Site, name: str) -> Iterator[BaseCheckpointSaver[Any]]:
    if isinstance(site, SqliteSite):
        with closing(sqlite3.connect(site.path(name), check_same_thread=False)) as connection:
            yield SqliteSaver(connection)
        return
    with PostgresSaver.from_conn_string(site.url(name)) as saver:
        saver.setup()
        yield saver


def _line(
    site: Site,
    threads: tuple[_Thread, _Thread],
    key: str,
    what: str,
    call: Callable[[_Thread, int], None],
    rounds: int,
) -> Line:
    ours, theirs = threads
    steps = [Step("theirs", partial(call, theirs)), Step("ours", partial(call, ours))]
    times = alternate(steps, rounds=rounds)
    key, what, against = f"langgraph.{key}", f"LangGraph: {what}", "its own saver"
    return line_of(site, key, what, against, times["ours"], times["theirs"], 1.2, aim=1.0)
