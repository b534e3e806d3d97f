"""The caches of the fold: the spans and the cleared blocks of the present.

They are computed anew from all control rows, and what differs is written by one function, `renew`;
nothing updates them in passing.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, insert, select

from roocontext.log.draft import Draft
from roocontext.log.entries import Control
from roocontext.log.spans import Span, clearings_of, spans_of
from roocontext.store.append import Receipt, beyond, write
from roocontext.store.driver_errors import UniqueViolation
from roocontext.store.head import SessionHead
from roocontext.store.schema import clearings, spans
from roocontext.store.totals import keep_rewound
from roocontext.store.transaction import Query, Row, Transaction
from roocontext.store.view import CONTROLS, to_controls

ClearedBlock = tuple[int, int, int, str]
"""A seq, a block, the clearing's seq, the placeholder."""

_SPANS = (
    select(
        spans.c.lo,
        spans.c.hi,
        spans.c.position,
        spans.c.condense_parent,
        spans.c.truncation_parent,
        spans.c.rewound_by,
    )
    .where(spans.c.session_id == bindparam("session_id"))
    .order_by(spans.c.lo)
)
_DROP_SPAN = delete(spans).where(
    spans.c.session_id == bindparam("session_id"), spans.c.lo == bindparam("lo")
)
_ADD_SPAN = insert(spans)
_CLEARINGS = select(
    clearings.c.seq, clearings.c.block, clearings.c.cleared_by, clearings.c.placeholder
).where(clearings.c.session_id == bindparam("session_id"))
_DROP_CLEARING = delete(clearings).where(
    clearings.c.session_id == bindparam("session_id"),
    clearings.c.seq == bindparam("seq"),
    clearings.c.block == bindparam("block"),
)
_ADD_CLEARING = insert(clearings)


class Caches(NamedTuple):
    """What the tables hold of a session."""

    spans: list[Span]
    clearings: set[ClearedBlock]


NONE = Caches([], set())
"""The caches of a new session."""


def read_present(tx: Transaction, session_id: str, seq: int) -> tuple[list[Control], Caches]:
    """The control rows up to the last seq, and the caches as they are, for a writer."""
    controls, cached, _ = read_present_and(tx, session_id, seq, [])
    return controls, cached


def read_present_and(
    tx: Transaction, session_id: str, seq: int, others: Sequence[Query]
) -> tuple[list[Control], Caches, list[list[Row]]]:
    """The same, and the rows of other queries that are asked for with it."""
    session = {"session_id": session_id}
    controls, cached, cleared, *rows = tx.all(
        [(CONTROLS, {**session, "seq": seq}), (_SPANS, session), (_CLEARINGS, session), *others]
    )
    return to_controls(controls), Caches(_spans(cached), _cleared(cleared)), rows


def write_controls(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    drafts: Sequence[Draft],
    *,
    cached: Caches,
    present: Caches,
) -> list[Receipt]:
    """Write control rows to a locked session, and what they change in its caches."""
    try:
        with tx.together():
            receipts = write(tx, session_id, head, drafts)
            renew(tx, session_id, cached, present)
    except UniqueViolation:
        raise beyond(session_id, head.last_seq) from None
    return receipts


def caches_of(controls: Sequence[Control], seq: int) -> Caches:
    """What the tables should hold of a session right after entry `seq`."""
    cleared = {
        (*block, control.seq, control.placeholder)
        for block, control in clearings_of(controls, seq).items()
    }
    return Caches(spans_of(controls, seq), cleared)


def renew(tx: Transaction, session_id: str, cached: Caches, present: Caches) -> int:
    """Write the difference between the caches as they are and as they should be; how many rows."""
    old, new = set(cached.spans), set(present.spans)
    gone, come = sorted(old - new, key=_lo), sorted(new - old, key=_lo)
    tx.many(_DROP_SPAN, [{"session_id": session_id, "lo": span.lo} for span in gone])
    tx.many(_ADD_SPAN, [_span_row(session_id, span) for span in come])
    if any(span.rewound_by is not None for span in (*gone, *come)):
        keep_rewound(tx, session_id)
    lost = sorted(cached.clearings - present.clearings)
    won = sorted(present.clearings - cached.clearings)
    tx.many(_DROP_CLEARING, [_block_row(session_id, row) for row in lost])
    tx.many(_ADD_CLEARING, [_clearing_row(session_id, row) for row in won])
    return len(gone) + len(come) + len(lost) + len(won)


def _spans(rows: Sequence[Row]) -> list[Span]:
    return [Span(*row) for row in rows]


def _cleared(rows: Sequence[Row]) -> set[ClearedBlock]:
    return {(row[0], row[1], row[2], row[3]) for row in rows}


def _span_row(session_id: str, span: Span) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "lo": span.lo,
        "hi": span.hi,
        "position": span.position,
        "condense_parent": span.condense_parent,
        "truncation_parent": span.truncation_parent,
        "rewound_by": span.rewound_by,
    }


def _lo(span: Span) -> int:
    return span.lo


def _block_row(session_id: str, row: ClearedBlock) -> dict[str, Any]:
    return {"session_id": session_id, "seq": row[0], "block": row[1]}


def _clearing_row(session_id: str, row: ClearedBlock) -> dict[str, Any]:
    return _block_row(session_id, row) | {"cleared_by": row[2], "placeholder": row[3]}
