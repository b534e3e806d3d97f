"""Two providers that compact, on loopback: Anthropic's Messages and OpenAI's Responses API.

    with CompactingServer() as server:
        reply = server.anthropic().beta.messages.create(...)     # the real SDKs
        server.read[-1]                                          # the tokens that the model read

A request is answered with a compaction if it asks for one: by a threshold that it is over, or on
demand. Everything before the newest compaction is dropped, as the providers do. What they would
refuse is refused with status 400. `compact` says what the compaction of a threshold is like.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

import anthropic
import openai

from roocontext.tokens.usage import split_message
from support.provider_rules import CHECKS

SUMMARY = "The parser was read and three of its tests were fixed. " * 8
SEALED_TOKENS = 60
"""What each sealed item costs the model."""


def tokens(texts: list[str]) -> int:
    """The cost of texts here: a token for every four characters."""
    return sum(map(len, texts)) // 4


class Quarters:
    """The same as a counter of messages."""

    name, exact = "quarters", False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002
        return tokens([*split_message(role, content, format).texts])


class CompactingServer:
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        self.compact = "normal"
        """`normal`, `failed` (null content) or `never`."""
        self.read: list[int] = []
        """The tokens that each request has cost, after what the server dropped."""
        self.spent: dict[str, tuple[int, int]] = {}
        """The input and output tokens of each reply, over all of its iterations."""
        self.while_answering: Callable[[], None] = lambda: None
        """Called while a request is answered."""
        self.made = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Exchange)
        self._http.provider = self  # type: ignore[attr-defined]
        thread = Thread(target=self._http.serve_forever, args=(0.01,))
        thread.start()
        self._stack.callback(self._http.server_close)
        self._stack.callback(thread.join, 30)
        self._stack.callback(self._http.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def anthropic(self) -> anthropic.Anthropic:
        """A client of Anthropic's SDK."""
        http = anthropic.DefaultHttpxClient(trust_env=False, verify=False)
        url = f"http://127.0.0.1:{self._http.server_port}"
        client = anthropic.Anthropic(api_key="none", base_url=url, max_retries=0, http_client=http)
        self._stack.callback(client.close)
        return client

    def openai(self) -> openai.OpenAI:
        """A client of OpenAI's SDK."""
        http = openai.DefaultHttpxClient(trust_env=False, verify=False)
        url = f"http://127.0.0.1:{self._http.server_port}/v1"
        client = openai.OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)
        self._stack.callback(client.close)
        return client

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a request."""
        answer = self._messages if "/messages" in path else self._responses
        self.while_answering()
        return answer(path, body)

    # Anthropic

    def _messages(self, _: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        messages, on_demand = body["messages"], "compaction" in body
        faults = CHECKS["anthropic"](messages, complete=not on_demand)
        if faults:
            return _refused("; ".join(faults))
        sent = tokens([text for it in messages for text in _texts(it["role"], it["content"])])
        edits = body.get("context_management", {}).get("edits", [])
        over = any(sent > it["trigger"]["value"] for it in edits if "trigger" in it)
        applied = [
            {**it, "cleared_tool_uses": 2, "cleared_input_tokens": 40}
            for it in edits
            if it["type"] == "clear_tool_uses_20250919"
        ]
        self.made += 1
        failed = self.compact == "failed"
        block = {"type": "compaction", "content": None if failed else SUMMARY}
        spoken = {"type": "text", "text": f"Step {self.made} is done."}
        compacted = {"type": "compaction", "input_tokens": sent, "output_tokens": len(SUMMARY) // 4}
        content, stop, iterations = [spoken], "end_turn", []
        if on_demand:
            content, stop, iterations = [block], "compaction", [compacted]
        elif over and self.compact != "never":
            paused = any(it.get("pause_after_compaction") for it in edits)
            content = [block] if paused else [block, spoken]
            stop = "compaction" if paused else "end_turn"
            iterations = [compacted]
        left = sent if not iterations or failed else len(SUMMARY) // 4
        if spoken in content:
            iterations.append({"type": "message", "input_tokens": left, "output_tokens": 5})
        self.read.append(left if spoken in content else sent)
        inputs, outputs = (
            sum(it[name] for it in iterations) for name in ("input_tokens", "output_tokens")
        )
        self.spent[f"msg_{self.made}"] = inputs, outputs
        last = iterations[-1]
        usage = {"input_tokens": last["input_tokens"], "output_tokens": last["output_tokens"]}
        return 200, {
            "id": f"msg_{self.made}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "context_management": {"applied_edits": applied} if edits else None,
            "usage": {**usage, "iterations": iterations},
        }

    # OpenAI

    def _responses(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        items = body["input"]
        faults = CHECKS["openai-responses"](items)
        sealed = [index for index, it in enumerate(items) if it.get("type") == "compaction"]
        if any(items[at]["encrypted_content"] != _seal(body["model"]) for at in sealed):
            faults.append("encrypted content could not be decrypted")
        if faults:
            return _refused("; ".join(faults))
        on_demand = path.endswith("/compact")
        sent = sum(
            SEALED_TOKENS
            if it.get("type") == "compaction"
            else tokens(_texts("assistant", [it], "openai-responses"))
            for it in items
        )
        over = any(sent > it["compact_threshold"] for it in body.get("context_management", []))
        self.made += 1
        self.read.append(sent)
        item = {"type": "compaction", "id": f"cmp_{self.made}"}
        item["encrypted_content"] = _seal(body["model"])
        usage = {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": SEALED_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sent + SEALED_TOKENS,
        }
        self.spent[f"resp_{self.made}"] = sent, SEALED_TOKENS
        head = {"id": f"resp_{self.made}", "created_at": 1_800_000_000, "usage": usage}
        if on_demand:
            kept = [it for it in items if it.get("role") == "user"]
            kept = [
                {"type": "message", "id": f"msg_k{n}", "status": "completed", **it}
                for n, it in enumerate(kept)
            ]
            return 200, {**head, "object": "response.compaction", "output": [*kept, item]}
        said = {
            "type": "message",
            "id": f"msg_{self.made}",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": f"Step {self.made} is done.",
                    "annotations": [],
                    "logprobs": [],
                }
            ],
        }
        output = [item, said] if over and self.compact == "normal" else [said]
        more = {"object": "response", "status": "completed", "model": body["model"]}
        settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return 200, {**head, **more, **settings, "output": output}


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider: CompactingServer = self.server.provider  # type: ignore[attr-defined]
        status, answer = provider.answer(self.path.partition("?")[0], body)
        packed = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(packed)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(packed)

    def log_message(self, *_args: Any) -> None:
        """Keep quiet."""


def _texts(role: str, content: Any, format: str = "anthropic") -> list[str]:  # noqa: A002
    return [*split_message(role, content, format).texts]


def _seal(model: str) -> str:
    return f"sealed by {model} " * 18


def _refused(why: str) -> tuple[int, dict[str, Any]]:
    error = {"type": "invalid_request_error", "message": why}
    return 400, {"type": "error", "error": error}
