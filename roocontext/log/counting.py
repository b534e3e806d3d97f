"""The protocol of token counters, their registry, and the one that needs no model: bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.encoding import encode
from roocontext.log.entries import Message
from roocontext.registry import Registry

_PARTS: Final = ("name", "exact", "count")


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


@dataclass(frozen=True, slots=True)
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


CounterFactory: TypeAlias = Callable[[str, Any], Counter]
"""Takes the name of the model and the caller's client, or None."""

counters: Final[Registry[CounterFactory]] = Registry(
    "roocontext.counters", home="roocontext.tokens.builtin"
)


def counter_named(counter: Counter | str) -> Counter:
    """The counter itself, or the one of this name; anything else is refused."""
    if isinstance(counter, str):
        return counters[counter]("", None)
    if isinstance(counter, type) or not all(hasattr(counter, part) for part in _PARTS):
        raise InvalidOption(f"A counter has {', '.join(_PARTS)}.", name="counter")
    return counter
