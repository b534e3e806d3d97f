"""The coverings whose compactions the model sees: found without reading the control rows."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Integer, bindparam, literal_column, select, text

from roocontext.log.entries import Control, Kind
from roocontext.log.replies import requested_model
from roocontext.log.spans import sealed_in_view
from roocontext.store.engine.schema import VISIBLE, entries, of_session, spans
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.messages import read_controls

# A covering comes right after its compaction. So only the control rows in the view and right after
# its spans are looked at, and none of those that are hidden. As a scalar subquery, because SQLite
# would begin a join with all control rows. It is a hint: rows after the end of the log do no harm.
_ONE = literal_column("1", Integer)
_after_span = (
    select(entries.c.seq)
    .where(
        of_session(entries),
        entries.c.seq.between(spans.c.lo + _ONE, spans.c.hi + _ONE),
        entries.c.details.is_not(None),
        text(f"kind = '{Kind.COVERING}'"),
    )
    .order_by(entries.c.seq)
    .limit(_ONE)
    .correlate(spans)
    .scalar_subquery()
)
_AFTER_VISIBLE = (
    select(spans.c.lo).where(of_session(spans), text(VISIBLE), _after_span.is_not(None)).limit(_ONE)
)
_MODEL = select(entries.c.model, entries.c.extra).where(
    of_session(entries), entries.c.seq == bindparam("seq")
)


class SealedCovering(NamedTuple):
    """A sealed covering, the entry of its compaction, and the model that can read it.

    `requested` is the name under which that model was asked.
    """

    seq: int
    source: int
    model: str | None
    requested: str | None = None


def visible_sealed(tx: Transaction, session_id: str, last: int) -> list[SealedCovering]:
    """Read the sealed coverings whose compactions are in the present view, oldest first."""
    if tx.row(_AFTER_VISIBLE, session_id=session_id) is None:
        return []
    return with_models(tx, session_id, sealed_in_view(read_controls(tx, session_id, last), last))


def with_models(
    tx: Transaction, session_id: str, controls: Iterable[Control]
) -> list[SealedCovering]:
    """Add to coverings the models that made their compactions."""
    sealed = []
    for control in controls:
        assert control.source is not None
        source, _ = control.source
        model, extra = tx.row(_MODEL, session_id=session_id, seq=source) or (None, None)
        sealed.append(SealedCovering(control.seq, source, model, requested_model(extra)))
    return sealed
