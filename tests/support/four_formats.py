"""One short exchange in each format: words, a reply that calls tools, and a result."""

from typing import Any

FORMATS = ("anthropic", "openai", "openai-responses", "gemini")
Call = tuple[str, str]
"""The id and the name of a call."""


def words(format_: str, role: str, said: str) -> tuple[str, Any]:
    """The role and content of a plain text."""
    match format_:
        case "openai":
            return role, {"role": role, "content": said}
        case "openai-responses":
            return role, [{"type": "message", "role": role, "content": said}]
        case "gemini":
            role = "model" if role == "assistant" else role
            return role, {"role": role, "parts": [{"text": said}]}
    return role, said


def asking(format_: str, *calls: Call) -> tuple[str, Any]:
    """The role and content of a reply that says something and calls tools."""
    match format_:
        case "openai":
            asked = [
                {"id": i, "type": "function", "function": {"name": n, "arguments": '{"x": 1}'}}
                for i, n in calls
            ]
            return "assistant", {"role": "assistant", "content": "I look.", "tool_calls": asked}
        case "openai-responses":
            said = {"type": "message", "role": "assistant", "content": "I look."}
            kind = "function_call"
            return "assistant", [
                said,
                *(
                    {"type": kind, "call_id": i, "name": n, "arguments": '{"x":1}'}
                    for i, n in calls
                ),
            ]
        case "gemini":
            parts = [
                {"functionCall": {"name": n, "args": {"x": 1}} | ({"id": i} if i else {})}
                for i, n in calls
            ]
            thought = {"text": "hm", "thought": True}
            return "model", {"role": "model", "parts": [thought, {"text": "I look."}, *parts]}
    blocks = [{"type": "tool_use", "id": i, "name": n, "input": {"x": 1}} for i, n in calls]
    return "assistant", [{"type": "text", "text": "I look."}, *blocks]


def reply(format_: str, content: Any, *, is_cut_off: bool = False) -> dict[str, Any]:
    """A provider's reply with this content, which a limit may have cut off."""
    named = {"id": "reply_1", "model": "m", "usage": None}
    match format_:
        case "openai":
            stop = "length" if is_cut_off else "stop"
            return {**named, "choices": [{"message": content, "finish_reason": stop}]}
        case "openai-responses":
            why = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            return {**named, "output": content, **(why if is_cut_off else {"status": "completed"})}
        case "gemini":
            stop = "MAX_TOKENS" if is_cut_off else "STOP"
            return {"candidates": [{"content": content, "finishReason": stop}], "modelVersion": "m"}
    stop = "max_tokens" if is_cut_off else "end_turn"
    return {**named, "type": "message", "content": content, "stop_reason": stop}


def result(format_: str, call: Call, output: str) -> tuple[str, Any]:
    """The role and content of a tool's result."""
    tool_id, name = call
    match format_:
        case "openai":
            return "tool", {"role": "tool", "tool_call_id": tool_id, "content": output}
        case "openai-responses":
            return "user", [{"type": "function_call_output", "call_id": tool_id, "output": output}]
        case "gemini":
            named = {"name": name} | ({"id": tool_id} if tool_id else {})
            response = {"functionResponse": {**named, "response": {"output": output}}}
            return "user", {"role": "user", "parts": [response]}
    return "user", [{"type": "tool_result", "tool_use_id": tool_id, "content": output}]
