"""The form of Bedrock's Converse API: the arguments of boto3's `converse` and `converse_stream`.

Messages begin with the user and alternate. The results of a turn's calls come first in the next
message, each call has one, and no text is blank. Reasoning goes back only if it is signed or
sealed: models whose reasoning is plain text refuse it in a history. Bytes are `bytes`, as boto3
takes them; on the wire they are base64.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import is_
from typing import Any, Final

from roocontext.log.entries import Message
from roocontext.log.forms.anthropic import report_lost_thinking
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.block_rules import is_utf8
from roocontext.log.forms.parts import (
    IMAGES,
    OPENING,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    RequestState,
    attached_to_error,
    holds_image,
    is_inline,
    kind_of,
    outputs_of,
    stored,
)
from roocontext.log.forms.repairs import Rule
from roocontext.log.forms.tools import ANY_OBJECT, Function, system_text
from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string
from roocontext.log.readings.converse import converse_block, from_base64, is_call, with_bytes

NO_OUTPUT: Final = "[The tool returned nothing.]"
"""The text of an empty result, whose content may not be blank."""

ATTACHED: Final = "[See the document.]"
"""The text of a message that has documents and no words, which is refused."""

_NAME: Final = re.compile(r"(?!.*  )[a-zA-Z0-9 ()\[\]-]{1,200}")
"""The names of documents (langchain-ai/deepagents#2433)."""

_MARK: Final = {"cachePoint": {"type": "default"}}
_MOST: Final = 4
"""The most cache points of a request."""

_FIELDS: Final = {
    "toolUse": {"toolUseId", "name", "input", "type"},
    "toolResult": {"toolUseId", "content", "status", "type"},
}

_OF_ROLE: Final = {
    "assistant": {"text", "toolUse", "toolResult", "reasoningContent", "citationsContent"},
    "user": {
        *("text", "image", "document", "video", "audio", "toolResult"),
        *("guardContent", "searchResult"),
    },
}
"""The values that a block of a role may have."""

_MEDIA: Final = ("image", "document", "video", "audio")
"""The values that hold their data in a source."""


class _Converse(ProviderForm):
    format = "bedrock-converse"
    # Documented, for both.
    tool_id = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    # Claude's own rules hold here too.
    alternates = holds = apart = True
    about_documents = ("context",)

    def messages(self, turns: Sequence[OutgoingTurn], state: RequestState) -> list[dict[str, Any]]:
        if "claude" in (state.model or ""):
            report_lost_thinking(turns, state.repairs)
        return [_message(turn) for turn in turns]

    def made_tools(self, functions: Sequence[Function]) -> list[Block]:
        described = [function.described("inputSchema") for function in functions]
        return [
            {"toolSpec": {**it, "inputSchema": {"json": it["inputSchema"]}}} for it in described
        ]

    def framed(
        self, messages: list[dict[str, Any]], system: Any, tools: list[Block], *, cache: bool
    ) -> dict[str, Any]:
        # With calls in the history, definitions are required even if no tool is offered.
        asked = (
            block["toolUse"]["name"]
            for message in messages
            for block in message["content"]
            if is_call(block)
        )
        tools = tools or self.made_tools(
            [Function(name, "", ANY_OBJECT) for name in dict.fromkeys(asked)]
        )
        prompt = [{"text": system_text(system)}] if system else []
        if cache:
            of_user = [at for at, it in enumerate(messages) if it["role"] == "user"][:-3:-1]
            lists = [tools, prompt, *(messages[at]["content"] for at in of_user)]
            left = _MOST - sum("cachePoint" in tool for tool in tools)
            for place, blocks in enumerate(lists):
                if blocks and left > 0 and "cachePoint" not in blocks[-1]:
                    lists[place] = [*blocks, _MARK]
                    left -= 1
            tools, prompt, *contents = lists
            marked = dict(zip(of_user, contents, strict=True))
            messages = [
                {**it, "content": marked[at]} if at in marked else it
                for at, it in enumerate(messages)
            ]
        body: dict[str, Any] = {"messages": messages}
        if prompt:
            body["system"] = prompt
        return {**body, "toolConfig": {"tools": tools}} if tools else body

    def own(self, message: Message, state: RequestState) -> OwnRow:
        content, role = as_dict(message.content), message.role
        blocks = dicts(content.get("content"))
        equal = state.keeps_thinking(message)
        pieces = []
        for index, block in enumerate(blocks):
            named = _with_names(block, f"{message.seq}-{index}", state.ids)
            rules = [] if named is block else [Rule.RENAMED]
            pieces.append(_piece(role, named, rules, equal=equal))
        whole = content.keys() == {"role", "content"} and content["role"] == role
        # A document without a text beside it is refused (archestra-ai/archestra#4220).
        values = {name for block in blocks for name in block}
        whole = whole and not ("document" in values and "text" not in values)
        untouched = all(it.native is block for it, block in zip(pieces, blocks, strict=True))
        return OwnRow(pieces, whole and untouched)

    def shows(self, media: Block) -> bool:
        known = (is_inline if media["type"] == "document" else holds_image)(media)
        return known and from_base64(media["source"]["data"]) is not None


def _with_names(block: Block, place: str, taken: set[str]) -> Block:
    """Copy a block with valid names of its documents that no other has (maximhq/bifrost#7003)."""
    if isinstance(result := block.get("toolResult"), dict):
        parts = dicts(result.get("content"))
        named = [_with_names(part, f"{place}-{at}", taken) for at, part in enumerate(parts)]
        is_same = all(map(is_, named, parts))
        return block if is_same else {"toolResult": {**result, "content": named}}
    document = as_dict(block.get("document"))
    if not document:
        return block  # no document, or a redacted one
    name = string(document, "name")
    if name in taken or not _NAME.fullmatch(name):
        name = _document_name(name, place)
    taken.add(name)
    return block if name == document.get("name") else {"document": {**document, "name": name}}


def _document_name(title: str, place: str) -> str:
    words = re.sub(r"[^a-zA-Z0-9()\[\]-]+", " ", title).strip()[:150].strip()
    return f"{words or 'document'} {place}"


def _piece(role: str, block: Block, rules: list[Rule], *, equal: bool) -> OwnPiece:
    if "cachePoint" in block:
        return OwnPiece(PartKind.OTHER, None, None, [Rule.FIELD])
    common = converse_block(block)
    kind = PartKind.OTHER if common is None else kind_of(common)
    native = with_bytes(block) if _is_sound(role, block) else None
    if kind is PartKind.THINKING:
        reasoning = as_dict(block.get("reasoningContent"))
        signature = string(as_dict(reasoning.get("reasoningText")), "signature")
        thought = native if equal and ("redactedContent" in reasoning or signature) else None
        return OwnPiece(kind, None, thought, [] if thought else [Rule.THINKING])
    if native is not None and common is not None and attached_to_error(common):
        return OwnPiece(kind, common, None, [*rules, Rule.MOVED])
    return OwnPiece(kind, common, native, [Rule.MALFORMED] if common is None else rules)


def _is_sound(role: str, block: Block) -> bool:
    if len(block) != 1 or not is_utf8(block):
        return False
    ((name, held),) = block.items()
    if name == "text":
        return isinstance(held, str) and bool(held.strip())
    fields = as_dict(held)
    known = name in _OF_ROLE[role] and bool(fields)
    return known and fields.keys() <= _FIELDS.get(name, fields.keys()) and _holds(name, fields)


def _holds(name: str, fields: Block) -> bool:
    if name in _MEDIA and not as_dict(fields.get("source")):
        return False
    if name == "image":
        return f"image/{string(fields, 'format')}" in IMAGES
    if name == "toolUse":
        return bool(string(fields, "name")) and isinstance(fields.get("input"), dict)
    parts = fields.get("content")
    return name != "toolResult" or (
        isinstance(parts, list) and bool(parts) and all(map(_is_part, parts))
    )


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict) or len(part) != 1:
        return False
    ((name, held),) = part.items()
    if name == "text":
        return isinstance(held, str) and bool(held.strip())
    return _holds(name, as_dict(held))


def _message(turn: OutgoingTurn) -> dict[str, Any]:
    if not turn.parts:
        return {"role": "user", "content": [{"text": OPENING}]}
    if content := stored(turn.parts):
        return as_dict(content)
    results = [part for part in turn.parts if part.kind is PartKind.RESULT]
    rest = [part for part in turn.parts if part.kind is not PartKind.RESULT]
    blocks = [_result(part) for part in results]
    # An error holds nothing but texts.
    moved = [block for part in results if part.native is None for block in _moved(part)]
    by_row = [
        [part.native or _made(part) for part in row]
        for _, row in groupby(rest, key=lambda part: part.row)
    ]
    has_words = False
    for shown in (moved, *by_row):
        blocks += shown
        has_words = has_words or any("text" in block for block in shown)
        # Right after its row: a later one may not change what was sent before.
        if not has_words and any("document" in block for block in shown):
            blocks.append({"text": ATTACHED})
            has_words = True
    return {"role": turn.role, "content": blocks}


def _result(part: OutgoingPart) -> Block:
    if part.native is not None:
        return as_dict(part.native)
    is_error = part.block.get("is_error") is True
    outputs = outputs_of(part.block)
    sendable = [output for output in outputs if output["type"] == "text" or not is_error]
    content = [
        _block(part, number, it)
        for number, it in enumerate(sendable)
        if it["type"] != "text" or it["text"].strip()
    ]
    made = {"toolUseId": part.block["tool_use_id"], "content": content or [{"text": NO_OUTPUT}]}
    return {"toolResult": {**made, "status": "error"} if is_error else made}


def _moved(part: OutgoingPart) -> Iterator[Block]:
    if part.block.get("is_error") is True:
        media = (output for output in outputs_of(part.block) if output["type"] != "text")
        yield from (_block(part, number, it) for number, it in enumerate(media))


def _made(part: OutgoingPart) -> Block:
    if part.kind is not PartKind.CALL:
        return _block(part, 0, part.block)
    call = part.block
    return {"toolUse": {"toolUseId": call["id"], "name": call["name"], "input": call["input"]}}


def _block(part: OutgoingPart, number: int, block: Block) -> Block:
    match block["type"]:
        case "image":
            source = block["source"]
            data = {"bytes": from_base64(source["data"])}
            return {
                "image": {"format": source["media_type"].removeprefix("image/"), "source": data}
            }
        case "document":
            place = f"{part.row.message.seq}-{part.index}-{number}"
            document = {"format": "pdf", "name": _document_name(string(block, "title"), place)}
            about = {"context": block["context"]} if string(block, "context") else {}
            data = {"bytes": from_base64(block["source"]["data"])}
            return {"document": {**document, "source": data, **about}}
    return {"text": block["text"]}


CONVERSE_FORM: Final = _Converse()
