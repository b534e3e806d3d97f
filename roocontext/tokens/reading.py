"""The parts of a message that are counted: the texts that the model reads, and the images.

All our own counters read every format in this way. An unknown block is counted as its JSON, which
is more than the model sees. Too high an estimate condenses the context early, while too low a one
makes the provider refuse the request.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.readings import Block, Holds, Piece, pieces, reader, walk
from roocontext.tokens.javascript import stringify


class Reading(NamedTuple):
    """The texts of a message in order, and its images as Anthropic's blocks."""

    texts: tuple[str, ...]
    images: tuple[Block, ...]


def read(role: str, content: Any, format: str) -> Reading:  # noqa: A002 - the log's word
    """Read one message of any format."""
    found = pieces(reader(format).blocks(role, content)[1])
    texts = tuple(text for text in _texts(found) if text)
    return Reading(texts, tuple(_images(found)))


def _texts(found: Iterable[Piece]) -> Iterator[str]:
    for kind, block, text, _ in walk(found):
        if kind is Holds.OUTPUT or (kind is Holds.MEDIA and block["type"] == "image"):
            continue
        if text is not None:
            yield text
            if kind is Holds.CALL:
                yield stringify(block.get("input"))
        elif isinstance(block, dict):  # a bare value inside an output is never sent
            yield stringify(block)


def _images(found: Iterable[Piece]) -> Iterator[Block]:
    for piece in walk(found):
        if piece.kind is Holds.MEDIA and piece.block["type"] == "image":
            yield piece.block


@dataclass(frozen=True, slots=True)
class TextCounter:
    """A counter from a rule for texts; the texts of a message are joined with spaces."""

    name: str
    tokens: Callable[[str], int]
    exact: bool = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message by the rule; images count as 0."""
        return self.tokens(" ".join(read(role, content, format).texts))


class Images:
    """Counts images, which providers limit by their number."""

    name = "images"
    exact = True

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """How many images the message shows, including those in tool outputs."""
        return len(read(role, content, format).images)


IMAGES = Images()
