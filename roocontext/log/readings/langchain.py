"""Messages of LangChain: the type of a message, and the fields of its object.

What JSON does not hold exactly is in `raw`, as LangGraph's serializer wrote it; the fields then
hold what can be read.
"""

from collections.abc import Collection
from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    Reader,
    as_dict,
    attached,
    dicts,
    expect,
    expect_role,
    image,
    in_parts,
    string,
    strings,
    text,
    tool_result,
    tool_use,
)
from roocontext.log.readings.openai import DATA_URL

_ROLES: Final = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    **dict.fromkeys(("tool", "ToolMessageChunk", "function", "FunctionMessageChunk"), "tool"),
}
"""The roles of the types; all others speak for the user."""


def role_of(content: object) -> str:
    """The role of a message by its type, or by the role that a `ChatMessage` names."""
    kind = string(as_dict(content), "type")
    if kind in {"chat", "ChatMessageChunk"}:
        named = string(_data(content), "role")
        return named if named in {"assistant", "system"} else "user"
    return _ROLES.get(kind, "user")


class _LangChain:
    roles = ("user", "assistant", "tool", "system")
    answers_by_id = False

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        expect(content, "content", dict)
        expect(as_dict(content).get("type"), "content.type", str)
        expect(as_dict(content).get("data"), "content.data", dict)
        expect_role(role, role_of(content))

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        data = _data(content)
        if role == "tool":
            result = tool_result(_call_id(data), in_parts(data.get("content")))
            return "user", [{**result, "is_error": True} if _failed(data) else result]
        called = _calls(data)
        ids = {call["id"] for call in called}
        parts = _parts(data.get("content"))
        shown = [_part(part) for part in parts if not (_is_call(part) and part.get("id") in ids)]
        return ("assistant" if role == "assistant" else "user"), [*shown, *called]

    def outputs(self, content: object) -> tuple[int, ...]:
        return (0,) if role_of(content) == "tool" else ()

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        if not set(indices) & set(self.outputs(content)):
            return content
        kept = {key: value for key, value in as_dict(content).items() if key != "raw"}
        return {**kept, "data": {**_data(content), "content": placeholder}}

    def skeleton(self, content: object) -> object:
        data = _data(content)
        bare: Block = {"content": REDACTED, **strings(data, "id", "tool_call_id", "status", "role")}
        if role_of(content) == "tool":
            bare |= strings(data, "name")
        if called := _calls(data):
            bare["tool_calls"] = [
                {"name": call["name"], "args": {}, "id": call["id"], "type": "tool_call"}
                for call in called
            ]
        return {**strings(as_dict(content), "type", "channel"), "data": bare}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        kind = "ai" if role == "assistant" else "human"
        return role, {"type": kind, "data": {"content": text}}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        call = _calls(_data(content))[number]
        data = {
            "content": in_parts(output),
            "name": call["name"],
            "tool_call_id": call["id"],
            **({"status": "error"} if is_error else {}),
        }
        return "tool", {"type": "tool", "data": data}


def _data(content: object) -> Block:
    return as_dict(as_dict(content).get("data"))


def _call_id(data: Block) -> str:
    # The older function messages have no ids: the name of the function stands for it.
    return string(data, "tool_call_id") or string(data, "name")


def _failed(data: Block) -> bool:
    return data.get("status") == "error"


def _calls(data: Block) -> list[Block]:
    """The calls of a message; arguments that LangChain could not parse are shown as they are."""
    named = dicts(data.get("tool_calls"))
    broken = dicts(data.get("invalid_tool_calls"))
    return [
        tool_use(string(call, "id"), string(call, "name"), as_dict(call.get("args")))
        for call in named
    ] + [
        tool_use(string(call, "id"), string(call, "name"), {"arguments": call.get("args")})
        for call in broken
    ]


def _is_call(part: Block) -> bool:
    """Whether a part of the content is a call, which the provider's package also lists apart."""
    return string(part, "type") in {"tool_use", "tool_call", "tool_call_chunk", "function_call"}


def _parts(value: object) -> list[Block]:
    if isinstance(value, str):
        return [text(value)] if value else []
    listed = value if isinstance(value, list) else []
    return [text(part) if isinstance(part, str) else as_dict(part) for part in listed]


def _part(part: Block) -> Block:
    match part:
        case {"type": "thinking" | "redacted_thinking" | "tool_use"} | {
            "type": "image" | "document",
            "source": dict(),
        }:
            return part
        case {"type": "reasoning", "reasoning": str(thought)}:
            return {"type": "thinking", "thinking": thought}
        case {"text": str(value)} | {"refusal": str(value)}:
            return text(value)
    return _image(part) or attached(part.get("type"))


def _image(part: Block) -> Block | None:
    match part:
        case {"type": "image", "base64": str(data), "mime_type": str(mime)} | {
            "type": "image",
            "data": str(data),
            "mime_type": str(mime),
        }:
            return image(mime, data)
        case (
            {"image_url": {"url": str(url)}}
            | {"image_url": str(url)}
            | {"type": "image", "url": str(url)}
        ):
            if inline := DATA_URL.fullmatch(url):
                return image(inline[1], inline[2])
            return {"type": "image", "source": {"type": "url", "url": url}}
    return None


LANGCHAIN: Final[Reader] = _LangChain()
