"""Google ADK on a roocontext store: no key and no network, the model is a stub.

Run it twice: the second run continues the conversation of the first.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.genai.types import Content, Part

from roocontext import AsyncStore
from roocontext.adapters.google_adk import RooContextSessionService


class Stub(BaseLlm):
    """Calls the tool once for each question, and then answers. It also writes the summaries."""

    async def generate_content_async(
        self, llm_request: LlmRequest, *_: Any, **__: Any
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            files = last.function_response.response["result"]
            part = Part(text=f"There are {len(files)} files.")
        elif llm_request.config.tools:
            part = Part.from_function_call(name="files", args={})
        else:
            part = Part(text="The user has asked for the files, several times.")
        yield LlmResponse(content=Content(role="model", parts=[part]))


def files() -> list[str]:
    """List the files."""
    return ["parser.py", "tests.py"]


async def main(path: str) -> None:
    agent = Agent(name="coder", model=Stub(model="stub"), tools=[files])
    # ADK writes a summary after every second question.
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=0)
    app = App(name="demo", root_agent=agent, events_compaction_config=config)
    async with await AsyncStore.open(path) as store:
        service = RooContextSessionService(store)
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        for question in ("Which files are there?", "And now?", "Look again."):
            message = Content(role="user", parts=[Part(text=question)])
            run = runner.run_async(user_id="ada", session_id="fix-parser", new_message=message)
            async for event in run:
                if event.is_final_response():
                    print(question, "->", event.content.parts[0].text)
        stats = await (await store.session("google-adk:demo/ada/fix-parser")).stats()
        print(stats.messages, "messages in the log,", stats.visible_messages, "of them visible")
        await runner.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "adk.db"))
