"""What a reader of a format is."""

from collections.abc import Collection
from typing import Any, Final, Protocol, TypeAlias

Block: TypeAlias = dict[str, Any]
"""A part of a message: Anthropic's block, or what stands for it in another format."""

REDACTED: Final = "[redacted]"
"""What a redaction leaves in the place of a text."""


class Reader(Protocol):
    """Reads one format. It copies a content where it replaces something, and never changes one.

    It refuses nothing that could be a message, and it fails on nothing that its `check` accepts:
    what it does not know, or what has the wrong type, it leaves alone.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that a message of the format may have."""

    def check(self, role: str, content: object) -> None:
        """Raise InvalidMessage if this cannot be a message of the format."""

    def blocks(self, role: str, content: object) -> tuple[str, list[Block]]:
        """Read the message as Anthropic's role and blocks."""

    def outputs(self, content: object) -> tuple[int, ...]:
        """List the indices of the blocks that are tool outputs, which is what can be cleared."""

    def clear(self, content: object, indices: Collection[int], placeholder: str) -> object:
        """Copy the content with the placeholder in those tool outputs."""

    def skeleton(self, content: object) -> object:
        """Reduce the content to what a redaction leaves: role, types, tool ids and names."""

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        """Make the role and content of a message in which the user or assistant says a text."""

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        """Make the role and content of a message that answers one of the calls in this content.

        An output goes in as it is where the format has a place for its shape, else as its JSON.
        """
