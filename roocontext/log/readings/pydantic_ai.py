"""Messages of pydantic-ai, as its `ModelMessagesTypeAdapter` writes them: an object with parts."""

from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    RoleAndBlocks,
    as_dict,
    attached,
    expect,
    expect_role,
    image,
    parse_arguments,
    standard_base64,
    string,
    strings,
    text,
    tool_result,
    tool_use,
    words,
)

_KINDS: Final = {"user": "request", "assistant": "response"}
_TEXTS: Final = ("text", "user-prompt", "system-prompt", "retry-prompt", "retry-feedback")
_OWN: Final = ("part_kind", "tool_name", "tool_call_id")
"""The fields of a part that a redaction keeps."""


class _PydanticAI(ItemReader):
    roles = tuple(_KINDS)
    list_key = "parts"

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        expect(content, "content", dict)
        fields = as_dict(content)
        if fields.get("kind") != _KINDS[role]:
            raise InvalidMessage(
                f"content.kind must be {_KINDS[role]} for the role {role}.", path="content.kind"
            )
        expect(fields.get("parts"), "content.parts", list)
        for index, part in enumerate(fields["parts"]):
            expect(part, f"content.parts[{index}]", dict)
            expect(part.get("part_kind"), f"content.parts[{index}].part_kind", str)

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        return role, [block for part in self.items(content) for block in _blocks(part)]

    def is_output(self, item: Block) -> bool:
        # In older versions a retry was the output of a tool.
        kind = item.get("part_kind")
        return kind == "tool-return" or (kind == "retry-prompt" and bool(item.get("tool_name")))

    def skeleton(self, content: object) -> object:
        # As a text, which the framework can load: other kinds need fields that are gone.
        kind = "text" if as_dict(content).get("kind") == "response" else "user-prompt"
        parts = [
            bare if (bare := self.bare(part)) else {"part_kind": kind, "content": REDACTED}
            for part in self.items(content)
        ]
        return {**strings(as_dict(content), "kind"), "parts": parts}

    def bare(self, item: Block) -> Block:
        """Reduce a call or an output to its skeleton; other parts have none."""
        if item.get("part_kind") == "tool-call":
            return {**strings(item, *_OWN), "args": {}}
        return {**strings(item, *_OWN), "content": REDACTED} if self.is_output(item) else {}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        kind = "text" if role == "assistant" else "user-prompt"
        return role, {"kind": _KINDS[role], "parts": [{"content": text, "part_kind": kind}]}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        call = [part for part in self.items(content) if part.get("part_kind") == "tool-call"][
            number
        ]
        part = {
            **strings(call, "tool_name", "tool_call_id"),
            "content": output,
            "outcome": "failed" if is_error else "success",
            "part_kind": "tool-return",
        }
        return "user", {"kind": "request", "parts": [part]}


def _blocks(part: Block) -> list[Block]:
    kind, content = part.get("part_kind"), part.get("content")
    if PYDANTIC_AI.is_output(part):
        is_error = part.get("outcome", "success") != "success" or kind == "retry-prompt"
        tool_id = string(part, "tool_call_id")
        return [tool_result(tool_id, words(content), is_error=is_error)]
    if kind == "tool-call":
        name = string(part, "tool_name")
        args = part.get("args")
        arguments = parse_arguments(args) if isinstance(args, str) else as_dict(args)
        return [tool_use(string(part, "tool_call_id"), name, arguments)]
    if kind == "thinking":
        return []  # bound to its provider: the framework sends it, but no form does
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
            return image(mime, standard_base64(data)) if mime[:6] == "image/" else attached(mime)
        case {"kind": str(kind)}:
            return attached(kind)
    return text(words(item))


PYDANTIC_AI: Final = _PydanticAI()
