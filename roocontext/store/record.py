"""Recording a reply: once, however often it is given."""

from sqlalchemy import bindparam, select

from roocontext.errors import DuplicateMessage
from roocontext.log.draft import Draft
from roocontext.store.append import Receipt, Stored, repeated_receipt, write
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import lock
from roocontext.store.schema import IN_LOG, entries

_OF_REPLY = (
    select(entries.c.asked_at, *(entries.c[name] for name in Stored._fields))
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.message_id.is_not(None),
        entries.c.message_id == bindparam("message_id"),
        IN_LOG,
    )
    .order_by(entries.c.seq.desc())
)


def record(tx: Transaction, session_id: str, draft: Draft) -> Receipt:
    """Append a reply; the first receipt if a live row holds the same one.

    An id alone does not make two replies the same, because some servers give the same id again. It
    does if both answer the same request. Then their content must be equal too.
    """
    head = lock(tx, session_id)
    return _recorded(tx, session_id, draft) or write(tx, session_id, head, [draft])[0]


def _recorded(tx: Transaction, session_id: str, draft: Draft) -> Receipt | None:
    """The receipt of the live row that holds this reply already."""
    new = draft.sealed
    if new.message_id is None:
        return None
    for row in tx.rows(_OF_REPLY, session_id=session_id, message_id=new.message_id):
        asked_at, stored = row[0], Stored(*row[1:])
        was_read = new.asked_at is not None and new.asked_at >= stored.seq
        if was_read or stored.kind != new.kind:
            continue  # the request of this reply had read that one, so it is another
        is_same = stored.holds(new.role, new.format, draft.content)
        if not is_same and (asked_at is None or asked_at != new.asked_at):
            continue
        receipt = repeated_receipt(tx, session_id, stored)
        if receipt.rewound_by is None:
            if is_same:
                return receipt
            raise _differs(new.message_id, stored)
    return None


def _differs(reply_id: str, stored: Stored) -> DuplicateMessage:
    return DuplicateMessage(
        f"Reply {reply_id!r} to this request is entry {stored.seq}, which has other content.",
        seq=stored.seq,
        advice="If it was recorded before its stream had ended, rewind to the entry before it, and"
        " record the whole reply.",
    )
