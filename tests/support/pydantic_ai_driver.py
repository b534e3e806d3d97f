"""pydantic-ai's conversation store over a store of ours, driven from a test."""

from datetime import UTC, datetime
from typing import Any

from pydantic_ai import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from roocontext.adapters.pydantic_ai import RooContextConversationStore, session_id
from support.adapter_driver import AdapterDriver

WHEN = datetime(2026, 3, 1, 10, tzinfo=UTC)


class PydanticAIDriver(AdapterDriver):
    """The framework's conversation store over a store of ours."""

    adapter_class = RooContextConversationStore

    def save(self, name: str, *texts: str, **options: Any) -> Conversation:
        """Continue a conversation with these prompts and answers."""
        talk = self.run(self.adapter.load(name)) or Conversation(conversation_id=name)
        talk.messages += [said(text) for text in texts]
        self.run(self.adapter.save(talk, **options))
        return talk

    def texts(self, name: str) -> list[str] | None:
        loaded = self.run(self.adapter.load(name))
        return None if loaded is None else texts_of(loaded.messages)

    def chat(self, name: str) -> Any:
        return self.store.session(session_id(name))


def said(text: str) -> Any:
    if text.startswith("a"):
        return ModelResponse(parts=[TextPart(text)], timestamp=WHEN, model_name="m")
    return ModelRequest(parts=[UserPromptPart(text, timestamp=WHEN)], timestamp=WHEN)


def texts_of(messages: Any) -> list[str]:
    return [message.parts[0].content for message in messages]
