"""multi_llm_chat's functions on its own list of messages, replicated for the vectors."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from roocontext.policies.situation import TooLarge
from roocontext.programs.multi_llm_chat.policy import Weighed, start_of_answers, tokens_of

Entry: TypeAlias = Mapping[str, Any]
"""One of the program's messages: its `role` and `content`."""


Count: TypeAlias = Callable[[Any], int]
"""What a content costs; of the system prompt too."""


def validate_system_prompt_length(
    system_prompt: str | None, max_tokens: int, count: Count
) -> TooLarge | None:
    """The error if the system prompt alone is over the limit; None if it is valid or missing."""
    needed = _system(system_prompt, count)
    return TooLarge("system", needed, max_tokens) if system_prompt and needed > max_tokens else None


def validate_context_length(
    history: Sequence[Entry], max_tokens: int, count: Count, system_prompt: str | None = None
) -> TooLarge | None:
    """The error if the newest turn with the system prompt is over the limit; None is valid.

    Behind anything but a question or answers it finds no turn, and counts nothing for it.
    """
    entries = _weigh(history, count)
    start = start_of_answers(entries, len(entries))
    if start and entries[start - 1].role == "user":
        start -= 1
    needed = _system(system_prompt, count) + tokens_of(entries[start:])
    part = "turn" if history else "system"
    return TooLarge(part, needed, max_tokens) if needed > max_tokens else None


def _weigh(history: Sequence[Entry], count: Count) -> list[Weighed]:
    return [Weighed(entry["role"], count(entry.get("content", ""))) for entry in history]


def _system(prompt: str | None, count: Count) -> int:
    return count(prompt) if prompt else 0


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
