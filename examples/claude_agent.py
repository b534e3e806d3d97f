"""The Claude Agent SDK on a roocontext store: no key and no network beyond this machine.

The SDK starts its bundled program, which talks to a model. Here that is a stub on 127.0.0.1: it
asks for a file once for each question, and then answers. The second question resumes from the
store, as another machine would: the program's own folder is deleted between the two.
"""

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from roocontext import AsyncStore
from roocontext.adapters.claude_agent_sdk import RooContextSessionStore


class Server(ThreadingHTTPServer):
    """Serves the stub for an agent that works in this folder."""

    folder = ""


class Stub(BaseHTTPRequestHandler):
    """Speaks as much of the Messages API as the program needs."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def answer(self, asked: dict[str, Any]) -> None:
        messages = asked.get("messages", [])
        last = messages[-1]["content"] if messages else ""
        is_answered = isinstance(last, list) and any(one["type"] == "tool_result" for one in last)
        assert isinstance(self.server, Server)
        number = uuid4().hex
        replies = sum(one["role"] == "assistant" for one in messages)
        if is_answered or not asked.get("tools"):
            start: Any = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": f"Read it; {replies} replies came before."}
        else:
            start = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}
            given = {"file_path": str(Path(self.server.folder) / "notes.txt")}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        stop = "tool_use" if start["type"] == "tool_use" else "end_turn"
        begun = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": asked.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        }
        self.stream(
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
        )

    def stream(self, *events: dict[str, Any]) -> None:
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the screen for the conversation."""


@contextmanager
def stub(folder: str, handler: type[Stub] = Stub) -> Iterator[str]:
    """The stub's address, while it runs."""
    with Server(("127.0.0.1", 0), handler) as server:
        server.folder = folder
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def environment(url: str, home: str) -> dict[str, str]:
    """Nothing of the program leaves this machine, or stays on it."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "HOME": home,
        "CLAUDE_CONFIG_DIR": f"{home}/.claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }


async def ask(store: RooContextSessionStore, question: str, folder: str, resume: str | None) -> str:
    """Ask the agent; the id of its session."""
    with tempfile.TemporaryDirectory() as home, stub(folder) as url:
        options = ClaudeAgentOptions(
            session_store=store,
            resume=resume,
            cwd=folder,
            model="claude-sonnet-4-5",
            allowed_tools=["Read"],
            setting_sources=[],
            env=environment(url, home),
        )
        session = ""
        async for message in query(prompt=question, options=options):
            if isinstance(message, ResultMessage):
                print(question, "->", message.result)
                session = message.session_id
        return session


async def main(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "notes.txt").write_text("The parser drops the last token.\n")
        async with await AsyncStore.open(path) as store:
            agent_store = RooContextSessionStore(store)
            first = await ask(agent_store, "What do the notes say?", folder, None)
            await ask(agent_store, "Read them again.", folder, first)
            (info,) = await store.sessions(where={"session": first})
            chat = await store.session(info.session_id)
            for message in (await chat.view()).messages:
                words = str(message.content)
                print(message.role, words if len(words) < 60 else words[:57] + "...")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "agents.db"))
