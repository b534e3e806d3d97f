"""Token counters, the usage that providers report, and the limits of a request.

The counter of bytes is here, because it needs no model. A request is limited in tokens, and by
providers also in bytes and images.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, sub
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from roocontext.errors import InvalidOption
from roocontext.log.compactions import (
    compactions_in,
    is_compaction_only,
    newest_compaction,
    reported_tokens,
    without_compactions,
)
from roocontext.log.encoding import encode
from roocontext.log.entries import Message, NewMessage
from roocontext.log.moments import happened
from roocontext.log.values import fields_as_json
from roocontext.registry import Registry

_PARTS: Final = ("name", "exact", "count")


class Counter(Protocol):
    """Counts the cost of a message; `exact` says whether it agrees with the provider's count."""

    @property
    def name(self) -> str:
        """The name that counts are stored under."""

    @property
    def exact(self) -> bool:
        """True if the count is the provider's own, False for an estimate."""

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The cost of one message."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """Counts the bytes of the stored content. It depends on no model and estimates no tokens."""

    name: ClassVar[str] = "bytes"
    exact: ClassVar[bool] = True
    counts_tokens: ClassVar[bool] = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002, ARG002
        """The length of the content as text."""
        return len(encode(content))


BYTES = Bytes()


def count_message(counter: Counter, message: Message | NewMessage) -> int:
    """The cost of one message. A compaction by the provider only counts if it is in effect."""
    compactions = compactions_in(message.format, message.content)
    if not compactions:
        return counter.count(message.role, message.content, message.format)
    rest = without_compactions(message.format, message.content)
    cost = counter.count(message.role, rest, message.format) if rest else 0
    compacted = message.compacted if isinstance(message, Message) else None
    return cost if compacted is None else cost + count_compaction(counter, message)[0]


def count_compaction(
    counter: Counter, message: Message | NewMessage, usage: Any = None
) -> tuple[int, bool]:
    """The cost of the compaction in a message, and whether it is exact.

    A sealed one has the tokens that the usage of its call reports, or else an estimate.
    """
    newest = newest_compaction(message.format, message.content)
    if newest is None:
        return 0, True
    content = message.content
    block = content[newest.block] if isinstance(content, list) else content
    if not getattr(counter, "counts_tokens", True):
        return counter.count(message.role, [block], message.format), True
    if newest.text is not None:
        text = [{"type": "text", "text": newest.text}]
        return counter.count("user", text, "anthropic"), counter.exact
    alone = is_compaction_only(message.format, message.content)
    reported = reported_tokens(usage, alone=alone)
    if reported is not None:
        return reported, True
    # Four characters of base64 are three bytes, and a token has about four of these.
    return len(block["encrypted_content"]) * 3 // 16, False


CounterFactory: TypeAlias = Callable[[str, Any], Counter]
"""Takes the name of the model and the caller's client, or None."""

counters: Final[Registry[CounterFactory]] = Registry("roocontext.counters")


def counter_named(counter: Counter | str) -> Counter:
    """The counter itself, or the counter of this name; anything else is refused."""
    if isinstance(counter, str):
        return counters[counter]("", None)
    if isinstance(counter, type) or not all(hasattr(counter, part) for part in _PARTS):
        raise InvalidOption(f"A counter must have {', '.join(_PARTS)}.", name="counter")
    return counter


COMPACTION: Final = "compaction"
"""The kind of the notes about compactions."""

FAILED_SUMMARIES: Final = "summaries"
"""Where such a note keeps the calls that gave no usable summary."""


class ReportedUsage(NamedTuple):
    """The usage of one reply, or of the calls that a summariser made for one summary.

    `usage` is recorded in the provider's own words. For a summary it is the summariser's report, or
    None without one. If `is_failed`, the calls gave no summary. `ts` and `recorded_at` are those of
    the entry.
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


class UsageGroup(NamedTuple):
    """The usage of a day, a model or a session. The `name` is None if the model is not known."""

    name: str | None
    rows: tuple[ReportedUsage, ...]

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


class Size(NamedTuple):
    """A cost in tokens, bytes and images."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def plus(self, other: "Size") -> "Size":
        """The sum of both."""
        return Size(*map(add, self, other))

    def minus(self, other: "Size") -> "Size":
        """The rest without the other."""
        return Size(*map(sub, self, other))

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
        """The excess over each limit that is exceeded. A size equal to its limit is within it."""
        limits = zip(Size._fields, (self.tokens, self.bytes, self.images), size, strict=True)
        return {
            unit: used - limit for unit, limit, used in limits if limit is not None and used > limit
        }


UNLIMITED = Budget()


model_facts: Final[Registry[Callable[[str], bool]]] = Registry("roocontext.models")
"""The yes-or-no columns of the table of models, by name."""


def is_bound_to_prefix(model: str | None) -> bool:
    """True if a model refuses its thinking after another prefix than the one it was made for."""
    return model is not None and model_facts["binds_thinking"](model)
