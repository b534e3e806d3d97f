"""What of a message is counted: the texts that the model reads, and the images.

This reading is the same for every counter of our own and for every format. What it does not know
is counted as its JSON, which is more than the model sees: a context that is thought to be too large
is condensed too early, one that is thought to be too small is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.blocks import Block, reader
from roocontext.tokens.javascript import stringify


class Reading(NamedTuple):
    """The texts of a message in order, and its images as Anthropic's blocks."""

    texts: tuple[str, ...]
    images: tuple[Block, ...]


def read(role: str, content: Any, format: str) -> Reading:  # noqa: A002 - the log's word
    """Read one message of any format."""
    blocks = reader(format).blocks(role, content)[1]
    texts = tuple(text for text in _texts(blocks) if text)
    return Reading(texts, tuple(_images(blocks)))


def _texts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case {"type": "text", "text": str(said)} | {"type": "thinking", "thinking": str(said)}:
                yield said
            case {"type": "tool_use", "name": str(name)}:
                yield name
                yield stringify(block.get("input"))
            case {"type": "tool_result"}:
                yield from _output(block.get("content"))
            case {"type": "image"}:
                continue
            case _:
                yield stringify(block)


def _output(content: Any) -> Iterator[str]:
    if isinstance(content, list):
        yield from _texts([part for part in content if isinstance(part, dict)])
    elif content is not None:
        yield content if isinstance(content, str) else stringify(content)


def _images(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if block.get("type") == "image":
            yield block
        elif block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            yield from _images([part for part in block["content"] if isinstance(part, dict)])


@dataclass(frozen=True, slots=True)
class TextCounter:
    """A counter made of a rule for texts; a message is its texts with a space between them."""

    name: str
    tokens: Callable[[str], int]
    exact: bool = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """What one message costs by the rule; images cost nothing."""
        return self.tokens(" ".join(read(role, content, format).texts))


class Images:
    """Counts images, which providers limit by their number."""

    name = "images"
    exact = True

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """How many images the message shows, those in tool outputs included."""
        return len(read(role, content, format).images)


IMAGES = Images()
