"""The rules of OpenAI's Responses API for `input` without stored state, written independently.

T = the SDK's types, ? = a careful reading without a source, else a public issue.

R-ROLE: no role `tool` (T). R-PART-TYPE: the assistant says `output_text` or `refusal`
    (epam/ai-dial-adapter-openai#511), all others input_text, input_image or input_file (T);
    `image_url` is a string (T).
R-CALL-UNANSWERED: each call has its output (bytedance/trae-agent#245). R-OUTPUT-ORPHAN: each
    output follows its call (continuedev/continue#10092), and is of the call's type (T).
R-CALL-ID: at most 64 characters (AnswerDotAI/fastllm#45), unique (earendil-works/pi#9057).
R-ID-PREFIX: an item's id begins with msg, fc or rs (nodetool-ai/nodetool#4252,
    mastra-ai/mastra#10815), at most 64 of letters, digits, _ and -
    (ranxianglei/billion-context#1052).
R-ID-REQUIRED: a computer's and a local shell's call have their id (T).
R-ID-UNIQUE: no id twice (earendil-works/pi#5151).
R-REASONING-ALONE: reasoning is followed by what it led to (vercel/ai#7099), and an item whose id
    refers to reasoning needs it (mastra-ai/mastra#8738).
R-REASONING-STORE: reasoning needs `encrypted_content`, `id` and `summary` (vercel/ai#7543, T).
R-REFERENCE: no `item_reference` without stored state (vercel/ai#7543).
R-TRIGGER: a `compaction_trigger` only at the end (T). R-REDACTED: no item without its values (T).
R-COMPACTION: a compaction has its `encrypted_content` (T).
R-FIELD: no `status` on reasoning (openai/openai-python#3008), no `parsed_arguments` (?), none of
    the fields that only replies have: `created_by`, `status` of a custom tool's output (T).
R-NAME: letters, digits, _ and -, at most 64 (as in Chat Completions, ?).
R-UTF8: the request is UTF-8 (any JSON API).
"""

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ITEM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PREFIX = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}


def violations(items: list[Any], *, complete: bool = False, model: str | None = None) -> list[str]:
    """Everything that is refused; calls at the very end may wait unless it must be complete."""
    found: list[str] = []
    ids: set[str] = set()
    called: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        where = f"input[{index}] {kind}"
        if "id" in item and kind != "local_shell_call_output":
            if not ITEM_ID.fullmatch(item["id"]) or not item["id"].startswith(PREFIX.get(kind, "")):
                found.append(f"{where} R-ID-PREFIX")
            if item["id"] in ids:
                found.append(f"{where} R-ID-UNIQUE")
            ids.add(item["id"])
        if kind in ("computer_call", "local_shell_call") and not item.get("id"):
            found.append(f"{where} R-ID-REQUIRED")
        if any(value is None for value in item.values()):
            found.append(f"{where} R-FIELD null")
        if kind in OUTPUT_OF and item.get("execution") != "server":
            tool_id = item["call_id"]
            if tool_id in called or not 1 <= len(tool_id) <= 64:
                found.append(f"{where} R-CALL-ID")
            called[tool_id] = waiting[tool_id] = OUTPUT_OF[kind]
            found += [f"{where} {fault}" for fault in _call(kind, item)]
        elif kind in OUTPUT_OF.values() and item.get("execution") != "server":
            tool_id = item.get("call_id") or item.get("id")
            if waiting.pop(tool_id, None) != kind:
                found.append(f"{where} R-OUTPUT-ORPHAN")
            found += [f"{where} {fault}" for fault in _output(kind, item)]
        elif kind == "message":
            if waiting and item["role"] != "assistant":
                found.append(f"{where} R-CALL-UNANSWERED")
            found += [f"{where} {fault}" for fault in _message(item)]
        elif kind == "reasoning":
            found += [f"{where} {fault}" for fault in _reasoning(item, items[index + 1 :])]
        elif kind == "item_reference":
            found.append(f"{where} R-REFERENCE")
        if "created_by" in item or (kind == "custom_tool_call_output" and "status" in item):
            found.append(f"{where} R-FIELD of replies")
        if kind == "compaction" and not isinstance(item.get("encrypted_content"), str):
            found.append(f"{where} R-COMPACTION")
        if kind == "compaction_trigger" and index + 1 < len(items):
            found.append(f"{where} R-TRIGGER")
        if item.keys() <= {"type", "id", "call_id", "name", "role", "execution"}:
            found.append(f"{where} R-REDACTED")
    if complete and waiting:
        found.append("R-CALL-UNANSWERED at the end")
    try:
        json.dumps(items, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        found.append("R-UTF8")
    return found


def _call(kind: str, item: dict[str, Any]) -> list[str]:
    found = []
    if kind in ("function_call", "custom_tool_call"):
        if not NAME.fullmatch(item["name"]):
            found.append("R-NAME")
        if not isinstance(item["arguments" if kind == "function_call" else "input"], str):
            found.append("R-ARGUMENTS")
    return found + (["R-FIELD"] if "parsed_arguments" in item else [])


def _output(kind: str, item: dict[str, Any]) -> list[str]:
    output = item.get("output")
    if kind not in ("function_call_output", "custom_tool_call_output") or isinstance(output, str):
        return []
    return _parts(output, ("input_text", "input_image", "input_file"))


def _message(item: dict[str, Any]) -> list[str]:
    found = [] if item["role"] in ("user", "assistant", "system", "developer") else ["R-ROLE"]
    content = item.get("content")
    if isinstance(content, str):
        return found
    if item["role"] == "assistant":
        return found + _parts(content, ("output_text", "refusal"))
    return found + _parts(content, ("input_text", "input_image", "input_file"))


def _parts(parts: Any, kinds: tuple[str, ...]) -> list[str]:
    if not isinstance(parts, list) or not parts:
        return ["R-PART-TYPE empty"]
    found = [f"R-PART-TYPE {part.get('type')}" for part in parts if part.get("type") not in kinds]
    urls = [part.get("image_url", "") for part in parts if part.get("type") == "input_image"]
    return found + ["R-PART-TYPE image_url" for url in urls if not isinstance(url, str)]


def _reasoning(item: dict[str, Any], after: list[Any]) -> list[str]:
    found = ["R-FIELD"] if "status" in item else []
    sealed = isinstance(item.get("encrypted_content"), str) and isinstance(
        item.get("summary"), list
    )
    if not (sealed and isinstance(item.get("id"), str)):
        found.append("R-REASONING-STORE")
    following = next((it for it in after if it.get("type") != "reasoning"), {})
    kind = following.get("type", "")
    speaks = kind == "message" and following["role"] == "assistant"
    if not speaks and (not kind.endswith("_call") and kind != "compaction"):
        found.append("R-REASONING-ALONE")
    return found
