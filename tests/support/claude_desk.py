"""The Claude Agent SDK's store over a store of ours, driven from a test."""

import asyncio
import json
from contextlib import ExitStack
from typing import Any

from roocontext import AsyncStore, Store
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from support.transcripts import Transcript, say

KEY = {"project_key": "-work", "session_id": "s-1"}
ID = "claude-agent-sdk:-work/s-1"


class Desk:
    """The adapter over a store, driven from a test, and the same store for looking into it."""

    def __init__(self, url: str) -> None:
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.url = url
        self._store = self.run(AsyncStore.open(url, durability="normal"))
        self._stack.callback(lambda: self.run(self._store.close()))
        self.sdk = RooContextSessionStore(self._store)
        self.store = self._stack.enter_context(Store.open(url))

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def restart(self) -> None:
        """An adapter that knows nothing, as in a new process."""
        self.sdk = RooContextSessionStore(self._store)

    def append(self, *entries: Any, key: Any = KEY) -> None:
        self.run(self.sdk.append(key, list(entries)))

    def load(self, key: Any = KEY) -> Any:
        return self.run(self.sdk.load(key))

    def chat(self, name: str = ID) -> Any:
        return self.store.session(name)

    def close(self) -> None:
        self._stack.close()


def lines(file: Transcript) -> list[Any]:
    return [json.loads(line) for line in file.path.read_text().splitlines()]


def seen(chat: Any) -> list[tuple[str, str]]:
    return [
        (message.role[0], str(block.get("text") or block.get("id") or block.get("tool_use_id")))
        for message in chat.view().messages
        for block in (
            [say(message.content)] if isinstance(message.content, str) else message.content
        )
    ]


def kinds(chat: Any) -> list[str]:
    return [
        shown.kind.value for shown in chat.audit() if shown.kind.value not in ("message", "note")
    ]
