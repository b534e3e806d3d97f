"""Messages of OpenCode's first months: their parts are inside, and their facts in `metadata`."""

from typing import Any


def is_first(info: dict[str, Any]) -> bool:
    """Whether a message is of the first generation."""
    return isinstance(info.get("parts"), list)


def modern(info: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The record and the parts as the later generations write them."""
    metadata = _object(info.get("metadata"))
    reply, tools = _object(metadata.get("assistant")), _object(metadata.get("tool"))
    made = {"id": info.get("id"), "role": info.get("role"), "time": _object(metadata.get("time"))}
    made |= {name: reply[name] for name in ("modelID", "tokens", "summary") if name in reply}
    if metadata.get("error"):
        made["error"] = metadata["error"]
    parts = [_part(one, tools) for one in info["parts"] if isinstance(one, dict)]
    return made, [{"id": f"{number:06}", **part} for number, part in enumerate(parts)]


def _part(part: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"type": "tool-invocation", "toolInvocation": dict(called)}:
            call = str(called.get("toolCallId"))
            return {
                "type": "tool",
                "callID": call,
                "tool": called.get("toolName"),
                "state": _state(called, _object(tools.get(call))),
            }
        case {"type": "file", "mediaType": str(mime)}:
            return {**part, "mime": mime}
    return part


def _state(called: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    asked = {"input": called.get("args")}
    if called.get("state") == "result":
        time = metadata.get("time")
        return {**asked, "status": "completed", "output": called.get("result"), "time": time}
    return {**asked, "status": "running" if called.get("state") == "call" else "pending"}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
