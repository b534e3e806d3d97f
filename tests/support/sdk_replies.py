"""One reply in each API, as a dict: with a text or thinking, and calls of a tool."""

from typing import Any

from support.replies import WIRE, chat_completion, claude, gpt

ANTHROPIC: dict[str, Any] = claude(
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "so"},
    {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls"}},
    model="claude-x",
    stop_reason="tool_use",
    stop_sequence=None,
    usage={"input_tokens": 3, "output_tokens": 8},
)
FUNCTION: dict[str, Any] = {"name": "run", "arguments": '{"command": "ls"}'}
CHAT: dict[str, Any] = chat_completion(
    "so",
    *({"id": name, "type": "function", "function": FUNCTION} for name in ("c1", "c2")),
    finish_reason="tool_calls",
    usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
)
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", **FUNCTION},
]
RESPONSE: dict[str, Any] = gpt(
    *ITEMS,
    model="gpt-y",
    usage={
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
    **{**WIRE, "created_at": 1.0},
)
