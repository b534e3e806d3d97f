"""A loop of Google ADK with a scripted model and tools; also a process to be killed.

As a process it prints each event once the service has stored it, and never ends.
"""

import asyncio
import sys
import warnings
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import Agent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai.types import Content, FunctionCall, Part
from pydantic import PrivateAttr

from roocontext import AsyncStore
from roocontext.adapters.google_adk import RooContextSessionService

CHAT = {"user_id": "ada", "session_id": "chat"}
ID = "google-adk:demo/ada/chat"


class Recording(RooContextSessionService):
    """Reports what was stored."""

    def __init__(self, store: AsyncStore, report: Callable[[Any], None]) -> None:
        super().__init__(store)
        self._report = report

    async def append_event(self, session: Any, event: Any) -> Any:
        stored = await super().append_event(session, event)
        self._report(event)
        return stored


class Scripted(BaseLlm):
    """Calls two tools at once, and answers when it has seen what they gave. Writes summaries."""

    _asked: list[list[Content]] = PrivateAttr(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        if not llm_request.config.tools:
            yield reply(Part(text=f"[a summary of {len(str(contents))} characters]"))
            return
        self._asked.append([content.model_copy(deep=True) for content in contents])
        if contents[-1].parts[-1].function_response:
            yield reply(Part(text=f"Done {len(self._asked)}."))
            return
        calls = [FunctionCall(name="read", args={"path": f"{n}.py"}) for n in range(2)]
        yield reply(
            Part(text="Hm.", thought=True, thought_signature=b"\xff"),
            *(Part(function_call=call) for call in calls),
        )


def reply(*parts: Part) -> LlmResponse:
    return LlmResponse(content=Content(role="model", parts=list(parts)), model_version="scripted")


def read(path: str, tool_context: ToolContext) -> str:
    """Read a file."""
    state = tool_context.state
    state[f"app:{path}"] = state.get(f"app:{path}", 0) + 1
    return f"line of {path}\n" * 5


def runner_of(service: Any, model: Scripted, *, interval: int = 7) -> Runner:
    """A runner that compacts after so many turns."""
    agent = Agent(name="coder", model=model, tools=[read])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compaction is experimental in ADK
        config = EventsCompactionConfig(compaction_interval=interval, overlap_size=1)
    app = App(name="demo", root_agent=agent, events_compaction_config=config)
    return Runner(app=app, session_service=service, auto_create_session=True)


async def turn(runner: Runner, text: str) -> str:
    """Run one turn; what the model says at its end."""
    message, last = Content(role="user", parts=[Part(text=text)]), ""
    async for event in runner.run_async(**CHAT, new_message=message):
        if event.is_final_response():
            last = event.content.parts[0].text
    return last


async def main(url: str) -> None:
    def report(event: Any) -> None:
        sys.stdout.write(event.model_dump_json(exclude_none=True) + "\n")
        sys.stdout.flush()

    async with await AsyncStore.open(url, durability="normal") as store:
        runner = runner_of(Recording(store, report), Scripted(model="scripted"))
        number = 0
        while True:
            number += 1
            await turn(runner, f"Question {number}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
