"""pydantic-ai's conversation store over a store of ours, driven from a test."""

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from roocontext import AsyncStore, Store
from roocontext.adapters.pydantic_ai import RooContextConversationStore, session_id

WHEN = datetime(2026, 3, 1, 10, tzinfo=UTC)


class Desk:
    """The adapter over a store, driven from a test, and the same store for looking into it."""

    def __init__(self, url: str) -> None:
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.url = url
        self._store = self.run(AsyncStore.open(url, durability="normal"))
        self._stack.callback(lambda: self.run(self._store.close()))
        self.ai = RooContextConversationStore(self._store)
        self.store = self._stack.enter_context(Store.open(url))

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def save(self, name: str, *texts: str, **options: Any) -> Conversation:
        """Continue a conversation with these prompts and answers."""
        talk = self.run(self.ai.load(name)) or Conversation(conversation_id=name)
        talk.messages += [said(text) for text in texts]
        self.run(self.ai.save(talk, **options))
        return talk

    def texts(self, name: str) -> list[str] | None:
        loaded = self.run(self.ai.load(name))
        return None if loaded is None else texts_of(loaded.messages)

    def chat(self, name: str) -> Any:
        return self.store.session(session_id(name))

    def close(self) -> None:
        self._stack.close()


def said(text: str) -> Any:
    if text.startswith("a"):
        return ModelResponse(parts=[TextPart(text)], timestamp=WHEN, model_name="m")
    return ModelRequest(parts=[UserPromptPart(text, timestamp=WHEN)], timestamp=WHEN)


def texts_of(messages: Any) -> list[str]:
    return [message.parts[0].content for message in messages]
