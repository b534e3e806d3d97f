"""OpenCode's own messages: which of them the model sees, and how it sees the parts of tools.

A message is `info` and `parts`, as the program stores it. The store of this package keeps another
list and comes to the same view; here the program's own reading is written down.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from roocontext.programs.opencode.prune import PLACEHOLDER
from roocontext.tokens.javascript import truthy

StoredMessage: TypeAlias = Mapping[str, Any]
"""A message as OpenCode stores it."""

INTERRUPTED: Final = "[Tool execution was interrupted]"
"""What a call without a result is answered with since 2026."""


def filter_compacted(
    messages: Sequence[StoredMessage], *, despite_errors: bool = True
) -> list[StoredMessage]:
    """The messages from the last compaction on that was finished, given and returned oldest first.

    `despite_errors` is whether a finished summary counts that ended with an error; it did in 2025.
    """
    shown: list[StoredMessage] = []
    finished: set[str | None] = set()
    for message in reversed(messages):
        info = message["info"]
        shown.append(message)
        if info["role"] == "user" and info["id"] in finished and _request(message) is not None:
            break
        if _is_finished(info, despite_errors=despite_errors):
            finished.add(info.get("parentID"))
    return shown[::-1]


def filter_compacted_tail(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The same as of 2026, when a compaction may name the message that a kept tail begins with.

    Then the order is: the request, the summary, the tail, everything later.
    """
    shown: list[StoredMessage] = []
    finished: set[str | None] = set()
    tail = None
    for message in reversed(messages):
        info = message["info"]
        shown.append(message)
        if tail is not None:
            if info["id"] == tail:
                break
            continue
        if info["role"] == "user" and info["id"] in finished:
            request = _request(message)
            if request is None:
                continue
            if not request.get("tail_start_id"):
                break
            tail = request["tail_start_id"]
            if info["id"] == tail:
                break
        elif _is_finished(info, despite_errors=False):
            finished.add(info.get("parentID"))
    return _tail_last(shown[::-1])


def model_part(part: Mapping[str, Any], *, newer: bool = False) -> dict[str, str] | None:
    """A tool's part as sent to the model: its output or error; None if it is not sent."""
    state = part["state"]
    match state["status"]:
        case "completed":
            cleared = truthy(state.get("time", {}).get("compacted"))
            return _output(PLACEHOLDER if cleared else state["output"])
        case "error":
            told = state.get("metadata") or {}
            partial = told.get("output")
            if newer and told.get("interrupted") is True and isinstance(partial, str):
                return _output(partial)
            return {"state": "output-error", "errorText": state["error"]}
    return {"state": "output-error", "errorText": INTERRUPTED} if newer else None


def _request(message: StoredMessage, *, with_tail: bool = False) -> Mapping[str, Any] | None:
    """The part that asks for a compaction, if there is one; or the one that names a tail."""
    for part in message["parts"]:
        if part["type"] == "compaction" and ("tail_start_id" in part or not with_tail):
            found: Mapping[str, Any] = part
            return found
    return None


def _is_finished(info: Mapping[str, Any], *, despite_errors: bool) -> bool:
    return (
        info["role"] == "assistant"
        and truthy(info.get("summary"))
        and truthy(info.get("finish"))
        and (despite_errors or not truthy(info.get("error")))
    )


def _tail_last(shown: list[StoredMessage]) -> list[StoredMessage]:
    """Put the tail before its compaction after the summary, if all three are there."""
    at, tail = _last_request(shown)
    if at is None:
        return shown
    request_id = shown[at]["info"]["id"]
    summary = _first(
        index
        for index, message in enumerate(shown)
        if index > at
        and message["info"]["role"] == "assistant"
        and truthy(message["info"].get("summary"))
        and message["info"].get("parentID") == request_id
    )
    first = _first(i for i, message in enumerate(shown) if message["info"]["id"] == tail)
    if summary is None or first is None or first >= at:
        return shown
    return [*shown[at : summary + 1], *shown[first:at], *shown[summary + 1 :]]


def _last_request(shown: Sequence[StoredMessage]) -> tuple[int | None, str | None]:
    """Where the last compaction stands that names a tail, and which."""
    for index in range(len(shown) - 1, -1, -1):
        request = _request(shown[index], with_tail=True)
        if shown[index]["info"]["role"] == "user" and request is not None:
            return index, request["tail_start_id"]
    return None, None


def _first(indices: Iterator[int]) -> int | None:
    return next(indices, None)


def _output(text: str) -> dict[str, str]:
    return {"state": "output-available", "output": text}
