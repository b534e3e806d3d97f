"""Appending a single message, which programs do most: a leaf of its own for each engine.

On PostgreSQL it is one statement, which takes the next seq and chains the hash on the server. On
SQLite its values go to the driver without a row in between. What is written is what
`append.write` would write.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import BigInteger, LargeBinary, and_, bindparam, case, func, insert, select, update
from sqlalchemy.sql import ClauseElement, ColumnElement, Insert

from roocontext.log.chain import Sealed, link
from roocontext.log.draft import Draft
from roocontext.log.times import own_time
from roocontext.store.append import COLUMNS, Receipt, beyond, insert_of, repeated_as, row_of
from roocontext.store.database import Database
from roocontext.store.driver_errors import UniqueViolation
from roocontext.store.head import SessionHead, check_version, lock, minute_of, move_head, read_head
from roocontext.store.schema import entries, sessions
from roocontext.store.transaction import Transaction

_DRAWN = ("seq", "messages_total", "bytes_total", "hash")
_GIVEN = [column for column in entries.columns if column.name not in _DRAWN]


def _is_earlier(time: ColumnElement[int], latest: str) -> ColumnElement[int]:
    return case((time < sessions.c[latest], 1), else_=0)


def _one_statement(*, expected: bool) -> ClauseElement:
    digest = bindparam("digest", type_=LargeBinary)
    in_session = sessions.c.session_id == bindparam("session_id")
    version = sessions.c.head_seq == bindparam("expected_seq", type_=BigInteger)
    recorded = bindparam("recorded_at", type_=BigInteger)
    own = bindparam("own_time", type_=BigInteger)
    moved = (
        update(sessions)
        .where(and_(in_session, sessions.c.purged_at.is_(None), *([version] if expected else ())))
        .values(
            last_seq=sessions.c.last_seq + 1,
            head_seq=sessions.c.last_seq + 1,
            last_hash=func.sha256(sessions.c.last_hash.op("||")(digest), type_=LargeBinary),
            messages=sessions.c.messages + 1,
            bytes=sessions.c.bytes + bindparam("size", type_=BigInteger),
            latest_recorded=func.greatest(sessions.c.latest_recorded, recorded),
            recorded_back=sessions.c.recorded_back + _is_earlier(recorded, "latest_recorded"),
            latest_own=func.greatest(sessions.c.latest_own, own),
            own_back=sessions.c.own_back + _is_earlier(own, "latest_own"),
            updated_at=recorded,
            updated_minute=bindparam("minute", type_=BigInteger),
        )
        .returning(sessions.c.last_seq, sessions.c.messages, sessions.c.bytes, sessions.c.last_hash)
        .cte("moved")
    )
    given = [bindparam(column.name, type_=column.type) for column in _GIVEN]
    return (
        insert(entries)
        .from_select([*_DRAWN, *(column.name for column in _GIVEN)], select(moved, *given))
        .returning(entries.c.seq, entries.c.hash)
    )


_VALUES = (
    *("session_id", "seq", "messages_total", "bytes_total"),
    *("salt", "content_digest", "hash", "tools", "content"),
    *Sealed._fields,
)
"""The columns of an entry in the order in which `_append_directly` has their values."""


@cache
def _direct(
    filled: tuple[bool, ...],
) -> tuple[Insert, Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    """The statement that fills these of the values, and what picks them for it."""
    names = {name for name, is_filled in zip(_VALUES, filled, strict=True) if is_filled}
    ordered = tuple(name for name in COLUMNS if name in names)
    return insert_of(ordered), itemgetter(*map(_VALUES.index, ordered))


_APPEND = _one_statement(expected=False)
_APPEND_EXPECTED = _one_statement(expected=True)


def append(
    database: Database, session_id: str, draft: Draft, expected_seq: int | None = None
) -> Receipt:
    """Append one message; repeated with the same client id, it gives the first receipt."""
    if database.dialect == "postgresql":
        return database.single(_append_in_one_statement, session_id, draft, expected_seq)
    return database.write(_append_directly, session_id, draft, expected_seq)


def _append_in_one_statement(
    tx: Transaction, session_id: str, draft: Draft, expected_seq: int | None
) -> Receipt:
    params = {
        **row_of(session_id, draft),
        "digest": draft.digest,
        "own_time": own_time(draft.sealed),
        "minute": minute_of(draft.sealed.recorded_at),
        "expected_seq": expected_seq,
    }
    statement = _APPEND if expected_seq is None else _APPEND_EXPECTED
    row = None
    with suppress(UniqueViolation):
        row = tx.row(statement, **params)
    if row is not None:
        return Receipt(session_id, row[0], row[1].hex(), row[0])
    # Nothing was written: a repeated request, no such session, or a session that moved on.
    repeated = repeated_as(tx, session_id, [draft])
    if repeated is not None:
        return repeated[0]
    head = read_head(tx, session_id)
    check_version(expected_seq, head)
    raise beyond(session_id, head.last_seq)


def _append_directly(
    tx: Transaction, session_id: str, draft: Draft, expected_seq: int | None
) -> Receipt:
    head = lock(tx, session_id)
    if draft.sealed.client_id is not None and (first := repeated_as(tx, session_id, [draft])):
        return first[0]
    check_version(expected_seq, head)
    sealed, seq, hash_ = draft.sealed, head.last_seq + 1, link(head.last_hash, draft.digest)
    new = SessionHead(
        *(seq, hash_, seq, head.messages + 1, head.bytes + sealed.size),
        updated_at=sealed.recorded_at,
        times=head.times.after(sealed),
    )
    values = (
        *(session_id, seq, new.messages, new.bytes),
        *(draft.salt, draft.content_digest, hash_, draft.tools, draft.content),
        *sealed,
    )
    statement, pick = _direct(tuple([value is not None for value in values]))
    try:
        tx.insert(statement, pick(values))
    except UniqueViolation:
        raise beyond(session_id, head.last_seq) from None
    move_head(tx, session_id, head, new)
    return Receipt(session_id, seq, hash_.hex(), seq)
