"""Each provider's rules for the system prompt, the tools and the cache marks of a request.

The rules' letters are those of the provider's checker. A-NAME: tools have at most 128 characters
(home-assistant/core#147760). A-TEXT-BLANK: no blank text in `system` (?). A-TOOL-SCHEMA: an object
(T). A-CACHE-COUNT: four marks in all (tghamm/Anthropic.SDK#50). A-CACHE-TTL: those of an hour
come first, in the order of tools, system and messages, what is in a block before the block
(vellum-ai/vellum-assistant#22191). A-CACHE-PLACE: not on thinking
(UKGovernmentBEIS/inspect_ai#3967). O-NAME: 64 characters (mcp-use/mcp-use#94). G-NAME: 64, not
beginning with a digit (google-gemini/gemini-cli#2966). G-SYSTEM: no empty text
(songquanpeng/one-api#2243).
"""

import re
from collections.abc import Iterator
from typing import Any

ANTHROPIC = re.compile(r"[a-zA-Z0-9_-]{1,128}")
OPENAI = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
MARK = "cache_control"


def anthropic(body: dict[str, Any]) -> list[str]:
    system = body.get("system", "x")
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    found = [] if texts and all(text.strip() for text in texts) else ["system A-TEXT-BLANK"]
    for tool in body.get("tools", []):
        if not ANTHROPIC.fullmatch(tool["name"]):
            found.append(f"tool {tool['name']} A-NAME")
        if "type" not in tool and tool["input_schema"].get("type") != "object":
            found.append(f"tool {tool['name']} A-TOOL-SCHEMA")
    marked = [it for it in _dicts(body) if MARK in it]
    if len(marked) > 4:
        found.append("A-CACHE-COUNT")
    ordered = [body.get(name, []) for name in ("tools", "system", "messages")]
    lengths = [it[MARK].get("ttl", "5m") for it in _inner_first(ordered) if MARK in it]
    if lengths != sorted(lengths):
        found.append("A-CACHE-TTL")
    if any("thinking" in it.get("type", "") for it in marked):
        found.append("A-CACHE-PLACE")
    return found


def chat(body: dict[str, Any]) -> list[str]:
    """Violations of Chat Completions' rules."""
    return _openai([tool["function"] for tool in body.get("tools", [])])


def responses(body: dict[str, Any]) -> list[str]:
    return _openai([tool for tool in body.get("tools", []) if tool["type"] == "function"])


def gemini(body: dict[str, Any]) -> list[str]:
    parts = body.get("systemInstruction", {}).get("parts", [])
    found = [] if all(part["text"] for part in parts) else ["G-SYSTEM"]
    names = [
        declared["name"]
        for tool in body.get("tools", [])
        for declared in tool.get("functionDeclarations", [])
    ]
    return [*found, *(f"tool {name} G-NAME" for name in names if not GEMINI.fullmatch(name))]


def _openai(functions: list[dict[str, Any]]) -> list[str]:
    found = [f"tool {it['name']} O-NAME" for it in functions if not OPENAI.fullmatch(it["name"])]
    schemas = [it.get("parameters") or {"type": "object"} for it in functions]
    return [*found, *("a schema is no object" for it in schemas if it.get("type") != "object")]


def _inner_first(value: Any) -> Iterator[dict[str, Any]]:
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _inner_first(inner)
    if isinstance(value, dict):
        yield value


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _dicts(inner)
