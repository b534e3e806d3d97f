"""Writing entries: take the next seq, chain the hash, keep the running totals.

Everything that is ever written to a log goes through `write`, but for one leaf: on PostgreSQL a
single message is one statement, which takes the next seq and chains the hash on the server.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import BigInteger, LargeBinary, and_, bindparam, func, insert, select, update
from sqlalchemy.sql import ClauseElement

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
from roocontext.store.database import Database, Transaction
from roocontext.store.faults import UniqueViolation
from roocontext.store.schema import IN_LOG, entries, sessions, spans


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


AReceipt = TypeVar("AReceipt", bound=Receipt)


class Standing(NamedTuple):
    """Where a session stands."""

    last_seq: int
    last_hash: bytes
    head_seq: int
    messages: int
    bytes: int


class Stored(NamedTuple):
    """What a stored entry is compared by, when its client id is given again."""

    seq: int
    hash: bytes
    kind: str
    role: str | None
    format: str | None
    note: str | None
    target: int | None
    compaction_id: str | None
    salt: bytes | None
    details: str | None
    content: str | None

    def answers(self, draft: Draft) -> bool:
        """Whether it is what the draft would store."""
        new = draft.sealed
        same = (self.note, self.target) == (new.note, new.target)
        return same and self.holds(new.role, new.format, draft.content)

    def holds(self, role: str | None, format_: str | None, text: str | None) -> bool:
        """Whether it has this content; a redacted row has none left to compare."""
        redacted = self.salt is None and self.content is not None
        return redacted or (self.role, self.format, self.content) == (role, format_, text)


_session_id = sessions.c.session_id == bindparam("session_id")
_HEAD_COLUMNS = (
    sessions.c.last_seq,
    sessions.c.last_hash,
    sessions.c.head_seq,
    sessions.c.messages,
    sessions.c.bytes,
    sessions.c.purged_at,
    sessions.c.receipt,
)
_READ_HEAD = select(*_HEAD_COLUMNS).where(_session_id)
_LOCK_HEAD = _READ_HEAD.with_for_update()
_MOVE_HEAD = (
    update(sessions)
    .where(_session_id)
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("last_seq", "last_hash", "head_seq", "messages", "bytes", "updated_at")
        }
    )
)
_INSERT = insert(entries)
_BY_CLIENT_ID = select(*(entries.c[name] for name in Stored._fields)).where(
    entries.c.session_id == bindparam("session_id"),
    entries.c.client_id == bindparam("client_id"),
    IN_LOG,
)
_REWOUND_BY = (
    select(spans.c.rewound_by)
    .where(spans.c.session_id == bindparam("session_id"), spans.c.lo <= bindparam("seq"))
    .order_by(spans.c.lo.desc())
    .limit(1)
)

_DRAWN = ("seq", "messages_total", "bytes_total", "hash")
_GIVEN = [column for column in entries.columns if column.name not in _DRAWN]


def _one_statement(*, expected: bool) -> ClauseElement:
    digest = bindparam("digest", type_=LargeBinary)
    version = sessions.c.head_seq == bindparam("expected_seq", type_=BigInteger)
    moved = (
        update(sessions)
        .where(and_(_session_id, sessions.c.purged_at.is_(None), *([version] if expected else ())))
        .values(
            last_seq=sessions.c.last_seq + 1,
            head_seq=sessions.c.last_seq + 1,
            last_hash=func.sha256(sessions.c.last_hash.op("||")(digest), type_=LargeBinary),
            messages=sessions.c.messages + 1,
            bytes=sessions.c.bytes + bindparam("size", type_=BigInteger),
            updated_at=bindparam("recorded_at", type_=BigInteger),
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
    seq, hash_, head_seq, messages, size = head
    for draft in drafts:
        seq += 1
        hash_ = link(hash_, draft.digest)
        head_seq = head_seq if draft.is_note else seq
        if draft.is_message:
            messages, size = messages + 1, size + draft.sealed.size
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
        tx.run(
            _MOVE_HEAD,
            session_id=session_id,
            new_last_seq=seq,
            new_last_hash=hash_,
            new_head_seq=head_seq,
            new_messages=messages,
            new_bytes=size,
            new_updated_at=drafts[-1].sealed.recorded_at,
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
    params = {**_given(session_id, draft), "digest": draft.digest, "expected_seq": expected_seq}
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
    ids = [draft.sealed.client_id for draft in drafts if draft.sealed.client_id]
    refuse_twice(ids)
    for client_id in ids:
        if stored := stored_by(tx, session_id, client_id):
            raise DuplicateMessage(
                f"Client id {client_id!r} is taken by entry {stored.seq}.",
                client_id=client_id,
                seq=stored.seq,
            )


def _given(session_id: str, draft: Draft) -> dict[str, Any]:
    row = draft.sealed._asdict()
    row["session_id"] = session_id
    row["content"], row["salt"] = draft.content, draft.salt
    row["content_digest"] = draft.content_digest
    return row


def _head(session_id: str, row: tuple[Any, ...] | None) -> Standing:
    if row is None:
        raise SessionNotFound(f"There is no session {session_id!r}.", session_id=session_id)
    *head, purged_at, receipt = row
    if purged_at is not None:
        raise SessionPurged(
            f"Session {session_id!r} was purged.", session_id=session_id, receipt=decode(receipt)
        )
    return Standing(*head)


def stored_by(tx: Transaction, session_id: str, client_id: str) -> Stored | None:
    """The entry that was stored with a client id."""
    row = tx.row(_BY_CLIENT_ID, session_id=session_id, client_id=client_id)
    return None if row is None else Stored(*row)


def first_receipt(tx: Transaction, session_id: str, draft: Draft) -> Receipt | None:
    """The receipt of the entry that was stored with the draft's client id, if any was."""
    client_id = draft.sealed.client_id
    stored = stored_by(tx, session_id, client_id) if client_id else None
    if client_id is None or stored is None:
        return None
    if not stored.answers(draft):
        raise taken(client_id, stored)
    return repeated_receipt(tx, session_id, stored)


def repeated_receipt(tx: Transaction, session_id: str, stored: Stored) -> Receipt:
    """The receipt of a stored message or control row."""
    rewound = tx.row(_REWOUND_BY, session_id=session_id, seq=stored.seq)
    return Receipt(
        session_id,
        stored.seq,
        stored.hash.hex(),
        stored.seq,
        new=False,
        rewound_by=rewound[0] if rewound else None,
    )


def taken(client_id: str, stored: Stored) -> DuplicateMessage:
    """The error for a client id that another request was stored with."""
    return DuplicateMessage(
        f"Client id {client_id!r} is taken by entry {stored.seq}, which has other content.",
        client_id=client_id,
        seq=stored.seq,
    )


def refuse_twice(ids: Sequence[str | None]) -> None:
    """Refuse a request in which two entries have the same client id."""
    given = [client_id for client_id in ids if client_id is not None]
    if len(set(given)) < len(given):
        twice = next(client_id for client_id in given if given.count(client_id) > 1)
        raise DuplicateMessage(
            f"Two entries of one request have the client id {twice!r}.", client_id=twice
        )


def all_or_none(
    ids: Sequence[str | None], found: Sequence[AReceipt | None]
) -> list[AReceipt] | None:
    """The first receipts of a request that was stored before as a whole; None if none of it was."""
    first = [
        (client_id, receipt)
        for client_id, receipt in zip(ids, found, strict=True)
        if receipt is not None
    ]
    if first and len(first) < len(found):
        raise DuplicateMessage(
            f"Of {len(found)} items {len(first)} were stored before: nothing was written.",
            client_id=first[0][0],
            seq=first[0][1].seq,
        )
    return [receipt for _, receipt in first] or None


def _repeated(tx: Transaction, session_id: str, drafts: Sequence[Draft]) -> list[Receipt] | None:
    """The first receipts of messages that were all stored before; None when none was."""
    ids = [draft.sealed.client_id for draft in drafts]
    if not any(ids):
        return None
    refuse_twice(ids)
    return all_or_none(ids, [first_receipt(tx, session_id, draft) for draft in drafts])
