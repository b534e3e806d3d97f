"""Messages of pydantic-ai, as its `ModelMessagesTypeAdapter` writes them: an object with parts."""

from collections.abc import Collection
from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    as_dict,
    attached,
    dicts,
    expect,
    expect_role,
    image,
    string,
    strings,
    text,
    tool_result,
    tool_use,
    words,
)
from roocontext.log.readings.openai import parse_arguments

_KINDS: Final = {"user": "request", "assistant": "response"}
_TEXTS: Final = ("text", "user-prompt", "system-prompt", "retry-prompt", "retry-feedback")
_OWN: Final = ("part_kind", "tool_name", "tool_call_id")
"""The fields of a part that a redaction leaves."""


class _PydanticAI:
    roles = tuple(_KINDS)
    answers_by_id = False

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        expect(content, "content", dict)
        if as_dict(content).get("kind") != _KINDS[role]:
            raise InvalidMessage(
                f"content.kind must be {_KINDS[role]} for the role {role}.", path="content.kind"
            )
        parts = as_dict(content).get("parts")
        expect(parts, "content.parts", list)
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            expect(part, f"content.parts[{index}]", dict)
            expect(part.get("part_kind"), f"content.parts[{index}].part_kind", str)

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        return role, [block for part in _parts(content) for block in _blocks(part)]

    def outputs(self, content: object) -> tuple[int, ...]:
        return tuple(i for i, part in enumerate(_parts(content)) if _answers(part))

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        cleared = set(indices) & set(self.outputs(content))
        parts = [
            {**part, "content": placeholder} if index in cleared else part
            for index, part in enumerate(_parts(content))
        ]
        return {**as_dict(content), "parts": parts} if cleared else content

    def skeleton(self, content: object) -> object:
        is_reply = as_dict(content).get("kind") == "response"
        parts = [_bare(part, is_reply=is_reply) for part in _parts(content)]
        return {**strings(as_dict(content), "kind"), "parts": parts}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        kind = "text" if role == "assistant" else "user-prompt"
        return role, {"kind": _KINDS[role], "parts": [{"content": text, "part_kind": kind}]}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        call = [part for part in _parts(content) if part.get("part_kind") == "tool-call"][number]
        part = {
            **strings(call, "tool_name", "tool_call_id"),
            "content": output,
            "outcome": "failed" if is_error else "success",
            "part_kind": "tool-return",
        }
        return "user", {"kind": "request", "parts": [part]}


def _parts(content: object) -> list[Block]:
    return dicts(as_dict(content).get("parts"))


def _answers(part: Block) -> bool:
    """Whether a part is the output of a tool; a retry was one in older versions."""
    kind = part.get("part_kind")
    return kind == "tool-return" or (kind == "retry-prompt" and bool(part.get("tool_name")))


def _blocks(part: Block) -> list[Block]:
    kind, content = part.get("part_kind"), part.get("content")
    if _answers(part):
        result = tool_result(string(part, "tool_call_id"), words(content))
        failed = part.get("outcome", "success") != "success" or kind == "retry-prompt"
        return [{**result, "is_error": True} if failed else result]
    if kind == "tool-call":
        name = string(part, "tool_name")
        args = part.get("args")
        arguments = parse_arguments(args) if isinstance(args, str) else as_dict(args)
        return [tool_use(string(part, "tool_call_id"), name, arguments)]
    if kind == "thinking":
        return []  # bound to its provider: the framework sends it, and no form of ours does
    if kind == "file":
        return [_shown(content)]
    if kind in _TEXTS or (kind == "compaction" and content):
        items = content if isinstance(content, list) and kind == "user-prompt" else [content]
        return [block for block in map(_shown, items) if block != text("")]
    return [{"type": str(kind), str(kind): {k: v for k, v in part.items() if k != "part_kind"}}]


def _shown(item: object) -> Block:
    """A text or an attachment of a prompt."""
    match item:
        case {"kind": "text-content", "content": str(value)}:
            return text(value)
        case {"kind": "image-url", "url": str(url)}:
            return {"type": "image", "source": {"type": "url", "url": url}}
        case {"kind": "binary", "media_type": str(mime), "data": str(data)}:
            return image(mime, _standard_base64(data)) if mime[:6] == "image/" else attached(mime)
        case {"kind": str(kind)}:
            return attached(kind)
    return text(words(item))


def _bare(part: Block, *, is_reply: bool) -> Block:
    kept = strings(part, *_OWN)
    if part.get("part_kind") == "tool-call":
        return {**kept, "args": {}}
    if _answers(part):
        return {**kept, "content": REDACTED}
    # As a text, which the framework can load: other kinds need fields that are gone.
    return {"part_kind": "text" if is_reply else "user-prompt", "content": REDACTED}


def _standard_base64(data: str) -> str:
    """Convert base64 from the URL alphabet, which other providers refuse."""
    return data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)


PYDANTIC_AI: Final = _PydanticAI()
