"""Token counts: how much each message costs by each counter, a cache that is filled on demand.

A message is counted as it was written and, if it is cleared, also as it is shown: the latter count
is stored as a variant that names what is cleared. Nothing is counted within a transaction, because
a counter may be slow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, and_, bindparam, func, select, text

from roocontext.errors import HistoryCorrupt
from roocontext.log.clearing import ShownOutput
from roocontext.log.counting import Counter, count_compaction, count_message
from roocontext.log.draft import UNCOVERED
from roocontext.log.encoding import check_id, decode, encode
from roocontext.log.entries import Control, Kind, Message, Range, ranges_of
from roocontext.log.moments import Point
from roocontext.log.spans import standing_ranges, within
from roocontext.store.engine.check_arguments import check_whole
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.schema import AT_SEQ, IN_RANGE, counts, entries, log_rows, of_session
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import (
    IS_MESSAGE,
    Cleared,
    bounds,
    companions,
    read_controls,
    read_messages,
)
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.reading.totals import to_totals
from roocontext.store.reading.usage import last_changed
from roocontext.store.reading.view import ShownRanges, shown_after, visible_now
from roocontext.store.writing.kept_counts import Counted, CountKey, keep_if_possible

_AS_WRITTEN = text("variant = ''")
_counted = and_(
    of_session(counts),
    counts.c.seq == entries.c.seq,
    _AS_WRITTEN,
    counts.c.counter == bindparam("counter"),
)
_messages_within = log_rows("seq").where(IN_RANGE, IS_MESSAGE)
_counts_within = (
    of_session(counts),
    _AS_WRITTEN,
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
# An anti-join reads every entry of its range, which took most of the time of a check when nothing
# was due. So it is only run where sums show how many counts are missing, and stops when it has
# found as many. It begins at the end, because messages without a count are usually the newest.
_MISSING = (
    _messages_within.where(~select(counts.c.seq).where(_counted).exists())
    .order_by(entries.c.seq.desc())
    .limit(bindparam("lacking"))
)
# A redaction removes the salt.
_REDACTED = _messages_within.where(entries.c.salt.is_(None))


def _total_at(name: str) -> list[ColumnElement[int | None]]:
    """The running totals at an entry."""
    at = of_session(entries), entries.c.seq == bindparam(name)
    totals = entries.c.messages_total, entries.c.bytes_total
    return [select(total).where(*at).scalar_subquery() for total in totals]


# The sum of the counts, how many there are, and what the range holds by the running totals.
_KEPT = select(
    func.coalesce(func.sum(counts.c.tokens), 0),
    func.count(),
    *_total_at("hi"),
    *_total_at("before"),
).where(*_counts_within)
_EACH = select(counts.c.seq, counts.c.tokens).where(*_counts_within)
_AT = select(counts.c.variant, counts.c.seq, counts.c.tokens, counts.c.exact).where(
    of_session(counts),
    counts.c.variant == bindparam("variant"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq == bindparam("seq"),
)
_USAGE = log_rows("usage").where(AT_SEQ)
COMPACTED: Final = "compacted"
"""The variant of a count that is the cost of a message's compaction alone."""

_AT_ONCE: Final = 2_000
"""How many entries of a long view are counted at once, because their contents are held."""


_Place: TypeAlias = tuple[str, int]
"""The variant of a count, and its message."""


class CountedPart(NamedTuple):
    """The cost of a part of a view, as far as it is known before the missing messages are counted.

    `kept` is the sum of the stored counts, and `bytes` the size of the contents, of the messages as
    they were written. `missing` are the messages without a count. `cleared` are the messages with
    cleared outputs, and the variants of their counts. `compacted` are those with a compaction that
    is in effect; its cost is in addition to that of the message.
    """

    kept: int
    bytes: int
    missing: Sequence[int]
    cleared: Mapping[int, str]
    compacted: Sequence[int] = ()


class CountedView(NamedTuple):
    """The tokens of a view, or of a part of it. `exact` is False if any were estimated."""

    tokens: int
    exact: bool


class Counting:
    """Adds up the cost of messages by one counter.

    Everything is read in one transaction. Call `count` when that has ended, because a counter may
    be slow; only then can the sums be asked for.
    """

    def __init__(self, log: SessionLog, counter: Counter, known: Counted | None = None) -> None:
        check_id("counter", counter.name)
        self._log = log
        self._counter = counter
        self.name = counter.name
        self._missing: set[int] = set()
        # With whether each is exact.
        self._counts: dict[_Place, tuple[int, bool]] = {
            (variant, seq): counted
            for (variant, name, seq), counted in (known.counts if known else {}).items()
            if name == counter.name
        }
        self._uncounted: dict[_Place, Message] = {}
        self._compactions: dict[int, tuple[Message, Any]] = {}
        self._redacted: set[int] = set()

    def part(
        self,
        ranges: Sequence[Range],
        cleared: Cleared,
        compacted: Mapping[int, Control] = MappingProxyType({}),
    ) -> CountedPart:
        """Look up the sum of these ranges, and read the messages in them that have no count."""
        bounded = self._bounds(ranges)
        stored = self._log.each(_KEPT, [{**each, "before": each["lo"] - 1} for each in bounded])
        ends = [
            (seq, *map(whole_number, total))
            for (lo, hi), (_, _, *totals) in zip(ranges, stored, strict=True)
            for seq, total in ((hi, totals[:2]), (lo - 1, totals[2:]))
            if seq != 0 and total[0] is not None  # before the first entry is nothing
        ]
        held = to_totals([[range_] for range_ in ranges], [ends])
        lacking = [
            {**stretch, "lacking": total.messages - known}
            for stretch, (_, known, *_), total in zip(bounded, stored, held, strict=True)
            if known < total.messages
        ]
        missing = sorted(row[0] for row in self._log.each(_MISSING, lacking))
        self._missing.update(missing)
        # As written: the sum of the kept counts is of the messages as written, and what a clearing
        # saves is subtracted from it.
        self._read([("", seq) for seq in missing], {})
        variants = {seq: _variant(blocks) for seq, blocks in cleared.items()}
        places = [(variant, seq) for seq, variant in variants.items()]
        self._look_up([*(("", seq) for seq in cleared), *places])
        self._read([place for place in places if place not in self._counts], cleared)
        self._look_up([(COMPACTED, seq) for seq in compacted])
        self._read_compactions(seq for seq in compacted if (COMPACTED, seq) not in self._counts)
        total = sum(whole_number(tokens) for tokens, *_ in stored)
        size = sum(total.bytes for total in held)
        return CountedPart(total, size, missing, variants, tuple(compacted))

    def each(self, ranges: Sequence[Range]) -> list[int]:
        """Look up the counts in these ranges, which are of a part, one by one; all messages."""
        rows = self._log.each(_EACH, self._bounds(ranges))
        self._counts |= {("", seq): (count, self._counter.exact) for seq, count in rows}
        ascending = sorted(ranges)
        return [*(seq for seq, _ in rows), *(s for s in self._missing if within(ascending, s))]

    def count(self) -> Counted:
        """Count the messages that were read, and return the new counts."""
        new: dict[_Place, tuple[int, bool]] = {}
        for place, message in self._uncounted.items():
            check_whole("count", count := count_message(self._counter, message))
            new[place] = count, self._counter.exact
        for seq, (message, usage) in self._compactions.items():
            new[COMPACTED, seq] = count_compaction(self._counter, message, usage)
        self._counts |= new
        keyed = {CountKey(variant, self.name, seq): new[variant, seq] for variant, seq in new}
        return Counted(keyed, frozenset(self._redacted))

    def sum(self, part: CountedPart) -> int:
        """The cost of a part as it is shown."""
        saved = sum(self._written(seq) - count for seq, count in self._shown(part).items())
        compactions = sum(self._counts[COMPACTED, seq][0] for seq in part.compacted)
        return part.kept + sum(map(self._written, part.missing)) - saved + compactions

    def is_exact(self, part: CountedPart) -> bool:
        """True if the counter is exact and the cost of no compaction in the part is an estimate."""
        compactions = (self._counts[COMPACTED, seq] for seq in part.compacted)
        return self._counter.exact and all(exact for _, exact in compactions)

    def by_seq(self, part: CountedPart) -> dict[int, int]:
        """The cost of each message as it is shown, of those that were looked up one by one."""
        written = {seq: count for (variant, seq), (count, _) in self._counts.items() if not variant}
        costs = written | self._shown(part)
        more = {seq: self._counts[COMPACTED, seq][0] for seq in part.compacted if seq in costs}
        return costs | {seq: costs[seq] + count for seq, count in more.items()}

    def _written(self, seq: int) -> int:
        try:
            return self._counts["", seq][0]
        except KeyError:  # as many counts as messages, by the running totals: these are wrong
            raise uncounted(seq) from None

    def _shown(self, part: CountedPart) -> dict[int, int]:
        """The costs of the messages with cleared outputs. A wrong clearing may name no message."""
        places = ((variant, seq) for seq, variant in part.cleared.items())
        return {place[1]: self._counts[place][0] for place in places if place in self._counts}

    def _look_up(self, places: Sequence[_Place]) -> None:
        asked = [
            {"variant": variant, "counter": self.name, "seq": seq}
            for variant, seq in places
            if (variant, seq) not in self._counts
        ]
        rows = self._log.each(_AT, asked)
        self._counts |= {(variant, seq): (count, exact) for variant, seq, count, exact in rows}

    def _read(self, places: Sequence[_Place], cleared: Cleared) -> None:
        """Read the messages of these counts, unless they were read for another part."""
        variants = {
            seq: variant
            for variant, seq in places
            if (variant, seq) not in self._counts and (variant, seq) not in self._uncounted
        }
        ranges = ranges_of(sorted(variants))
        redacted = self._log.each(_REDACTED, bounds(ranges))
        self._redacted.update(row[0] for row in redacted)
        messages = read_messages(self._log, ranges, cleared)
        self._uncounted |= {(variants[message.seq], message.seq): message for message in messages}

    def _read_compactions(self, seqs: Iterable[int]) -> None:
        """Read messages with a compaction, and the usage that was reported for them."""
        ranges = ranges_of(sorted(seqs))
        for message in read_messages(self._log, ranges, {}):
            row = self._log.row(_USAGE, seq=message.seq)
            usage = decode(row[0]) if row is not None and row[0] is not None else None
            self._compactions[message.seq] = message, usage

    def _bounds(self, ranges: Sequence[Range]) -> list[dict[str, Any]]:
        return [{**stretch, "counter": self.name} for stretch in bounds(ranges)]


def uncounted(seq: int) -> HistoryCorrupt:
    """The error for a message that the running totals leave out."""
    return HistoryCorrupt(f"Entry {seq} is a message that the running totals leave out.", seq=seq)


def _variant(blocks: Mapping[int, ShownOutput]) -> str:
    # A digest of what is cleared, so that another clearing of the message gets a count of its own.
    state = sha256(encode([[block, *shown] for block, shown in sorted(blocks.items())]).encode())
    return state.hexdigest()[:16]


def counted_view(
    database: SessionDatabase, counter: Counter, *, as_of: Point = None, after: int = 0
) -> CountedView:
    """Count the view after entry `after`. Only messages without a count are read."""
    with database.read() as log:
        visible = _shown_at(log, as_of).after(after)
    total, exact = 0, counter.exact
    for portion in _portions(visible.ranges):
        with database.read() as log:
            tally = Counting(log, counter)
            part = tally.part(*visible.within(portion))
        keep_if_possible(database, tally.count())
        total += tally.sum(part)
        exact = exact and tally.is_exact(part)
    return CountedView(total, exact)


def _portions(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Cut the ranges of a view into portions of so many entries."""
    portion: list[Range] = []
    room = _AT_ONCE
    for first, last in ranges:
        lo = first
        while last - lo >= room:
            yield [*portion, (lo, lo + room - 1)]
            lo, portion, room = lo + room, [], _AT_ONCE
        portion.append((lo, last))
        room -= last - lo + 1
    yield portion


def _shown_at(log: SessionLog, as_of: Point) -> ShownRanges:
    """Read the ranges of the view at a point in time."""
    if as_of is None:
        return visible_now(log, read_head(log).last_seq)
    seq = seq_at(log, as_of)
    # The spans of the present are cached, those of the past computed.
    if seq >= last_changed(log):  # the view has only grown since
        return visible_now(log, seq)
    return shown_after(read_controls(log, seq), seq)


@dataclass(frozen=True, slots=True)
class Restorable:
    """The newest summary, marker or clearing in effect, and the cost of the view without it.

    `costs` are by each of the counters, in their order, and `exact` is about the first of them.
    `head_seq` is the version of the session.
    """

    seq: int
    kind: Kind
    costs: tuple[int, ...]
    exact: bool
    head_seq: int


def restorable(
    database: SessionDatabase, counters: Sequence[Counter], given: Sequence[int]
) -> Restorable | None:
    """Find the newest one, as if those `given` were uncovered already; None if there is none."""
    with database.read() as log:
        head = read_head(log)
        controls = assumed_controls(log, head.last_seq, given)
        standing = standing_ranges(controls, assumed_end(controls, head.last_seq))
        candidates = (control for control in reversed(controls) if control.kind in UNCOVERED)
        newest = next((control for control in candidates if within(standing, control.seq)), None)
        if newest is None:
            return None
        controls.append(uncovering(log, controls, head.last_seq, newest.seq))
        ranges = shown_if(controls, head.last_seq)
        tallies = [Counting(log, counter) for counter in counters]
        parts = [tally.part(*ranges) for tally in tallies]
    for tally in tallies:
        keep_if_possible(database, tally.count())
    costs = tuple(tally.sum(part) for tally, part in zip(tallies, parts, strict=True))
    exact = tallies[0].is_exact(parts[0])
    return Restorable(newest.seq, newest.kind, costs, exact, head.head_seq)


def assumed_controls(log: SessionLog, last: int, uncovered: Sequence[int]) -> list[Control]:
    """The control rows up to the last entry, and those that would uncover these entries."""
    controls = read_controls(log, last)
    for seq in uncovered:
        controls.append(uncovering(log, controls, last, seq))
    return controls


def uncovering(log: SessionLog, controls: Sequence[Control], last: int, seq: int) -> Control:
    """The entry that would uncover another one, after all existing entries."""
    end = assumed_end(controls, last)
    standing = standing_ranges(controls, end)
    others = (row for row in companions(log, seq) if within(standing, row))
    return Control(end + 1, Kind.UNCOVERING, uncovers=(seq, *others))


def assumed_end(controls: Sequence[Control], last: int) -> int:
    """The last entry, those that are only assumed included."""
    return max(last, controls[-1].seq) if controls else last


def shown_if(controls: Sequence[Control], last: int) -> ShownRanges:
    """The ranges of the view after the control rows, as far as its entries exist."""
    visible = shown_after(controls, assumed_end(controls, last))
    ranges = [(lo, min(hi, last)) for lo, hi in visible.ranges if lo <= last]
    return visible._replace(ranges=ranges)
