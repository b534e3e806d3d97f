"""Outgoing rows as parts: blocks of a row's reading, or pieces as they are stored.

Also the fixed texts that forms add, which depend only on what they quote, and Anthropic's own rules
for a block, in addition to those of every provider.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import THINKING, fix
from roocontext.log.forms.repairs import CONVERSIONS, Repair, Rule
from roocontext.log.forms.tools import with_name
from roocontext.log.model_names import is_same_model
from roocontext.log.readings import Block, calls, read_message
from roocontext.log.readings.blocks import as_dict, dicts, side_of, string, text, texts

OPENING: Final = "[The conversation continues from here.]"
"""The user message before or after an assistant message that needs one."""

UNANSWERED: Final = "[No result was recorded for this call.]"
"""The synthetic result of a call that has none."""

_ORPHAN: Final = "[Data: the result of an earlier call that is not shown, quoted as JSON]\n"


def no_result(call: Block) -> Block:
    """Answer a call that has no answer."""
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    return {**result, "content": UNANSWERED, "is_error": True}


def orphan(result: Block) -> Iterator[Block]:
    """Quote a result whose call is not sent, then its images."""
    parts = outputs_of(result)
    quoted = {"id": result["tool_use_id"], "content": texts_in(parts)}
    yield text(_ORPHAN + json.dumps(quoted, ensure_ascii=False))
    yield from (part for part in parts if part["type"] != "text")


def outputs_of(result: Block) -> list[Block]:
    """List the texts, images and PDFs of a result; any other part becomes a text."""
    content = result.get("content")
    if isinstance(content, str):
        return texts(content)
    return [
        part
        if is_pdf(part) or (part["type"] == "image" and "source" in part)
        else shown_as_text(part)
        for part in dicts(content)
    ]


def is_pdf(block: Block) -> bool:
    """Return True for a PDF, which is in the block or at a URL."""
    source = as_dict(block.get("source"))
    is_at_url = source.get("type") == "url" and isinstance(source.get("url"), str)
    return block.get("type") == "document" and (is_at_url or is_inline(block))


def is_inline(block: Block) -> bool:
    """Return True if the data of a PDF is in its block."""
    source = as_dict(block.get("source"))
    is_pdf = source.get("type") == "base64" and source.get("media_type") == "application/pdf"
    return is_pdf and isinstance(source.get("data"), str)


IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The types of images that all providers but Gemini accept."""


def holds_image(image: Block, types: Sequence[str] = IMAGES) -> bool:
    """Return True if the data of an image of one of these types is in its block."""
    source = as_dict(image.get("source"))
    return source.get("media_type") in types and isinstance(source.get("data"), str)


def texts_in(blocks: Sequence[Block]) -> list[str]:
    """List the texts of these blocks."""
    return [block["text"] for block in blocks if block["type"] == "text"]


def shown_as_text(block: Block) -> Block:
    """Show a document, a search result or anything else as text."""
    words = _document_text(block)
    if not words.strip():
        if tool := string(block, "tool_name"):
            return text(f"[the tool {tool}]")
        return attachment(string(block, "title") or block.get("type"))
    heads = (string(block, key) for key in ("title", "source", "context"))
    return text("\n".join([*filter(None, heads), words]))


def attachment(kind: object) -> Block:
    """Name an image or file that cannot be sent."""
    return text(f"[{kind if isinstance(kind, str) else 'file'} attached]")


def _document_text(block: Block) -> str:
    """The text of a document or search result, if it is text."""
    if block.get("type") == "text":
        return string(block, "text")
    source = as_dict(block.get("source"))
    if source.get("type") == "text":
        return string(source, "data")
    inner = [*dicts(block.get("content")), *dicts(source.get("content"))]
    return "\n".join(string(part, "text") for part in inner)


class PartKind(Enum):
    """The kinds of parts that the order of a request depends on."""

    CALL = auto()
    UNSENDABLE_CALL = auto()  # it is left out when the answers are linked, which count it too
    RESULT = auto()
    THINKING = auto()
    OTHER = auto()


class OwnPiece(NamedTuple):
    """A piece of a row that is stored in the form's own format.

    `native` is sent, if the provider accepts it. `block` shows a call or a result to the pairing,
    and is composed anew if there is no `native`.
    """

    kind: PartKind
    block: Block | None
    native: Any
    rules: Sequence[Rule] = ()


class OwnRow(NamedTuple):
    """A row in the form's own format: its pieces, and whether their order and frame are valid."""

    pieces: list[OwnPiece]
    whole: bool = True


class PartReader(Protocol):
    """The rules of a form by which its rows are read."""

    format: str
    about_documents: ClassVar[Collection[str]] = ("title",)
    """The fields with words about a document that the form has a place for."""

    def own(self, message: Message, state: "RequestState") -> OwnRow:
        """Split a row of the form's own format."""

    def shows(self, media: Block) -> bool:
        """Return True if the provider accepts this image, or this document."""


class OutgoingRow(msgspec.Struct, eq=False):
    """An outgoing message. A struct, as its parts are, because a request has thousands."""

    number: int
    message: Message
    role: str
    is_own: bool
    """True if it is stored in the shape in which it is sent."""
    is_whole: bool
    """True if the stored object can be sent whenever all of its pieces can."""
    pieces: int
    parts: list["OutgoingPart"] = msgspec.field(default_factory=list)


class OutgoingPart(msgspec.Struct, eq=False):
    """An outgoing block or stored piece; a call refers to its answer, and an answer to its call."""

    row: OutgoingRow
    index: int
    kind: PartKind
    block: Block
    native: Any = None
    answer: "OutgoingPart | None" = None
    call: "OutgoingPart | None" = None

    def rename(self, name: str) -> None:
        """Send the call with another name, and everything else as it is stored."""
        self.block = {**self.block, "name": name}
        self.row.is_whole = False
        if isinstance(self.native, dict):
            self.native = with_name(self.native, lambda _: name)

    def compose(self, **changed: Any) -> None:
        """Send the block with other fields instead of the stored piece."""
        self.block = {**self.block, **changed}
        self.native = None


def stored(parts: Sequence[OutgoingPart]) -> Any:
    """Return the stored content if these parts are exactly one unchanged row."""
    row = parts[0].row
    if not row.is_whole or len(parts) != row.pieces:
        return None
    same = all(
        part.row is row and part.index == index and part.native is not None
        for index, part in enumerate(parts)
    )
    return row.message.content if same else None


def kind_of(block: Block) -> PartKind:
    """The kind of a block."""
    match block["type"]:
        case "tool_use":
            return PartKind.CALL
        case "tool_result":
            return PartKind.RESULT
    return PartKind.THINKING if block["type"] in THINKING else PartKind.OTHER


class Repairs:
    """Collects the repairs of one request."""

    def __init__(self, repairs: Iterable[Repair] = ()) -> None:
        self._repairs = list(repairs)

    def add(self, row: OutgoingRow, rule: Rule, block: int | None = None) -> None:
        """Note a repair. A mere conversion between formats is not a repair."""
        if row.is_own or rule not in CONVERSIONS:
            self._repairs.append(Repair(row.message.seq, rule, block))

    def first_left_out(self, rule: Rule) -> dict[int, int]:
        """The first block that a rule left out of each row, by the row's seq."""
        blocks: dict[int, int] = {}
        for repair in self._repairs:
            if repair.rule is rule and repair.block is not None:
                blocks[repair.seq] = min(repair.block, blocks.get(repair.seq, repair.block))
        return blocks

    def listed(self) -> tuple[Repair, ...]:
        """All repairs in the order of the rows and their blocks."""
        key = lambda it: (it.seq, -1 if it.block is None else it.block)  # noqa: E731
        return tuple(sorted(self._repairs, key=key))


_ABOUT: Final = ("title", "context")
"""The fields of a document that hold words about it."""

_CONVERTED: Final = ("text", "image", "document", "tool_use", "tool_result")
"""The blocks that every form can make in its own shape."""


@dataclass(slots=True)
class RequestState:
    """The messages of one request while they are composed."""

    model: str | None
    drop_thinking: Collection[int]
    repairs: Repairs = field(default_factory=Repairs)
    ids: set[str] = field(default_factory=set)
    """The ids of earlier rows."""
    has_lost_reasoning: bool = False
    """True if the reasoning that the assistant's next items refer to was left out."""

    def is_of_model(self, message: Message) -> bool:
        """Return True if the model wrote this row."""
        return is_same_model(message.model, self.model)

    def keeps_thinking(self, message: Message) -> bool:
        """Return True if the model wrote this row and accepts its thinking."""
        return self.is_of_model(message) and message.seq not in self.drop_thinking


class OutgoingRows:
    """Reads rows for a form: leaves out what cannot be sent and fixes the rest."""

    def __init__(self, form: PartReader, state: RequestState) -> None:
        self._form = form
        self._state = state
        self._repairs = state.repairs

    def read(self, number: int, message: Message) -> OutgoingRow:
        """Read one row."""
        side = side_of(message.role)
        if side == "user":
            self._state.has_lost_reasoning = False
        if message.format != self._form.format:
            role, blocks = read_message(message)
            row = OutgoingRow(
                number, message, role, is_own=False, is_whole=False, pieces=len(blocks)
            )
            for index, shown in enumerate(blocks):
                self._add(row, index, shown)
            return row
        own = self._form.own(message, self._state)
        row = OutgoingRow(
            number,
            message,
            side,
            is_own=True,
            is_whole=own.whole,
            pieces=len(own.pieces),
        )
        for index, (kind, block, native, rules) in enumerate(own.pieces):
            for rule in rules:
                self._repairs.add(row, rule, index)
            if native is not None:
                row.parts.append(OutgoingPart(row, index, kind, block or {}, native))
            elif block is not None and not self._add(row, index, block) and not rules:
                self._repairs.add(row, Rule.FIELD, index)  # only what the block shows is sent
        return row

    def _add(self, row: OutgoingRow, index: int, block: Block) -> bool:
        """Add a block to be composed anew in the form's shape; return True if it was repaired."""
        repaired = [self._add_one(row, index, piece) for piece in self._with_words(block)]
        return any(repaired)

    def _with_words(self, block: Block) -> list[Block]:
        """A document after the words about it that it cannot hold in this form; any other block."""
        content = block.get("content")
        if block.get("type") == "tool_result" and isinstance(content, list):
            inner = [
                piece
                for part in content
                for piece in (self._with_words(part) if isinstance(part, dict) else [part])
            ]
            return [{**block, "content": inner} if len(inner) > len(content) else block]
        if block.get("type") != "document" or not self._form.shows(block):
            return [block]
        heads = [string(block, it) for it in _ABOUT if it not in self._form.about_documents]
        about = "\n".join(filter(str.strip, heads))
        return [*([text(about)] if about else []), block]

    def _add_one(self, row: OutgoingRow, index: int, block: Block) -> bool:
        if block.get("type") in THINKING:
            self._repairs.add(row, Rule.THINKING, index)
            return True
        named: list[object] = []
        cited = block.get("type") == "text" and block.get("citations")
        if cited:
            block = {key: it for key, it in block.items() if key != "citations"}
        fixed, rules = fix(row.role, changed(block, lambda it: self._shown(row.role, it, named)))
        rules = [*[Rule.CITATIONS] * bool(cited), *[Rule.MEDIA] * bool(named), *rules]
        if fixed is not None and fixed["type"] in _CONVERTED:
            row.parts.append(OutgoingPart(row, index, kind_of(fixed), fixed))
        elif fixed is not None:
            rules = [*rules, Rule.UNKNOWN]
        elif row.role == "assistant" and calls([block]):
            row.parts.append(OutgoingPart(row, index, PartKind.UNSENDABLE_CALL, block))
        for rule in rules:
            self._repairs.add(row, rule, index)
        return bool(rules)

    def _shown(self, role: str, block: Block, named: list[object]) -> Block:
        """Show a document as text; add it to `named` if the text only names what is attached."""
        kind = block.get("type")
        if kind not in ("file", "image", "document", "search_result"):
            return block
        # Without another field, a redaction left it; the assistant's are refused.
        if kind != "file" and (role == "assistant" or len(block) == 1):
            return block
        if kind in ("image", "document") and self._form.shows(block):
            return block
        if kind == "image":
            as_text = attachment(as_dict(block.get("source")).get("media_type") or kind)
        else:
            as_text = shown_as_text(block)
        if as_text["text"].endswith(" attached]"):
            named.append(kind)
        return as_text


def changed(block: Block, change: Callable[[Block], Block]) -> Block:
    """Change a block and the parts of a result; return the same object if nothing changes."""
    block = change(block)
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return block
    parts = [change(part) if isinstance(part, dict) else part for part in content]
    is_same = all(part is before for part, before in zip(parts, content, strict=True))
    return block if is_same else {**block, "content": parts}


# An unknown field is refused (anthropics/claude-code#4378); agents keep fields of their own here.
FIELDS: Final[dict[str, AbstractSet[str]]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control", "transformations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset(
        {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}
    ),
    "tool_result": frozenset(
        {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}
    ),
}
"""The fields that Anthropic knows of the blocks that agents write; a `null` is refused."""


def fix_own(role: str, block: Block) -> tuple[Block | None, list[Rule]]:
    """Return an Anthropic block made sendable, or None; and the rules that were broken."""
    words = block.get("text") if block.get("type") == "text" and len(block) == 2 else None
    # Most blocks are such texts, which break no rule: a third of the time of a long history.
    if isinstance(words, str) and words.isascii() and words.strip():
        return block, []
    fixed, rules = fix(role, block)
    if fixed is None:
        return None, rules
    slim = trimmed(fixed)
    if slim is not fixed:
        if slim["type"] in THINKING and fixed.keys() - slim.keys() != {"cache_control"}:
            return None, [Rule.THINKING]  # sent byte-exact or not at all
        rules.append(Rule.FIELD)
    reduced = changed(slim, _shown_image)
    if reduced is not slim:
        rules.append(Rule.MEDIA)
    return reduced, rules


def is_anthropic_image(image: Block) -> bool:
    """Return True if Anthropic accepts this image."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return holds_image(image)
    return any(isinstance(source.get(key), str) for key in ("url", "file_id"))


def attached_to_error(block: Block) -> list[Block]:
    """The parts of an error result that are not text, which Anthropic refuses."""
    if block["type"] != "tool_result" or block.get("is_error") is not True:
        return []
    return [it for it in dicts(block.get("content")) if it["type"] != "text"]


def trimmed(block: Block) -> Block:
    """Copy a block without the fields that Anthropic refuses; return it if it has none of these."""
    return changed(block, _with_known_fields)


def _with_known_fields(block: Block) -> Block:
    known = FIELDS.get(str(block.get("type")))
    if known is None or (block.keys() <= known and None not in block.values()):
        return block
    return {key: it for key, it in block.items() if key in known and it is not None}


def _shown_image(block: Block) -> Block:
    if block["type"] != "image" or is_anthropic_image(block):
        return block
    return attachment(as_dict(block.get("source")).get("media_type"))
