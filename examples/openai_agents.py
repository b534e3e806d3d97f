"""The OpenAI Agents SDK on a roocontext store: no key and no network, the model is a stub.

Run it twice: the second run continues the conversation of the first.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from roocontext import AsyncContextManager, AsyncStore
from roocontext.adapters.openai_agents import CompactingSession


class Stub(Model):
    """Calls the tool once for each question, and then answers with its output."""

    async def get_response(self, *_: Any, **request: Any) -> Any:
        items = request["input"]
        last, number = items[-1], len(items)
        output: Any
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(
                text=f"There are {len(last['output'].split())} files.",
                type="output_text",
                annotations=[],
            )
            output = ResponseOutputMessage(
                id=f"msg_{number}",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        else:
            output = ResponseFunctionToolCall(
                call_id=f"call_{number}", name="files", arguments="{}", type="function_call"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=f"resp_{number}")

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise AssertionError("This model does not stream.")


@function_tool
def files() -> str:
    """List the files."""
    return ", ".join(f"parser_{number}.py" for number in range(40))


async def main(path: str) -> None:
    agent = Agent("coder", model=Stub(), tools=[files])
    async with await AsyncStore.open(path) as store:
        # A window of 400 tokens, so that a few questions already fill it.
        session = CompactingSession("demo", store, AsyncContextManager(limit=400))
        for question in ("Which files are there?", "And now?", "Look again."):
            result = await Runner.run(agent, question, session=session)
            print(question, "->", result.final_output)
        await session.run_compaction({"force": True})
        stats = await (await store.session("demo")).stats()
        print(stats.messages, "messages in the log,", stats.visible_messages, "of them visible")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agents.db"))
