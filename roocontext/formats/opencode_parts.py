"""The parts of an OpenCode message as the messages that the program sends."""

from dataclasses import dataclass, field
from typing import Any

QUESTION = "What did we do so far?"
CLEARED = "[Old tool result content cleared]"
ABORTED = "MessageAbortedError"


@dataclass(slots=True)
class Turn:
    """One message to the model, and those of its results that were cleared."""

    id: str
    role: str
    content: list[dict[str, Any]] = field(default_factory=list)
    cleared: list[tuple[str, int]] = field(default_factory=list)


def turns_of(info: dict[str, Any], parts: list[dict[str, Any]]) -> list[Turn]:
    """What the program sends of a message: each step of a reply, and the results of its calls."""
    name = str(info.get("id"))
    if info.get("role") == "user":
        blocks = [block for part in parts if (block := _asked(part)) is not None]
        return [Turn(name, "user", blocks)] if blocks else []
    if info.get("role") != "assistant" or _is_left_out(info, parts):
        return []
    found: list[Turn] = []
    step, results = _step(name, 0)
    for part in parts:
        if part.get("type") == "step-start" and step.content:
            found += [one for one in (step, results) if one.content]
            step, results = _step(name, len(found))
        else:
            _add(part, step, results)
    return [*found, *(one for one in (step, results) if one.content)]


def _step(name: str, number: int) -> tuple[Turn, Turn]:
    mark = f"{name}:{number}" if number else name
    return Turn(mark, "assistant"), Turn(f"{mark}:results", "user")


def _is_left_out(info: dict[str, Any], parts: list[dict[str, Any]]) -> bool:
    """Whether it failed: one that was stopped is sent if it says anything."""
    error = info.get("error")
    if not isinstance(error, dict):
        return False
    says = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
    return not (error.get("name") == ABORTED and says)


def _asked(part: dict[str, Any]) -> dict[str, Any] | None:
    match part:
        case {"type": "text", "text": str(text)} if text and not part.get("ignored"):
            return {"type": "text", "text": text}
        case {"type": "compaction"}:
            return {"type": "text", "text": QUESTION}
        case {"type": "subtask"}:
            return {"type": "text", "text": "The following tool was executed by the user"}
        case {"type": "file", "mime": str(mime), "url": str(url)}:
            return _file(mime, url)
    return None


def _file(mime: str, url: str) -> dict[str, Any] | None:
    # The text of a file is sent as a text part of its own.
    if mime in ("text/plain", "application/x-directory"):
        return None
    kind = "image" if mime.startswith("image/") else "document"
    head, comma, data = url.partition(";base64,")
    if head.startswith("data:") and comma:
        source = {"type": "base64", "media_type": mime, "data": data}
    else:
        source = {"type": "url", "url": url}
    return {"type": kind, "source": source}


def _add(part: dict[str, Any], step: Turn, results: Turn) -> None:
    match part:
        case {"type": "text", "text": str(text)} if text:
            step.content.append({"type": "text", "text": text})
        case {"type": "reasoning", "text": str(text)} if text:
            step.content.append(_reasoning(text, part.get("metadata")))
        case {"type": "tool", "state": {"status": "completed" | "error"} as state}:
            _add_call(part, state, step, results)


def _reasoning(text: str, metadata: Any) -> dict[str, Any]:
    match metadata:
        case {"anthropic": {"signature": str(signature)}}:
            return {"type": "thinking", "thinking": text, "signature": signature}
    return {"type": "reasoning", "text": text}


def _add_call(part: dict[str, Any], state: dict[str, Any], step: Turn, results: Turn) -> None:
    call = str(part.get("callID") or part.get("id"))
    asked = {"type": "tool_use", "id": call, "name": str(part.get("tool"))}
    step.content.append({**asked, "input": state.get("input") or {}})
    is_error = state["status"] == "error"
    output = state.get("error" if is_error else "output")
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
    result["content"] = output if isinstance(output, str) else ""
    if is_error:
        result["is_error"] = True
    time = state.get("time")
    if isinstance(time, dict) and time.get("compacted"):
        results.cleared.append((results.id, len(results.content)))
    results.content.append(result)
