"""The form of OpenAI's Responses API: a flat list of items, sent without stored state.

Each output comes after the calls of its turn. A reasoning item is sent only to the model that made
it, and only with its encrypted content and another item of the assistant's after it. If it is left
out, so are the ids of the items that refer to it.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from roocontext.log.compactions import COMPACTION_TYPES
from roocontext.log.entries import Message
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.block_rules import is_utf8
from roocontext.log.forms.chat import file_name, image_url, is_openai_image
from roocontext.log.forms.parts import (
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    Repairs,
    RequestState,
    is_pdf,
    outputs_of,
    texts_in,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import Function, system_text
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, compact_json, dicts, string
from roocontext.log.readings.openai_responses import (
    CALLS,
    OUTPUTS,
    item_blocks,
    part_blocks,
    shell_output,
    type_of,
    typed_items,
)

# ranxianglei/billion-context#1052. Another prefix is refused too: nodetool-ai/nodetool#4252.
_ITEM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_PREFIX: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs"}

_NEEDS_ID: Final = ("computer_call", "local_shell_call", "local_shell_call_output")
_OPTIONAL_ID: Final = frozenset({"message", *CALLS, *OUTPUTS}).difference(_NEEDS_ID)
"""Items that need no id. A local shell's output has no other id."""

# openai/openai-python#3008.
_REFUSED: Final = {
    "reasoning": ("status",),
    "function_call": ("parsed_arguments",),
    "custom_tool_call_output": ("status",),
}
"""Fields that the SDKs return and the API refuses, besides `created_by` of any item."""

_BARE: Final = frozenset({"type", "role", "id", "call_id", "name", "execution"})
"""The fields that a redaction leaves of an item."""

_STATEFUL: Final = ("item_reference", "compaction_trigger")
"""Items that mean something in the request that they were made for, and only there."""

_PARTS: Final = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file"),
}

_SYNTHETIC: Final[dict[str, Callable[[OutgoingPart, str], dict[str, Any]]]] = {
    "shell_call": lambda _, output: {"output": shell_output(output)},
    "apply_patch_call": lambda part, output: {
        "status": "failed" if part.block.get("is_error") else "completed",
        "output": output,
    },
}
"""The output of a call of this type, which is text, if its result was not stored in this shape."""


_TEXTS: Final = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
}
"""The fields of an item that must be strings."""


class _Responses(ProviderForm):
    format = "openai-responses"
    tool_id = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    # Reasoning is followed by what it led to (vercel/ai#7099).
    lists = holds = True

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        return [item for turn in turns for item in _items(turn, state.repairs)]

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        # They are strict here by default.
        described = (it.described("parameters", strict=it.may_be_strict) for it in functions)
        return [{"type": "function", **function} for function in described]

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"input": messages, "store": False}
        body["include"] = ["reasoning.encrypted_content"]  # without stored state it is needed
        if system:
            body["instructions"] = system_text(system)
        return {**body, **({"tools": tools} if tools else {})}

    def own(self, message: Message, state: RequestState) -> OwnRow:
        items, equal = typed_items(message.content), state.keeps_thinking(message)
        pieces = [
            piece
            for kind, item in items
            for piece in _pieces(message.role, kind, item, state, equal=equal)
        ]
        return OwnRow(pieces)

    def shows(self, media: Block) -> bool:
        return is_pdf(media) if media["type"] == "document" else is_openai_image(media)


def _pieces(
    role: str, kind: str, item: Block, state: RequestState, *, equal: bool
) -> Iterator[OwnPiece]:
    if kind == "reasoning" or kind in COMPACTION_TYPES["openai-responses"]:
        # Compactions that this model cannot read are gone already.
        sound = (equal or kind != "reasoning") and _is_sound_reasoning(item, state)
        state.has_lost_reasoning = not sound
        native = _sent(role, item, state, keep_id=True) if sound else None
        rules = _rules(item, native) if native else [Rule.THINKING]
        part = PartKind.THINKING if kind == "reasoning" else PartKind.OTHER
        yield OwnPiece(part, None, native, rules)
        return
    # An id that refers to reasoning which is not sent is refused (mastra-ai/mastra#8738).
    native = _sent(role, item, state, keep_id=equal and not state.has_lost_reasoning)
    if kind in (*CALLS, *OUTPUTS):
        (block,) = item_blocks(kind, item)
        part = PartKind.CALL if kind in CALLS else PartKind.RESULT
        yield OwnPiece(part, block, native, _rules(item, native))
    elif native is not None:
        yield OwnPiece(PartKind.OTHER, None, native, _rules(item, native))
    elif kind == "message":
        yield from (OwnPiece(PartKind.OTHER, it, None) for it in part_blocks(item.get("content")))
    else:
        is_hosted = state.has_lost_reasoning and kind.endswith("_call")
        rule = Rule.SEPARATED if is_hosted else Rule.UNKNOWN
        yield OwnPiece(PartKind.OTHER, None, None, [rule])


def _is_sound_reasoning(item: Block, state: RequestState) -> bool:
    item_id = string(item, "id")
    if type_of(item) != "reasoning":
        return bool(string(item, "encrypted_content"))
    sealed = bool(string(item, "encrypted_content")) and isinstance(item.get("summary"), list)
    named = item_id.startswith("rs") and bool(_ITEM_ID.fullmatch(item_id))
    return sealed and named and item_id not in state.ids and is_utf8(item)


def _sent(role: str, item: Block, state: RequestState, *, keep_id: bool) -> Block | None:
    """The item without refused fields; the stored object itself, if it has none."""
    kind = type_of(item)
    # It points to stored state, which is not used here (vercel/ai#7543).
    if kind in _STATEFUL or not _is_sound(role, item):
        return None
    drop = {key for key in ("created_by", *_REFUSED.get(kind, ())) if key in item}
    drop |= {key for key, value in item.items() if value is None}
    item_id = string(item, "id")
    if "id" in item:
        prefix = item_id.startswith(_PREFIX.get(kind, ""))
        valid = prefix and bool(_ITEM_ID.fullmatch(item_id)) and item_id not in state.ids
        if kind in _OPTIONAL_ID:
            if not (valid and keep_id):
                drop.add("id")
        elif not valid or (kind in CALLS and not keep_id):
            return None
        elif state.has_lost_reasoning and kind.endswith("_call"):
            return None  # a hosted search without its reasoning is refused too
        state.ids.add(item_id)
    return {key: it for key, it in item.items() if key not in drop} if drop else item


def _is_sound(role: str, item: Block) -> bool:
    kind = type_of(item)
    sound = is_utf8(item) and item.get("type", kind) == kind
    if not sound or any(not isinstance(item.get(key), str) for key in _TEXTS.get(kind, ())):
        return False
    if kind == "message":
        speaker = "assistant" if role == "assistant" else "user"
        return item.get("role") == role and _holds(item.get("content"), _PARTS[speaker])
    if kind in ("function_call_output", "custom_tool_call_output"):
        return _holds(item.get("output"), _PARTS["user"])
    # The provider's own tool search has no id.
    if kind in CALLS and not string(item, "call_id") and item.get("execution") != "server":
        return False
    if kind in CALLS and item.get("name") == "":
        return False
    return not item.keys() <= _BARE


def _rules(item: Block, native: Block | None) -> list[Rule]:
    lost = set() if native is None else item.keys() - native.keys() - {"id"}
    return [Rule.FIELD] if any(item[key] is not None for key in lost) else []


def _items(turn: OutgoingTurn, repairs: Repairs) -> Iterator[dict[str, Any]]:
    if not turn.parts:
        yield {"type": "message", "role": "user", "content": OPENING}
    for part in turn.parts:
        if part.native is not None and not _keeps_type(part):
            repairs.add(part.row, Rule.RETYPED, part.index)
    results = [part for part in turn.parts if part.kind is PartKind.RESULT]
    yield from map(_output, results)
    rest = [part for part in turn.parts if part.kind is not PartKind.RESULT]
    for key, run in groupby(rest, key=_gathered):
        parts = list(run)
        if key is None:
            yield from map(_item, parts)
        else:
            role = parts[0].row.message.role if parts[0].row.is_own else turn.role
            yield from _composed(role, turn.role, [part.block for part in parts])


def _composed(role: str, side: str, blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Make messages of texts and media.

    The SDK's types want the id and the status of an assistant's message with parts, which only the
    provider can give. With a text as its content it needs neither (BerriAI/litellm#35213).
    """
    if side == "assistant":
        texts = (block["text"] for block in blocks)
        yield from ({"type": "message", "role": role, "content": text} for text in texts)
    else:
        content = [_content_part(block) for block in blocks]
        yield {"type": "message", "role": role, "content": content}


def _gathered(part: OutgoingPart) -> object:
    """The row, for texts and images that form one message; other items are sent one by one."""
    return None if part.native is not None or part.kind is PartKind.CALL else part.row


def _holds(value: object, types: Collection[str]) -> bool:
    """Return True for a text, or a list of parts of these types."""
    if not isinstance(value, list):
        return isinstance(value, str)
    return bool(value) and all(part.get("type") in types for part in dicts(value))


def _call_type(call: OutgoingPart | None) -> str:
    """The type that a call is sent with; a function call if no result of its type can be sent."""
    if call is None or call.native is None:
        return "function_call"
    kind = type_of(call.native)
    if kind == "custom_tool_call" or call.answer is None:
        return kind
    outputs = outputs_of(call.answer.block)
    if kind in _SYNTHETIC and len(texts_in(outputs)) == len(outputs):
        return kind
    answered = call.answer.native and OUTPUTS.get(type_of(call.answer.native))
    return kind if kind == answered else "function_call"


def _keeps_type(part: OutgoingPart) -> bool:
    """Return True if a stored item keeps its type, which must fit that of its partner."""
    if part.kind is PartKind.RESULT:
        return OUTPUTS.get(type_of(part.native)) == _call_type(part.call)
    return part.kind is not PartKind.CALL or _call_type(part) == type_of(part.native)


def _item(part: OutgoingPart) -> dict[str, Any]:
    if part.native is not None and _keeps_type(part):
        return as_dict(part.native)
    call = part.block
    asked = {"type": "function_call", "call_id": call["id"], "name": call["name"]}
    return {**asked, "arguments": compact_json(call["input"])}


def _content_part(block: Block) -> dict[str, Any]:
    if block["type"] == "image":
        return {"type": "input_image", "image_url": image_url(block), "detail": "auto"}
    if block["type"] == "document":
        file = "file_data" if as_dict(block["source"]).get("type") == "base64" else "file_url"
        named = {"filename": file_name(block)} if file == "file_data" else {}
        return {"type": "input_file", file: image_url(block), **named}
    return {"type": "input_text", "text": block["text"]}


def _output(part: OutgoingPart) -> dict[str, Any]:
    call_type = _call_type(part.call)
    if part.native is not None and _keeps_type(part):
        return as_dict(part.native)
    named = {"call_id": part.block["tool_use_id"]}
    outputs = outputs_of(part.block)
    texts = texts_in(outputs)
    if call_type in _SYNTHETIC:
        fields = _SYNTHETIC[call_type](part, "\n".join(texts))
        return {"type": f"{call_type}_output", **named, **fields}
    output: Any = [_content_part(output) for output in outputs]
    if len(outputs) == len(texts) <= 1:
        output = "".join(texts)
    return {"type": f"{call_type}_output", **named, "output": output}


RESPONSES_FORM: Final = _Responses()
