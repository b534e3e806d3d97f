"""A loop of the OpenAI Agents SDK with a scripted model and tools; also a process to be killed.

As a process it prints each batch of items once the session has stored it, and never ends.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from roocontext import AsyncStore, ContextManager
from roocontext.adapters.openai_agents import CompactingSession


class Recording(CompactingSession):
    """Reports what was stored."""

    def __init__(self, session_id: str, store: AsyncStore, report: Callable[[Any], None]) -> None:
        super().__init__(session_id, store, ContextManager(limit=600))
        self._report = report

    async def add_items(self, items: Any) -> None:
        await super().add_items(items)
        self._report(items)


class Scripted(Model):
    """Thinks, calls two tools at once, and answers when it has seen what they gave."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []

    async def get_response(self, *_: Any, **request: Any) -> ModelResponse:
        items = request["input"]
        self.asked.append(items)
        turn, name = len(self.asked), os.urandom(4).hex()
        output: list[Any] = [
            ResponseReasoningItem(
                id=f"rs_{name}",
                summary=[Summary(text="Hm.", type="summary_text")],
                encrypted_content="gAAAA" * 20,
                type="reasoning",
            )
        ]
        if items[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text=f"Done {turn}.", type="output_text", annotations=[])
            output.append(
                ResponseOutputMessage(
                    id=f"msg_{name}",
                    content=[text],
                    role="assistant",
                    status="completed",
                    type="message",
                )
            )
        else:
            output += [
                ResponseFunctionToolCall(
                    id=f"fc_{name}{number}",
                    call_id=f"call_{name}{number}",
                    name="read",
                    arguments=json.dumps({"path": f"{number}.py"}),
                    type="function_call",
                )
                for number in range(2)
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=f"resp_{name}")

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise AssertionError("This model does not stream.")


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"line of {path}\n" * 20


async def turn(session: CompactingSession, model: Scripted, text: str) -> str:
    """Run one turn; what the model says at its end."""
    result = await Runner.run(Agent("coder", model=model, tools=[read]), text, session=session)
    return str(result.final_output)


async def main(url: str, session_id: str) -> None:
    def report(items: Any) -> None:
        sys.stdout.write(json.dumps(items) + "\n")
        sys.stdout.flush()

    async with await AsyncStore.open(url, durability="normal") as store:
        session, model = Recording(session_id, store, report), Scripted()
        number = 0
        while True:
            number += 1
            await turn(session, model, f"Question {number}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
