"""Writing entries: take the next seq, chain the hash, keep the running totals.

Everything that is ever written to a log goes through `write`, but for one leaf: on PostgreSQL a
single message is one statement, which takes the next seq and chains the hash on the server.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    LargeBinary,
    and_,
    bindparam,
    case,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.sql import ClauseElement, ColumnElement

from roocontext.errors import (
    DuplicateMessage,
    HistoryCorrupt,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from roocontext.log.chain import link
from roocontext.log.draft import Draft
from roocontext.log.encoding import decode
from roocontext.log.times import Times, own_time
from roocontext.store.database import Database, Transaction
from roocontext.store.faults import UniqueViolation
from roocontext.store.schema import entries, sessions, spans


class Receipt(msgspec.Struct, frozen=True):
    """What is durable once it is returned: the entry's place, and the hash that proves it.

    `head_seq` is what `expected_seq` is compared with next. A repeated append gets its first
    receipt again: `new` is False then, and `rewound_by` names the rewind that took it back, if any.
    """

    session_id: str
    seq: int
    hash: str
    head_seq: int
    new: bool = True
    rewound_by: int | None = None


class Standing(NamedTuple):
    """Where a session stands."""

    last_seq: int
    last_hash: bytes
    head_seq: int
    messages: int
    bytes: int
    times: Times = Times()

    def columns(self) -> dict[str, Any]:
        """The columns of the session's row that say so."""
        columns = self._asdict()
        return {**columns, **columns.pop("times")._asdict()}


_session_id = sessions.c.session_id == bindparam("session_id")
_HEAD_COLUMNS = (
    sessions.c.last_seq,
    sessions.c.last_hash,
    sessions.c.head_seq,
    sessions.c.messages,
    sessions.c.bytes,
    *(sessions.c[name] for name in Times._fields),
    sessions.c.purged_at,
    sessions.c.receipt,
)
_READ_HEAD = select(*_HEAD_COLUMNS).where(_session_id)
_LOCK_HEAD = _READ_HEAD.with_for_update()
_MOVED = ("last_seq", "last_hash", "head_seq", "messages", "bytes", *Times._fields, "updated_at")
_MOVE_HEAD = (
    update(sessions).where(_session_id).values({name: bindparam(f"new_{name}") for name in _MOVED})
)
_INSERT = insert(entries)
_BY_CLIENT_ID = select(
    entries.c.seq,
    entries.c.hash,
    entries.c.role,
    entries.c.format,
    entries.c.salt,
    entries.c.content,
).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.client_id == bindparam("client_id"),
)
_REWOUND_BY = (
    select(spans.c.rewound_by)
    .where(spans.c.session_id == bindparam("session_id"), spans.c.lo <= bindparam("seq"))
    .order_by(spans.c.lo.desc())
    .limit(1)
)

_DRAWN = ("seq", "messages_total", "bytes_total", "hash")
_GIVEN = [column for column in entries.columns if column.name not in _DRAWN]


def _is_earlier(time: ColumnElement[int], latest: str) -> ColumnElement[int]:
    return case((time < sessions.c[latest], 1), else_=0)


def _one_statement(*, expected: bool) -> ClauseElement:
    digest = bindparam("digest", type_=LargeBinary)
    version = sessions.c.head_seq == bindparam("expected_seq", type_=BigInteger)
    recorded = bindparam("recorded_at", type_=BigInteger)
    own = bindparam("own_time", type_=BigInteger)
    moved = (
        update(sessions)
        .where(and_(_session_id, sessions.c.purged_at.is_(None), *([version] if expected else ())))
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


_APPEND = _one_statement(expected=False)
_APPEND_EXPECTED = _one_statement(expected=True)


def append(
    database: Database, session_id: str, draft: Draft, expected_seq: int | None = None
) -> Receipt:
    """Append one message; repeated with the same client id, it gives the first receipt."""
    if database.dialect == "postgresql":
        return database.single(_append_in_one_statement, session_id, draft, expected_seq)
    return database.write(append_many, session_id, [draft], expected_seq)[0]


def append_many(
    tx: Transaction, session_id: str, drafts: Sequence[Draft], expected_seq: int | None = None
) -> list[Receipt]:
    """Append messages, all or none; when all were stored before, give their first receipts."""
    head = lock(tx, session_id)
    repeated = _repeated(tx, session_id, drafts)
    if repeated is not None:
        return repeated
    check_version(expected_seq, head)
    return write(tx, session_id, head, drafts)


def lock(tx: Transaction, session_id: str) -> Standing:
    """Where the session stands, for one that will write: nobody else will until it is done."""
    return _head(session_id, tx.row(_LOCK_HEAD, session_id=session_id))


def read_head(tx: Transaction, session_id: str) -> Standing:
    """Where the session stands."""
    return _head(session_id, tx.row(_READ_HEAD, session_id=session_id))


def check_version(expected_seq: int | None, head: Standing) -> None:
    """Refuse a writer whose session has moved on."""
    if expected_seq is not None and expected_seq != head.head_seq:
        raise VersionConflict(
            f"Expected head {expected_seq}, but it is {head.head_seq}.",
            expected=expected_seq,
            actual=head.head_seq,
        )


def write(
    tx: Transaction, session_id: str, head: Standing, drafts: Sequence[Draft]
) -> list[Receipt]:
    """Chain the drafts to a locked session and store them."""
    rows = []
    seq, hash_, head_seq, messages, size, times = head
    for draft in drafts:
        seq += 1
        hash_ = link(hash_, draft.digest)
        head_seq = head_seq if draft.is_note else seq
        if draft.is_message:
            messages, size = messages + 1, size + draft.sealed.size
        times = times.after(draft.sealed)
        row = _given(session_id, draft)
        row["seq"], row["hash"] = seq, hash_
        row["messages_total"], row["bytes_total"] = messages, size
        rows.append(row)
    try:
        if len(rows) == 1:
            tx.run(_INSERT, **rows[0])
        else:
            tx.many(_INSERT, rows)
    except UniqueViolation:
        raise beyond(session_id, head.last_seq) from None
    if rows:
        moved = Standing(seq, hash_, head_seq, messages, size, times).columns()
        tx.run(
            _MOVE_HEAD,
            session_id=session_id,
            new_updated_at=drafts[-1].sealed.recorded_at,
            **{f"new_{name}": value for name, value in moved.items()},
        )
    return [Receipt(session_id, row["seq"], row["hash"].hex(), head_seq) for row in rows]


def beyond(session_id: str, last_seq: int) -> HistoryCorrupt:
    """The error for a log that holds more than its session says."""
    return HistoryCorrupt(
        f"Session {session_id!r} ends at entry {last_seq}, but holds another behind it.",
        seq=last_seq + 1,
    )


def _append_in_one_statement(
    tx: Transaction, session_id: str, draft: Draft, expected_seq: int | None
) -> Receipt:
    params = {
        **_given(session_id, draft),
        "digest": draft.digest,
        "own_time": own_time(draft.sealed),
        "expected_seq": expected_seq,
    }
    statement = _APPEND if expected_seq is None else _APPEND_EXPECTED
    row = None
    with suppress(UniqueViolation):
        row = tx.row(statement, **params)
    if row is not None:
        return Receipt(session_id, row[0], row[1].hex(), row[0])
    # Nothing was written: a repeated request, no such session, or a session that moved on.
    repeated = _repeated(tx, session_id, [draft])
    if repeated is not None:
        return repeated[0]
    head = read_head(tx, session_id)
    check_version(expected_seq, head)
    raise beyond(session_id, head.last_seq)


def refuse_taken(tx: Transaction, session_id: str, drafts: Sequence[Draft]) -> None:
    """Refuse drafts that are new although their client id was given before."""
    _refuse_twice([draft.sealed.client_id for draft in drafts if draft.sealed.client_id])
    for draft in drafts:
        client_id = draft.sealed.client_id
        row = client_id and tx.row(_BY_CLIENT_ID, session_id=session_id, client_id=client_id)
        if row:
            raise DuplicateMessage(
                f"Client id {client_id!r} is taken by entry {row[0]}.",
                client_id=client_id,
                seq=row[0],
            )


def _given(session_id: str, draft: Draft) -> dict[str, Any]:
    row = draft.sealed._asdict()
    row["session_id"] = session_id
    row["content"], row["salt"] = draft.content, draft.salt
    row["content_digest"], row["tools"] = draft.content_digest, draft.tools
    return row


def _head(session_id: str, row: tuple[Any, ...] | None) -> Standing:
    if row is None:
        raise SessionNotFound(f"There is no session {session_id!r}.", session_id=session_id)
    last_seq, last_hash, head_seq, messages, size, *times, purged_at, receipt = row
    if purged_at is not None:
        raise SessionPurged(
            f"Session {session_id!r} was purged.", session_id=session_id, receipt=decode(receipt)
        )
    return Standing(last_seq, last_hash, head_seq, messages, size, Times(*times))


def _repeated(tx: Transaction, session_id: str, drafts: Sequence[Draft]) -> list[Receipt] | None:
    """The first receipts of requests that were all stored before; None when none was."""
    ids = [d.sealed.client_id for d in drafts if d.sealed.client_id is not None]
    if not ids:
        return None
    _refuse_twice(ids)
    found = [_first_receipt(tx, session_id, draft) for draft in drafts if draft.sealed.client_id]
    first = [receipt for receipt in found if receipt is not None]
    if first and len(first) < len(drafts):
        raise DuplicateMessage(
            f"Of {len(drafts)} messages {len(first)} stood there before: nothing was written.",
            client_id=ids[0],
            seq=first[0].seq,
        )
    return first or None


def _refuse_twice(ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        twice = next(client_id for client_id in ids if ids.count(client_id) > 1)
        raise DuplicateMessage(
            f"Two messages of one request have the client id {twice!r}.", client_id=twice
        )


def _first_receipt(tx: Transaction, session_id: str, draft: Draft) -> Receipt | None:
    client_id = draft.sealed.client_id
    row = tx.row(_BY_CLIENT_ID, session_id=session_id, client_id=client_id)
    if row is None:
        return None
    seq, hash_, role, format_, salt, content = row
    same = (role, format_, content) == (draft.sealed.role, draft.sealed.format, draft.content)
    if not same and salt is not None:  # without a salt it was redacted, and its id alone answers
        raise DuplicateMessage(
            f"Client id {client_id!r} is taken by entry {seq}, which has other content.",
            client_id=client_id,
            seq=seq,
        )
    rewound = tx.row(_REWOUND_BY, session_id=session_id, seq=seq)
    return Receipt(
        session_id, seq, hash_.hex(), seq, new=False, rewound_by=rewound[0] if rewound else None
    )
