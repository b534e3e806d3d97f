"""The program that the Claude Agent SDK bundles, over our store; run as a program to be killed.

python claude_agent_loop.py URL FOLDER     prints the session's id after each turn
"""

import asyncio
import runpy
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from roocontext import AsyncStore
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "claude_agent.py"))
COMPACTED = 24
"""The turn in which the program compacts the conversation, by its own command."""


class Hearing(EXAMPLE["Stub"]):
    """The stub, which keeps what it was asked."""

    asked: ClassVar[list[Any]] = []

    def answer(self, asked: dict[str, Any]) -> None:
        self.asked.append(asked)
        super().answer(asked)


async def talk(
    store: Any, folder: str, prompts: list[str], resume: str | None = None
) -> AsyncIterator[ResultMessage]:
    """One process of the program that gets these prompts one after the other."""
    answered = asyncio.Semaphore(1)

    async def given() -> AsyncIterator[dict[str, Any]]:
        for prompt in prompts:
            await answered.acquire()
            yield {"type": "user", "message": {"role": "user", "content": prompt}}

    with tempfile.TemporaryDirectory() as home, EXAMPLE["stub"](folder, Hearing) as url:
        options = ClaudeAgentOptions(
            session_store=RooContextSessionStore(store),
            resume=resume,
            cwd=folder,
            model="claude-sonnet-4-5",
            allowed_tools=["Read"],
            setting_sources=[],
            env=EXAMPLE["environment"](url, home),
        )
        async for message in query(prompt=given(), options=options):
            if isinstance(message, ResultMessage):
                yield message
                answered.release()


async def main(url: str, folder: str) -> None:
    async with await AsyncStore.open(url, durability="normal") as store:
        prompts = [f"Question {number}" for number in range(1_000)]
        prompts[COMPACTED] = "/compact"
        async for message in talk(store, folder, prompts):
            sys.stdout.write(f"{message.session_id}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
