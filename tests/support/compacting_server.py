"""Two providers that compact, on loopback: Anthropic's Messages and OpenAI's Responses API.

    with CompactingServer() as server:
        reply = server.anthropic().beta.messages.create(...)     # the real SDKs
        server.read[-1]                                          # the tokens that the model read

A request is answered with a compaction if it asks for one: by a threshold that it is over, or on
demand. Everything before the newest compaction is dropped, as the providers do. What they would
refuse is refused with status 400. `compact` says what the compaction of a threshold is like.
"""

from collections.abc import Callable
from typing import Any

import anthropic
import openai

from roocontext.tokens.usage import split_message
from support.answering_server import AnsweringServer
from support.provider_rules import CHECKS
from support.replies import claude, output_text, sealed

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


class CompactingServer(AnsweringServer):
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.compact = "normal"
        """`normal`, `failed` (null content) or `never`."""
        self.read: list[int] = []
        """The tokens that each request has cost, after what the server dropped."""
        self.spent: dict[str, tuple[int, int]] = {}
        """The input and output tokens of each reply, over all of its iterations."""
        self.while_answering: Callable[[], None] = lambda: None
        """Called while a request is answered."""
        self.made = 0

    def anthropic(self) -> anthropic.Anthropic:
        http = anthropic.DefaultHttpxClient(trust_env=False, verify=False)
        client = anthropic.Anthropic(
            api_key="none", base_url=self.url, max_retries=0, http_client=http
        )
        self._stack.callback(client.close)
        return client

    def openai(self) -> openai.OpenAI:
        http = openai.DefaultHttpxClient(trust_env=False, verify=False)
        url = f"{self.url}/v1"
        client = openai.OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)
        self._stack.callback(client.close)
        return client

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | str]:
        answer = self._messages if "/messages" in path else self._responses
        self.while_answering()
        return answer(path.partition("?")[0], body)

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
        more: dict[str, Any] = {"context_management": {"applied_edits": applied} if edits else None}
        more |= {"stop_reason": stop, "usage": {**usage, "iterations": iterations}}
        return 200, claude(*content, number=self.made, model=body["model"], **more)

    # OpenAI

    def _responses(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        items = body["input"]
        faults = CHECKS["openai-responses"](items)
        own = [it["encrypted_content"] for it in items if it.get("type") == "compaction"]
        if any(content != _seal(body["model"]) for content in own):
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
        item = sealed(self.made, _seal(body["model"]))
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
        said = output_text(f"Step {self.made} is done.", self.made)
        output = [item, said] if over and self.compact == "normal" else [said]
        more = {"object": "response", "status": "completed", "model": body["model"]}
        settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return 200, {**head, **more, **settings, "output": output}


def _texts(role: str, content: Any, format: str = "anthropic") -> list[str]:  # noqa: A002
    return [*split_message(role, content, format).texts]


def _seal(model: str) -> str:
    return f"sealed by {model} " * 18


def _refused(why: str) -> tuple[int, dict[str, Any]]:
    error = {"type": "invalid_request_error", "message": why}
    return 400, {"type": "error", "error": error}
