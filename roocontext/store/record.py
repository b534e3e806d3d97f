"""Recording a reply: once, however often it is given."""

from sqlalchemy import bindparam, select

from roocontext.log.draft import Draft
from roocontext.store.append import Receipt, Stored, repeated_receipt, write
from roocontext.store.head import lock
from roocontext.store.schema import IN_LOG, entries
from roocontext.store.transaction import Transaction

_OF_REPLY = (
    select(*(entries.c[name] for name in Stored._fields))
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

    Some servers give the same id to different replies, so the content is compared as well.
    """
    head = lock(tx, session_id)
    new = draft.sealed
    if new.message_id is not None:
        rows = tx.rows(_OF_REPLY, session_id=session_id, message_id=new.message_id)
        for stored in (Stored(*row) for row in rows):
            if stored.kind == new.kind and stored.holds(new.role, new.format, draft.content):
                receipt = repeated_receipt(tx, session_id, stored)
                if receipt.rewound_by is None:
                    return receipt
    (written,) = write(tx, session_id, head, [draft])
    return written
