"""LangGraph: a step of a graph, and loading a thread, beside LangGraph's own durable checkpointers.

A step is what a graph does for each of its nodes: the writes of a task, and a checkpoint with one
message more. LangGraph's savers are as durable as ours: SQLite in WAL mode with synchronous FULL,
PostgreSQL with the server's synchronous_commit.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

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
            yield _stepping(site, pair, count, sizes)
            for thread in pair:
                thread.step([SystemMessage("What was said.", id="s"), *thread.messages[-KEPT:]])
        for name in ("langgraph", "langgraph_own"):
            site.settle(name)
        for count, pair in pairs.items():
            yield _loading(site, pair, count, sizes)


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

    def step(self, messages: list[BaseMessage]) -> None:
        """The writes of a task, and the checkpoint that they lead to."""
        if "checkpoint_id" in self.config["configurable"]:
            self.saver.put_writes(self.config, [("messages", messages[-1:])], "task")
        self._version = self.saver.get_next_version(self._version, None)
        versions = {"messages": self._version}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
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


def _stepping(site: Site, threads: tuple[_Thread, _Thread], count: int, sizes: Sizes) -> Line:
    times = _alternated(threads, "grow", sizes.commits)
    return line_of(
        site,
        f"langgraph.step.{count}",
        f"a step of a graph at {count:,} messages",
        "LangGraph's own saver",
        times["ours"],
        times["theirs"],
        1.2,
        aim=1.0,
    )


def _loading(site: Site, threads: tuple[_Thread, _Thread], count: int, sizes: Sizes) -> Line:
    times = _alternated(threads, "load", sizes.reads)
    return line_of(
        site,
        f"langgraph.load.{count}",
        f"load {KEPT} messages that a compaction of {count:,} has left",
        "LangGraph's own saver",
        times["ours"],
        times["theirs"],
        1.2,
        aim=1.0,
    )


def _alternated(threads: tuple[_Thread, _Thread], what: str, rounds: int) -> dict[str, Any]:
    ours, theirs = threads
    steps = [Step("theirs", getattr(theirs, what)), Step("ours", getattr(ours, what))]
    return alternate(steps, rounds=rounds)
