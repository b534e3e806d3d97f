"""A writer for each framework: it reads a session through our `adapter`, and writes after that.

`REFUSES` is the framework's own error for a writer that was overtaken. Where it is
empty, the framework lets both write.
"""

import os

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.genai.types import Content, Part
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from roocontext.adapters.google_adk import RooContextSessionService
from roocontext.adapters.langgraph import RooContextSaver
from roocontext.adapters.openai_agents import RooContextSession
from roocontext.adapters.pydantic_ai import RooContextConversationStore


class OpenAIAgents:
    """Two runs in one session: items are appended, whatever came before."""

    SESSION = "s"
    REFUSES = ()

    def __init__(self, store):
        self.adapter = RooContextSession("s", store)

    async def read(self):
        await self.adapter.get_items()

    async def write(self, text):
        answer = {"role": "assistant", "content": text[::-1]}
        await self.adapter.add_items([{"role": "user", "content": text}, answer])

    async def texts(self):
        items = [item["content"] for item in await self.adapter.get_items()]
        assert [text[::-1] for text in items[::2]] == items[1::2]  # each call is one transaction
        return items[::2]


class ClaudeAgentSDK:
    """Two programs that have resumed one transcript: each continues in a branch."""

    SESSION = "claude-agent-sdk:p/s"
    REFUSES = ()
    _KEY = {"project_key": "p", "session_id": "s"}

    def __init__(self, store):
        self.adapter = RooContextSessionStore(store)
        self._parent = None

    async def read(self):
        rows = await self.adapter.load(self._KEY) or []
        self._parent = rows[-1]["uuid"] if rows else None

    async def write(self, text):
        message = {"role": "user", "content": text}
        row = {"type": "user", "uuid": text, "parentUuid": self._parent, "message": message}
        for _ in range(2):  # as the SDK does if an answer was lost
            await self.adapter.append(self._KEY, [row])

    async def texts(self):
        return [row["message"]["content"] for row in await self.adapter.load(self._KEY)]


class LangGraph:
    """Two runs in one thread: each puts a checkpoint after the one that it has read."""

    SESSION = "langgraph:t"
    REFUSES = ()
    _THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    def __init__(self, store):
        self.adapter = RooContextSaver(store)
        self._config, self._messages = self._THREAD, []

    async def read(self):
        newest = await self.adapter.aget_tuple(self._THREAD)
        if newest is not None:
            self._config = newest.config
            self._messages = newest.checkpoint["channel_values"]["messages"]

    async def write(self, text):
        checkpoint = empty_checkpoint()
        messages = [*self._messages, HumanMessage(text, id=text)]
        checkpoint["channel_values"] = {"messages": messages}
        config = await self.adapter.aput(self._config, checkpoint, {"step": 1}, {})
        await self.adapter.aput_writes(config, [("messages", text)], f"task of {text}")

    async def texts(self):
        found = [one async for one in self.adapter.alist(self._THREAD)]
        texts = [one.checkpoint["channel_values"]["messages"][-1].content for one in found]
        assert texts == [value for one in found for _, _, value in one.pending_writes]
        return texts


class GoogleADK:
    """Two runners that have read one session: ADK refuses the second."""

    SESSION = "google-adk:app/u/s"
    REFUSES = StaleSessionError
    _NAMES = {"app_name": "app", "user_id": "u", "session_id": "s"}

    def __init__(self, store):
        self.adapter = RooContextSessionService(store)

    async def read(self):
        self._session = await self.adapter.get_session(**self._NAMES)
        if self._session is None:
            try:
                self._session = await self.adapter.create_session(**self._NAMES)
            except AlreadyExistsError:
                await self.read()

    async def write(self, text):
        content = Content(role="user", parts=[Part(text=text)])
        await self.adapter.append_event(self._session, Event(author="user", content=content))

    async def texts(self):
        await self.read()
        return [event.content.parts[0].text for event in self._session.events]


class PydanticAI:
    """Two runs of one conversation: the store refuses to save the second."""

    SESSION = "pydantic-ai:t"
    REFUSES = ConversationConflict

    def __init__(self, store):
        self.adapter = RooContextConversationStore(store)

    async def read(self):
        self._talk = await self.adapter.load("t") or Conversation(conversation_id="t")

    async def write(self, text):
        self._talk.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
        await self.adapter.save(self._talk)

    async def texts(self):
        await self.read()
        return [message.parts[0].content for message in self._talk.messages]


WRITERS = {
    "openai-agents": OpenAIAgents,
    "claude-agent-sdk": ClaudeAgentSDK,
    "langgraph": LangGraph,
    "google-adk": GoogleADK,
    "pydantic-ai": PydanticAI,
}
