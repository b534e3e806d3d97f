"""Messages of OpenAI's Chat Completions API: an object with content, and calls beside it."""

import json
import re
from collections.abc import Collection
from typing import Any, Final

from roocontext.log.encoding import encode
from roocontext.log.readings.blocks import (
    as_dict,
    attached,
    dicts,
    image,
    in_parts,
    string,
    strings,
    text,
    tool_result,
    tool_use,
)
from roocontext.log.readings.checks import check_message, expect_role
from roocontext.log.readings.protocol import REDACTED, Block, Reader

DATA_URL: Final = re.compile(r"data:([^;,]+)[^,]*;base64,(.*)", re.DOTALL)


class _OpenAI:
    roles = ("user", "assistant", "tool", "system", "developer", "function")

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        said = as_dict(content).get("content")
        lists = ["tool_calls"] if isinstance(said, str) else ["content", "tool_calls"]
        check_message(role, content, lists, own="openai")

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        message = as_dict(content)
        said = message.get("content")
        if role == "tool":
            output = said if isinstance(said, str) else self._parts(said)
            return "user", [tool_result(string(message, "tool_call_id"), output)]
        if role == "assistant":
            calls = map(self._call, dicts(message.get("tool_calls")))
            return role, [*self._parts(said), *self._parts(message.get("refusal")), *calls]
        return "user", self._parts(said)

    def outputs(self, content: object) -> tuple[int, ...]:
        message = as_dict(content)
        unsaid = "tool" if "tool_call_id" in message else "user"
        return (0,) if message.get("role", unsaid) == "tool" else ()

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        chosen = set(indices) & set(self.outputs(content))
        return {**as_dict(content), "content": placeholder} if chosen else content

    def skeleton(self, content: object) -> object:
        message = as_dict(content)
        bare: Block = strings(message, "role", "tool_call_id", "name")
        if "content" in message:
            bare["content"] = None if message["content"] is None else REDACTED
        if isinstance(message.get("tool_calls"), list):
            bare["tool_calls"] = [self._bare(call) for call in dicts(message["tool_calls"])]
        return bare

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, {"role": role, "content": text}

    def answer(self, content: object, number: int, output: object, **_: bool) -> tuple[str, Any]:
        call = dicts(as_dict(content).get("tool_calls"))[number]
        named = {"role": "tool", "tool_call_id": string(call, "id")}
        return "tool", {**named, "content": in_parts(output)}

    def _bare(self, call: Block) -> Block:
        if custom := as_dict(call.get("custom")):
            return {
                **strings(call, "id", "type"),
                "custom": {**strings(custom, "name"), "input": ""},
            }
        function = {**strings(as_dict(call.get("function")), "name"), "arguments": "{}"}
        return {**strings(call, "id", "type"), "function": function}

    def _call(self, call: Block) -> Block:
        custom = as_dict(call.get("custom"))
        if custom:
            return tool_use(
                string(call, "id"), string(custom, "name"), {"input": custom.get("input")}
            )
        function = as_dict(call.get("function"))
        arguments = parse_arguments(function.get("arguments"))
        return tool_use(string(call, "id"), string(function, "name"), arguments)

    def _parts(self, said: object) -> list[Block]:
        if isinstance(said, str):
            return [text(said)] if said else []
        return [self._part(part) for part in dicts(said)]

    def _part(self, part: Block) -> Block:
        match part:
            case {"text": str(said)} | {"refusal": str(said)}:
                return text(said)
            case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
                if inline := DATA_URL.fullmatch(url):
                    return image(inline[1], inline[2])
                return {"type": "image", "source": {"type": "url", "url": url}}
        return attached(part.get("type"))


def parse_arguments(raw: object) -> Block:
    """Parse a call's arguments, which a model may have left broken or cut off."""
    try:
        parsed = json.loads(raw) if isinstance(raw, str) else raw
        encode(parsed)  # what could not be stored, NaN for one, could not be sent either
    except (ValueError, RecursionError):
        return {"arguments": raw}
    return parsed if isinstance(parsed, dict) else {"arguments": raw}


OPENAI: Final[Reader] = _OpenAI()
