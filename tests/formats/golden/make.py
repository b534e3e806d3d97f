"""Makes the databases of frameworks that the importers are tested on without the frameworks.

    .venv-adapters/bin/python tests/formats/golden/make.py

Each has a question, a call with its result, an answer, and what that framework has beyond it: a
fork of a checkpoint, a branch, a compaction and a rewind. Run it again only for a new release of a
framework's tables: the files of older releases stay.
"""

import asyncio
import gzip
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from agents.extensions.memory import AdvancedSQLiteSession
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.sessions import DatabaseSessionService
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

GOLDEN = Path(__file__).parent


def langgraph(path: str) -> None:
    """A thread with a fork of an older checkpoint."""

    def answer(state: Any) -> Any:
        name = f"call_{len(state['messages'])}"
        call = {"name": "ls", "args": {"path": "."}, "id": name}
        done = ToolMessage("a.py", tool_call_id=name)
        return {"messages": [AIMessage("", tool_calls=[call]), done, AIMessage("One file.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": "golden"}}
    with SqliteSaver.from_conn_string(path) as saver:
        agent = graph.compile(checkpointer=saver)
        for text in ("What is here?", "And now?"):
            agent.invoke({"messages": [HumanMessage(text)]}, config)
        history = agent.get_state_history(config)
        older = next(one for one in history if len(one.values.get("messages", ())) == 4)
        agent.invoke({"messages": [HumanMessage("Another way.")]}, older.config)


def openai_agents(path: str) -> None:
    """A session with a second branch."""
    call = {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "call_1"}
    done = {"type": "function_call_output", "call_id": "call_1", "output": "a.py"}
    parts = [{"type": "output_text", "text": "One file.", "annotations": []}]
    reply = {"type": "message", "role": "assistant", "content": parts}

    async def write() -> None:
        session = AdvancedSQLiteSession(session_id="golden", db_path=path, create_tables=True)
        first: list[Any] = [{"role": "user", "content": "What is here?"}, call, done, reply]
        await session.add_items(first)
        await session.add_items([{"role": "user", "content": "And now?"}])
        await session.create_branch_from_turn(2, "side")
        await session.add_items([{"role": "user", "content": "Another way."}])
        session.close()

    asyncio.run(write())


def google_adk(path: str) -> None:
    """A session with a compaction and a rewind."""

    def said(role: str, at: float, *parts: types.Part, invocation: str = "i1") -> Event:
        content = types.Content(role=role, parts=[*parts])
        author = "user" if role == "user" else "agent"
        return Event(
            id=f"e{at:g}", author=author, invocation_id=invocation, timestamp=at, content=content
        )

    async def write() -> None:
        service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        key = {"app_name": "app", "user_id": "user", "session_id": "golden"}
        session = await service.create_session(**key)
        call = types.FunctionCall(id="c1", name="ls", args={"the_path": "."})
        done = types.FunctionResponse(id="c1", name="ls", response={"files": ["a.py"]})
        summary = types.Content(role="model", parts=[types.Part(text="There is one file.")])
        covers = EventCompaction(start_timestamp=1, end_timestamp=4, compacted_content=summary)
        for event in (
            said("user", 1, types.Part(text="What is here?")),
            said("model", 2, types.Part(function_call=call)),
            said("user", 3, types.Part(function_response=done)),
            said("model", 4, types.Part(text="One file.")),
            Event(
                id="e5",
                author="user",
                invocation_id="i2",
                timestamp=5,
                actions=EventActions(compaction=covers),
            ),
            said("user", 6, types.Part(text="And now?"), invocation="i3"),
            Event(
                id="e7",
                author="user",
                invocation_id="i4",
                timestamp=7,
                actions=EventActions(rewind_before_invocation_id="i3"),
            ),
            said("user", 8, types.Part(text="Another way."), invocation="i5"),
        ):
            await service.append_event(session, event)
        await service.close()

    asyncio.run(write())


def main() -> None:
    """Write the databases."""
    for make in (langgraph, openai_agents, google_adk):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.db"
            make(str(path))
            with closing(sqlite3.connect(path)) as file:  # with nothing left in its log
                file.execute("PRAGMA journal_mode = DELETE")
                file.execute("VACUUM")
            packed = gzip.compress(path.read_bytes(), mtime=0)
            (GOLDEN / f"{make.__name__}.sqlite.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
