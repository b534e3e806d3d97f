"""The Claude Agent SDK's store over a store of ours, driven from a test."""

import json
from typing import Any

from roocontext.adapters.claude_agent_sdk import RooContextSessionStore
from support.adapter_driver import AdapterDriver
from support.transcripts import Transcript, say

KEY = {"project_key": "-work", "session_id": "s-1"}
ID = "claude-agent-sdk:-work/s-1"


class ClaudeAgentDriver(AdapterDriver):
    """The SDK's store over a store of ours."""

    adapter_class = RooContextSessionStore

    def append(self, *entries: Any, key: Any = KEY) -> None:
        self.run(self.adapter.append(key, list(entries)))

    def load(self, key: Any = KEY) -> Any:
        return self.run(self.adapter.load(key))

    def chat(self, name: str = ID) -> Any:
        return self.store.session(name)


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
