"""pydantic-ai's own agent loop over our store, with its test model; run as a program to be killed.

python pydantic_ai_loop.py URL CONVERSATION     prints a line after each turn that is saved
"""

import asyncio
import os
import sys
from typing import Any

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

from pydantic_ai import Agent, Conversation
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from roocontext import AsyncContextManager, AsyncStore
from roocontext.adapters.pydantic_ai import RooContextConversationStore, session_id


class Scripted:
    """A model that calls the tool once for each question, and then answers."""

    def __init__(self) -> None:
        self.asked: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(messages)
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"Done: {last.content[:12]}")])
        number = len(self.asked)
        return ModelResponse(
            parts=[ToolCallPart("look", {"at": number}, f"call-{number}-{id(self)}")]
        )


def agent_of(model: Scripted, ai: RooContextConversationStore) -> Agent[None, str]:
    agent = Agent(
        FunctionModel(model),
        instructions="Be short.",
        capabilities=[ProcessHistory(ai.effective_history)],
    )

    @agent.tool_plain
    def look(at: int) -> str:
        """Look at a place."""
        return f"Place {at}: " + "many words " * 30

    return agent


async def turn(store: AsyncStore, model: Scripted, name: str, prompt: str) -> Any:
    """One run of the agent, saved; then the context is managed."""
    ai = RooContextConversationStore(store)
    conversation = await ai.load(name) or Conversation(conversation_id=name)
    result = await agent_of(model, ai).run(
        prompt, conversation=conversation, usage_limits=UsageLimits(request_limit=None)
    )
    await ai.save(result)
    chat = await store.session(session_id(name))
    await AsyncContextManager(limit=4_000).manage(chat)
    return result


async def main(url: str, name: str) -> None:
    async with await AsyncStore.open(url, durability="normal") as store:
        model = Scripted()
        for number in range(1_000):
            await turn(store, model, name, f"Question {number}")
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
