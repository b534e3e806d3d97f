"""Token counts: a cache of what each message costs by each counter, filled when it is asked for.

What is counted and kept is the message as it was written, and once it is cleared, as it is shown
then, as a variant that says what is cleared. Nothing is counted within a transaction: a counter may
take its time.

What the view would cost if the newest summary, marker or clearing were uncovered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import and_, bindparam, func, select, text

from roocontext.errors import HistoryCorrupt
from roocontext.log.clearing import ShownOutput
from roocontext.log.counting import Counter, count_message
from roocontext.log.draft import UNCOVERED
from roocontext.log.encoding import check_id, encode
from roocontext.log.entries import Control, Kind, Message, Range, ranges_of
from roocontext.log.moments import Point
from roocontext.log.spans import spans_of, standing_ranges, visible_ranges, within
from roocontext.store.engine.check_arguments import check_whole
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import counts, entries
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import read_head
from roocontext.store.reading.live import live_ranges_now
from roocontext.store.reading.messages import (
    IS_MESSAGE,
    Cleared,
    bounds,
    cleared_at,
    read_controls,
    read_messages,
)
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.reading.totals import totals_of
from roocontext.store.reading.usage import newest_control
from roocontext.store.reading.view import visible_now
from roocontext.store.writing.kept_counts import Counted, CountKey, keep_if_possible
from roocontext.store.writing.uncover import companions

_AS_WRITTEN = text("variant = ''")
_counted = and_(
    counts.c.session_id == bindparam("session_id"),
    counts.c.seq == entries.c.seq,
    _AS_WRITTEN,
    counts.c.counter == bindparam("counter"),
)
_within = (
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq.between(bindparam("lo"), bindparam("hi")),
    IS_MESSAGE,
)
_counts_within = (
    counts.c.session_id == bindparam("session_id"),
    _AS_WRITTEN,
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
# An anti-join reads every entry of its range, which took most of the time of a check when nothing
# was due. So it is only run where sums show how many counts are missing, and ends when it has found
# as many: from the end, because what was counted last is usually followed by all that was not.
_MISSING = (
    select(entries.c.seq)
    .where(*_within, ~select(counts.c.seq).where(_counted).exists())
    .order_by(entries.c.seq.desc())
    .limit(bindparam("lacking"))
)
# A redaction removes the salt.
_REDACTED = select(entries.c.seq).where(*_within, entries.c.salt.is_(None))
_KEPT = select(func.coalesce(func.sum(counts.c.tokens), 0), func.count()).where(*_counts_within)
_EACH = select(counts.c.seq, counts.c.tokens).where(*_counts_within)
_AT = select(counts.c.variant, counts.c.seq, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.variant == bindparam("variant"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq == bindparam("seq"),
)
_ENTRY = select(entries.c.seq).where(
    entries.c.session_id == bindparam("session_id"), entries.c.seq == bindparam("seq")
)
_AT_ONCE: Final = 2_000
"""How many entries of a long view are counted at once, because their contents are held."""


_Place: TypeAlias = tuple[str, int]
"""The variant of a count, and its message."""


class CountedPart(NamedTuple):
    """What a part of a view costs, as far as it is known before the missing messages are counted.

    `kept` is the sum of the counts that are kept, and `bytes` what the contents take, of the
    messages as they were written. `cleared` are the messages with cleared outputs, and the
    variants that their counts are kept as.
    """

    kept: int
    bytes: int
    missing: Sequence[int]
    cleared: Mapping[int, str]


class Counting:
    """Adds up what messages cost by one counter.

    Everything is read in one transaction. `count` is called when that has ended, because a counter
    may take its time; only then can the sums be asked for.
    """

    def __init__(
        self, tx: Transaction, session_id: str, counter: Counter, known: Counted | None = None
    ) -> None:
        check_id("counter", counter.name)
        self._tx = tx
        self._session_id = session_id
        self._counter = counter
        self.name = counter.name
        self._missing: set[int] = set()
        given = known.counts.items() if known else ()
        self._counts = {
            (variant, seq): count
            for (variant, name, seq), (count, _) in given
            if name == counter.name
        }
        self._uncounted: dict[_Place, Message] = {}
        self._redacted: set[int] = set()

    def part(self, ranges: Sequence[Range], cleared: Cleared) -> CountedPart:
        """Look up the sum of these ranges, and read the messages in them that have no count."""
        kept, size, missing = _kept(self._tx, self._session_id, self._counter, ranges)
        self._missing.update(missing)
        # As written: the sum of the kept counts is of the messages as written, and what a clearing
        # saves is subtracted from it.
        self._read([("", seq) for seq in missing], {})
        variants = {seq: _variant(blocks) for seq, blocks in cleared.items()}
        shown = [(variant, seq) for seq, variant in variants.items()]
        self._look_up([*(("", seq) for seq in cleared), *shown])
        self._read([place for place in shown if place not in self._counts], cleared)
        return CountedPart(kept, size, missing, variants)

    def each(self, ranges: Sequence[Range]) -> list[int]:
        """Look up the counts in these ranges, which are of a part, one by one; all messages."""
        rows = self._tx.each(_EACH, _named(self._session_id, self._counter, ranges))
        self._counts |= {("", seq): count for seq, count in rows}
        within_ranges = sorted(ranges)
        missing = [seq for seq in self._missing if within(within_ranges, seq)]
        return [*(seq for seq, _ in rows), *missing]

    def count(self) -> Counted:
        """Count the messages that were read; what is new."""
        new = {}
        for place, message in self._uncounted.items():
            check_whole("count", count := count_message(self._counter, message))
            self._counts[place] = count
            variant, seq = place
            new[CountKey(variant, self.name, seq)] = count, self._counter.exact
        return Counted(new, frozenset(self._redacted))

    def sum(self, part: CountedPart) -> int:
        """What a part costs as it is shown."""
        shown = self._shown(part)
        saved = sum(self.of(seq) - count for seq, count in shown.items())
        return part.kept + sum(self.of(seq) for seq in part.missing) - saved

    def by_seq(self, part: CountedPart) -> dict[int, int]:
        """What each message costs as it is shown, of those that were looked up one by one."""
        written = {seq: count for (variant, seq), count in self._counts.items() if not variant}
        return written | self._shown(part)

    def of(self, seq: int) -> int:
        """What a message costs as it was written."""
        try:
            return self._counts["", seq]
        except KeyError:  # as many counts as messages, by the running totals: these are wrong
            raise uncounted(seq) from None

    def _shown(self, part: CountedPart) -> dict[int, int]:
        """What the messages with cleared outputs cost now. A wrong clearing may name no message."""
        places = ((variant, seq) for seq, variant in part.cleared.items())
        return {place[1]: self._counts[place] for place in places if place in self._counts}

    def _look_up(self, places: Sequence[_Place]) -> None:
        at = [
            {"session_id": self._session_id, "variant": variant, "counter": self.name, "seq": seq}
            for variant, seq in places
            if (variant, seq) not in self._counts
        ]
        found = self._tx.each(_AT, at)
        self._counts |= {(variant, seq): count for variant, seq, count in found}

    def _read(self, places: Sequence[_Place], cleared: Cleared) -> None:
        """Read the messages of these counts, unless that was done for another part."""
        variants = {
            seq: variant
            for variant, seq in places
            if (variant, seq) not in self._counts and (variant, seq) not in self._uncounted
        }
        ranges = ranges_of(sorted(variants))
        self._redacted.update(
            row[0] for row in self._tx.each(_REDACTED, bounds(self._session_id, ranges))
        )
        messages = read_messages(self._tx, self._session_id, ranges, cleared)
        self._uncounted |= {(variants[one.seq], one.seq): one for one in messages}


def uncounted(seq: int) -> HistoryCorrupt:
    """The error for a message that the running totals leave out."""
    return HistoryCorrupt(f"Entry {seq} is a message that the running totals leave out.", seq=seq)


def tokens(
    database: Database,
    session_id: str,
    counter: Counter,
    *,
    as_of: Point = None,
    after: int = 0,
) -> int:
    """What the view costs behind entry `after`; only messages without a count are read."""
    with database.read() as tx:
        shown = behind(after, *shown_at(tx, session_id, as_of))
        _check_end(tx, session_id, shown[0])
        first, *others = _portions(*shown)
        tally = Counting(tx, session_id, counter)
        part = tally.part(*first)
    total = _counted_sum(database, session_id, tally, part)
    for portion in others:
        with database.read() as tx:
            tally = Counting(tx, session_id, counter)
            part = tally.part(*portion)
        total += _counted_sum(database, session_id, tally, part)
    return total


def _check_end(tx: Transaction, session_id: str, ranges: Sequence[Range]) -> None:
    """Without its last entry a damaged session might be counted in portions without end."""
    last = max((hi for _, hi in ranges), default=0)
    if last > _AT_ONCE and tx.row(_ENTRY, session_id=session_id, seq=last) is None:
        raise HistoryCorrupt(f"Entry {last} of the view does not exist.", seq=last)


def _counted_sum(database: Database, session_id: str, tally: Counting, part: CountedPart) -> int:
    keep_if_possible(database, session_id, tally.count())
    return tally.sum(part)


def _portions(
    ranges: Sequence[Range], cleared: Cleared
) -> Iterator[tuple[Sequence[Range], Cleared]]:
    """The ranges in portions of so many entries, each with what is cleared in it; at least one."""
    portion: list[Range] = []
    room = _AT_ONCE
    for first, last in ranges:
        lo = first
        while last - lo >= room:
            portion.append((lo, lo + room - 1))
            yield _portion(portion, cleared)
            lo, portion, room = lo + room, [], _AT_ONCE
        portion.append((lo, last))
        room -= last - lo + 1
    yield _portion(portion, cleared)


def _portion(ranges: Sequence[Range], cleared: Cleared) -> tuple[Sequence[Range], Cleared]:
    ascending = sorted(ranges)
    return ranges, {seq: cut for seq, cut in cleared.items() if within(ascending, seq)}


def counts_of(
    database: Database, session_id: str, counter: Counter, *, hidden: bool = False
) -> dict[int, int]:
    """What each message of the view costs, by seq; with `hidden`, each live message."""
    with database.read() as tx:
        ranges, cleared = (
            live_ranges_now(tx, session_id) if hidden else shown_at(tx, session_id, None)
        )
        tally = Counting(tx, session_id, counter)
        tally.each(ranges)
        part = tally.part(ranges, cleared)
    keep_if_possible(database, session_id, tally.count())
    return tally.by_seq(part)


def behind(
    after: int, ranges: Sequence[Range], cleared: Cleared
) -> tuple[Sequence[Range], Cleared]:
    """The part of a view that follows entry `after`."""
    if not after:
        return ranges, cleared
    return (
        [(max(lo, after + 1), hi) for lo, hi in ranges if hi > after],
        {seq: blocks for seq, blocks in cleared.items() if seq > after},
    )


def shown_at(tx: Transaction, session_id: str, as_of: Point) -> tuple[Sequence[Range], Cleared]:
    """What the view shows at a point in time, and what is cleared in it."""
    if as_of is None:
        return visible_now(tx, session_id, read_head(tx, session_id).last_seq)
    seq = seq_at(tx, session_id, as_of)
    # The spans of the present are cached, those of the past computed.
    if seq >= newest_control(tx, session_id):  # the view has only grown since
        return visible_now(tx, session_id, seq)
    return shown_before(read_controls(tx, session_id, seq), seq)


def shown_before(controls: Sequence[Control], seq: int) -> tuple[Sequence[Range], Cleared]:
    """The same right after entry `seq`, of a session that was changed since."""
    ranges = visible_ranges(spans_of(controls, seq), seq)
    ascending = sorted(ranges)
    cleared = cleared_at(controls, seq)
    return ranges, {row: blocks for row, blocks in cleared.items() if within(ascending, row)}


def _named(session_id: str, counter: Counter, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    check_id("counter", counter.name)
    return [{**stretch, "counter": counter.name} for stretch in bounds(session_id, ranges)]


def _kept(
    tx: Transaction, session_id: str, counter: Counter, ranges: Sequence[Range]
) -> tuple[int, int, list[int]]:
    """The sum of the counts that are kept, the bytes, and the messages of which no count is."""
    named = _named(session_id, counter, ranges)
    kept = tx.each(_KEPT, named)
    held = totals_of(tx, session_id, [[one] for one in ranges])
    lacking = [
        {**stretch, "lacking": total.messages - found}
        for stretch, (_, found), total in zip(named, kept, held, strict=True)
        if found < total.messages
    ]
    missing = sorted(row[0] for row in tx.each(_MISSING, lacking))
    tokens = sum(whole_number(tokens) for tokens, _ in kept)
    return tokens, sum(total.bytes for total in held), missing


def _variant(blocks: Mapping[int, ShownOutput]) -> str:
    # A digest of what is cleared, so that another clearing of the message gets a count of its own.
    state = sha256(encode([[block, *shown] for block, shown in sorted(blocks.items())]).encode())
    return state.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Restorable:
    """The newest summary, marker or clearing that counts, and what the view costs without it.

    `costs` are by each of the counters, in their order. `head_seq` is the version of the session.
    """

    seq: int
    kind: Kind
    costs: tuple[int, ...]
    head_seq: int


def restorable(
    database: Database, session_id: str, counters: Sequence[Counter], given: Sequence[int]
) -> Restorable | None:
    """The newest one, as if those `given` were uncovered already; None if there is none."""
    with database.read() as tx:
        head = read_head(tx, session_id)
        controls = read_controls(tx, session_id, head.last_seq)
        for seq in given:
            controls.append(_uncovering(tx, session_id, controls, head.last_seq, seq))
        standing = standing_ranges(controls, _end(controls, head.last_seq))
        found = [one for one in controls if one.kind in UNCOVERED and within(standing, one.seq)]
        if not found:
            return None
        newest = found[-1]
        controls.append(_uncovering(tx, session_id, controls, head.last_seq, newest.seq))
        shown, cleared = shown_before(controls, _end(controls, head.last_seq))
        # The uncoverings that are only assumed are in no table.
        ranges = [(lo, min(hi, head.last_seq)) for lo, hi in shown if lo <= head.last_seq]
        tallies = [Counting(tx, session_id, counter) for counter in counters]
        parts = [tally.part(ranges, cleared) for tally in tallies]
    for tally in tallies:
        keep_if_possible(database, session_id, tally.count())
    costs = tuple(tally.sum(part) for tally, part in zip(tallies, parts, strict=True))
    return Restorable(newest.seq, newest.kind, costs, head.head_seq)


def _uncovering(
    tx: Transaction, session_id: str, controls: Sequence[Control], last: int, seq: int
) -> Control:
    """The entry that would uncover another one, after all existing entries."""
    end = _end(controls, last)
    named = companions(tx, session_id, seq)
    standing = standing_ranges(controls, end)
    rows = (seq, *(one for one in named if within(standing, one)))
    return Control(end + 1, Kind.UNCOVERING, uncovers=rows)


def _end(controls: Sequence[Control], last: int) -> int:
    """The last entry, those that are only assumed included."""
    return max(last, controls[-1].seq) if controls else last
