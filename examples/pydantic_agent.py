"""pydantic-ai on a roocontext store: no key and no network, the model is a stub.

Run it twice: the second run continues the conversation of the first.
"""

import asyncio
import sys

from pydantic_ai import Agent, Conversation
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from roocontext import AsyncContextManager, AsyncStore
from roocontext.adapters.pydantic_ai import RooContextConversationStore, session_id


def stub(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Calls the tool once for each question, and then answers with its output."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        files = len(str(last.content).split())
        text = f"There are {files} files; I was sent {len(messages)} messages."
        return ModelResponse(parts=[TextPart(text)])
    return ModelResponse(parts=[ToolCallPart("files", {})])


async def main(path: str) -> None:
    async with await AsyncStore.open(path) as store:
        conversations = RooContextConversationStore(store)
        agent = Agent(
            FunctionModel(stub),
            instructions="Be short.",
            capabilities=[ProcessHistory(conversations.effective_history)],
        )

        @agent.tool_plain
        def files() -> str:
            """List the files."""
            return ", ".join(f"parser_{number}.py" for number in range(40))

        # A window of 700 tokens, so that a few questions already fill it.
        manager = AsyncContextManager(limit=700)
        for question in ("Which files are there?", "And now?", "Look again."):
            talk = await conversations.load("demo") or Conversation(conversation_id="demo")
            result = await agent.run(question, conversation=talk)
            await conversations.save(result)
            print(question, "->", result.output)
            chat = await store.session(session_id("demo"))
            await manager.manage(chat)
        await manager.condense(chat)
        stats = await chat.stats()
        print(stats.messages, "messages in the log,", stats.visible_messages, "of them visible")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agents.db"))
