"""Token counts: a cache of what each message costs by each counter, filled when it is asked for.

What is counted and kept is the message as it was written. What a clearing saves is counted anew,
because it depends on the view.
"""

from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import and_, bindparam, func, insert, select

from roocontext.errors import StoreReadOnly
from roocontext.log.counting import Counter, count_message
from roocontext.log.encoding import check_id
from roocontext.store.append import lock, read_head
from roocontext.store.arguments import check_whole
from roocontext.store.database import Database, Transaction
from roocontext.store.schema import counts, entries
from roocontext.store.view import IS_MESSAGE, bounds, read_messages, visible_now

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


def tokens(database: Database, session_id: str, counter: Counter) -> int:
    """What the view costs; only messages that this counter has not seen are read and counted."""
    check_id("counter", counter.name)
    with database.read() as tx:
        ranges, cleared = visible_now(tx, session_id, read_head(tx, session_id).last_seq)
        named = [{**stretch, "counter": counter.name} for stretch in bounds(session_id, ranges)]
        known = sum(row[0] for row in tx.each(_SUM, named))
        missing = [(row[0], row[0]) for row in tx.each(_MISSING, named)]
        fresh = read_messages(tx, session_id, missing, {})
        saving = [(seq, seq) for seq in cleared]
        whole = read_messages(tx, session_id, saving, {})
        shown = read_messages(tx, session_id, saving, cleared)
    found = {message.seq: count_message(counter, message) for message in fresh}
    for count in found.values():
        check_whole("count", count)
    if found:
        with suppress(StoreReadOnly):  # a cache: without it the next call counts again
            database.write(_remember, session_id, counter, found)
    saved = sum(count_message(counter, message) for message in whole)
    saved -= sum(count_message(counter, message) for message in shown)
    return int(known) + sum(found.values()) - saved


def _remember(tx: Transaction, session_id: str, counter: Counter, found: Mapping[int, int]) -> None:
    lock(tx, session_id)
    row = {"session_id": session_id, "counter": counter.name}
    at = [{**row, "seq": seq} for seq in found]
    known = {row[0] for row in tx.each(_KNOWN, at)}
    lasting = {row[0] for row in tx.each(_LASTING, at)}  # what was redacted meanwhile is not
    tx.many(
        _ADD,
        [
            {**row, "seq": seq, "tokens": count, "exact": counter.exact}
            for seq, count in found.items()
            if seq in lasting and seq not in known
        ],
    )
