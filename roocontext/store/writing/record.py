"""Recording a reply: once, however often it is given, and with what it compacted."""

from collections.abc import Sequence

from msgspec.structs import replace
from sqlalchemy import bindparam, select

from roocontext.errors import DuplicateMessage
from roocontext.log.chain import Sealed
from roocontext.log.draft import Draft
from roocontext.log.replies import Compacting
from roocontext.store.engine.schema import AFTER_SEQ, IN_LOG, entries
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import lock
from roocontext.store.writing.append import Receipt, Stored, repeated_receipt, write
from roocontext.store.writing.cover import Sources, write_covered

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


class RecordedReply(Receipt, frozen=True):
    """The receipt of a reply.

    If the provider compacted the history in it, `covering` is the entry that hides the messages
    that the provider had read, `hidden` is their number, and `unread` are later messages, which the
    model gets after the reply. With `compacted` and no covering, the compaction does not count: the
    session was rewound or uncovered since the request, or nothing was visible.
    """

    compacted: bool = False
    covering: int | None = None
    hidden: int = 0
    unread: tuple[int, ...] = ()


def record(
    tx: Transaction,
    session_id: str,
    draft: Draft,
    compacting: Compacting | None,
    sources: Sources,
) -> RecordedReply:
    """Append a reply; the first receipt if a live row holds the same one.

    An id alone does not make two replies the same, because some servers give the same id again. It
    does if both answer the same request. Then their content must be equal too. Without an id, the
    same request and the same content do.
    """
    head = lock(tx, session_id)
    if first := _recorded(tx, session_id, draft):
        return _of_receipt(first)
    if compacting is None:
        return _of_receipt(write(tx, session_id, head, [draft])[0])
    covered = write_covered(tx, session_id, head, draft, compacting, sources=sources)
    if covered is None:
        return replace(_of_receipt(write(tx, session_id, head, [draft])[0]), compacted=True)
    return replace(
        _of_receipt(covered.reply),
        head_seq=covered.covering.seq,
        compacted=True,
        covering=covered.covering.seq,
        hidden=covered.hidden,
        unread=covered.unread,
    )


def _of_receipt(receipt: Receipt) -> RecordedReply:
    return RecordedReply(*(getattr(receipt, name) for name in Receipt.__struct_fields__))


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
