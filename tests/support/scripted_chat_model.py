"""A chat model of LangChain's own that calls tools as a script says: no key, no network."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class ScriptedChatModel(BaseChatModel):
    """Asks for the tool `look` at each message of the user's, and then says what it saw."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "ScriptedChatModel":
        assert tools
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        del stop, run_manager
        newest = messages[-1]
        if newest.type == "human":
            call = {"name": "look", "args": {"at": newest.text}, "id": f"call_{newest.id}"}
            reply = AIMessage("Let me look.", tool_calls=[call])
        else:
            reply = AIMessage(f"I saw {newest.text}.")
        reply.response_metadata = {"model_name": "scripted-1"}
        reply.usage_metadata = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
        return ChatResult(generations=[ChatGeneration(message=reply)])


def look(at: str) -> str:
    """Look at something."""
    return f"what is at {at}"


TOOLS: list[Callable[..., Any]] = [look]
