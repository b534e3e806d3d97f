"""The calls of models: what the provider reported for each, and what we had estimated."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from roocontext.log.encoding import decode
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import read_head
from roocontext.store.schema import AFTER_SEQ, IN_LOG, counts, entries

ESTIMATE_OF: Final = "request:"
"""Before a counter's name: the count is of the whole request that the message answers."""

_CALLS = (
    select(entries.c.seq, entries.c.model, entries.c.usage)
    .where(
        entries.c.session_id == bindparam("session_id"),
        AFTER_SEQ,
        entries.c.usage.is_not(None),
    )
    .order_by(entries.c.seq)
)
_NEWEST_CONTROL = (
    select(entries.c.seq)
    .where(entries.c.session_id == bindparam("session_id"), entries.c.details.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_ESTIMATES = select(counts.c.seq, counts.c.counter, counts.c.tokens).where(
    counts.c.session_id == bindparam("session_id"),
    counts.c.counter > ESTIMATE_OF,
    # `;` follows `:`. A range of names uses the primary key, which a LIKE pattern would not on both
    # engines; and the column is compared by code point (see `schema.TEXT`).
    counts.c.counter < ESTIMATE_OF[:-1] + ";",
    counts.c.seq > bindparam("seq"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model: the answer's seq, what the provider reported, what was estimated before.

    The estimates are by counter. `current` says that the view has only grown since: no plan and no
    rewind came after it.
    """

    seq: int
    model: str | None
    usage: Any
    estimates: Mapping[str, int]
    current: bool


def model_calls(tx: Transaction, session_id: str, *, last: int | None = None) -> list[Call]:
    """The calls whose usage is in the log, oldest first; only among the `last` entries."""
    newest = read_head(tx, session_id).last_seq
    after = 0 if last is None else max(0, newest - last)
    rows = tx.rows(_CALLS, session_id=session_id, seq=after)
    estimates: dict[int, dict[str, int]] = defaultdict(dict)
    for seq, counter, estimate in tx.rows(_ESTIMATES, session_id=session_id, seq=after):
        estimates[seq][counter.removeprefix(ESTIMATE_OF)] = estimate
    changed = newest_control(tx, session_id)
    return [
        Call(seq, model, decode(usage), estimates[seq], seq > changed) for seq, model, usage in rows
    ]


def newest_control(tx: Transaction, session_id: str) -> int:
    """The last entry that was more than an append: 0 if the session has only grown."""
    row = tx.row(_NEWEST_CONTROL, session_id=session_id)
    return row[0] if row else 0
