"""The protocol of token counters, and the one counter that needs no model: bytes."""

from typing import Any, ClassVar, Protocol

from roocontext.log.encoding import encode
from roocontext.log.entries import Message


class Counter(Protocol):
    """Counts what a message costs; `exact` says whether it agrees with the provider's count."""

    @property
    def name(self) -> str:
        """The name that counts are stored under."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the count is the provider's own, not an estimate."""
        ...

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """What one message costs."""
        ...


class Bytes:
    """Counts the bytes of the stored content, which no model changes; no estimate of tokens."""

    name: ClassVar[str] = "bytes"
    exact: ClassVar[bool] = True

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002, ARG002
        """How long the content is as text."""
        return len(encode(content))


BYTES = Bytes()


def count_message(counter: Counter, message: Message) -> int:
    """What one message of a view costs."""
    return counter.count(message.role, message.content, message.format)
