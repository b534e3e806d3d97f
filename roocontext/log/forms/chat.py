"""The form of OpenAI's Chat Completions, and of the servers that are compatible with it.

Each message with calls is followed by one `tool` message for each of them. A row is a message of
its own, unless it has calls and earlier calls are still unanswered: such rows are merged. Images of
results are sent as a user message after all the results.

The fields that only compatible servers have are sent back to the model that wrote them, in the
dialect of its server. A server that refuses calls without the reasoning before them gets a line
that says that none was recorded.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from roocontext.errors import InvalidOption
from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.block_rules import is_utf8
from roocontext.log.forms.dialects import (
    CALL_FIELDS,
    DIALECTS,
    OPENAI_ITSELF,
    REASONING_FIELDS,
    Dialect,
    dialect_for,
    has_reasoned,
    reasoning_text,
)
from roocontext.log.forms.gemini import NO_SIGNATURE, has_signatures
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OutgoingRow,
    OwnPiece,
    OwnRow,
    PartKind,
    RequestState,
    holds_image,
    is_inline,
    is_pdf,
    outputs_of,
    stored,
    texts_in,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import Function, system_text
from roocontext.log.readings import Block, read_message
from roocontext.log.readings.blocks import as_dict, compact_json, dicts, string
from roocontext.log.readings.openai import call_block, calls_of, chat_block, outside_content

_FIELDS: Final = {
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"}
    | {"annotations"},  # every reply has it, and it is accepted back
    "tool": {"role", "content", "tool_call_id"},
}
_USUAL: Final = {"role", "content", "name"}
_STRICT: Final = {"assistant": {"role", "content", "tool_calls"}, "tool": _FIELDS["tool"]}

_PARTS: Final = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
_STRICT_PARTS: Final = {"user": {"text", "image_url", "document_url"}, "assistant": {"text"}}

_TEXTS: Final = ("text", "refusal", "document_url")
"""The parts whose value is a string."""

_INSTRUCTIONS: Final = ("system", "developer")


def image_url(image: Block) -> str:
    """The URL of an image; it may be a data URL."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return string(source, "url")


def file_name(document: Block) -> str:
    """The name of a document, which the API requires with its data."""
    return string(document, "title") or "document.pdf"


def is_openai_image(image: Block) -> bool:
    """Return True if OpenAI accepts this image."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return holds_image(image)
    return string(source, "url").startswith(("http://", "https://"))


class _Chat(ProviderForm):
    format = "openai"
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}")

    def __init__(self, given: Dialect | None = None, *, wants_reasoning: bool = False) -> None:
        self._given = given
        self._dialect = given or OPENAI_ITSELF
        self._wants_reasoning = wants_reasoning
        self.tool_id = self._dialect.tool_id

    def in_dialect(self, name: str) -> "_Chat":
        """The form for servers of one dialect."""
        if not isinstance(name, str) or name not in DIALECTS:
            known = ", ".join(sorted(DIALECTS))
            raise InvalidOption(f"dialect must be one of {known}.", name="dialect")
        return _Chat(DIALECTS[name])

    def for_request(self, messages: Sequence[Message], state: RequestState) -> "_Chat":
        own = (message for message in reversed(messages) if message.format == self.format)
        own = (
            message for message in own if message.role == "assistant" and state.is_of_model(message)
        )
        replies = [as_dict(message.content) for message in own]
        dialect = self._given or dialect_for(replies, state.model)
        wants = dialect.wants is not None and dialect.wants.fullmatch(state.model or "")
        # A model that replied and never reasoned runs with its reasoning off.
        reasons = not replies or any(map(has_reasoned, replies))
        return _Chat(dialect, wants_reasoning=bool(wants) and reasons)

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for turn in turns:
            for row, message in self._messages(turn, state):
                before = made[-1]["role"] if made else "system"
                if not self._dialect.is_strict or row is None:
                    made.append(message)
                elif message["role"] == "user" and before == "tool":
                    state.repairs.add(row, Rule.APART)
                    made += [{"role": "assistant", "content": OPENING}, message]
                elif message["role"] == "system" and before != "system":
                    # As the last message it is refused, and a later row may not change it.
                    state.repairs.add(row, Rule.FIELD)
                    between = [{"role": "assistant", "content": OPENING}] * (before == "tool")
                    made += [*between, {**message, "role": "user"}]
                else:
                    made.append(message)
        return made

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        described = (
            it.described("parameters", strict=it.may_be_strict or None) for it in functions
        )
        return [{"type": "function", "function": function} for function in described]

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        front = [{"role": "system", "content": system_text(system)}] if system else []
        return {"messages": [*front, *messages], **({"tools": tools} if tools else {})}

    def own(self, message: Message, state: RequestState) -> OwnRow:
        content, role = as_dict(message.content), message.role
        if role == "function":
            (result,) = read_message(message)[1]
            return OwnRow([OwnPiece(PartKind.RESULT, result, None, [Rule.RENAMED])], whole=False)
        # Only the model that wrote a reply gets what its server added to it.
        server = self._dialect if state.keeps_thinking(message) else OPENAI_ITSELF
        pieces = [_result(message)] if role == "tool" else [*self._pieces(role, content, server)]
        refused = self._refused(role, content)
        whole = not refused and content.get("role") == role and is_utf8(content)
        if role == "assistant":
            reasoning = _reasoning(content, server)
            native = (reasoning.native if reasoning else None) or {}
            whole = whole and native == {
                field: content[field] for field in REASONING_FIELDS if field in content
            }
            asked = calls_of(content)
            calls = [self._call(call, server) for call in asked]
            whole = whole and all(it.native is call for it, call in zip(calls, asked, strict=True))
            whole = whole and not (content.get("content") is None and reasoning and not calls)
            pieces = [*filter(None, [reasoning]), *pieces, *calls]
        if refused:
            pieces[:1] = [piece._replace(rules=(*piece.rules, Rule.FIELD)) for piece in pieces[:1]]
        return OwnRow(pieces, whole)

    def shows(self, media: Block) -> bool:
        if media["type"] != "document":
            return is_openai_image(media)
        # Mistral takes documents by their URL only, which may hold the data.
        return is_pdf(media) and (self._dialect.is_strict or is_inline(media))

    def joins(self, turn: Sequence[OutgoingPart], row: Sequence[OutgoingPart], /) -> bool:
        calls = all(part.kind is PartKind.CALL for part in row)
        return calls and any(part.kind is PartKind.CALL for part in turn)

    def _pieces(self, role: str, content: Block, server: Dialect) -> Iterator[OwnPiece]:
        value = content.get("content")
        parts = [{"type": "text", "text": value}] if isinstance(value, str) else dicts(value)
        if role == "assistant":
            if value == "" and content.get("tool_calls"):
                parts = []
            parts = [*parts, *outside_content(content)]
        for part in parts:
            if part.get("type") == "thinking" and role == "assistant":
                thought = part if server.in_content and is_utf8(part) else None
                rules = [] if thought else [Rule.THINKING]
                yield OwnPiece(PartKind.THINKING, None, thought, rules)
                continue
            native = part if self._takes(role, part) else None
            if as_dict(part.get("audio")).keys() == {"id"} and not self._dialect.is_strict:
                native = {"audio": part["audio"]}
            yield OwnPiece(PartKind.OTHER, chat_block(part), native)

    def _takes(self, role: str, part: Block) -> bool:
        if not self._dialect.is_strict:
            return _is_part(_PARTS.get(role, {"text"}), part)
        # An assistant's message without words or calls is refused.
        has_words = role != "assistant" or bool(string(part, "text").strip())
        return has_words and _is_part(_STRICT_PARTS.get(role, {"text"}), part)

    def _call(self, call: Block, server: Dialect) -> OwnPiece:
        block, kind = call_block(call), string(call, "type")
        if not kind:
            return OwnPiece(PartKind.CALL, block, None, [Rule.RENAMED])
        lost = (call.keys() & CALL_FIELDS) - server.call_fields
        native = {key: it for key, it in call.items() if key not in lost} if lost else call
        # Only OpenAI itself has calls that take a text.
        is_known = kind == "function" or (kind == "custom" and self._dialect is OPENAI_ITSELF)
        holder, argument = ("custom", "input") if kind == "custom" else ("function", "arguments")
        inner = as_dict(call.get(holder))
        sound = is_known and native.keys() <= {"id", "type", holder} | server.call_fields
        sound = sound and inner.keys() == {"name", argument} and is_utf8(call)
        sound = sound and all(isinstance(it, str) for it in (call.get("id"), *inner.values()))
        rules = [Rule.THINKING] if lost else []
        return OwnPiece(PartKind.CALL, block, native if sound and inner["name"] else None, rules)

    def _refused(self, role: str, content: Block) -> set[str]:
        """The fields of a message that the server refuses, alone or together with the others."""
        usual = {"role", "content"} if self._dialect.is_strict else _USUAL
        refused = content.keys() - (_STRICT if self._dialect.is_strict else _FIELDS).get(
            role, usual
        )
        # An empty `tool_calls` is refused (openai/openai-node#1341).
        if "tool_calls" in content and not content["tool_calls"]:
            refused.add("tool_calls")
        # An empty list is refused, together with calls too (langchain-ai/langchainjs#11416).
        if content.get("content") == []:
            refused.add("content")
        if role == "developer" and not self._dialect.has_developer:
            refused.add("role")
        if role != "assistant":
            return refused
        refused -= REASONING_FIELDS
        if "function_call" in content:
            refused.add("function_call")  # deprecated: its call is one of `tool_calls`
        if isinstance(audio := content.get("audio"), dict) and audio.keys() != {"id"}:
            refused.add("audio")  # a reply holds the sound, and only its id is taken back
        if content.get("refusal") and not (content.get("content") or content.get("tool_calls")):
            refused.add("refusal")  # content may be null only together with calls
        return refused

    def _messages(
        self, turn: OutgoingTurn, state: RequestState
    ) -> Iterator[tuple[OutgoingRow | None, dict[str, Any]]]:
        if turn.role == "assistant":
            row = turn.parts[0].row
            yield row, self._completed(row, self._assistant(turn.parts), state)
            return
        if not turn.parts:
            yield None, {"role": "user", "content": OPENING}
        results = [part for part in turn.parts if part.kind is PartKind.RESULT]
        yield from ((part.row, _tool(part)) for part in results)
        images = [
            (part.row, output)
            for part in results
            if part.native is None
            for output in outputs_of(part.block)
            if output["type"] != "text"
        ]
        # Only the user may send images (openai/openai-node#1030), so those of a result follow all
        # results: nothing may come between a call and its answers (BerriAI/litellm#10083).
        if images:
            content = [self._part(it) for _, it in images]
            yield images[0][0], {"role": "user", "content": content}
        rest = [part for part in turn.parts if part.kind is not PartKind.RESULT]
        for row, group in groupby(rest, key=lambda part: part.row):
            parts = list(group)
            speaks = row.is_own and row.message.role in _INSTRUCTIONS
            speaks = speaks and all(part.block["type"] == "text" for part in parts)
            role = row.message.role if speaks else "user"
            if role == "developer" and not self._dialect.has_developer:
                role = "system"
            yield row, stored(parts) or {"role": role, "content": self._content(parts)}

    def _assistant(self, parts: Sequence[OutgoingPart]) -> dict[str, Any]:
        if content := stored(parts):
            return as_dict(content)
        calls = [part for part in parts if part.kind is PartKind.CALL]
        fields = [
            part.native
            for part in parts
            if part not in calls and part.native and "type" not in part.native
        ]
        shown = [
            part for part in parts if part.kind is not PartKind.CALL and part.native not in fields
        ]
        beside = {name: value for held in fields for name, value in held.items()}
        message: dict[str, Any] = {
            "role": "assistant",
            # null only together with calls (docker/docker-agent#63, vercel/ai#13744).
            "content": self._content(shown) if shown or not (calls or "audio" in beside) else None,
            **beside,
        }
        if calls:
            message["tool_calls"] = [call.native or _function_call(call.block) for call in calls]
        return message

    def _content(self, parts: Sequence[OutgoingPart]) -> Any:
        return _joined([part.native or self._part(part.block) for part in parts])

    def _part(self, block: Block) -> dict[str, Any]:
        if block["type"] == "document" and self._dialect.is_strict:
            return {"type": "document_url", "document_url": image_url(block)}
        if block["type"] == "document":
            file = {"filename": file_name(block), "file_data": image_url(block)}
            return {"type": "file", "file": file}
        if block["type"] == "image":
            return {"type": "image_url", "image_url": {"url": image_url(block)}}
        return {"type": "text", "text": block["text"]}

    def _completed(
        self, row: OutgoingRow, message: dict[str, Any], state: RequestState
    ) -> dict[str, Any]:
        """A reply with what its server requires of one, although it was not recorded."""
        calls, dialect = message.get("tool_calls"), self._dialect
        if calls and dialect.signs and has_signatures(state.model):
            first, *others = calls
            vendors = as_dict(first.get("extra_content")).values()
            if not any(as_dict(vendor).get("thought_signature") for vendor in vendors):
                signature = {"google": {"thought_signature": NO_SIGNATURE}}
                signed = {**first, "extra_content": signature}
                message = {**message, "tool_calls": [signed, *others]}
        is_wanted = self._wants_reasoning and bool(calls or dialect.on_every_reply)
        has_any = reasoning_text(message) or message.keys() & dialect.fields
        if is_wanted and not has_any:
            # Not the same line each time: models repeat it (Lingtai-AI/lingtai-kernel#9).
            placeholder = f"[No reasoning was recorded for message {row.message.seq}.]"
            state.repairs.add(row, Rule.UNREASONED)
            message = {**message, dialect.text: placeholder}
        return message


def _reasoning(content: Block, server: Dialect) -> OwnPiece | None:
    """The fields of a reply that the server added, if there are any."""
    held = {name: it for name in REASONING_FIELDS if (it := content.get(name)) is not None}
    if not held:
        return None
    fields = {name: it for name, it in held.items() if name in server.fields}
    text = held.get(server.text, reasoning_text(content)) if server.text else ""
    if text:
        fields[server.text] = text
    if not is_utf8(fields):
        fields = {}
    # Some servers send the same text under two names.
    lost = [
        it for name, it in held.items() if it and name not in fields and it not in fields.values()
    ]
    rules = [Rule.FIELD if fields else Rule.THINKING] if lost else []
    return OwnPiece(PartKind.THINKING, None, fields or None, rules)


def _result(message: Message) -> OwnPiece:
    content = as_dict(message.content)
    output = content.get("content")
    (block,) = read_message(message)[1]
    parts = output if isinstance(output, list) and output else [{"type": "text", "text": output}]
    sound = all(_is_part({"text"}, part) for part in parts) and is_utf8(content)
    sound = sound and content.keys() == _FIELDS["tool"] and content["role"] == "tool"
    moved = any(output["type"] == "image" for output in outputs_of(block))
    native = message.content if sound else None
    return OwnPiece(PartKind.RESULT, block, native, [Rule.MOVED] if moved else [])


def _function_call(call: Block) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": compact_json(call["input"])}
    return {"id": call["id"], "type": "function", "function": function}


def _tool(part: OutgoingPart) -> dict[str, Any]:
    if part.native is not None:
        return as_dict(part.native)
    texts = [{"type": "text", "text": text} for text in texts_in(outputs_of(part.block))]
    return {
        "role": "tool",
        "tool_call_id": part.block["tool_use_id"],
        "content": _joined(texts),
    }


def _joined(parts: list[dict[str, Any]]) -> Any:
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts or ""


def _is_part(types: Collection[str], part: Block) -> bool:
    kind = string(part, "type")
    if kind not in types or not is_utf8(part):
        return False
    held = part.get(kind)
    if kind == "image_url":
        return isinstance(held, dict) and bool(string(held, "url"))
    return isinstance(held, str) if kind in _TEXTS else isinstance(held, dict)


CHAT: Final = _Chat()
