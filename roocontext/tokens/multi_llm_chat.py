"""multi_llm_chat's estimate: kana, kanji and full-width forms by 1.5, all others by 4."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

FACTOR: Final = 1.2
FACTOR_WITH_TOOLS: Final = 1.5

_JAPANESE: Final = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uff00-\uffef]")


def estimate(text: str) -> int:
    """What a text costs, before any factor."""
    japanese = len(_JAPANESE.findall(text))
    return int(japanese / 1.5 + (len(text) - japanese) / 4)


def estimate_plain(text: str) -> int:
    """What a text costs in a session without tools."""
    return int(estimate(text) * FACTOR)


def estimate_with_tools(text: str) -> int:
    """What a text costs in a session with tools."""
    return int(estimate(text) * FACTOR_WITH_TOOLS)


def characters(text: str) -> int:
    """What a text costs when nothing is known of the model: half as much again as it is long."""
    return -(-len(text) * 3 // 2)


def content_to_text(content: Any, *, tools: bool) -> str:
    """The text of a content in multi_llm_chat's own shape: what was said, then what tools did."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        said = [part.get("content", "") for part in parts if part.get("type") == "text"]
        done = _tools(parts) if tools else ()
        return " ".join(text for text in (*said, *done) if text)
    return "" if content is None else str(content)


def _tools(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        match part:
            case {"type": "tool_call", "content": {**call}}:
                yield _named(call.get("name"), call.get("arguments"))
            case {"type": "tool_result"}:
                yield _named(part.get("name"), part.get("content"))


def _named(name: Any, payload: Any) -> str:
    if payload is not None and not isinstance(payload, str):
        payload = json.dumps(payload, ensure_ascii=False, sort_keys=True)
    return " ".join(text for text in (name, payload) if text)
