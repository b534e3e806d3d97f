"""A model without a key: it speaks Anthropic's streaming protocol on loopback, by a script.

`python examples/scripted_model.py FOLDER` is the agent of `coding_agent` with this model. It makes
the calls that the user names: `write a.txt one; run cat a.txt`. To any other message it replies
with STORY.
"""

import json
import os
import runpy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DOUBLE = "def double(number):\n    return number ** 2\n"
CHECK = "from double import double\n\nassert double(3) == 6, double(3)\nprint('All is well.')\n"
STORY = [
    ("I write a function.", "write", {"path": "double.py", "text": DOUBLE}),
    ("Now a test of it.", "write", {"path": "check.py", "text": CHECK}),
    ("Does it work?", "run", {"command": ["python3", "check.py"]}),
    ("It must be a product.", "edit", {"path": "double.py", "old": "** 2", "new": "* 2"}),
    ("And now?", "run", {"command": ["python3", "check.py"]}),
]
DONE = "All of it is done."
Block = dict[str, Any]


def reply(messages: list[Block]) -> list[Block]:
    """The blocks of the next message: its text, and the call that follows the last one."""
    last, asked = "toolu_0_-1", ""
    for message in messages:
        content = message["content"]
        for block in [{"text": content}] if isinstance(content, str) else content:
            if message["role"] == "user" and "text" in block:
                asked, last = block["text"], f"toolu_{len(messages)}_-1"
            elif block.get("type") == "tool_use":
                last = block["id"]
    # The number of a call is in its id, so that the script continues when older calls are hidden.
    turn, step = last.split("_")[1], int(last.split("_")[2]) + 1
    steps = [named for part in asked.split(";") if (named := call(part.strip()))] or STORY
    if step == len(steps):
        return [{"type": "text", "text": DONE}]
    text, name, given = steps[step]
    call_id = f"toolu_{turn}_{step}"
    called = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    return [{"type": "text", "text": text}, called]


def call(words: str) -> tuple[str, str, Block] | None:
    """The call that the user names, if it is one."""
    name, _, rest = words.partition(" ")
    path, _, text = rest.partition(" ")
    old, _, new = text.partition(" -> ")
    given = {
        "read": {"path": path},
        "write": {"path": path, "text": text},
        "edit": {"path": path, "old": old, "new": new},
        "search": {"text": rest},
        "run": {"command": rest.split()},
    }
    return (f"I {name} it.", name, given[name]) if name in given else None


def events(body: Block, number: int) -> Iterator[Block]:
    """A message as Anthropic streams it, word by word."""
    blocks = reply(body["messages"]) if "tools" in body else [{"type": "text", "text": DONE}]
    begun = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": []}
    usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 20}
    stopped = {"stop_reason": None, "stop_sequence": None}
    begun |= {"model": body["model"], "usage": usage, **stopped}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            words = block["text"].split(" ")
            deltas = [{"type": "text_delta", "text": f"{word} "} for word in words]
        else:
            empty, packed = {**block, "input": {}}, json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": packed}]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stopped["stop_reason"] = "end_turn" if len(blocks) == 1 else "tool_use"
    yield {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


class Exchange(BaseHTTPRequestHandler):
    """One request, and the events that answer it."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events(body, time.time_ns()):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            time.sleep(0.01)  # so that you can see it stream

    def log_message(self, *_arguments: Any) -> None:
        """Keep quiet."""


@contextmanager
def scripted_model() -> Iterator[dict[str, str]]:
    """Run the model, and give the environment in which the SDK finds it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Exchange) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
        server.shutdown()


if __name__ == "__main__":
    with scripted_model() as environment:
        os.environ |= environment
        runpy.run_path(str(Path(__file__).parent / "coding_agent"), run_name="__main__")
