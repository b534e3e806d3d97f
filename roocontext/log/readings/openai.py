"""Messages of OpenAI's Chat Completions API: an object with its content and its calls."""

from typing import Any, Final

from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
    as_dict,
    attached,
    check_message,
    dicts,
    expect,
    expect_role,
    file_at,
    image_at,
    in_parts,
    parse_arguments,
    string,
    strings,
    text,
    texts,
    tool_result,
    tool_use,
    words,
)

_RESULTS: Final = {"tool": "tool_call_id", "function": "name"}
"""The roles of results, and what names the call. The older API has neither ids nor `tool_calls`."""


class _OpenAI(ItemReader):
    roles = ("user", "assistant", "tool", "system", "developer", "function")

    def check(self, role: str, content: object) -> None:
        expect_role(role, *self.roles)
        value = as_dict(content).get("content")
        lists = ["tool_calls"] if isinstance(value, str) else ["content", "tool_calls"]
        check_message(role, content, lists, own="openai")
        if role == "function":  # else nothing in the content says that it is a result
            expect(as_dict(content).get("role"), "content.role", str)

    def blocks(self, role: str, content: object) -> RoleAndBlocks:
        message = as_dict(content)
        value = message.get("content")
        if role in _RESULTS:
            output = value if isinstance(value, str) else _parts(value)
            return "user", [tool_result(string(message, _RESULTS[role]), output)]
        if role == "assistant":
            parts = [*_parts(value), *map(chat_block, outside_content(message))]
            if sources := dicts(message.get("annotations")):
                parts[:1] = [{**part, "citations": sources} for part in parts[:1]]
            parts = [*_thoughts(message), *parts]
            return role, [*parts, *map(call_block, calls_of(message))]
        return "user", _parts(value)

    def is_output(self, item: Block) -> bool:
        unsaid = "tool" if "tool_call_id" in item else "user"
        return item.get("role", unsaid) in _RESULTS

    def bare(self, item: Block) -> Block:
        bare: Block = strings(item, "role", "tool_call_id", "name")
        if "content" in item:
            bare["content"] = None if item["content"] is None else REDACTED
        if isinstance(item.get("tool_calls"), list):
            bare["tool_calls"] = [_bare_call(call) for call in dicts(item["tool_calls"])]
        if isinstance(item.get("function_call"), dict):
            bare["function_call"] = _bare_call({"function": item["function_call"]})["function"]
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


def calls_of(message: Block) -> list[Block]:
    """List a message's calls. A call of the older API has no id: its name takes the id's place."""
    asked = message.get("function_call")
    older = [{"id": string(asked, "name"), "function": asked}] if isinstance(asked, dict) else []
    return [*dicts(message.get("tool_calls")), *older]


def call_block(call: Block) -> Block:
    """Show one of the calls as a block."""
    tool_id = string(call, "id")
    if custom := as_dict(call.get("custom")):
        return tool_use(tool_id, string(custom, "name"), {"input": custom.get("input")})
    function = as_dict(call.get("function"))
    return tool_use(tool_id, string(function, "name"), parse_arguments(function.get("arguments")))


def chat_block(part: Block) -> Block:
    """Show a part of the content as a block."""
    match part:
        case {"text": str(value)} | {"refusal": str(value)}:
            return text(value)
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            return image_at(url)
        case {"file": {"file_data": str(data)} as file}:
            return file_at(data, string(as_dict(file), "filename"))
        case {"document_url": {"url": str(url)}} | {"document_url": str(url)}:
            return file_at(url)
        case {"type": "thinking", "thinking": list(inner)}:
            return _thought("".join(string(it, "text") for it in dicts(inner)))
    return attached(part.get("type"))


def _thoughts(message: Block) -> list[Block]:
    """The reasoning that servers compatible with OpenAI's API return in fields of their own."""
    thinking = string(message, "reasoning_content") or string(message, "reasoning")
    details = dicts(message.get("reasoning_details"))
    thinking = thinking or "".join(
        string(detail, "text") or string(detail, "summary") for detail in details
    )
    return [_thought(thinking)] if thinking else []


def _thought(said: str) -> Block:
    return {"type": "thinking", "thinking": said}


def outside_content(message: Block) -> list[Block]:
    """List an assistant's words outside of its content, as parts: a refusal, or speech."""
    refusal, audio = string(message, "refusal"), message.get("audio")
    parts: list[Block] = [{"type": "refusal", "refusal": refusal}] if refusal else []
    if isinstance(audio, dict):
        transcript = string(audio, "transcript")
        parts.append(text(transcript) if transcript else {"type": "audio", "audio": audio})
    return parts


def _parts(value: object) -> list[Block]:
    return texts(value) if isinstance(value, str) else list(map(chat_block, dicts(value)))


def _bare_call(call: Block) -> Block:
    fields = strings(call, "id", "type")
    if custom := as_dict(call.get("custom")):
        return {**fields, "custom": {**strings(custom, "name"), "input": ""}}
    function = strings(as_dict(call.get("function")), "name")
    return {**fields, "function": {**function, "arguments": "{}"}}


OPENAI: Final[Reader] = _OpenAI()
