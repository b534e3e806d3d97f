"""OpenAI Agents SDK: `SQLiteSession` and `SQLAlchemySession`.

A message is one item of the Responses API. The history of a compaction is replaced by
`clear_session` and `add_items`, as `OpenAIResponsesCompactionSession` does it.
"""

import json
import os
from typing import Any

from adapters.drivers.shapes import TOOL, Loop
from roocontext.testing import Capability, History, Message, Receipt, Sent, View

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.extensions.memory import SQLAlchemySession
from agents.memory import SessionABC
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class Items:
    """One session, by the four methods of the SDK's protocol."""

    lacks = {
        Capability.REDO: "pop_item deletes what it takes back",
        Capability.FORK: "no call copies a session",
    }

    def __init__(self, place: str) -> None:
        self.place = place
        self.run = Loop()
        self._session: Any = None

    def open(self, session):
        self._session = self.made(session)
        return Receipt(self.view().version)

    def append(self, new):
        self.run(self._session.add_items([to_item(new.message)]))
        return Receipt(self.view().version)

    def view(self):
        items = self.run(self._session.get_items())
        return View(len(items), tuple(map(to_message, items)))

    def sent(self):
        model = _Hears()
        agent = Agent(name="probe", model=model)
        session = _ReadOnly(self._session)
        config = RunConfig(tracing_disabled=True)
        self.run(Runner.run(agent, "next", session=session, run_config=config))
        return Sent(tuple(map(to_message, model.heard)), "openai")

    def history(self):
        return History(self.view().messages)

    def rewind(self, to):
        for _ in range(self.view().version - to):
            self.run(self._session.pop_item())
        return Receipt(self.view().version)

    def condense(self, plan):
        items = self.run(self._session.get_items())
        summary = to_item(Message("user", [{"type": "text", "text": plan.summary}]))
        self.run(self._session.clear_session())
        self.run(self._session.add_items([summary, *items[plan.first :]]))
        return Receipt(self.view().version)

    def delete(self):
        self.run(self._session.clear_session())

    def close(self):
        self.run.close()


class OnSQLite(Items):
    """`SQLiteSession` on a file."""

    def made(self, session):
        return SQLiteSession(session, self.place)

    def close(self):
        if self._session is not None:
            self._session.close()
        super().close()


class OnSQLAlchemy(Items):
    """`SQLAlchemySession` by the URL of a database."""

    def made(self, session):
        return SQLAlchemySession.from_url(session, url=self.place, create_tables=True)

    def close(self):
        if self._session is not None:
            self.run(self._session.engine.dispose())
        super().close()


class _ReadOnly(SessionABC):
    """Gives a run the items of a session, and keeps nothing of the run."""

    def __init__(self, session):
        self.session_id = session.session_id
        self.session_settings = None
        self._session = session

    async def get_items(self, limit=None):
        return await self._session.get_items(limit)

    async def add_items(self, items):
        pass

    async def pop_item(self):
        return None

    async def clear_session(self):
        pass


class _Hears(Model):
    """Keeps the input that it is asked with."""

    heard: list[Any] = []

    async def get_response(self, **asked):
        self.heard = list(asked["input"])
        text = ResponseOutputText(annotations=[], text="ok", type="output_text")
        output = ResponseOutputMessage(
            id="msg_1", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise AssertionError("This model does not stream.")


def to_item(message):
    """A message as an item of the Responses API."""
    first = message.content[0] if message.content else {}
    if first.get("type") == "tool_use":
        arguments = json.dumps(first["input"])
        return {
            "type": "function_call",
            "call_id": first["id"],
            "name": first["name"],
            "arguments": arguments,
        }
    if first.get("type") == "tool_result":
        return {
            "type": "function_call_output",
            "call_id": first["tool_use_id"],
            "output": first["content"],
        }
    text = "input_text" if message.role == "user" else "output_text"
    renamed = [
        {**block, "type": text} if block["type"] == "text" else block for block in message.content
    ]
    return {"role": message.role, "content": renamed}


def to_message(item):
    """An item as a message."""
    if item.get("type") == "function_call":
        called = {"id": item["call_id"], "name": TOOL, "input": json.loads(item["arguments"])}
        return Message("assistant", [{"type": "tool_use", **called}])
    if item.get("type") == "function_call_output":
        result = {"tool_use_id": item["call_id"], "content": item["output"]}
        return Message("user", [{"type": "tool_result", **result}])
    content = item["content"]
    if isinstance(content, str):
        return Message(item["role"], [{"type": "text", "text": content}])
    texts = ("input_text", "output_text")
    return Message(
        item["role"],
        [{**block, "type": "text"} if block["type"] in texts else block for block in content],
    )
