"""What a role, a call, a result and a text is, in each foreign format.

The log keeps a message exactly as its agent wrote it. Whatever else needs to know what stands in it
asks that format's reader, which shows it as Anthropic's role and blocks. A reader never changes a
content, never refuses what could be a message, and fails on nothing that `check` lets through:
what it does not know, or what is typed wrongly, it leaves alone.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

from roocontext.errors import InvalidMessage
from roocontext.log.encoding import encode

Block: TypeAlias = dict[str, Any]

REDACTED: Final = "[redacted]"

_Counters: TypeAlias = defaultdict[str, "count[int]"]

_RESPONSES_ITEM: Final = re.compile(
    r"message|reasoning|item_reference|mcp_list_tools|mcp_approval_re(?:quest|sponse)"
    r"|\w*_call(?:_output)?"
)
"""The types of OpenAI's Responses items. No block of Anthropic's has such a type."""

_DATA_URL: Final = re.compile(r"data:([^;,]+)[^,]*;base64,(.*)", re.DOTALL)


class Reader(Protocol):
    """One format. Contents are read, and copied where something is replaced; never changed."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Who may speak in it."""

    def check(self, role: str, content: object) -> None:
        """Raise InvalidMessage when this cannot be a message of the format."""

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        """Read the message as Anthropic's role and blocks."""

    def outputs(self, content: object) -> tuple[int, ...]:
        """List the indices of the blocks that are tool outputs, which is what can be cleared."""

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        """Copy the content with the placeholder in those tool outputs."""

    def skeleton(self, content: object) -> object:
        """Reduce the content to what a redaction leaves: role, types, tool ids and names."""


def reader(name: str, /) -> Reader:
    """Find the reader of a format."""
    if not isinstance(name, str) or name not in READERS:
        raise InvalidMessage(f"format must be one of {', '.join(sorted(READERS))}.", path="format")
    return READERS[name]


def calls(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool call that waits for a result in the next message."""
    return _tools(blocks, "tool_use", "id")


def results(blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """List the index and id of each tool result."""
    return _tools(blocks, "tool_result", "tool_use_id")


def text_of(blocks: Sequence[Block]) -> str:
    """Join all that can be read: what was said, and what tools put out."""
    return "\n".join(_texts(blocks))


def _tools(blocks: Sequence[Block], kind: str, key: str) -> list[tuple[int, str]]:
    return [
        (index, block[key])
        for index, block in enumerate(blocks)
        if block.get("type") == kind and isinstance(block.get(key), str)
    ]


def _texts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case {"type": "text", "text": str(said)} | {
                "type": "tool_result",
                "content": str(said),
            }:
                yield said
            case {"type": "tool_result", "content": list(parts)}:
                yield from _texts(_dicts(parts))


class _Anthropic:
    roles = ("user", "assistant")

    def check(self, role: str, content: object) -> None:
        _expect_role(role, *self.roles)
        if _dict(content).get("type") != "message":  # which may be a response of Anthropic's too
            _refuse_item(content, "content")
        _expect(content, "content", str, list)
        if isinstance(content, list):
            _check_list(content, "content")
            for index, block in enumerate(content):
                _expect(block.get("type"), f"content[{index}].type", str)
                if isinstance(block.get("content"), list):
                    _check_types(block["content"], f"content[{index}].content")

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        blocks = [_text(content)] if isinstance(content, str) else _dicts(content)
        return "assistant" if role == "assistant" else "user", blocks

    def outputs(self, content: object) -> tuple[int, ...]:
        return tuple(index for index, _ in results(_dicts(content)))

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        if not isinstance(content, list):
            return content
        chosen = set(indices) & set(self.outputs(content))
        return [
            {**block, "content": placeholder} if index in chosen else block
            for index, block in enumerate(content)
        ]

    def skeleton(self, content: object) -> object:
        if isinstance(content, list):
            return [self._bare(block) for block in _dicts(content)]
        return REDACTED

    def _bare(self, block: Block) -> Block:
        match block:
            case {"type": "text"}:
                return _text(REDACTED)
            case {"type": "tool_use"}:
                return {**_strings(block, "type", "id", "name"), "input": {}}
            case {"type": "tool_result"}:
                flag = {k: v for k, v in block.items() if k == "is_error" and isinstance(v, bool)}
                return {**_strings(block, "type", "tool_use_id"), "content": REDACTED, **flag}
        return _strings(block, "type")


class _OpenAI:
    roles = ("user", "assistant", "tool", "system", "developer", "function")

    def check(self, role: str, content: object) -> None:
        _expect_role(role, *self.roles)
        said = _dict(content).get("content")
        lists = ["tool_calls"] if isinstance(said, str) else ["content", "tool_calls"]
        _check_message(role, content, lists)

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        message = _dict(content)
        said = message.get("content")
        if role == "tool":
            output = said if isinstance(said, str) else self._parts(said)
            return "user", [_tool_result(_string(message, "tool_call_id"), output)]
        if role == "assistant":
            calls = map(self._call, _dicts(message.get("tool_calls")))
            return role, [*self._parts(said), *self._parts(message.get("refusal")), *calls]
        return "user", self._parts(said)

    def outputs(self, content: object) -> tuple[int, ...]:
        message = _dict(content)
        unsaid = "tool" if "tool_call_id" in message else "user"
        return (0,) if message.get("role", unsaid) == "tool" else ()

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        chosen = set(indices) & set(self.outputs(content))
        return {**_dict(content), "content": placeholder} if chosen else content

    def skeleton(self, content: object) -> object:
        message = _dict(content)
        bare: Block = _strings(message, "role", "tool_call_id", "name")
        if "content" in message:
            bare["content"] = None if message["content"] is None else REDACTED
        if isinstance(message.get("tool_calls"), list):
            bare["tool_calls"] = [self._bare(call) for call in _dicts(message["tool_calls"])]
        return bare

    def _bare(self, call: Block) -> Block:
        function = {**_strings(_dict(call.get("function")), "name"), "arguments": "{}"}
        return {**_strings(call, "id", "type"), "function": function}

    def _call(self, call: Block) -> Block:
        function = _dict(call.get("function"))
        arguments = _arguments(function.get("arguments"))
        return _tool_use(_string(call, "id"), _string(function, "name"), arguments)

    def _parts(self, said: object) -> list[Block]:
        if isinstance(said, str):
            return [_text(said)] if said else []
        return [self._part(part) for part in _dicts(said)]

    def _part(self, part: Block) -> Block:
        match part:
            case {"text": str(said)} | {"refusal": str(said)}:
                return _text(said)
            case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
                if inline := _DATA_URL.fullmatch(url):
                    return _image(inline[1], inline[2])
                return {"type": "image", "source": {"type": "url", "url": url}}
        return _attached(part.get("type"))


class _Gemini:
    # The wire spells names in camelCase; what google-genai dumps without aliases is snake_case.
    # Both are stored as they came, and read as the wire's.

    roles = ("user", "model", "function", "system")

    def check(self, role: str, content: object) -> None:
        _expect_role(role, *self.roles)
        _check_message(role, content, ["parts"])

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        # Calls and responses without ids are numbered by name, each in its own message: as the
        # two messages stand side by side, equal numbers meet.
        nameless: _Counters = defaultdict(count)
        read = (self._block(part, nameless) for part in self._parts(content))
        blocks = [block for block in read if block is not None]
        return "assistant" if role == "model" else "user", blocks

    def outputs(self, content: object) -> tuple[int, ...]:
        parts = enumerate(self._parts(content))
        return tuple(i for i, part in parts if self._response_key(part) is not None)

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        parts = self._parts(content).copy()
        for index in set(indices) & set(self.outputs(content)):
            if key := self._response_key(parts[index]):
                response = {**parts[index][key], "response": {"output": placeholder}}
                parts[index] = {**parts[index], key: response}
        return {**_dict(content), "parts": parts} if parts else content

    def skeleton(self, content: object) -> object:
        parts = [self._bare(part) for part in self._parts(content)]
        return {**_strings(_dict(content), "role"), "parts": parts}

    def _parts(self, content: object) -> list[Block]:
        return _dicts(_dict(content).get("parts"))

    def _response_key(self, part: Block) -> str | None:
        keys = ("functionResponse", "function_response")
        key = next((key for key in keys if part.get(key) is not None), None)
        return key if key and isinstance(part[key], dict) else None

    def _bare(self, part: Block) -> Block:
        part = _as_sent(part)
        match part:
            case {"functionResponse": dict(response)}:
                output = {"output": REDACTED}
                named = _strings(response, "id", "name")
                return {"functionResponse": {**named, "response": output}}
            case {"functionCall": dict(call)}:
                return {"functionCall": {**_strings(call, "id", "name"), "args": {}}}
            case {"thought": True}:
                return {"text": REDACTED, "thought": True}
            case {"inlineData": _} | {"fileData": _}:
                return {key: {} for key in ("inlineData", "fileData") if key in part}
        return {"text": REDACTED}

    def _block(self, part: Block, nameless: _Counters) -> Block | None:
        part = _as_sent(part)
        match part:
            case {"functionResponse": dict(response)}:
                output = _compact(response.get("response"))
                return _tool_result(self._id(response, nameless), output)
            case {"functionCall": dict(call)}:
                arguments = _dict(call.get("args"))
                return _tool_use(self._id(call, nameless), _string(call, "name"), arguments)
            case {"thought": True}:
                return None
        return self._said(part)

    def _id(self, tool: Block, nameless: _Counters) -> str:
        name = _string(tool, "name")
        return _string(tool, "id") or f"{name}#{next(nameless[name])}"

    def _said(self, part: Block) -> Block | None:
        match part:
            case {"text": str(said)} if said:
                return _text(said)
            case {"inlineData": {"mimeType": str(mime), "data": str(data)}} if mime[:6] == "image/":
                return _image(mime, _standard_base64(data))
            case {"inlineData": media} | {"fileData": media}:
                return _attached(_dict(media).get("mimeType"))
            case {"executableCode": code} | {"codeExecutionResult": code}:
                return _text(_compact(code))
        return None


_SENT_AS: Final = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "mime_type": "mimeType",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
}


def _as_sent(part: Block) -> Block:
    """Show a part under the names of the wire, without the fields that are null."""
    given = {key: value for key, value in part.items() if value is not None}
    named = {_SENT_AS[key]: value for key, value in given.items() if key in _SENT_AS} | given
    for key in ("inlineData", "fileData"):
        if isinstance(named.get(key), dict):
            named[key] = _as_sent(named[key])
    return named


def _standard_base64(data: str) -> str:
    """Bytes in an SDK's dump are in the alphabet for URLs, which other providers refuse."""
    return data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)


READERS: Final[dict[str, Reader]] = {
    "anthropic": _Anthropic(),
    "openai": _OpenAI(),
    "gemini": _Gemini(),
}


def _text(said: str) -> Block:
    return {"type": "text", "text": said}


def _image(mime: str, data: str) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def _attached(kind: object) -> Block:
    return _text(f"[{kind if isinstance(kind, str) else 'file'} attached]")


def _tool_use(tool_id: str, name: str, arguments: Block) -> Block:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def _tool_result(tool_id: str, output: object) -> Block:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": output}


def _arguments(raw: object) -> Block:
    """Parse a call's arguments, which a model may have left broken or cut off."""
    try:
        parsed = json.loads(raw) if isinstance(raw, str) else raw
        encode(parsed)  # what could not be stored, NaN for one, could not be sent either
    except (ValueError, RecursionError):
        return {"arguments": raw}
    return parsed if isinstance(parsed, dict) else {"arguments": raw}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _dict(value: object) -> Block:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Block]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _string(holder: Block, key: str) -> str:
    return str(_strings(holder, key).get(key, ""))


def _strings(holder: Block, *keys: str) -> Block:
    return {key: holder[key] for key in keys if isinstance(holder.get(key), str)}


def _expect(value: object, path: str, *kinds: type) -> None:
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidMessage(f"{path} must be {wanted}, not {type(value).__name__}.", path=path)


def _expect_role(role: str, *known: str) -> None:
    if role not in known:
        raise InvalidMessage(f"role must be one of {', '.join(known)}.", path="role")


def _check_list(value: object, path: str) -> None:
    _expect(value, path, list)
    items = value if isinstance(value, list) else []
    for index, item in enumerate(items):
        _expect(item, f"{path}[{index}]", dict)
    _check_types(items, path)


def _check_types(items: Sequence[object], path: str) -> None:
    """Refuse what has a type that says nothing, or that is no block of any format known here."""
    for index, item in enumerate(items):
        kind = _dict(item).get("type")
        if isinstance(kind, str) and not kind.strip():
            raise InvalidMessage(f"{path}[{index}].type is blank.", path=f"{path}[{index}].type")
        _refuse_item(item, f"{path}[{index}]")


def _refuse_item(item: object, path: str) -> None:
    """Refuse an item of OpenAI's Responses API, which would be stored and never be read."""
    kind = _dict(item).get("type")
    if kind == "reasoning" and isinstance(_dict(item).get("text"), str):
        return  # a block of Roo Code's; an item has no text of its own
    if isinstance(kind, str) and _RESPONSES_ITEM.fullmatch(kind):
        raise InvalidMessage(
            f"{path} is an item of OpenAI's Responses API, a format that is not supported yet:"
            " append the messages of Chat Completions.",
            path=path,
        )


def _check_message(role: str, content: object, lists: Sequence[str]) -> None:
    if isinstance(content, list):
        _check_types(content, "content")  # the items of a response say what is wrong, a list less
    _refuse_item(content, "content")
    _expect(content, "content", dict)
    message = _dict(content)
    if message.get("role", role) != role:
        raise InvalidMessage("content.role is not the role it is given.", path="content.role")
    for key in lists:
        if message.get(key) is not None:
            _check_list(message[key], f"content.{key}")
