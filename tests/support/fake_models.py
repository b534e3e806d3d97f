"""A model behind a real socket that speaks to every SDK, and calls one tool before it answers.

    with ModelsServer() as server:
        anthropic.Anthropic(base_url=server.url, api_key="none")
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        genai.Client(api_key="none", http_options={"base_url": server.url})

It asks for `run` with `{"command": "ls"}` until the request ends with a result, and then says
ANSWER. If it has a tool to search the history, Anthropic's model looks there for a port, and says
which one it found. What the provider's checkers in `provider_rules` refuse is refused with status
400.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from roocontext.log.summary import SEARCH_HISTORY
from support.answering_server import AnsweringServer
from support.fake_streams import anthropic_events, chat_events, gemini_events, response_events
from support.provider_rules import anthropic, chat, frames, gemini, responses
from support.replies import WIRE, chat_completion, claude, gemini_response, gpt, output_text

ANSWER = "There are two files."
CALL = {"name": "run", "arguments": json.dumps({"command": "ls"})}


class Asked(NamedTuple):
    """A request: the provider's path, and what was asked."""

    path: str
    body: dict[str, Any]


def anthropic_reply(body: dict[str, Any], number: int) -> dict[str, Any]:
    last = body["messages"][-1]["content"]
    done = isinstance(last, list) and last[0]["type"] == "tool_result"
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "run", "input": {"command": "ls"}}
    answer = ANSWER
    if SEARCH_HISTORY in (tool["name"] for tool in body.get("tools", ())):
        call |= {"name": SEARCH_HISTORY, "input": {"query": "port"}}
        answer = f"It is {', '.join(re.findall('port [0-9]+', json.dumps(last))) or 'unknown'}."
    return claude(
        *([{"type": "text", "text": answer}] if done else [thought, call]),
        number=number,
        model=body["model"],
        stop_reason="end_turn" if done else "tool_use",
        stop_sequence=None,
        usage={"input_tokens": 20, "output_tokens": 8},
    )


def chat_reply(body: dict[str, Any], number: int) -> dict[str, Any]:
    done = body["messages"][-1]["role"] == "tool"
    called = {"id": f"call_{number}", "type": "function", "function": CALL}
    return chat_completion(
        *([ANSWER] if done else [None, called]),
        number=number,
        finish_reason="stop" if done else "tool_calls",
        model=body["model"],
        usage={"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28},
    )


def response(body: dict[str, Any], number: int) -> dict[str, Any]:
    done = body["input"][-1].get("type") == "function_call_output"
    called = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", **CALL}
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"}
    usage = {"input_tokens": 20, "output_tokens": 8, "total_tokens": 28}
    items = [output_text(ANSWER, number)] if done else [thought, called]
    return gpt(*items, number=number, model=body["model"], usage=usage, **WIRE)


def gemini_reply(body: dict[str, Any], number: int) -> dict[str, Any]:
    done = "functionResponse" in body["contents"][-1]["parts"][0]
    call = {"functionCall": {"name": "run", "args": {"command": "ls"}}, "thoughtSignature": "c2ln"}
    return gemini_response({"text": ANSWER} if done else call, number=number)


class _Provider(NamedTuple):
    items: str
    violations: Callable[..., list[str]]
    frame_faults: Callable[[dict[str, Any]], list[str]]
    reply: Callable[[dict[str, Any], int], dict[str, Any]]
    events: Callable[[dict[str, Any]], str]


_GEMINI = _Provider("contents", gemini.violations, frames.gemini, gemini_reply, gemini_events)
_PROVIDERS = {
    "/messages": _Provider(
        "messages", anthropic.violations, frames.anthropic, anthropic_reply, anthropic_events
    ),
    "/chat/completions": _Provider(
        "messages", chat.violations, frames.chat, chat_reply, chat_events
    ),
    "/responses": _Provider(
        "input", responses.violations, frames.responses, response, response_events
    ),
    ":generateContent": _GEMINI,
    ":streamGenerateContent": _GEMINI,
}


class ModelsServer(AnsweringServer):
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Asked] = []

    def environment(self) -> dict[str, str]:
        """Variables that make the clients of the SDKs ask here without any argument."""
        keys = {f"{name}_API_KEY": "none" for name in ("ANTHROPIC", "OPENAI", "GEMINI")}
        return {
            **keys,
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any] | str]:
        """The status of the answer to a request, and its body or the events of a stream."""
        path = path.partition("?")[0]
        found = next((it for end, it in _PROVIDERS.items() if path.endswith(end)), None)
        if found is None:
            return 404, {"error": {"type": "not_found_error", "message": path}}
        self.asked.append(Asked(path, body))
        faults = found.violations(body[found.items], complete=True) + found.frame_faults(body)
        if body.get("thinking", {}).get("type") == "enabled":
            faults += anthropic.thoughtless(body["messages"])
        if faults:
            return 400, {"error": {"type": "invalid_request_error", "message": "; ".join(faults)}}
        reply = found.reply(body, len(self.asked))
        is_stream = body.get("stream") or "stream" in path
        return 200, found.events(reply) if is_stream else reply
