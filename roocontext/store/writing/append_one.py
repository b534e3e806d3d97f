"""Appending a single message, which programs do most: a leaf of its own for each engine.

On PostgreSQL it is one statement, which takes the next seq and chains the hash on the server. On
SQLite its values go to the driver without a row in between. What is written is what
`append.write` would write.
"""

from contextlib import suppress
from functools import cache

from sqlalchemy import (
    BigInteger,
    LargeBinary,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.sql import ClauseElement, ColumnElement

from roocontext.log.chain import link
from roocontext.log.draft import Draft
from roocontext.log.times import MINUTE_MS
from roocontext.store.engine.database import Database
from roocontext.store.engine.driver_errors import UniqueViolation
from roocontext.store.engine.schema import entries, sessions
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead, check_version, lock, move_head, read_head
from roocontext.store.writing.append import (
    VALUES,
    Receipt,
    beyond,
    drafted_prompt,
    filled_columns,
    filling,
    keep_first,
    not_earlier,
    repeated_as,
    times_after,
    values_of,
)

_DRAWN = ("seq", "messages_total", "bytes_total", "latest_happened", "hash")
_RETURNED = ("last_seq", "messages", "bytes", "latest_happened", "last_hash")
"""The columns of the session that these come from, in the same order."""


def _minute_of(time: ColumnElement[int]) -> ColumnElement[int]:
    # Division rounds towards zero on the server, and down in Python.
    minute = literal_column(f"{MINUTE_MS}", BigInteger)
    return time.op("/")(minute) - case((time.op("%")(minute) < 0, 1), else_=0)


@cache
def _one_statement(
    is_filled: tuple[bool, ...], *, expected: bool, refers: bool, prompts: bool
) -> ClauseElement:
    names = [name for name in filled_columns(is_filled) if name not in _DRAWN]
    digest = bindparam("digest", type_=LargeBinary)
    in_session = sessions.c.session_id == bindparam("session_id")
    # Conditions of the UPDATE, not checks before it: another writer may come between.
    conditions = [in_session, sessions.c.purged_at.is_(None)]
    if expected:
        conditions.append(sessions.c.head_seq == bindparam("expected_seq", type_=BigInteger))
    if refers:
        conditions.append(sessions.c.last_seq >= bindparam("refers_to", type_=BigInteger))
    recorded = bindparam("recorded_at", type_=BigInteger)
    own = bindparam("ts", type_=BigInteger) if "ts" in names else recorded
    # `greatest` and `least` pass over NULL: the time of no message yet.
    session_own = func.greatest(sessions.c.happened_at, own, type_=BigInteger)
    listed = func.least(session_own, recorded, type_=BigInteger)
    prompt = bindparam("prompt", type_=sessions.c.first_prompt.type)
    kept = {"first_prompt": func.coalesce(sessions.c.first_prompt, prompt)} if prompts else {}
    # One statement (0004): an UPDATE that draws the seq and chains the hash, as a CTE, and an
    # INSERT of what it returns. Separate statements took four round trips, with the row locked for
    # three. If the UPDATE matches no row, nothing is inserted and no row comes back: then only
    # another query can say why.
    moved = (
        update(sessions)
        .where(and_(*conditions))
        .values(
            last_seq=sessions.c.last_seq + 1,
            head_seq=sessions.c.last_seq + 1,
            last_hash=func.sha256(sessions.c.last_hash.op("||")(digest), type_=LargeBinary),
            messages=sessions.c.messages + 1,
            bytes=sessions.c.bytes + bindparam("size", type_=BigInteger),
            latest_recorded=func.greatest(sessions.c.latest_recorded, recorded),
            recorded_back=sessions.c.recorded_back
            + case((recorded < sessions.c.latest_recorded, 1), else_=0),
            latest_happened=func.greatest(sessions.c.latest_happened, own),
            happened_at=session_own,
            # The same rules as `Times.after` and `SessionHead`, written for the server; tests
            # compare the two.
            updated_at=recorded,
            updated_minute=_minute_of(recorded),
            listed_at=listed,
            listed_minute=_minute_of(listed),
            unindexed=true(),
            **kept,
        )
        .returning(*(sessions.c[name] for name in _RETURNED))
        .cte("moved")
    )
    given = [bindparam(name, type_=entries.c[name].type) for name in names]
    return (
        insert(entries)
        .from_select([*_DRAWN, *names], select(moved, *given))
        .returning(entries.c.seq, entries.c.hash)
    )


def append_message(
    database: Database, session_id: str, draft: Draft, expected_seq: int | None = None
) -> Receipt:
    """Append one message; repeated with the same client id, it gives the first receipt."""
    if database.dialect == "postgresql":
        return database.single(_append_in_one_statement, session_id, draft, expected_seq)
    return database.write(_append_directly, session_id, draft, expected_seq)


def _append_in_one_statement(
    tx: Transaction, session_id: str, draft: Draft, expected_seq: int | None
) -> Receipt:
    values = values_of(session_id, 0, 0, 0, 0, draft.digest, draft)
    prompt = drafted_prompt(draft)
    params = {
        **dict(zip(VALUES, values, strict=True)),
        "digest": draft.digest,
        "expected_seq": expected_seq,
        "refers_to": draft.refers_to,
        "prompt": prompt,
    }
    statement = _one_statement(
        tuple([value is not None for value in values]),
        expected=expected_seq is not None,
        refers=draft.refers_to > 0,
        prompts=prompt is not None,
    )
    row = None
    # A used client id aborts the statement, and with it the transaction, which is this statement
    # alone.
    with suppress(UniqueViolation):
        row = tx.row(statement, **params)
    if row is not None:
        return Receipt(session_id, row[0], row[1].hex(), row[0])
    # Nothing was written: a repeated request, no such session, a session that moved on, or no
    # such entry as it refers to.
    repeated = repeated_as(tx, session_id, [draft])
    if repeated is not None:
        return repeated[0]
    # Later than the statement: the head reported may be newer than the one that it failed on.
    head = read_head(tx, session_id)
    check_version(expected_seq, head)
    if draft.refers_to > head.last_seq:
        raise not_earlier(draft, head.last_seq + 1)
    raise beyond(session_id, head.last_seq)


def _append_directly(
    tx: Transaction, session_id: str, draft: Draft, expected_seq: int | None
) -> Receipt:
    head, sealed = lock(tx, session_id), draft.sealed
    if sealed.client_id is not None and (first := repeated_as(tx, session_id, [draft])):
        return first[0]
    check_version(expected_seq, head)
    if draft.refers_to > head.last_seq:
        raise not_earlier(draft, head.last_seq + 1)
    seq, hash_ = head.last_seq + 1, link(head.last_hash, draft.digest)
    messages, size = head.messages + 1, head.bytes + sealed.size
    times = times_after(head.times, draft)
    new = SessionHead(
        *(seq, hash_, seq, messages, size, sealed.recorded_at, head.created_at), times
    )
    values = values_of(session_id, seq, messages, size, times.latest_happened, hash_, draft)
    # Most messages fill half of the columns. Naming all of them took a sixth longer.
    statement, pick = filling(tuple([value is not None for value in values]))
    try:
        tx.put(statement, pick(values))
    except UniqueViolation:
        raise beyond(session_id, head.last_seq) from None
    move_head(tx, session_id, head, new)
    if not head.has_prompt:
        keep_first(tx, session_id, [draft])
    return Receipt(session_id, seq, hash_.hex(), seq)
