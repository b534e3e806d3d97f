"""The entries of a session's log.

An entry never changes. Entries with `details` are the control rows. What they hide, clear or take
back, and their position in the view, are fixed at commit. Everything else (tags, spans, the view)
is derived from them.

Some messages quote older messages: an answer to a recall tool repeats words that the model no
longer sees. The `extra` of such a message lists the entries that it quotes. A redaction of one of
these has to find the answers, and a search must skip them, or it would find the same words again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import MAX_INTEGER, decode
from roocontext.log.moments import happened
from roocontext.log.values import Value, fields_as_json

Range: TypeAlias = tuple[int, int]
"""First and last seq, both included."""

BlockRef: TypeAlias = tuple[int, int]
"""A seq and the index of a block in that entry's content."""


Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]


class Kept(NamedTuple):
    """The numbers of characters that stay of the head and the tail of a cleared block."""

    seq: Seq
    block: Number
    head: Number
    tail: Number


class Shortened(NamedTuple):
    """A block of a message that is cleared in part.

    It has `size` characters. `more` is True if it also holds something other than text.
    """

    block: int
    head: int
    tail: int
    size: int
    more: bool


def block_ref(seq: int | None, number: int | None) -> BlockRef | None:
    """The reference in two columns; none if a damaged row has only one of them."""
    return None if seq is None or number is None else (seq, number)


# Room between two messages for 32 insertions at the same spot (0025), and for 2^31 messages in 63
# bits.
POSITION_BITS = 32


def natural_position(seq: int) -> int:
    """The position in the view of a row that no plan inserted."""
    return seq << POSITION_BITS


class Kind(StrEnum):
    """The kinds of entries."""

    MESSAGE = "message"
    SUMMARY = "summary"
    MARKER = "marker"
    COMPANION = "companion"
    COVERING = "covering"
    CLEARING = "clearing"
    REWIND = "rewind"
    UNCOVERING = "uncovering"
    NOTE = "note"


def to_kind(seq: int, stored: str) -> Kind:
    """Read the kind of a stored entry; HistoryCorrupt if it is not known."""
    try:
        return Kind(stored)
    except ValueError:
        raise HistoryCorrupt(f"Entry {seq} has an unknown kind.", seq=seq) from None


MESSAGE_KINDS = frozenset({Kind.MESSAGE, Kind.SUMMARY, Kind.MARKER, Kind.COMPANION})
"""The kinds that the model may see."""


class Control(msgspec.Struct, frozen=True):
    """An entry that decides what is visible.

    It is a summary, marker, companion, covering, clearing, rewind or uncovering. The `source` of a
    covering is the block of a reply in which a provider compacted the rows that it hides; it is
    `sealed` if nobody else can read that block. A clearing may keep parts of the blocks that it
    clears. An uncovering names the summary, marker, covering or clearing that it takes back, and
    then its companions.
    """

    seq: int
    kind: Kind
    hides: tuple[tuple[Seq, Seq], ...] = ()
    position: Number | None = None
    clears: tuple[tuple[Seq, Number], ...] = ()
    keeps: tuple[Kept, ...] = ()
    placeholder: str = ""
    to: Number | None = None
    uncovers: tuple[Seq, ...] = ()
    source: tuple[Seq, Number] | None = None
    sealed: bool = False


class Compacted(NamedTuple):
    """A provider's compaction in a message, with the standing covering of what it hides.

    `companions` are messages that the provider returned with it, to be sent before it.
    """

    block: int
    sealed: bool
    covering: int
    companions: tuple[int, ...] = ()


class NewMessage(msgspec.Struct, Value, frozen=True):
    """A message to append, or to insert by a plan.

    `ts` is the agent's own time in milliseconds. `message_id` is the agent's name for the message
    and need not be unique. `client_id` names the request, so that it is safe to repeat. `extra` is
    any JSON of the agent's own, which no model and no policy sees. `asked_at` is the last entry
    that the request for a reply had read. `answers` is the call that a tool's answer belongs to:
    the entry that holds it, and its number among that entry's calls, from 0.
    """

    role: str
    content: Any
    format: str = "anthropic"
    ts: int | None = None
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    usage: Any = None
    extra: Any = None
    asked_at: int | None = None
    answers: BlockRef | None = None


class Entry(NamedTuple):
    """One row of the log as written. A tuple, because reads create thousands of them."""

    seq: int
    kind: Kind
    format: str | None
    role: str | None
    content: Any
    ts: int | None
    recorded_at: int
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    usage: Any = None
    compaction_id: str | None = None
    note: str | None = None
    target: int | None = None
    details: Any = None
    extra: Any = None
    asked_at: int | None = None
    answers: BlockRef | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


class Message(msgspec.Struct, Value, frozen=True):
    """A message as the view shows it: cleared blocks already hold their placeholder.

    `shortened` lists the cleared blocks whose head and tail stay. `compacted` is set if one of its
    blocks is a provider's compaction that is in effect.

    A struct, because a view creates hundreds, and creating a dataclass takes ten times as long.
    """

    seq: int
    kind: Kind
    role: str
    content: Any
    format: str
    ts: int | None
    recorded_at: int
    message_id: str | None
    compaction_id: str | None
    model: str | None = None
    cleared: tuple[int, ...] = ()
    asked_at: int | None = None
    answers: BlockRef | None = None
    shortened: tuple[Shortened, ...] = ()
    compacted: Compacted | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


@dataclass(frozen=True, slots=True)
class View(Value):
    """The effective history: the messages that the model sees right after entry `seq`, in order.

    `head_seq` is the version on which a plan made from this view is based. A page of a view is not
    `whole`, and no plan can be made from it.
    """

    session_id: str
    seq: int
    head_seq: int
    messages: tuple[Message, ...]
    whole: bool = True


def ascending(ranges: Sequence[Range], end: int) -> bool:
    """True if the ranges are ascending, disjoint, and between 1 and `end`."""
    last = 0
    for lo, hi in ranges:
        if not last < lo <= hi:
            return False
        last = hi
    return last <= end


def are_distinct(values: Sequence[object]) -> bool:
    """True if no value occurs twice."""
    return len(set(values)) == len(values)


def are_kept_of(keeps: Sequence[Kept], clears: Sequence[BlockRef]) -> bool:
    """True if each of the parts is of another one of the cleared blocks."""
    blocks = [kept[:2] for kept in keeps]
    return are_distinct(blocks) and set(blocks) <= set(clears)


def ranges_of(seqs: Sequence[int]) -> tuple[Range, ...]:
    """Ascending seqs as the fewest ranges that hold exactly them."""
    return joined_ranges((seq, seq) for seq in seqs)


def joined_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges, each of which is joined with the one before if that ends right before it."""
    parts: list[Range] = []
    for lo, hi in ranges:
        if parts and parts[-1][1] == lo - 1:
            parts[-1] = (parts[-1][0], hi)
        else:
            parts.append((lo, hi))
    return tuple(parts)


def subtract(whole: Sequence[Range], minus: Sequence[Range]) -> tuple[Range, ...]:
    """The parts of the first ranges that are not in the second; both ascending and disjoint."""
    left: list[Range] = []
    holes = iter(minus)
    hole = next(holes, None)
    for lo, hi in whole:
        start = lo
        while hole is not None and hole[0] <= hi:
            if hole[1] >= start:
                if hole[0] > start:
                    left.append((start, hole[0] - 1))
                start = hole[1] + 1
            if hole[1] > hi:
                break
            hole = next(holes, None)
        if start <= hi:
            left.append((start, hi))
    return tuple(left)


def common(first: Sequence[Range], second: Sequence[Range]) -> tuple[Range, ...]:
    """The intersection of two lists of ranges, both ascending and disjoint."""
    shared: list[Range] = []
    i = j = 0
    while i < len(first) and j < len(second):
        lo, hi = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if lo <= hi:
            shared.append((lo, hi))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(shared)


QUOTED: Final = "quoted_entries"
"""The name in a message's `extra` under which the entries that it quotes are listed."""


class Quote(NamedTuple):
    """The entries `lo` to `hi` of a session; None is the session of the message itself.

    A fork copies messages with their quotes: a quote from the same session becomes one from the
    fork.
    """

    session_id: str | None
    lo: int
    hi: int


def quoting(quotes: Iterable[Quote]) -> dict[str, Any]:
    """The `extra` of a message with these quotes."""
    return {QUOTED: [list(quote) for quote in quotes]}


def quotes_of(extra: Any) -> tuple[Quote, ...]:
    """The quotes of a message, read from its `extra`, in which an agent may store anything."""
    return tuple(Quote(*quote) for quote in _listed(extra) or ())


def is_quoting(extra: str | None) -> bool:
    """True if a message with this stored `extra` only quotes others.

    A recall tool's answer that found nothing has an empty list of quotes, and counts too.
    """
    # A search in the text first: almost no message quotes others.
    return extra is not None and f'"{QUOTED}"' in extra and _listed(decode(extra)) is not None


def _listed(extra: Any) -> list[Any] | None:
    listed = extra.get(QUOTED) if isinstance(extra, dict) else None
    is_ours = isinstance(listed, list) and all(map(_is_quote, listed))
    return listed if is_ours else None


def _is_quote(listed: Any) -> bool:
    match listed:
        case [str() | None, int(lo), int(hi)]:
            return 1 <= lo <= hi
    return False
