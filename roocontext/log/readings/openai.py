"""Messages of OpenAI's Chat Completions API: an object with content, and calls beside it."""

import json
import re
from collections.abc import Collection
from typing import Any, Final

from roocontext.log.encoding import encode
from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    Reader,
    as_dict,
    attached,
    check_message,
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
    words,
)

_RESULTS: Final = {"tool": "tool_call_id", "function": "name"}
"""The roles of results, and what names the call. The older API has neither ids nor `tool_calls`."""

DATA_URL: Final = re.compile(r"data:([^;,]+)[^,]*;base64,(.*)", re.DOTALL)


class _OpenAI:
    roles = ("user", "assistant", "tool", "system", "developer", "function")
    answers_by_id = False

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        value = as_dict(content).get("content")
        lists = ["tool_calls"] if isinstance(value, str) else ["content", "tool_calls"]
        check_message(role, content, lists, own="openai")
        if role == "function":  # else nothing in the content says that it is a result
            expect(as_dict(content).get("role"), "content.role", str)

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        message = as_dict(content)
        value = message.get("content")
        if role in _RESULTS:
            output = value if isinstance(value, str) else self._parts(value)
            return "user", [tool_result(string(message, _RESULTS[role]), output)]
        if role == "assistant":
            shown = [*self._parts(value), *map(self._part, beside_content(message))]
            return role, [*shown, *map(self._call, calls_of(message))]
        return "user", self._parts(value)

    def outputs(self, content: object) -> tuple[int, ...]:
        message = as_dict(content)
        unsaid = "tool" if "tool_call_id" in message else "user"
        return (0,) if message.get("role", unsaid) in _RESULTS else ()

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
        if isinstance(message.get("function_call"), dict):
            bare["function_call"] = self._bare({"function": message["function_call"]})["function"]
        return bare

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        return role, {"role": role, "content": text}

    def answer(self, content: object, number: int, output: object, **_: bool) -> tuple[str, Any]:
        call = calls_of(as_dict(content))[number]
        if "type" not in call and "function_call" in as_dict(content):
            named = {"role": "function", "name": string(call, "id")}
            return "function", {**named, "content": words(output)}
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

    def _parts(self, value: object) -> list[Block]:
        if isinstance(value, str):
            return [text(value)] if value else []
        return [self._part(part) for part in dicts(value)]

    def _part(self, part: Block) -> Block:
        match part:
            case {"text": str(value)} | {"refusal": str(value)}:
                return text(value)
            case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
                if inline := DATA_URL.fullmatch(url):
                    return image(inline[1], inline[2])
                return {"type": "image", "source": {"type": "url", "url": url}}
        return attached(part.get("type"))


def calls_of(message: Block) -> list[Block]:
    """List a message's calls; that of the older API, which has no id, is known by its name."""
    asked = message.get("function_call")
    older = [{"id": string(asked, "name"), "function": asked}] if isinstance(asked, dict) else []
    return [*dicts(message.get("tool_calls")), *older]


def beside_content(message: Block) -> list[Block]:
    """List an assistant's words outside of its content, as parts: a refusal, or speech."""
    refusal, audio = string(message, "refusal"), message.get("audio")
    parts: list[Block] = [{"type": "refusal", "refusal": refusal}] if refusal else []
    if isinstance(audio, dict):
        transcript = string(audio, "transcript")
        parts.append(text(transcript) if transcript else {"type": "audio", "audio": audio})
    return parts


def parse_arguments(raw: object) -> Block:
    """Parse a call's arguments, which a model may have left broken or cut off."""
    try:
        parsed = json.loads(raw) if isinstance(raw, str) else raw
        encode(parsed)  # values that cannot be stored, such as NaN, could not be sent either
    except (ValueError, RecursionError):
        return {"arguments": raw}
    return parsed if isinstance(parsed, dict) else {"arguments": raw}


OPENAI: Final[Reader] = _OpenAI()
