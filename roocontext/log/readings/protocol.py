"""The protocol of a format's reader."""

from collections.abc import Collection
from typing import Any, Final, Protocol, TypeAlias

Block: TypeAlias = dict[str, Any]
"""A part of a message: Anthropic's block, or its counterpart in another format."""

REDACTED: Final = "[redacted]"
"""The text that a redaction leaves in place of a text."""


class Reader(Protocol):
    """Reads one format. It copies a content where it replaces something, and never changes one.

    It refuses nothing that could be a message, and it fails on nothing that its `check` accepts:
    values that it does not know, or that have the wrong type, it leaves alone.
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
        """Reduce the content to its skeleton for a redaction: role, types, tool ids and names."""

    def compose(self, role: str, text: str) -> tuple[str, Any]:
        """Make the role and content of a text message of the user or assistant."""

    def answer(
        self, content: object, number: int, output: object, *, is_error: bool
    ) -> tuple[str, Any]:
        """Make the role and content of a message that answers one of the calls in this content.

        The output is stored unchanged if the format has a place for its shape, else as JSON.
        """
