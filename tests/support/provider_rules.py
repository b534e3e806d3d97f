"""What the Messages API refuses, told independently of the code that makes lists acceptable."""

import json
import re
from typing import Any

TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
THINKING = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


def violations(messages: list[Any]) -> list[str]:
    """Everything a provider would refuse in an outgoing list; empty means it is acceptable."""
    found: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if set(message) != {"role", "content"}:
            found.append(f"{where} has other keys than role and content")
        if message["role"] not in {"user", "assistant"}:
            found.append(f"{where} has an unknown role")
        if message["role"] != ("user", "assistant")[index % 2]:
            found.append(f"{where} is out of turn")
        found += [f"{where}: {fault}" for fault in _faults(message["role"], message["content"])]
    found += _tool_faults(messages)
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        found.append("a string is not UTF-8")
    return found


def displaced(stored: list[Any], messages: list[Any]) -> list[str]:
    """Find the thinking that a repair has put something before, inside its message.

    The API compares thinking with what it signed: "thinking or redacted_thinking blocks in the
    latest assistant message cannot be modified" (anthropics/claude-code#63284); a block that was
    moved is an "Invalid signature in thinking block" (anthropics/anthropic-sdk-python#1598).
    """
    found = []
    rows = [content for content in stored if isinstance(content, list)]
    for index, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        for place, block in enumerate(content):
            if block["type"] in THINKING:
                # Two rows may hold the very same object, so that one of its places has to do.
                allowed = [
                    at for row in rows for at, own in enumerate(row) if own is block and at >= place
                ]
                if not allowed:
                    found.append(f"messages[{index}][{place}] is thinking behind something else")
    return found


def _faults(role: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return [] if content.strip() else ["a blank content"]
    if not isinstance(content, list) or not content:
        return ["no content"]
    found = []
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            found.append(f"[{index}] is no block")
            continue
        if not block["type"].strip():
            found.append(f"[{index}] has a blank type")
        found += [f"[{index}] {fault}" for fault in _block_faults(role, block)]
    kinds = [block.get("type") for block in content if isinstance(block, dict)]
    if role == "assistant" and kinds[-1:] and kinds[-1] in THINKING:
        found.append("thinking at the end")
    outputs = [kind == "tool_result" for kind in kinds]
    if outputs != sorted(outputs, reverse=True):
        found.append("a tool result behind something else")
    return found


def _block_faults(role: str, block: dict[str, Any]) -> list[str]:
    found = []
    kind = block["type"]
    if kind in {"tool_use", *THINKING} and role != "assistant":
        found.append(f"{kind} of the user")
    if kind == "tool_result" and role != "user":
        found.append("tool_result of the assistant")
    if kind == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
        found.append("blank or ill-typed text")
    if any(not isinstance(block.get(key), str) for key in THINKING.get(kind, ())):
        found.append("thinking without what makes it valid")
    if kind == "tool_use":
        if not isinstance(block.get("input"), dict):
            found.append("input is no object")
        if not isinstance(block.get("name"), str) or not block["name"]:
            found.append("no tool name")
    if kind in {"image", "document"} and set(block) == {"type"}:
        found.append(f"{kind} without a source")
    if kind == "tool_result" and not isinstance(block.get("content", ""), str):
        inner = block["content"]
        if not isinstance(inner, list):
            found.append("a result that is neither text nor blocks")
        elif inner:
            found += [f"inside: {fault}" for fault in _faults("inside", inner)]
            if any(isinstance(it, dict) and it.get("type") == "tool_result" for it in inner):
                found.append("a result inside a result")
    return found


def _ids(message: Any, kind: str, key: str) -> list[Any]:
    content = message["content"]
    if not isinstance(content, list):
        return []
    return [it.get(key) for it in content if isinstance(it, dict) and it.get("type") == kind]


def _tool_faults(messages: list[Any]) -> list[str]:
    found = []
    seen: set[Any] = set()
    for index, message in enumerate(messages):
        asked = _ids(message, "tool_use", "id")
        for tool_id in asked:
            if not isinstance(tool_id, str) or not TOOL_ID.fullmatch(tool_id):
                found.append(f"messages[{index}] has a tool id that is refused")
            elif tool_id in seen:
                found.append(f"messages[{index}] uses a tool id again")
            seen.add(tool_id)
        before = _ids(messages[index - 1], "tool_use", "id") if index else []
        given = _ids(message, "tool_result", "tool_use_id")
        if sorted(map(str, given)) != sorted(map(str, before)):
            found.append(f"messages[{index}] does not answer exactly the calls before it")
    return found
