"""The parts of an OpenCode message as the messages that the program sends."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from roocontext.formats.typed import Insertions

INTERRUPTED = "[Tool execution was interrupted]"
QUESTION = "What did we do so far?"
CLEARED = "[Old tool result content cleared]"
INSERTIONS = Insertions(tags=("system-reminder",))
"""The program's own texts in the user's."""
ABORTED = "MessageAbortedError"


class Era(Enum):
    """Whose rules hold: those of the first months, of the folders until 2025, or of today."""

    FIRST = 1
    FOLDERS = 2
    DATABASE = 3


@dataclass(slots=True)
class OpenCodeTurn:
    """One message to the model, and those of its results that were cleared.

    `typed` is what a person typed of a message of the user's.
    """

    id: str
    role: str
    content: list[dict[str, Any]] = field(default_factory=list)
    typed: str = ""
    cleared: list[tuple[str, int]] = field(default_factory=list)


def turns_of(info: dict[str, Any], parts: list[dict[str, Any]], era: Era) -> list[OpenCodeTurn]:
    """What the program sends of a message: each step of a reply, and the results of its calls."""
    name = str(info.get("id"))
    if info.get("role") == "user":
        blocks = [block for part in parts if (block := _asked(part)) is not None]
        return [OpenCodeTurn(name, "user", blocks, _typed(parts))] if blocks else []
    if info.get("role") != "assistant" or _is_left_out(info, parts):
        return []
    found: list[OpenCodeTurn] = []
    step, results = _step(name, 0)
    shown = OpenCodeTurn(f"{name}:attachments", "user")
    for part in parts:
        if part.get("type") == "step-start" and step.content:
            found += [one for one in (step, results) if one.content]
            step, results = _step(name, len(found))
        else:
            _add(part, step, results, shown, era)
    return [*found, *(one for one in (step, results, shown) if one.content)]


def _step(name: str, number: int) -> tuple[OpenCodeTurn, OpenCodeTurn]:
    mark = f"{name}:{number}" if number else name
    return OpenCodeTurn(mark, "assistant"), OpenCodeTurn(f"{mark}:results", "user")


def _is_left_out(info: dict[str, Any], parts: list[dict[str, Any]]) -> bool:
    """Whether it failed: one that was stopped is sent if it says anything."""
    error = info.get("error")
    if not isinstance(error, dict):
        return False
    says = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
    return not (error.get("name") == ABORTED and says)


def _typed(parts: list[dict[str, Any]]) -> str:
    """What a person typed: the program's own texts are `synthetic`."""
    asked = (part for part in parts if part.get("type") == "text" and not part.get("ignored"))
    texts = [part.get("text") for part in asked if not part.get("synthetic")]
    return "\n".join(INSERTIONS.typed(text) for text in texts if isinstance(text, str) and text)


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


def _add(
    part: dict[str, Any], step: OpenCodeTurn, results: OpenCodeTurn, shown: OpenCodeTurn, era: Era
) -> None:
    match part:
        case {"type": "text", "text": str(text)} if text:
            step.content.append({"type": "text", "text": text})
        case {"type": "reasoning", "text": str(text)} if text:
            step.content.append(_reasoning(text, part.get("metadata")))
        case {"type": "tool", "state": {"status": "completed" | "error"} as state}:
            _add_call(part, state, step, results, shown if era is not Era.DATABASE else None)
        case {"type": "tool", "state": {"status": "pending" | "running"} as state}:
            if era is Era.DATABASE:
                stopped = {**state, "status": "error", "error": INTERRUPTED}
                _add_call(part, stopped, step, results, None)


def _reasoning(text: str, metadata: Any) -> dict[str, Any]:
    match metadata:
        case {"anthropic": {"signature": str(signature)}}:
            return {"type": "thinking", "thinking": text, "signature": signature}
    return {"type": "reasoning", "text": text}


def _add_call(
    part: dict[str, Any],
    state: dict[str, Any],
    step: OpenCodeTurn,
    results: OpenCodeTurn,
    shown: OpenCodeTurn | None,
) -> None:
    """A call and its result. Attachments are in the result, or in a message that `shown` is."""
    call = str(part.get("callID") or part.get("id"))
    asked = state.get("input")
    step.content.append(
        {
            "type": "tool_use",
            "id": call,
            "name": str(part.get("tool")),
            "input": asked if isinstance(asked, dict) else {},
        }
    )
    output, is_error = _output(state, interrupts=shown is None)
    files = state.get("attachments")
    media = [
        block
        for one in (files if isinstance(files, list) else [])
        if isinstance(one, dict) and (block := _asked({"type": "file", **one})) is not None
    ]
    if media and shown is not None:
        title = f"Tool {part.get('tool')} returned an attachment:"
        shown.content += [{"type": "text", "text": title}, *media]
        media = []
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": output}
    if media:
        result["content"] = [{"type": "text", "text": output}, *media]
    if is_error:
        result["is_error"] = True
    time = state.get("time")
    if isinstance(time, dict) and time.get("compacted"):
        results.cleared.append((results.id, len(results.content)))
    results.content.append(result)


def _output(state: dict[str, Any], *, interrupts: bool) -> tuple[str, bool]:
    """What a call has answered, and whether it failed. One that was stopped may have answered."""
    match state:
        case {"status": "error", "metadata": {"interrupted": True, "output": str(output)}}:
            if interrupts:
                return output, False
    is_error = state["status"] == "error"
    found = state.get("error" if is_error else "output")
    return found if isinstance(found, str) else "", is_error
