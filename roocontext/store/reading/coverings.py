"""The models that can read sealed compactions."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import bindparam, select

from roocontext.log.entries import Control
from roocontext.log.replies import requested_model
from roocontext.store.engine.schema import entries, of_session
from roocontext.store.engine.transaction import Transaction

_MODEL = select(entries.c.model, entries.c.extra).where(
    of_session(entries), entries.c.seq == bindparam("seq")
)


class SealedCovering(NamedTuple):
    """A sealed covering, the entry of its compaction, and the model that made it.

    `requested` is the name under which that model was asked.
    """

    seq: int
    source: int
    model: str | None
    requested: str | None = None


def sealed_by(
    tx: Transaction, session_id: str, coverings: Iterable[Control]
) -> tuple[SealedCovering, ...]:
    """Those of the coverings that are sealed, oldest first, with the models that made them."""
    sealed = []
    for covering in coverings:
        if covering.source is not None and covering.sealed:
            source, _ = covering.source
            model, extra = tx.row(_MODEL, session_id=session_id, seq=source) or (None, None)
            sealed.append(SealedCovering(covering.seq, source, model, requested_model(extra)))
    return tuple(sorted(sealed))
