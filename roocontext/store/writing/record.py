"""Recording a reply: once, however often it is given."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from roocontext.errors import DuplicateMessage
from roocontext.log.chain import Sealed
from roocontext.log.draft import Draft
from roocontext.store.engine.schema import AFTER_SEQ, IN_LOG, entries
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import lock
from roocontext.store.writing.append import Receipt, Stored, repeated_receipt, write

_REPLIES = (
    select(entries.c.asked_at, *(entries.c[name] for name in Stored._fields))
    .where(entries.c.session_id == bindparam("session_id"))
    .order_by(entries.c.seq.desc())
)
_OF_REPLY = _REPLIES.where(
    entries.c.message_id.is_not(None), entries.c.message_id == bindparam("message_id"), IN_LOG
)
# No index is needed: few entries come between a request and its reply.
_NAMELESS = _REPLIES.where(
    entries.c.message_id.is_(None), entries.c.asked_at == bindparam("seq"), AFTER_SEQ
)


def record(tx: Transaction, session_id: str, draft: Draft) -> Receipt:
    """Append a reply; the first receipt if a live row holds the same one.

    An id alone does not make two replies the same, because some servers give the same id again. It
    does if both answer the same request. Then their content must be equal too. Without an id, the
    same request and the same content do.
    """
    head = lock(tx, session_id)
    return _recorded(tx, session_id, draft) or write(tx, session_id, head, [draft])[0]


def _recorded(tx: Transaction, session_id: str, draft: Draft) -> Receipt | None:
    """The receipt of the live row that holds this reply already."""
    new = draft.sealed
    for row in _candidates(tx, session_id, new):
        asked_at, stored = row[0], Stored(*row[1:])
        was_read = new.asked_at is not None and new.asked_at >= stored.seq
        if was_read or stored.kind != new.kind:
            continue  # the request of this reply had read that one, so it is another
        is_same = stored.holds(new.role, new.format, draft.content)
        is_named = new.message_id is not None and asked_at is not None
        if not is_same and not (is_named and asked_at == new.asked_at):
            continue
        receipt = repeated_receipt(tx, session_id, stored)
        if receipt.rewound_by is None:
            if is_same:
                return receipt
            raise _differs(new.message_id, stored)
    return None


def _candidates(tx: Transaction, session_id: str, new: Sealed) -> Sequence[SqlRow]:
    """The stored replies with the same id; if it has none, those to the same request."""
    if new.message_id is not None:
        return tx.rows(_OF_REPLY, session_id=session_id, message_id=new.message_id)
    if new.asked_at is not None:
        return tx.rows(_NAMELESS, session_id=session_id, seq=new.asked_at)
    return ()


def _differs(reply_id: str | None, stored: Stored) -> DuplicateMessage:
    return DuplicateMessage(
        f"Reply {reply_id!r} to this request is entry {stored.seq}, which has other content.",
        seq=stored.seq,
        advice="If it was recorded before its stream had ended, rewind to the entry before it, and"
        " record the whole reply.",
    )
