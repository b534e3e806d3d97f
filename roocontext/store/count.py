"""Token counts: a cache of what each message costs by each counter, filled when it is asked for.

What is counted and kept is the message as it was written. What a clearing saves is counted anew,
because it depends on the view.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, func, insert, select

from roocontext.errors import StoreReadOnly
from roocontext.log.counting import Counter, count_message
from roocontext.log.encoding import check_id, decode
from roocontext.log.entries import Range
from roocontext.log.spans import spans_of, visible_ranges, within
from roocontext.store.append import lock, read_head
from roocontext.store.arguments import check_whole
from roocontext.store.database import Database, Transaction
from roocontext.store.live import live_ranges_now
from roocontext.store.schema import counts, entries
from roocontext.store.view import (
    IS_MESSAGE,
    Cleared,
    bounds,
    cleared_at,
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
_MISSING = select(entries.c.seq).where(*_within, ~select(counts.c.seq).where(_counted).exists())
_SUM = select(func.coalesce(func.sum(counts.c.tokens), 0)).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
_EACH = select(counts.c.seq, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter == bindparam("counter"),
    counts.c.seq.between(bindparam("lo"), bindparam("hi")),
)
_REQUEST = "request:"
_CALLS = (
    select(entries.c.seq, entries.c.model, entries.c.usage)
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq > bindparam("seq"),
        entries.c.usage.is_not(None),
    )
    .order_by(entries.c.seq)
)
_NEWEST_CONTROL = (
    select(entries.c.seq)
    .where(entries.c.session_id == bindparam("session_id"), entries.c.details.is_not(None))
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
)
_KNOWN = select(counts.c.seq).where(
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
    database: Database, session_id: str, counter: Counter, *, as_of: int | datetime | None = None
) -> int:
    """What the view costs; only messages that this counter has not seen are read and counted."""
    with database.read() as tx:
        ranges, cleared = _shown(tx, session_id, as_of)
        known = sum(row[0] for row in tx.each(_SUM, _named(session_id, counter, ranges)))
        counted = _count_missing(tx, session_id, counter, ranges)
        saving = [(seq, seq) for seq in cleared]
        whole = read_messages(tx, session_id, saving, {})
        shown = read_messages(tx, session_id, saving, cleared)
    _remember(database, session_id, counter, counted)
    saved = sum(count_message(counter, message) for message in whole)
    saved -= sum(count_message(counter, message) for message in shown)
    return int(known) + sum(counted.values()) - saved


def counts_of(
    database: Database, session_id: str, counter: Counter, *, hidden: bool = False
) -> dict[int, int]:
    """What each message of the view costs, by seq; with `hidden`, each live message."""
    with database.read() as tx:
        ranges, cleared = (
            live_ranges_now(tx, session_id) if hidden else _shown(tx, session_id, None)
        )
        known: dict[int, int] = dict(tx.each(_EACH, _named(session_id, counter, ranges)))
        counted = _count_missing(tx, session_id, counter, ranges)
        saving = [(seq, seq) for seq in cleared]
        shown = read_messages(tx, session_id, saving, cleared)
    _remember(database, session_id, counter, counted)
    return {**known, **counted, **{m.seq: count_message(counter, m) for m in shown}}


def keep_estimate(
    tx: Transaction, session_id: str, counter: Counter, seq: int, estimate: int
) -> None:
    """Keep what the request that brought a message was estimated at, by this counter."""
    _write(tx, session_id, _REQUEST + counter.name, {seq: estimate}, exact=counter.exact)


def calls(tx: Transaction, session_id: str, *, last: int | None = None) -> list[Call]:
    """The calls whose usage is in the log, oldest first; only among the `last` entries."""
    newest = read_head(tx, session_id).last_seq
    after = 0 if last is None else max(0, newest - last)
    rows = tx.rows(_CALLS, session_id=session_id, seq=after)
    estimates: dict[int, dict[str, int]] = defaultdict(dict)
    for seq, counter, estimate in tx.rows(_ESTIMATES, session_id=session_id, seq=after):
        estimates[seq][counter.removeprefix(_REQUEST)] = estimate
    (changed,) = tx.row(_NEWEST_CONTROL, session_id=session_id) or (0,)
    return [
        Call(seq, model, decode(usage), estimates[seq], seq > changed) for seq, model, usage in rows
    ]


def _shown(
    tx: Transaction, session_id: str, as_of: int | datetime | None
) -> tuple[Sequence[Range], Cleared]:
    if as_of is None:
        return visible_now(tx, session_id, read_head(tx, session_id).last_seq)
    seq = moment(tx, session_id, as_of)
    controls = read_controls(tx, session_id, seq)
    ranges = visible_ranges(spans_of(controls, seq), seq)
    ascending = sorted(ranges)
    cleared = cleared_at(controls, seq)
    return ranges, {row: blocks for row, blocks in cleared.items() if within(ascending, row)}


def _named(session_id: str, counter: Counter, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    check_id("counter", counter.name)
    return [{**stretch, "counter": counter.name} for stretch in bounds(session_id, ranges)]


def _count_missing(
    tx: Transaction, session_id: str, counter: Counter, ranges: Sequence[Range]
) -> dict[int, int]:
    """Count what no one has counted yet, as it was written."""
    missing = [row[0] for row in tx.each(_MISSING, _named(session_id, counter, ranges))]
    fresh = read_messages(tx, session_id, [(seq, seq) for seq in missing], {})
    counted = {message.seq: count_message(counter, message) for message in fresh}
    for count in counted.values():
        check_whole("count", count)
    return counted


def _remember(
    database: Database, session_id: str, counter: Counter, counted: Mapping[int, int]
) -> None:
    if counted:
        with suppress(StoreReadOnly):  # a cache: without it the next call counts again
            database.write(_write, session_id, counter.name, counted, exact=counter.exact)


def _write(
    tx: Transaction, session_id: str, counter: str, counted: Mapping[int, int], *, exact: bool
) -> None:
    lock(tx, session_id)
    row = {"session_id": session_id, "counter": counter}
    at = [{**row, "seq": seq} for seq in counted]
    known = {row[0] for row in tx.each(_KNOWN, at)}
    lasting = {row[0] for row in tx.each(_LASTING, at)}  # what was redacted meanwhile is not
    tx.many(
        _ADD,
        [
            {**row, "seq": seq, "tokens": count, "exact": exact}
            for seq, count in counted.items()
            if seq in lasting and seq not in known
        ],
    )
