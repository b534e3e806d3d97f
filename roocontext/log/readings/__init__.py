"""How messages are read: one reader for each format, and one walk over their content.

The log keeps a message exactly as its agent wrote it. The reader of its format shows it as
Anthropic's role and blocks, in which `pieces` and `walk` find the texts, calls, outputs and images.
The built-in readers are registered in the same way as a plugin's.
"""

from typing import Any, Final, Protocol

from roocontext.errors import InvalidMessage, UnknownPlugin
from roocontext.log.readings.anthropic import ANTHROPIC
from roocontext.log.readings.blocks import (
    REDACTED,
    Block,
    ItemReader,
    Reader,
    RoleAndBlocks,
    calls,
    results,
)
from roocontext.log.readings.converse import CONVERSE
from roocontext.log.readings.gemini import GEMINI
from roocontext.log.readings.langchain import LANGCHAIN
from roocontext.log.readings.openai import OPENAI
from roocontext.log.readings.openai_responses import RESPONSES
from roocontext.log.readings.pieces import Holds, Piece, pieces, text_of, walk, words_of
from roocontext.log.readings.pydantic_ai import PYDANTIC_AI
from roocontext.registry import Registry

__all__ = [
    "REDACTED",
    "Block",
    "Holds",
    "ItemReader",
    "Piece",
    "Reader",
    "RoleAndBlocks",
    "calls",
    "is_known",
    "pieces",
    "read_message",
    "reader",
    "readers",
    "results",
    "text_of",
    "walk",
    "words_of",
]

readers: Final[Registry[Reader]] = Registry("roocontext.readings")


def reader(name: str, /) -> Reader:
    """Find the reader of a format."""
    try:
        if isinstance(name, str):
            return readers[name]
    except UnknownPlugin:
        pass
    raise InvalidMessage(f"format must be one of {', '.join(readers.known())}.", path="format")


class _Stored(Protocol):
    @property
    def format(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def content(self) -> Any: ...


def read_message(message: _Stored, /) -> RoleAndBlocks:
    """Read a message of the log as Anthropic's role and blocks."""
    return reader(message.format).blocks(message.role, message.content)


def is_known(name: str | None, role: str | None) -> bool:
    """Return True if the format exists and has this role."""
    return name is not None and readers.first([name]) is not None and role in readers[name].roles


readers.register("anthropic", ANTHROPIC)
readers.register("openai", OPENAI)
readers.register("openai-responses", RESPONSES)
readers.register("gemini", GEMINI)
readers.register("bedrock-converse", CONVERSE)
readers.register("langchain", LANGCHAIN)
readers.register("pydantic-ai", PYDANTIC_AI)
