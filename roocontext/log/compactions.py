"""Compactions by the provider: blocks of a reply that stand for what the provider had read.

A block of Anthropic's has the text of its summary. The items of the Responses API are sealed: only
the model that made one can read it, and those that the table of limits names. A block without
content is a compaction that failed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from roocontext.log.entries import Kind, Message
from roocontext.log.model_names import is_same_model
from roocontext.log.readings.blocks import Block
from roocontext.registry import Registry

COMPACTION_TYPES: Final = {
    "anthropic": ("compaction",),
    "openai-responses": ("compaction", "compaction_summary"),
}
"""The types of the blocks and items that are compactions, by format."""

model_groups: Final[Registry[Callable[[str], str | None]]] = Registry("roocontext.model_groups")
"""The columns of the table of models that name what models have in common, by name."""

_NAMED: Final = '"compaction'
"""The beginning of their types in stored content."""


class Compaction(NamedTuple):
    """A compaction in a message: the index of its block, and its text.

    It has none if it is sealed, or if it `failed`.
    """

    block: int
    text: str | None
    failed: bool = False


def may_hold_compactions(content: str) -> bool:
    """False if a message with this stored content certainly holds no compaction."""
    return _NAMED in content


def compactions_in(format_: str, content: Any) -> list[Compaction]:
    """The compactions in a message, in order, failed ones too."""
    return [_read(format_, index, block) for index, block in _compactions(format_, content)]


def newest_compaction(format_: str, content: Any) -> Compaction | None:
    """The last compaction of a message that did not fail."""
    made = [compaction for compaction in compactions_in(format_, content) if not compaction.failed]
    return made[-1] if made else None


def is_compaction_only(format_: str, content: Any) -> bool:
    """True if a message holds compactions and nothing else."""
    return 0 < len(_compactions(format_, content)) == len(_blocks(content))


def without_compactions(format_: str, content: Any) -> list[Any]:
    """The content of a message without its compactions."""
    gone = {index for index, _ in _compactions(format_, content)}
    return [block for index, block in enumerate(_blocks(content)) if index not in gone]


def as_summary(message: Message, text: str) -> Message:
    """A text in place of a message's compaction, as a message of its own."""
    return replace(
        message,
        kind=Kind.SUMMARY,
        role="user",
        format="anthropic",
        content=[{"type": "text", "text": text}],
        asked_at=None,
        compacted=None,
    )


def reported_tokens(usage: Any, *, alone: bool) -> int | None:
    """The tokens of a compaction, by the usage of its call; None if that does not say.

    Of a call that only compacted, `alone`, they are its whole output.
    """
    if not isinstance(usage, dict):
        return None
    made = [request for request in iterations_of(usage) if request.get("type") == "compaction"]
    spent = made[-1] if made else usage if alone else {}
    tokens = spent.get("output_tokens")
    return tokens if type(tokens) is int and tokens > 0 else None


def iterations_of(usage: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requests of which a call of Anthropic consisted, as its usage lists them."""
    listed = usage.get("iterations")
    return [it for it in listed if isinstance(it, Mapping)] if isinstance(listed, list) else []


def can_read(model: str | None, maker: str | None) -> bool:
    """True if a model can read what another one sealed: it is the same, or of the same group."""
    if model is None or maker is None:
        return False
    group = model_groups["compactions"]
    return is_same_model(model, maker) or (
        group(maker) is not None and group(model) == group(maker)
    )


def _read(format_: str, index: int, block: Block) -> Compaction:
    text = block.get("content")
    if isinstance(text, str) and text.strip():
        return Compaction(index, text)
    is_sealed = format_ != "anthropic" and isinstance(block.get("encrypted_content"), str)
    return Compaction(index, None, failed=not is_sealed)


def _compactions(format_: str, content: Any) -> list[tuple[int, Block]]:
    types = COMPACTION_TYPES.get(format_, ())
    return [
        (index, block)
        for index, block in enumerate(_blocks(content))
        if isinstance(block, dict) and block.get("type") in types
    ]


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]
