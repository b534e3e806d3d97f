"""Replies as the SDKs give them to `record`: Anthropic's, and those of the Responses API."""

from typing import Any

CLAUDE, GPT = "claude-opus-4-6", "gpt-5.4"
USAGE = {"input_tokens": 3, "output_tokens": 4}


def claude(*blocks: Any, number: int = 1, model: str = CLAUDE, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(blocks),
        "stop_reason": "end_turn",
        "usage": USAGE,
        **fields,
    }


def gpt(*items: Any, number: int = 1, model: str = GPT, **fields: Any) -> dict[str, Any]:
    """A response of the Responses API with these items."""
    named = {"id": f"resp_{number}", "object": "response", "model": model}
    return {**named, "status": "completed", "output": list(items), "usage": None, **fields}


WIRE = {"created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
"""What else a response of the Responses API has that the SDK wants."""


def chat_completion(
    content: str | None, *calls: Any, number: int = 1, finish_reason: str = "stop", **fields: Any
) -> dict[str, Any]:
    """A chat completion that says this, and calls these functions."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        **fields,
    }


def gemini_response(
    *parts: Any,
    number: int = 1,
    finish_reason: str = "STOP",
    model: str = "gemini-3-pro",
    tokens: tuple[int, int] = (20, 8),
) -> dict[str, Any]:
    """A response of Gemini's with these parts."""
    content = {"role": "model", "parts": list(parts)}
    return {
        "candidates": [{"content": content, "finishReason": finish_reason}],
        "modelVersion": model,
        "responseId": f"response-{number}",
        "usageMetadata": {"promptTokenCount": tokens[0], "candidatesTokenCount": tokens[1]},
    }


def compacted_answer(*kept: str, **fields: Any) -> dict[str, Any]:
    """The answer to a request that only compacts: a sealed item, and messages that it kept."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
        for words in kept
    ]
    named = {"id": "resp_c", "object": "response.compaction", "usage": None}
    return {**named, "output": [*items, sealed()], **fields}


def output_text(said: str, number: int = 1) -> dict[str, Any]:
    """An item of the Responses API with words of the assistant."""
    part = {"type": "output_text", "text": said, "annotations": []}
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def readable(said: str | None) -> dict[str, Any]:
    """A block in which Anthropic compacted what came before; None is a failure."""
    return {"type": "compaction", "content": said}


def sealed(number: int = 1, content: str = "sealed") -> dict[str, Any]:
    """An item in which OpenAI compacted what came before, for its own models alone."""
    return {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": content}
