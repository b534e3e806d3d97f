"""The form of OpenAI's Chat Completions.

Each message with calls is followed by one `tool` message for each of them. A row is a message of
its own, unless it has calls and earlier calls are still unanswered: such rows are merged. Images of
results are sent as a user message after all the results.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.block_rules import is_utf8
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    RequestState,
    outputs_of,
    stored,
    texts_in,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import Function, chat_tools, system_text
from roocontext.log.readings import Block, read_message
from roocontext.log.readings.blocks import as_dict, compact_json, dicts, string
from roocontext.log.readings.openai import call_block, calls_of, chat_block, outside_content

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

_FIELDS: Final = {
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"}
    | {"annotations"},  # every reply has it, and it is accepted back
    "tool": {"role", "content", "tool_call_id"},
}
_USUAL: Final = {"role", "content", "name"}

_PARTS: Final = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}


def image_url(image: Block) -> str:
    """The URL of an image; it may be a data URL."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return string(source, "url")


def is_openai_image(image: Block) -> bool:
    """Return True if OpenAI accepts this image."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return source.get("media_type") in _IMAGES and isinstance(source.get("data"), str)
    return string(source, "url").startswith(("http://", "https://"))


class _Chat(ProviderForm):
    format = "openai"
    # 40 characters: agno-agi/agno#5382. Anthropic's and the Responses API's ids may be longer.
    tool_id = re.compile(r"[a-zA-Z0-9_.:-]{1,40}")
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}")

    def messages(
        self,
        turns: Sequence[OutgoingTurn],
        state: RequestState,  # noqa: ARG002 - no rule needs it
    ) -> list[dict[str, Any]]:
        return [message for turn in turns for message in _messages(turn)]

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        return chat_tools(functions)

    def framed(
        self,
        messages: list[dict[str, Any]],
        system: Any,
        tools: list[Block],
        *,
        cache: bool,  # noqa: ARG002 - caches by itself
    ) -> dict[str, Any]:
        front = [{"role": "system", "content": system_text(system)}] if system else []
        return {"messages": [*front, *messages], **({"tools": tools} if tools else {})}

    def own(self, message: Message, state: RequestState) -> OwnRow:  # noqa: ARG002 - no thinking
        content, role = as_dict(message.content), message.role
        if role == "function":
            (result,) = read_message(message)[1]
            return OwnRow([OwnPiece(PartKind.RESULT, result, None, [Rule.RENAMED])], whole=False)
        pieces = [_result(message)] if role == "tool" else [*_pieces(role, content)]
        if role == "assistant":
            pieces += map(_call, calls_of(content))
        refused = _refused(role, content)
        if refused:
            pieces[:1] = [it._replace(rules=(*it.rules, Rule.FIELD)) for it in pieces[:1]]
        whole = not refused and content.get("role") == role and is_utf8(content)
        return OwnRow(pieces, whole)

    def shows(self, image: Block) -> bool:
        return is_openai_image(image)

    def joins(self, turn: Sequence[OutgoingPart], row: Sequence[OutgoingPart], /) -> bool:
        calls = all(part.kind is PartKind.CALL for part in row)
        return calls and any(part.kind is PartKind.CALL for part in turn)


def _result(message: Message) -> OwnPiece:
    content = as_dict(message.content)
    output = content.get("content")
    (block,) = read_message(message)[1]
    parts = output if isinstance(output, list) and output else [{"type": "text", "text": output}]
    sound = all(_is_part("tool", part) for part in parts) and is_utf8(content)
    sound = sound and content.keys() == _FIELDS["tool"] and content["role"] == "tool"
    moved = any(it["type"] == "image" for it in outputs_of(block))
    native = message.content if sound else None
    return OwnPiece(PartKind.RESULT, block, native, [Rule.MOVED] if moved else [])


def _pieces(role: str, content: Block) -> Iterator[OwnPiece]:
    value = content.get("content")
    parts = [{"type": "text", "text": value}] if isinstance(value, str) else dicts(value)
    if role == "assistant":
        if value == "" and content.get("tool_calls"):
            parts = []
        parts = [*parts, *outside_content(content)]
    for part in parts:
        native = part if _is_part(role, part) else None
        if as_dict(part.get("audio")).keys() == {"id"}:
            native = {"audio": part["audio"]}
        yield OwnPiece(PartKind.OTHER, chat_block(part), native)


def _call(call: Block) -> OwnPiece:
    block, kind = call_block(call), string(call, "type")
    if not kind:
        return OwnPiece(PartKind.CALL, block, None, [Rule.RENAMED])
    holder, argument = ("function", "arguments") if kind != "custom" else ("custom", "input")
    inner = as_dict(call.get(holder))
    sound = kind in ("function", "custom") and call.keys() <= {"id", "type", holder}
    sound = sound and inner.keys() == {"name", argument} and is_utf8(call)
    sound = sound and all(isinstance(it, str) for it in (call.get("id"), *inner.values()))
    return OwnPiece(PartKind.CALL, block, call if sound and inner["name"] else None)


def _messages(turn: OutgoingTurn) -> Iterator[dict[str, Any]]:
    if turn.role == "assistant":
        yield _assistant(turn.parts)
        return
    if not turn.parts:
        yield {"role": "user", "content": OPENING}
    results = [part for part in turn.parts if part.kind is PartKind.RESULT]
    yield from map(_tool, results)
    images = [it for part in results if part.native is None for it in outputs_of(part.block)]
    # Only the user may send images (openai/openai-node#1030), so those of a result follow all
    # results: nothing may come between a call and its answers (BerriAI/litellm#10083).
    if shown := [_image(it) for it in images if it["type"] == "image"]:
        yield {"role": "user", "content": shown}
    rest = [part for part in turn.parts if part.kind is not PartKind.RESULT]
    for row, group in groupby(rest, key=lambda part: part.row):
        parts = list(group)
        speaks = row.is_own and row.message.role in ("system", "developer")
        speaks = speaks and all(part.block["type"] == "text" for part in parts)
        role = row.message.role if speaks else "user"
        yield stored(parts) or {"role": role, "content": _content(parts)}


def _assistant(parts: Sequence[OutgoingPart]) -> dict[str, Any]:
    if content := stored(parts):
        return as_dict(content)
    calls = [part for part in parts if part.kind is PartKind.CALL]
    speech = [part.native for part in parts if part.native and "audio" in part.native]
    shown = [it for it in parts if it.kind is not PartKind.CALL and it.native not in speech]
    message: dict[str, Any] = {
        "role": "assistant",
        # null only together with calls (docker/docker-agent#63, vercel/ai#13744).
        "content": _content(shown) if shown else None,
        **(speech[0] if speech else {}),
    }
    if calls:
        message["tool_calls"] = [it.native or _function_call(it.block) for it in calls]
    return message


def _function_call(call: Block) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": compact_json(call["input"])}
    return {"id": call["id"], "type": "function", "function": function}


def _tool(part: OutgoingPart) -> dict[str, Any]:
    if part.native is not None:
        return as_dict(part.native)
    texts = [{"type": "text", "text": it} for it in texts_in(outputs_of(part.block))]
    return {
        "role": "tool",
        "tool_call_id": part.block["tool_use_id"],
        "content": _joined(texts),
    }


def _refused(role: str, content: Block) -> set[str]:
    """The fields of a message that the provider refuses, alone or together with the others."""
    refused = content.keys() - _FIELDS.get(role, _USUAL)
    # An empty `tool_calls` is refused (openai/openai-node#1341).
    if "tool_calls" in content and not content["tool_calls"]:
        refused.add("tool_calls")
    # An empty list of parts is refused, together with calls too (langchain-ai/langchainjs#11416).
    if content.get("content") == []:
        refused.add("content")
    if role != "assistant":
        return refused
    if "function_call" in content:
        refused.add("function_call")  # deprecated: its call is one of `tool_calls`
    if isinstance(audio := content.get("audio"), dict) and audio.keys() != {"id"}:
        refused.add("audio")  # a reply holds the sound, and only its id is taken back
    if content.get("refusal") and not (content.get("content") or content.get("tool_calls")):
        refused.add("refusal")  # content may be null only together with calls
    return refused


def _content(parts: Sequence[OutgoingPart]) -> Any:
    return _joined([part.native or _part(part.block) for part in parts])


def _joined(parts: list[dict[str, Any]]) -> Any:
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts or ""


def _part(block: Block) -> dict[str, Any]:
    return _image(block) if block["type"] == "image" else {"type": "text", "text": block["text"]}


def _image(block: Block) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image_url(block)}}


def _is_part(role: str, part: Block) -> bool:
    kind = string(part, "type")
    if kind not in _PARTS.get(role, {"text"}) or not is_utf8(part):
        return False
    held = part.get(kind)
    if kind == "image_url":
        return isinstance(held, dict) and bool(string(held, "url"))
    return isinstance(held, str) if kind in ("text", "refusal") else isinstance(held, dict)


CHAT: Final = _Chat()
