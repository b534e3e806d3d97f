"""The form of Gemini's generateContent.

Contents begin with the user and alternate. The calls of a turn are followed directly by as many
responses. Thought signatures are sent with their parts to the model that made them. If the model
requires a signature and the first call of a step has none, it gets the documented placeholder.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.arrange import alternating, arranged
from roocontext.log.forms.block_rules import is_utf8
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    outputs_of,
    stored,
)
from roocontext.log.forms.repairs import Outgoing, Rule, model_of
from roocontext.log.forms.tools import convert, gemini_tools, system_text
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.gemini import GEMINI as READER
from roocontext.log.readings.gemini import as_sent

NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""The documented placeholder for a missing signature."""

_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

_DATA: Final = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
"""A part holds exactly one of these."""

# From Gemini 3 on, the first call of a step needs one (chatboxai/chatbox#3308).
_MODELS_WITHOUT_SIGNATURES: Final = re.compile(r"(?:.*/)?gemini-[12]\b.*")


class _Order:
    """Takes apart the rows of one request; the ids in use depend on the rows before."""

    format = "gemini"
    # Matched by order, or by ids that both sides have: router-for-me/CLIProxyAPI#5199.
    tool_id: re.Pattern[str] | None = None
    tool_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
    merges = True
    lists = holds = apart = False

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def own(self, message: Message, *, equal: bool) -> OwnRow:
        content = as_dict(message.content)
        role = "model" if message.role == "model" else "user"
        parts = dicts(content.get("parts"))
        _, blocks = READER.blocks_by_part(message.role, content)
        pieces = [
            self._piece(role, part, block, equal=equal)
            for part, block in zip(parts, blocks, strict=True)
        ]
        whole = content.keys() == {"role", "parts"} and content["role"] == role
        untouched = all(it.native is part for it, part in zip(pieces, parts, strict=True))
        return OwnRow(pieces, whole and untouched)

    def shows(self, image: Block) -> bool:
        source = as_dict(image.get("source"))
        return source.get("media_type") in _IMAGES and isinstance(source.get("data"), str)

    def joins(self, *_: Sequence[OutgoingPart]) -> bool:
        return True

    def _piece(self, role: str, part: Block, block: Block | None, *, equal: bool) -> OwnPiece:
        sent = as_sent(part)
        native = part if sent == part else sent
        rules: list[Rule] = []
        if not equal and "thoughtSignature" in sent:
            native = {key: it for key, it in sent.items() if key != "thoughtSignature"}
            rules = [Rule.THINKING]
        asked = as_dict(native.get("functionCall"))
        tool_id = string(asked, "id")
        if "id" in asked and (not tool_id or tool_id in self._ids):
            call = {key: it for key, it in asked.items() if key != "id"}
            native = {**native, "functionCall": call}
            rules = [*rules, Rule.RENAMED]
        self._ids.add(tool_id)
        signed = bool(native.get("thoughtSignature"))
        if sent.get("thought") is True or (sent.get("text") == "" and signed):
            sound = equal and is_utf8(native) and isinstance(sent.get("text"), str)
            found = native if sound and (sent["text"] or signed) else None
            return OwnPiece(PartKind.THINKING, None, found, [] if found else [Rule.THINKING])
        kind = PartKind.OTHER
        if block is not None:
            kind = {"tool_use": PartKind.CALL, "tool_result": PartKind.RESULT}.get(
                block["type"], kind
            )
        if not self._is_sound(role, native):
            return OwnPiece(
                kind, block, None, rules if block is not None else [*rules, Rule.MALFORMED]
            )
        return OwnPiece(kind, block, native, rules)

    def _is_sound(self, role: str, part: Block) -> bool:
        # router-for-me/CLIProxyAPI#1292.
        kinds = part.keys() & _DATA
        if len(kinds) != 1 or not is_utf8(part):
            return False
        (kind,) = kinds
        return kind not in _SOUND or _SOUND[kind](role, part[kind])


def _is_call(role: str, asked: Any) -> bool:
    named = isinstance(asked, dict) and bool(string(asked, "name"))
    return role == "model" and named and isinstance(asked.get("args", {}), dict)


def _is_response(role: str, given: Any) -> bool:
    named = isinstance(given, dict) and bool(string(given, "name"))
    return role == "user" and named and isinstance(given.get("response"), dict)


def _is_inline(_: str, held: Any) -> bool:
    mime = string(as_dict(held), "mimeType")
    known = mime in _IMAGES or not mime.startswith("image/")
    return bool(mime) and known and isinstance(held.get("data"), str)


_SOUND: Final[dict[str, Callable[[str, Any], bool]]] = {
    "text": lambda _, value: isinstance(value, str) and bool(value.strip()),
    "functionCall": _is_call,
    "functionResponse": _is_response,
    "inlineData": _is_inline,
    "fileData": lambda _, value: bool(string(as_dict(value), "fileUri")),
}
"""Whether the value of a part of this kind, from this role, is acceptable."""


class _Gemini:
    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        model = model_of(messages) if model is None else model
        turns, repairs = arranged(
            _Order(), messages, model=model, drop_thinking=drop_thinking, complete=complete
        )
        lined = alternating(turns, messages, repairs, complete=complete)
        signed = model is not None and not _MODELS_WITHOUT_SIGNATURES.fullmatch(model)
        out = [_content(role, parts, signed=signed, model=model) for role, parts in lined]
        return Outgoing(out, repairs.listed())

    def body(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        system: Any = None,
        tools: Sequence[Any] = (),
        cache: bool = False,  # noqa: ARG002 - caches by itself
    ) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if system:
            config["system_instruction"] = system_text(system)
        if tools:
            config["tools"] = convert(tools, _Order.format, gemini_tools, _Order.tool_name)
        body: dict[str, Any] = {"contents": list(messages)}
        return {**body, "config": config} if config else body


def _content(
    role: str, parts: Sequence[OutgoingPart], *, signed: bool, model: str | None
) -> dict[str, Any]:
    if not parts:
        return {"role": "user", "parts": [{"text": OPENING}]}
    if role == "user":
        made = [*_responses(parts), *(_part(it) for it in parts if it.kind is not PartKind.RESULT)]
    else:
        made = [_part(part) for part in parts]
        first = next((at for at, part in enumerate(parts) if part.kind is PartKind.CALL), None)
        if first is not None and not made[first].get("thoughtSignature"):
            foreign = model is None and not parts[first].row.is_own
            # Only the first call of a step: the others have none in Gemini's own replies either.
            if signed or foreign:
                made[first] = {**made[first], "thoughtSignature": NO_SIGNATURE}
    content = stored(parts)
    if content and list(map(id, made)) == list(map(id, content["parts"])):
        return as_dict(content)
    return {"role": "user" if role == "user" else "model", "parts": made}


def _responses(parts: Sequence[OutgoingPart]) -> Iterator[dict[str, Any]]:
    """Return the responses in the order of their calls, then their images."""
    results = [part for part in parts if part.kind is PartKind.RESULT]
    if not all(_id(part) for part in results):
        results.sort(key=lambda it: (it.call.row.number, it.call.index) if it.call else (0, 0))
    for part in results:
        yield _response(part)
    for part in results:
        if part.native is None:
            yield from (_part_of(it) for it in outputs_of(part.block) if it["type"] == "image")


def _id(result: OutgoingPart) -> str:
    """The id of a response: that of its call, if the call has one."""
    native = result.call.native if result.call else None
    return string(as_dict(as_dict(native).get("functionCall")), "id")


def _response(part: OutgoingPart) -> dict[str, Any]:
    call = part.call.block if part.call else {}
    named: dict[str, Any] = {"name": call["name"]}
    if tool_id := _id(part):
        named["id"] = tool_id
    if part.native is not None:
        given = part.native["functionResponse"]
        if {key: given[key] for key in ("name", "id") if key in given} == named:
            return as_dict(part.native)
        kept = {key: it for key, it in given.items() if key not in ("id", "name")}
        return {**part.native, "functionResponse": {**named, **kept}}
    output = "\n".join(it["text"] for it in outputs_of(part.block) if it["type"] == "text")
    key = "error" if part.block.get("is_error") is True else "output"
    return {"functionResponse": {**named, "response": {key: output}}}


def _part(part: OutgoingPart) -> dict[str, Any]:
    return _part_of(part.block) if part.native is None else as_dict(part.native)


def _part_of(block: Block) -> dict[str, Any]:
    match block["type"]:
        case "image":
            source = block["source"]
            return {"inlineData": {"mimeType": source["media_type"], "data": source["data"]}}
        case "tool_use":
            return {"functionCall": {"name": block["name"], "args": block["input"]}}
    return {"text": block["text"]}


GEMINI_FORM: Final = _Gemini()
