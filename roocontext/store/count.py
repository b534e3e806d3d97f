"""Token counts: a cache of what each message costs by each counter, filled when it is asked for.

What is counted and kept is the message as it was written, and once it is cleared, as it is shown
then, under a name that says what is cleared. Nothing is counted within a transaction: a counter may
take its time.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, func, insert, select

from roocontext.errors import StoreFull, StoreReadOnly
from roocontext.log.counting import Counter, count_message
from roocontext.log.encoding import check_id, decode, encode
from roocontext.log.entries import Message, Range, ranges_of
from roocontext.log.spans import spans_of, visible_ranges, within
from roocontext.store.check_arguments import check_whole
from roocontext.store.database import Database
from roocontext.store.head import lock, read_head
from roocontext.store.live import live_ranges_now
from roocontext.store.schema import AFTER_SEQ, IN_LOG, counts, entries
from roocontext.store.shapes import whole
from roocontext.store.transaction import Transaction
from roocontext.store.view import (
    IS_MESSAGE,
    Cleared,
    bounds,
    cleared_at,
    counted,
    moment,
    read_controls,
    read_messages,
    visible_now,
)

_counted = and_(
    counts.c.session_id == entries.c.session_id,
    counts.c.seq == entries.c.seq,
    counts.c.counter == bindparam("counter"),
)
_within = (
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq.between(bindparam("lo"), bindparam("hi")),
    IS_MESSAGE,
)
_MISSING = (
    select(entries.c.seq)
    .where(*_within, ~select(counts.c.seq).where(_counted).exists())
    .order_by(entries.c.seq)
)
_REDACTED = select(entries.c.seq).where(*_within, entries.c.salt.is_(None))
_KEPT = select(func.coalesce(func.sum(counts.c.tokens), 0), func.count()).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
_LAST_KEPT = select(func.coalesce(func.max(counts.c.seq), 0)).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
_EACH = select(counts.c.seq, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
_AT = select(counts.c.seq, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq == bindparam("seq"),
)
_REQUEST = "request:"
_CLEARED = "cleared:"
_CALLS = (
    select(entries.c.seq, entries.c.model, entries.c.usage)
    .where(
        entries.c.session_id == bindparam("session_id"),
        AFTER_SEQ,
        entries.c.usage.is_not(None),
    )
    .order_by(entries.c.seq)
)
_NEWEST_CONTROL = (
    select(entries.c.seq)
    .where(entries.c.session_id == bindparam("session_id"), entries.c.details.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_ESTIMATES = select(counts.c.seq, counts.c.counter, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter > _REQUEST,
    counts.c.counter < _REQUEST[:-1] + ";",
    counts.c.seq > bindparam("seq"),
)
_LASTING = select(entries.c.seq).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.seq == bindparam("seq"),
    entries.c.salt.is_not(None),
    IN_LOG,
)
_KNOWN = select(counts.c.counter, counts.c.seq).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq == bindparam("seq"),
)
_ADD = insert(counts)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model: the answer's seq, what the provider reported, what was estimated before.

    The estimates are by counter. `current` says that the view has only grown since: no plan and no
    rewind came after it.
    """

    seq: int
    model: str | None
    usage: Any
    estimates: Mapping[str, int]
    current: bool


def tokens(
    database: Database,
    session_id: str,
    counter: Counter,
    *,
    as_of: int | datetime | None = None,
    after: int = 0,
) -> int:
    """What the view costs behind entry `after`; only messages without a count are read."""
    with database.read() as tx:
        ranges, cleared = _shown(tx, session_id, as_of)
        ranges = [(max(lo, after + 1), hi) for lo, hi in ranges if hi > after]
        cleared = {seq: blocks for seq, blocks in cleared.items() if seq > after}
        known, missing = _kept(tx, session_id, counter, ranges)
        fresh = _read(tx, session_id, ranges_of(missing), {})
        at = [{"session_id": session_id, "counter": counter.name, "seq": seq} for seq in cleared]
        whole: dict[int, int] = dict(tx.each(_AT, at))
        bare = _cleared(tx, session_id, counter, cleared)
    new, shown = _remembered(database, session_id, counter, fresh, bare)
    whole |= new
    saved = sum(whole[seq] - count for seq, count in shown.items())
    return known + sum(new.values()) - saved


def counts_of(
    database: Database, session_id: str, counter: Counter, *, hidden: bool = False
) -> dict[int, int]:
    """What each message of the view costs, by seq; with `hidden`, each live message."""
    with database.read() as tx:
        ranges, cleared = (
            live_ranges_now(tx, session_id) if hidden else _shown(tx, session_id, None)
        )
        _, missing = _kept(tx, session_id, counter, ranges)
        known: dict[int, int] = dict(tx.each(_EACH, _named(session_id, counter, ranges)))
        fresh = _read(tx, session_id, ranges_of(missing), {})
        bare = _cleared(tx, session_id, counter, cleared)
    new, shown = _remembered(database, session_id, counter, fresh, bare)
    return {**known, **new, **shown}


def keep_estimate(
    tx: Transaction, session_id: str, counter: Counter, seq: int, estimate: int
) -> bool:
    """Keep what the request that brought a message was estimated at; whether it is new."""
    rows = [(_REQUEST + counter.name, seq, estimate)]
    return _write(tx, session_id, rows, frozenset(), exact=counter.exact)


def calls(tx: Transaction, session_id: str, *, last: int | None = None) -> list[Call]:
    """The calls whose usage is in the log, oldest first; only among the `last` entries."""
    newest = read_head(tx, session_id).last_seq
    after = 0 if last is None else max(0, newest - last)
    rows = tx.rows(_CALLS, session_id=session_id, seq=after)
    estimates: dict[int, dict[str, int]] = defaultdict(dict)
    for seq, counter, estimate in tx.rows(_ESTIMATES, session_id=session_id, seq=after):
        estimates[seq][counter.removeprefix(_REQUEST)] = estimate
    changed = _newest_control(tx, session_id)
    return [
        Call(seq, model, decode(usage), estimates[seq], seq > changed) for seq, model, usage in rows
    ]


def _shown(
    tx: Transaction, session_id: str, as_of: int | datetime | None
) -> tuple[Sequence[Range], Cleared]:
    if as_of is None:
        return visible_now(tx, session_id, read_head(tx, session_id).last_seq)
    seq = moment(tx, session_id, as_of)
    if seq >= _newest_control(tx, session_id):  # the view has only grown since
        return visible_now(tx, session_id, seq)
    controls = read_controls(tx, session_id, seq)
    ranges = visible_ranges(spans_of(controls, seq), seq)
    ascending = sorted(ranges)
    cleared = cleared_at(controls, seq)
    return ranges, {row: blocks for row, blocks in cleared.items() if within(ascending, row)}


def _newest_control(tx: Transaction, session_id: str) -> int:
    row = tx.row(_NEWEST_CONTROL, session_id=session_id)
    return row[0] if row else 0


def _named(session_id: str, counter: Counter, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    check_id("counter", counter.name)
    return [{**stretch, "counter": counter.name} for stretch in bounds(session_id, ranges)]


def _kept(
    tx: Transaction, session_id: str, counter: Counter, ranges: Sequence[Range]
) -> tuple[int, list[int]]:
    """The sum of the counts that are kept, and the messages of which none is, ascending."""
    kept = tx.each(_KEPT, _named(session_id, counter, ranges))
    held = _messages_in(tx, session_id, ranges)
    lacking = [
        (stretch, found)
        for stretch, (_, found), messages in zip(ranges, kept, held, strict=True)
        if found < messages
    ]
    searched = _searched(tx, session_id, counter, lacking) if lacking else []
    rows = tx.each(_MISSING, _named(session_id, counter, searched))
    return sum(whole(tokens) for tokens, _ in kept), sorted(row[0] for row in rows)


def _searched(
    tx: Transaction, session_id: str, counter: Counter, lacking: Sequence[tuple[Range, int]]
) -> list[Range]:
    """Where to look for uncounted messages; each range comes with how many counts it has.

    What was counted last is usually followed by all that was not. So the part up to there is only
    searched if it lacks counts too.
    """
    lasts = tx.each(_LAST_KEPT, _named(session_id, counter, [stretch for stretch, _ in lacking]))
    begun = [
        ((lo, last), found)
        for ((lo, _), found), (last,) in zip(lacking, lasts, strict=True)
        if last
    ]
    held = _messages_in(tx, session_id, [stretch for stretch, _ in begun])
    rest = [
        (last + 1 if last else lo, hi)
        for ((lo, hi), _), (last,) in zip(lacking, lasts, strict=True)
    ]
    return rest + [
        stretch for (stretch, found), messages in zip(begun, held, strict=True) if found < messages
    ]


def _messages_in(tx: Transaction, session_id: str, ranges: Sequence[Range]) -> list[int]:
    return [messages for messages, _ in counted(tx, session_id, [[one] for one in ranges])]


class _Read(NamedTuple):
    """Messages to be counted, and the seqs of those that were redacted when they were read."""

    messages: Sequence[Message]
    redacted: frozenset[int]


def _read(tx: Transaction, session_id: str, ranges: Sequence[Range], cleared: Cleared) -> _Read:
    redacted = tx.each(_REDACTED, bounds(session_id, ranges))
    return _Read(
        read_messages(tx, session_id, ranges, cleared), frozenset(row[0] for row in redacted)
    )


class _Cleared(NamedTuple):
    """Rows with cleared outputs, by the name that their counts are kept under.

    The name says what is cleared: the same row may be cleared further, or be whole again.
    """

    names: Mapping[int, str]
    known: Mapping[int, int]
    fresh: _Read


def _cleared(tx: Transaction, session_id: str, counter: Counter, cleared: Cleared) -> _Cleared:
    """What is known of the rows as they are shown, and the rows of which nothing is."""
    names = {seq: _name(counter, blocks) for seq, blocks in cleared.items()}
    at = [{"session_id": session_id, "counter": name, "seq": seq} for seq, name in names.items()]
    known: dict[int, int] = dict(tx.each(_AT, at))
    unknown = [(seq, seq) for seq in cleared if seq not in known]
    return _Cleared(names, known, _read(tx, session_id, unknown, cleared))


def _name(counter: Counter, blocks: Mapping[int, str]) -> str:
    state = sha256(encode([list(block) for block in sorted(blocks.items())]).encode())
    return f"{_CLEARED}{state.hexdigest()[:16]}:{counter.name}"


def _count(counter: Counter, messages: Sequence[Message]) -> dict[int, int]:
    counted = {message.seq: count_message(counter, message) for message in messages}
    for count in counted.values():
        check_whole("count", count)
    return counted


def _remembered(
    database: Database,
    session_id: str,
    counter: Counter,
    fresh: _Read,
    bare: _Cleared,
) -> tuple[dict[int, int], dict[int, int]]:
    """Count what was read, and keep it: the messages whole, and cleared ones as they are shown."""
    new = _count(counter, fresh.messages)
    shown = _count(counter, bare.fresh.messages)
    rows = [(counter.name, seq, count) for seq, count in new.items()]
    rows += [(bare.names[seq], seq, count) for seq, count in shown.items()]
    redacted = fresh.redacted | bare.fresh.redacted
    if rows:
        with suppress(StoreReadOnly, StoreFull):  # a cache: without it the next call counts again
            database.write(_write, session_id, rows, redacted, exact=counter.exact)
    return new, {**bare.known, **shown}


def _write(
    tx: Transaction,
    session_id: str,
    rows: Sequence[tuple[str, int, int]],
    redacted: frozenset[int],
    *,
    exact: bool,
) -> bool:
    """Keep counts that are not kept yet; whether any was.

    The count of a message that was redacted after it was read would tell of what is gone.
    """
    lock(tx, session_id)
    at = [
        {"session_id": session_id, "counter": counter, "seq": seq, "tokens": count, "exact": exact}
        for counter, seq, count in rows
    ]
    keys = [{key: row[key] for key in ("session_id", "counter", "seq")} for row in at]
    known = {(name, seq) for name, seq in tx.each(_KNOWN, keys)}
    seqs = [{"session_id": session_id, "seq": seq} for seq in {seq for _, seq, _ in rows}]
    lasting = redacted.union(row[0] for row in tx.each(_LASTING, seqs))
    added = [
        row for row in at if row["seq"] in lasting and (row["counter"], row["seq"]) not in known
    ]
    tx.many(_ADD, added)
    return bool(added)
