"""The form of Gemini's generateContent.

Contents begin with the user and alternate. The calls of a turn are followed directly by as many
responses. Thought signatures are sent with their parts to the model that made them. If the model
requires a signature and the first call of a step has none, it gets the documented placeholder.
"""

import re
from collections.abc import Callable, Iterator, Sequence
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
    holds_image,
    is_inline,
    kind_of,
    outputs_of,
    stored,
    texts_in,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import Function, system_text
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.gemini import as_sent, gemini_block

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

# From Gemini 3 on, the first call of a step needs a signature (chatboxai/chatbox#3308), and a
# response may hold images. Older models refuse these (google-gemini/gemini-cli#19436).
_BEFORE_GEMINI_3: Final = re.compile(r"(?:.*/)?gemini-[12]\b.*")


def has_signatures(model: str | None) -> bool:
    """Return True if the model refuses the first call of a step without a signature."""
    return model is not None and not _is_before_gemini_3(model)


def _is_before_gemini_3(model: str | None) -> bool:
    return bool(_BEFORE_GEMINI_3.fullmatch(model or ""))


class _Gemini(ProviderForm):
    format = "gemini"
    # Calls are matched by order, or by ids that both sides have: router-for-me/CLIProxyAPI#5199.
    tool_name = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
    alternates = True
    about_documents = ()

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        model = state.model
        signed = has_signatures(model)
        return [_content(turn.role, turn.parts, signed=signed, model=model) for turn in turns]

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        # All in one tool: some models accept only one (google-gemini/gemini-cli#65,
        # opencode-ai/opencode#96).
        declared = [function.described("parametersJsonSchema") for function in functions]
        return [{"functionDeclarations": declared}] if declared else []

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if system:
            config["system_instruction"] = system_text(system)
        if tools:
            config["tools"] = tools
        return {"contents": messages, **({"config": config} if config else {})}

    def own(self, message: Message, state: RequestState) -> OwnRow:
        content = as_dict(message.content)
        role = "model" if message.role == "model" else "user"
        parts = dicts(content.get("parts"))
        equal = state.keeps_thinking(message)
        older = _is_before_gemini_3(state.model)
        pieces = [_piece(role, part, state.ids, equal=equal, older=older) for part in parts]
        whole = content.keys() == {"role", "parts"} and content["role"] == role
        untouched = all(it.native is part for it, part in zip(pieces, parts, strict=True))
        return OwnRow(pieces, whole and untouched)

    def shows(self, media: Block) -> bool:
        if media["type"] == "document":
            return is_inline(media)
        return holds_image(media, _IMAGES)


def _piece(role: str, part: Block, ids: set[str], *, equal: bool, older: bool) -> OwnPiece:
    sent = as_sent(part)
    block = gemini_block(sent)
    native = part if sent == part else sent
    rules: list[Rule] = []
    if not equal and "thoughtSignature" in sent:
        native = _without(sent, "thoughtSignature")
        rules.append(Rule.THINKING)
    call = as_dict(native.get("functionCall"))
    tool_id = string(call, "id")
    if "id" in call and (not tool_id or tool_id in ids):
        native = {**native, "functionCall": _without(call, "id")}
        rules.append(Rule.RENAMED)
    ids.add(tool_id)
    signed = bool(native.get("thoughtSignature"))
    if sent.get("thought") is True or (sent.get("text") == "" and signed):
        sound = equal and is_utf8(native) and isinstance(sent.get("text"), str)
        thought = native if sound and (sent["text"] or signed) else None
        return OwnPiece(PartKind.THINKING, None, thought, [] if thought else [Rule.THINKING])
    kind = PartKind.OTHER if block is None else kind_of(block)
    if older and as_dict(native.get("functionResponse")).get("parts"):
        return OwnPiece(kind, block, None, [*rules, Rule.MOVED])
    if _is_sound(role, native):
        return OwnPiece(kind, block, native, rules)
    return OwnPiece(kind, block, None, [*rules, Rule.MALFORMED] if block is None else rules)


def _without(part: Block, name: str) -> Block:
    return {key: value for key, value in part.items() if key != name}


def _is_sound(role: str, part: Block) -> bool:
    # router-for-me/CLIProxyAPI#1292.
    kinds = part.keys() & _DATA
    if len(kinds) != 1 or not is_utf8(part):
        return False
    (kind,) = kinds
    return kind not in _SOUND or _SOUND[kind](role, part[kind])


def _is_tool(held: Any, given: str, otherwise: Any) -> bool:
    """True if a call or response has a name and an object, which a call may omit."""
    fields = as_dict(held)
    return bool(string(fields, "name")) and isinstance(fields.get(given, otherwise), dict)


def _is_inline(_: str, held: Any) -> bool:
    mime = string(as_dict(held), "mimeType")
    known = mime in _IMAGES or not mime.startswith("image/")
    return bool(mime) and known and isinstance(held.get("data"), str)


_SOUND: Final[dict[str, Callable[[str, Any], bool]]] = {
    "text": lambda _, value: isinstance(value, str) and bool(value.strip()),
    "functionCall": lambda role, it: role == "model" and _is_tool(it, "args", {}),
    "functionResponse": lambda role, it: role == "user" and _is_tool(it, "response", None),
    "inlineData": _is_inline,
    "fileData": lambda _, value: bool(string(as_dict(value), "fileUri")),
}
"""The checks of a part's value, given its role, by the kind of the part."""


def _content(
    role: str, parts: Sequence[OutgoingPart], *, signed: bool, model: str | None
) -> dict[str, Any]:
    if not parts:
        return {"role": "user", "parts": [{"text": OPENING}]}
    if role == "user":
        made = [
            *_responses(parts),
            *(_part(part) for part in parts if part.kind is not PartKind.RESULT),
        ]
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
            yield from (
                _part_of(output) for output in outputs_of(part.block) if output["type"] != "text"
            )


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
        response = part.native["functionResponse"]
        if {key: response[key] for key in ("name", "id") if key in response} == named:
            return as_dict(part.native)
        fields = {key: it for key, it in response.items() if key not in ("id", "name")}
        return {**part.native, "functionResponse": {**named, **fields}}
    output = "\n".join(texts_in(outputs_of(part.block)))
    key = "error" if part.block.get("is_error") is True else "output"
    return {"functionResponse": {**named, "response": {key: output}}}


def _part(part: OutgoingPart) -> dict[str, Any]:
    return _part_of(part.block) if part.native is None else as_dict(part.native)


def _part_of(block: Block) -> dict[str, Any]:
    match block["type"]:
        case "image" | "document":
            source = block["source"]
            return {"inlineData": {"mimeType": source["media_type"], "data": source["data"]}}
        case "tool_use":
            return {"functionCall": {"name": block["name"], "args": block["input"]}}
    return {"text": block["text"]}


GEMINI_FORM: Final = _Gemini()
