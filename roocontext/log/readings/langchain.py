"""Messages of LangChain: the type of a message, and the fields of its object.

If JSON cannot hold a message exactly, `raw` is what LangGraph's serializer wrote of it, and the
fields are its readable part.
"""

from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
    as_dict,
    attached,
    calls,
    dicts,
    expect,
    expect_role,
    image,
    image_at,
    in_parts,
    side_of,
    string,
    strings,
    text,
    texts,
    tool_result,
    tool_use,
)

_ROLES: Final = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    **dict.fromkeys(("tool", "ToolMessageChunk", "function", "FunctionMessageChunk"), "tool"),
}
"""The roles of the types; the messages of all other types are the user's."""


def role_of(content: object) -> str:
    """The role of a message by its type, or by the role that a `ChatMessage` names."""
    kind = string(as_dict(content), "type")
    if kind in {"chat", "ChatMessageChunk"}:
        named = string(_data(content), "role")
        return named if named in {"assistant", "system"} else "user"
    return _ROLES.get(kind, "user")


class _LangChain(ItemReader):
    roles = ("user", "assistant", "tool", "system")

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        expect(content, "content", dict)
        expect(as_dict(content).get("type"), "content.type", str)
        expect(as_dict(content).get("data"), "content.data", dict)
        expect_role(role, role_of(content))

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        data = _data(content)
        if role == "tool":
            # The older function messages have no ids: the name of the function takes its place.
            tool_id = string(data, "tool_call_id") or string(data, "name")
            is_error = data.get("status") == "error"
            return "user", [tool_result(tool_id, in_parts(data.get("content")), is_error=is_error)]
        listed = _calls(data)
        ids = {call["id"] for call in listed}
        parts = _parts(data.get("content"))
        blocks = [
            _part(part) for part in parts if not (_is_call(part) and string(part, "id") in ids)
        ]
        return side_of(role), [*blocks, *listed]

    def is_output(self, item: Block) -> bool:
        return role_of(item) == "tool"

    def cleared(self, item: Block, placeholder: str) -> Block:
        fields = {key: value for key, value in item.items() if key != "raw"}
        return {**fields, "data": {**_data(item), "content": placeholder}}

    def bare(self, item: Block) -> Block:
        data = _data(item)
        bare: Block = {"content": REDACTED, **strings(data, "id", "tool_call_id", "status", "role")}
        if self.is_output(item):
            bare |= strings(data, "name")
        elif asked := _asked(item):
            bare["tool_calls"] = [
                {"name": string(call, "name"), "args": {}, "id": call["id"], "type": "tool_call"}
                for call in asked
            ]
        return {**strings(item, "type", "channel"), "data": bare}

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        kind = "ai" if role == "assistant" else "human"
        return role, {"type": kind, "data": {"content": text}}

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        call = _asked(content)[number]
        data = {
            "content": in_parts(output),
            "name": string(call, "name"),
            "tool_call_id": call["id"],
            **({"status": "error"} if is_error else {}),
        }
        return "tool", {"type": "tool", "data": data}


def _data(content: object) -> Block:
    return as_dict(as_dict(content).get("data"))


def _asked(content: object) -> list[Block]:
    """The calls that the agent has to answer; an older message has them in its content alone."""
    blocks = LANGCHAIN.blocks("assistant", content)[1]
    return [blocks[index] for index, _ in calls(blocks)]


def _calls(data: Block) -> list[Block]:
    """The calls of a message; arguments that LangChain could not parse are shown as they are."""
    parsed = [(call, as_dict(call.get("args"))) for call in dicts(data.get("tool_calls"))]
    broken = dicts(data.get("invalid_tool_calls"))
    return [
        tool_use(string(call, "id"), string(call, "name"), arguments)
        for call, arguments in (
            *parsed,
            *((call, {"arguments": call.get("args")}) for call in broken),
        )
    ]


def _is_call(part: Block) -> bool:
    """Return True for a call in the content: the provider's package also lists it separately."""
    return string(part, "type") in {"tool_use", "tool_call", "tool_call_chunk", "function_call"}


def _parts(value: object) -> list[Block]:
    if isinstance(value, str):
        return texts(value)
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
            return image_at(url)
    return None


LANGCHAIN: Final[Reader] = _LangChain()
