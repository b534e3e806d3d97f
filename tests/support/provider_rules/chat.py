"""The rules of OpenAI's Chat Completions, written independently of the code that makes the lists.

T = the SDK's types, ? = a careful reading without a source, else a public issue.

O-ROLE: system, developer, user, assistant and tool, in any order; `function` and `function_call`
    are deprecated (T).
O-CALL-UNANSWERED: calls are followed by one tool message each, with nothing between
    (BerriAI/litellm#10083). O-RESULT-ORPHAN: a tool message answers such a call
    (prism-php/prism#175). O-RESULT-DUPLICATE: one result for a call (?).
O-CALL-ID: 1 to 40 characters (agno-agi/agno#5382). Unique in a message (?).
O-NAME: letters, digits, _ and - (mcp-use/mcp-use#94), at most 64 (documented).
O-ARGUMENTS: a string (T).
O-CONTENT-NULL: null only with calls (docker/docker-agent#63, vercel/ai#13744) or audio (T).
O-AUDIO: a reply's audio is taken back by its id alone (T).
O-CONTENT-EMPTY: no empty list of parts (langchain-ai/langchainjs#11416); "" is accepted.
O-CALLS-EMPTY: no empty `tool_calls` (openai/openai-node#1341). O-NULL: nor null (?).
O-IMAGE-ROLE: images only from the user (openai/openai-node#1030, OpenHands/OpenHands#7700);
    `image_url` is an object whose `url` is http(s) or a data URL (T).
O-FIELD: no `reasoning_content` or other unknown fields (CherryHQ/cherry-studio#16790).
O-UTF8: the request is UTF-8 (any JSON API).
"""

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "tool": {"role", "content", "tool_call_id"},
    "assistant": {*("role", "content", "name", "refusal", "audio", "tool_calls", "annotations")},
}
PARTS = {"user": {"text", "image_url", "input_audio", "file"}, "assistant": {"text", "refusal"}}


def violations(
    messages: list[Any], *, complete: bool = False, model: str | None = None
) -> list[str]:
    """Everything that is refused; calls at the very end may wait unless it must be complete."""
    found: list[str] = []
    waiting: list[Any] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        if role not in FIELDS:
            found.append(f"{where} O-ROLE")
            continue
        if message.keys() - FIELDS[role]:
            found.append(f"{where} O-FIELD")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"{where} O-RESULT-ORPHAN")
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            found.append(f"{where} O-CALL-UNANSWERED")
        if role == "assistant" and (message.get("audio") or {"id": 0}).keys() != {"id"}:
            found.append(f"{where} O-AUDIO")
        found += [f"{where} {fault}" for fault in _content(role, message)]
        if role == "assistant" and "tool_calls" in message:
            calls = message["tool_calls"]
            if not calls:
                found.append(f"{where} O-CALLS-EMPTY")
                continue
            found += [f"{where} {fault}" for call in calls for fault in _call(call)]
            waiting = [call.get("id") for call in calls]
            if len(set(waiting)) != len(waiting):
                found.append(f"{where} O-CALL-ID twice")
    if complete and waiting:
        found.append("O-CALL-UNANSWERED at the end")
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        found.append("O-UTF8")
    return found


def _content(role: str, message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if content is None:
        other = role == "assistant" and (message.get("tool_calls") or message.get("audio"))
        return [] if other else ["O-CONTENT-NULL"]
    if isinstance(content, str):
        return []
    if not isinstance(content, list) or not content:
        return ["O-CONTENT-EMPTY"]
    found = []
    for part in content:
        kind = part.get("type")
        if kind not in PARTS.get(role, {"text"}):
            found.append(f"O-IMAGE-ROLE {kind}")
        elif kind == "image_url":
            url = part["image_url"].get("url")
            if not isinstance(url, str) or not re.match(r"https?://|data:image/", url):
                found.append("O-IMAGE-ROLE url")
        elif kind in ("text", "refusal") and not isinstance(part.get(kind), str):
            found.append("O-CONTENT-NULL part")
    return found


def _call(call: dict[str, Any]) -> list[str]:
    found = []
    holder, argument = (
        ("custom", "input") if call["type"] == "custom" else ("function", "arguments")
    )
    if not isinstance(call.get("id"), str) or not 1 <= len(call["id"]) <= 40:
        found.append("O-CALL-ID")
    if not NAME.fullmatch(call[holder]["name"]):
        found.append("O-NAME")
    if not isinstance(call[holder][argument], str):
        found.append("O-ARGUMENTS")
    return found
