"""How many messages and bytes the spans hold: running totals subtracted, and no content read."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, case, func, select, text, update
from sqlalchemy.sql import Select

from roocontext.errors import HistoryCorrupt
from roocontext.log.entries import Range
from roocontext.store.engine.schema import VISIBLE, entries, sessions, spans
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.transaction import Query, SqlRow, Transaction


class Total(NamedTuple):
    """How many messages, and how many bytes their contents take."""

    messages: int
    bytes: int

    def __sub__(self, other: "Total") -> "Total":
        return Total(self.messages - other.messages, self.bytes - other.bytes)


_in_session = spans.c.session_id == bindparam("session_id")


def _held(running: ColumnElement[int], end: ColumnElement[int]) -> ColumnElement[int]:
    # Subqueries, because PostgreSQL would come to hash a join with all rows of the session.
    at = select(running).where(entries.c.session_id == spans.c.session_id)
    ending = at.where(entries.c.seq == end).scalar_subquery()
    before = at.where(entries.c.seq == spans.c.lo - 1).scalar_subquery()
    # No entry comes before the first, and NULL from there would make the whole sum NULL.
    return ending - case((spans.c.lo == 1, 0), else_=before)


_last = bindparam("last", type_=spans.c.hi.type)
_end = case((spans.c.hi > _last, _last), else_=spans.c.hi)
# A span that begins behind the last entry holds nothing, and comes out as nothing. A condition on
# `lo` would lead SQLite away from the partial index.
_shown = (
    select(
        _held(entries.c.messages_total, _end).label("messages"),
        _held(entries.c.bytes_total, _end).label("size"),
    )
    .where(_in_session, text(VISIBLE))
    .subquery()
)
_VISIBLE = select(
    func.coalesce(func.sum(_shown.c.messages), 0),
    func.coalesce(func.sum(_shown.c.size), 0),
    # Spans whose end is not in the log: `count` of a column skips NULL, as `sum` does in silence.
    func.count() - func.count(_shown.c.messages),
).select_from(_shown)


def _rewound(running: ColumnElement[int]) -> ColumnElement[int]:
    held = func.coalesce(func.sum(_held(running, spans.c.hi)), 0)
    return select(held).where(_in_session, spans.c.rewound_by.is_not(None)).scalar_subquery()


_REWOUND = select(_rewound(entries.c.messages_total), _rewound(entries.c.bytes_total))
_KEPT = select(sessions.c.rewound_messages, sessions.c.rewound_bytes).where(
    sessions.c.session_id == bindparam("session_id")
)
_KEEP = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("session_id"))
    .values(
        rewound_messages=_rewound(entries.c.messages_total),
        rewound_bytes=_rewound(entries.c.bytes_total),
    )
)
_ADD = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(
        rewound_messages=sessions.c.rewound_messages + bindparam("more_messages"),
        rewound_bytes=sessions.c.rewound_bytes + bindparam("more_bytes"),
    )
)

_SEQS = tuple(f"seq_{number}" for number in range(8))
# Several entries at once: a condensation asks for six, and each statement costs as much again.
_TOTALS = select(entries.c.seq, entries.c.messages_total, entries.c.bytes_total).where(
    entries.c.session_id == bindparam("session_id"), entries.c.seq.in_(map(bindparam, _SEQS))
)


def totals_of(tx: Transaction, session_id: str, sides: Sequence[Sequence[Range]]) -> list[Total]:
    """What the ranges of each side hold."""
    return to_totals(sides, tx.all(totals_queries(session_id, sides)))


def totals_queries(
    session_id: str, sides: Sequence[Sequence[Range]], known: Collection[int] = ()
) -> list[Query]:
    """The queries for what `to_totals` subtracts, except of entries whose totals are known."""
    ends = sorted(_ends(sides).difference(known))
    parts = (ends[first : first + len(_SEQS)] for first in range(0, len(ends), len(_SEQS)))
    return [(_TOTALS, {"session_id": session_id, **_seqs(part)}) for part in parts]


def _seqs(part: Sequence[int]) -> dict[str, int]:
    """Some entries as parameters of a statement for the most that are asked for at once."""
    # An entry that is named twice is found once.
    filled = [*part, *repeat(part[-1], len(_SEQS) - len(part))]
    return dict(zip(_SEQS, filled, strict=True))


def to_totals(sides: Sequence[Sequence[Range]], found: Iterable[Sequence[SqlRow]]) -> list[Total]:
    """What `totals_of` answers, from the rows of its queries."""
    rows = chain.from_iterable(found)
    at = {0: (0, 0), **{seq: (messages, size) for seq, messages, size in rows}}
    missing = _ends(sides) - at.keys()
    if missing:
        raise HistoryCorrupt(f"Entry {min(missing)} is missing.", seq=min(missing))
    return [
        Total(
            sum(at[hi][0] - at[lo - 1][0] for lo, hi in side),
            sum(at[hi][1] - at[lo - 1][1] for lo, hi in side),
        )
        for side in sides
    ]


def _ends(sides: Sequence[Sequence[Range]]) -> set[int]:
    # Each end once: neighbouring ranges share theirs.
    return {seq for side in sides for lo, hi in side for seq in (lo - 1, hi) if seq != 0}


def visible_total(tx: Transaction, session_id: str, last: int) -> Total:
    """What the model sees of a session whose last entry is `last`."""
    if last == 0:
        return Total(0, 0)
    row = tx.row(_VISIBLE, session_id=session_id, last=last)
    assert row is not None
    messages, size, unknown = row
    if unknown:
        raise HistoryCorrupt(f"Session {session_id!r} has a span whose end is not in its log.")
    return Total(whole_number(messages), whole_number(size))


def rewound_total(tx: Transaction, session_id: str) -> Total:
    """What rewinds took back, as it is kept with the session."""
    return _total(tx, _KEPT, session_id)


def keep_rewound(tx: Transaction, session_id: str) -> None:
    """Sum up anew what rewinds took back."""
    tx.run(_KEEP, session_id=session_id)


def add_rewound(tx: Transaction, session_id: str, more: Total) -> None:
    """Add what one more rewind took back. Only a rewind changes it, so no other writer waits."""
    tx.change(_ADD, of=session_id, more_messages=more.messages, more_bytes=more.bytes)


def is_rewound_wrong(tx: Transaction, session_id: str) -> bool:
    """Whether what is kept is not the sum of the spans."""
    return rewound_total(tx, session_id) != _total(tx, _REWOUND, session_id)


def _total(tx: Transaction, statement: Select[int, int], session_id: str) -> Total:
    row = tx.row(statement, session_id=session_id)
    assert row is not None
    return Total(whole_number(row[0]), whole_number(row[1]))
