"""Outgoing rows as parts: blocks of the row's reading, or pieces as stored.

Anthropic's own rules for a block, beyond those that hold for every provider.

The fixed texts that forms add. They depend only on what they quote.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.block_rules import THINKING, fix
from roocontext.log.forms.repairs import CONVERSIONS, Repair, Rule
from roocontext.log.readings import Block, reader
from roocontext.log.readings.blocks import as_dict, dicts, string, text

OPENING: Final = "[The conversation continues from here.]"
"""The user message before or after an assistant message that needs one."""

UNANSWERED: Final = "[No result was recorded for this call.]"
"""The made-up result of a call that has none."""

_ORPHAN: Final = "[Data: the result of an earlier call that is not shown, quoted as JSON]\n"


def no_result(call: Block) -> Block:
    """Answer a call that has no answer."""
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    return {**result, "content": UNANSWERED, "is_error": True}


def orphan(result: Block) -> Iterator[Block]:
    """Quote a result whose call is not sent, then its images."""
    parts = outputs_of(result)
    texts = [part["text"] for part in parts if part["type"] == "text"]
    quoted = {"id": result["tool_use_id"], "content": texts}
    yield text(_ORPHAN + json.dumps(quoted, ensure_ascii=False))
    yield from (part for part in parts if part["type"] == "image")


def outputs_of(result: Block) -> list[Block]:
    """List the texts and images of a result, and a line in place of anything else."""
    content = result.get("content")
    if isinstance(content, str):
        return [text(content)] if content else []
    return [part if part["type"] == "image" else shown_as_text(part) for part in dicts(content)]


def shown_as_text(block: Block) -> Block:
    """Show a document, a search result or anything else as text."""
    shown = document_text(block)
    if not shown.strip():
        return attachment(string(block, "title") or block.get("type"))
    heads = (string(block, key) for key in ("title", "source", "context"))
    return text("\n".join([*filter(None, heads), shown]))


def attachment(kind: object) -> Block:
    """Name an image or file that cannot be sent."""
    return text(f"[{kind if isinstance(kind, str) else 'file'} attached]")


def document_text(block: Block) -> str:
    """The text of a document or search result, if it is text."""
    if block.get("type") == "text":
        return string(block, "text")
    source = as_dict(block.get("source"))
    if source.get("type") == "text":
        return string(source, "data")
    inner = [*dicts(block.get("content")), *dicts(source.get("content"))]
    return "\n".join(string(part, "text") for part in inner)


class PartKind(Enum):
    """What matters of a part for the order in which parts are sent."""

    CALL = auto()
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
    """What reading and arranging rows needs to know about a form."""

    format: str

    def own(self, message: Message, *, equal: bool) -> OwnRow:
        """Take apart a row of the form's own format; `equal` if its thinking may be sent."""

    def shows(self, image: Block) -> bool:
        """Whether the provider accepts this image."""


@dataclass(slots=True, eq=False)
class OutgoingRow:
    """An outgoing message."""

    number: int
    message: Message
    role: str
    is_own: bool
    """Whether it is stored in the shape in which it is sent."""
    is_whole: bool
    """Whether the stored object can be sent if all of its pieces can."""
    pieces: int
    parts: list["OutgoingPart"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class OutgoingPart:
    """An outgoing block or stored piece; a call refers to its answer, and an answer to its call."""

    row: OutgoingRow
    index: int
    kind: PartKind
    block: Block
    native: Any = None
    answer: "OutgoingPart | None" = None
    call: "OutgoingPart | None" = None

    def compose(self, **changed: Any) -> None:
        """Send the block with other fields instead of the stored piece."""
        self.block = {**self.block, **changed}
        self.native = None


def stored(parts: Sequence[OutgoingPart]) -> Any:
    """Find the stored content, if these parts are exactly one unchanged row."""
    row = parts[0].row
    if not row.is_whole or len(parts) != row.pieces:
        return None
    same = all(part.row is row and part.native is not None for part in parts)
    in_order = all(before.index < after.index for before, after in pairwise(parts))
    return row.message.content if same and in_order else None


def kind_of(block: Block) -> PartKind:
    """The kind of a block."""
    match block["type"]:
        case "tool_use":
            return PartKind.CALL
        case "tool_result":
            return PartKind.RESULT
    return PartKind.THINKING if block["type"] in THINKING else PartKind.OTHER


class Repairs:
    """The repairs made so far."""

    def __init__(self, found: Iterable[Repair] = ()) -> None:
        self._found = list(found)

    def add(self, row: OutgoingRow, rule: Rule, block: int | None = None) -> None:
        """Note a repair. A mere conversion between formats is not a repair."""
        if row.is_own or rule not in CONVERSIONS:
            self._found.append(Repair(row.message.seq, rule, block))

    def left_out(self, row: OutgoingRow, rule: Rule) -> list[int]:
        """The blocks of a row that were left out by a rule."""
        found = (it for it in self._found if it.seq == row.message.seq and it.rule is rule)
        return [it.block for it in found if it.block is not None]

    def listed(self) -> tuple[Repair, ...]:
        """All of them in the order of the rows and their blocks."""
        key = lambda it: (it.seq, -1 if it.block is None else it.block)  # noqa: E731
        return tuple(sorted(self._found, key=key))


_CONVERTED: Final = ("text", "image", "tool_use", "tool_result")
"""The blocks that every form can make in its own shape."""


class OutgoingRows:
    """Reads rows for a form: leaves out what cannot be sent and fixes the rest."""

    def __init__(
        self, shape: PartReader, model: str | None, drop_thinking: Collection[int], repairs: Repairs
    ) -> None:
        self._shape = shape
        self._model = model
        self._drop_thinking = drop_thinking
        self._repairs = repairs

    def read(self, number: int, message: Message) -> OutgoingRow:
        """Read one row."""
        read = reader(message.format)
        if message.format != self._shape.format:
            role, blocks = read.blocks(message.role, message.content)
            row = OutgoingRow(
                number, message, role, is_own=False, is_whole=False, pieces=len(blocks)
            )
            for index, shown in enumerate(blocks):
                self._add(row, index, shown)
            return row
        equal = message.model == self._model and message.seq not in self._drop_thinking
        own = self._shape.own(message, equal=equal)
        role, _ = read.blocks(message.role, None)
        row = OutgoingRow(
            number, message, role, is_own=True, is_whole=own.whole, pieces=len(own.pieces)
        )
        for index, (kind, block, native, rules) in enumerate(own.pieces):
            for rule in rules:
                self._repairs.add(row, rule, index)
            if native is not None:
                row.parts.append(OutgoingPart(row, index, kind, block or {}, native))
            elif block is not None and not self._add(row, index, block) and not rules:
                self._repairs.add(row, Rule.FIELD, index)  # what it is composed of is all that goes
        return row

    def _add(self, row: OutgoingRow, index: int, block: Block) -> bool:
        """Add a block to be composed anew in the form's shape; whether a repair was needed."""
        if block.get("type") in THINKING:
            self._repairs.add(row, Rule.THINKING, index)
            return True
        placed, rules = self._placed(row.role, block)
        fixed, more = fix(row.role, placed)
        for rule in (*rules, *more):
            self._repairs.add(row, rule, index)
        if fixed is not None and fixed["type"] in _CONVERTED:
            row.parts.append(OutgoingPart(row, index, kind_of(fixed), fixed))
        elif fixed is not None:
            self._repairs.add(row, Rule.UNKNOWN, index)
            return True
        return fixed is None or bool(rules or more)

    def _placed(self, role: str, block: Block) -> tuple[Block, list[Rule]]:
        """Replace what the provider cannot show by lines, at the top level and in a result."""
        inner = block.get("content") if block.get("type") == "tool_result" else None
        if isinstance(inner, list):
            placed = [
                self._placed("tool", it) if isinstance(it, dict) else (it, []) for it in inner
            ]
            if any(rules for _, rules in placed):
                return {**block, "content": [it for it, _ in placed]}, [Rule.MEDIA]
        kind = block.get("type")
        if (
            kind == "image"
            and role != "assistant"
            and len(block) > 1
            and not self._shape.shows(block)
        ):
            source = block.get("source")
            mime = source.get("media_type") if isinstance(source, dict) else None
            return attachment(mime if isinstance(mime, str) else kind), [Rule.MEDIA]
        if kind == "file":
            return shown_as_text(block), [Rule.MEDIA]
        if kind in ("document", "search_result") and role != "assistant" and len(block) > 1:
            shown = shown_as_text(block)
            return shown, [Rule.MEDIA] if shown["text"].endswith(" attached]") else []
        return block, []


_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

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
    said = block.get("text") if block.get("type") == "text" and len(block) == 2 else None
    # Most blocks are such texts, which break no rule: a third of the time of a long history.
    if isinstance(said, str) and said.isascii() and said.strip():
        return block, []
    fixed, rules = fix(role, block)
    if fixed is None:
        return None, rules
    slim = trimmed(fixed)
    if slim is not fixed:
        if slim["type"] in THINKING and fixed.keys() - slim.keys() != {"cache_control"}:
            return None, [Rule.THINKING]  # sent byte-exact or not at all
        rules.append(Rule.FIELD)
    placed = _placed(slim)
    if placed is not slim:
        rules.append(Rule.MEDIA)
    return placed, rules


def is_anthropic_image(image: Block) -> bool:
    """Whether Anthropic accepts this image."""
    source = as_dict(image.get("source"))
    if source.get("type") == "base64":
        return source.get("media_type") in _IMAGES and isinstance(source.get("data"), str)
    return any(isinstance(source.get(key), str) for key in ("url", "file_id"))


def attached_to_error(block: Block) -> list[Block]:
    """The parts of an error result that are not text, which Anthropic refuses."""
    if block["type"] != "tool_result" or block.get("is_error") is not True:
        return []
    return [it for it in dicts(block.get("content")) if it["type"] != "text"]


def trimmed(block: Block) -> Block:
    """A block without the fields that Anthropic refuses; the block itself if it has none."""
    known = FIELDS.get(str(block.get("type")))
    if known is not None and not (block.keys() <= known and None not in block.values()):
        block = {key: it for key, it in block.items() if key in known and it is not None}
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        inner = [trimmed(part) if isinstance(part, dict) else part for part in block["content"]]
        if any(it is not part for it, part in zip(inner, block["content"], strict=True)):
            return {**block, "content": inner}
    return block


def _placed(block: Block) -> Block:
    if block["type"] == "image":
        return (
            block
            if is_anthropic_image(block)
            else attachment(as_dict(block.get("source")).get("media_type"))
        )
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        inner = [_placed(part) for part in block["content"]]
        if any(it is not part for it, part in zip(inner, block["content"], strict=True)):
            return {**block, "content": inner}
    return block
