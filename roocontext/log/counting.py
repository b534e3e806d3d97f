"""The protocol of token counters, their registry, and the one that needs no model: bytes.

What providers reported for the calls of a session: data that the store and the sums share.

What a request may cost: tokens, and beside them bytes and images, which providers limit too.

What the table of models says about a model that the log has to know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.encoding import encode
from roocontext.log.entries import Message
from roocontext.log.moments import happened
from roocontext.log.values import fields_as_json
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

counters: Final[Registry[CounterFactory]] = Registry("roocontext.counters")


def counter_named(counter: Counter | str) -> Counter:
    """The counter itself, or the one of this name; anything else is refused."""
    if isinstance(counter, str):
        return counters[counter]("", None)
    if isinstance(counter, type) or not all(hasattr(counter, part) for part in _PARTS):
        raise InvalidOption(f"A counter has {', '.join(_PARTS)}.", name="counter")
    return counter


COMPACTION: Final = "compaction"
"""The kind of the notes about compactions."""

FAILED_SUMMARIES: Final = "summaries"
"""Where such a note keeps the calls that gave no usable summary."""


class ReportedUsage(NamedTuple):
    """The usage of one reply, or of the calls that a summariser made for one summary.

    `usage` is what was recorded, in the provider's own words. Of a summary it is what the
    summariser reported, and None if nothing was. With `is_failed`, its calls gave no summary.
    `ts` and `recorded_at` are those of the entry.
    """

    session_id: str
    seq: int
    model: str | None
    usage: Any
    recorded_at: int
    is_summary: bool = False
    is_failed: bool = False
    ts: int | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


class Size(NamedTuple):
    """What something costs in tokens, bytes and images."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def plus(self, other: "Size") -> "Size":
        """Both together."""
        return Size(
            self.tokens + other.tokens, self.bytes + other.bytes, self.images + other.images
        )

    def minus(self, other: "Size") -> "Size":
        """What is left without the other."""
        return Size(
            self.tokens - other.tokens, self.bytes - other.bytes, self.images - other.images
        )

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


FREE = Size()


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be sent; None is no limit."""

    tokens: int | None = None
    bytes: int | None = None
    images: int | None = None

    def exceeded_by(self, size: Size) -> dict[str, int]:
        """By how much, for each limit that is exceeded; empty when all are kept, equal included."""
        limits = {"tokens": self.tokens, "bytes": self.bytes, "images": self.images}
        over = {
            name: getattr(size, name) - limit for name, limit in limits.items() if limit is not None
        }
        return {name: excess for name, excess in over.items() if excess > 0}


UNLIMITED = Budget()


model_facts: Final[Registry[Callable[[str], bool]]] = Registry("roocontext.models")
"""The yes-or-no columns of the table, by name."""


def is_bound_to_prefix(model: str | None) -> bool:
    """Whether a model refuses its thinking after another prefix than the one it was made for."""
    return model is not None and model_facts["binds_thinking"](model)
