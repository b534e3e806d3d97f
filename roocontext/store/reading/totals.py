"""The messages and bytes in spans: differences of running totals. No content is read."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from roocontext.errors import HistoryCorrupt
from roocontext.log.entries import Range
from roocontext.store.engine.schema import entries, log_rows, of_session, sessions, spans
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow


class Total(NamedTuple):
    """A number of messages, and the bytes that their contents take."""

    messages: int
    bytes: int

    def __sub__(self, other: "Total") -> "Total":
        return Total(self.messages - other.messages, self.bytes - other.bytes)


_REWOUND_SPANS = select(spans.c.lo, spans.c.hi).where(
    of_session(spans), spans.c.rewound_by.is_not(None)
)
_KEPT = select(sessions.c.rewound_messages, sessions.c.rewound_bytes).where(of_session(sessions))
_ADD = (
    update(sessions)
    .where(of_session(sessions))
    .values(
        rewound_messages=sessions.c.rewound_messages + bindparam("more_messages"),
        rewound_bytes=sessions.c.rewound_bytes + bindparam("more_bytes"),
    )
)

_SEQS = tuple(f"seq_{number}" for number in range(8))
# Several entries at once: a condensation asks for six, and each statement costs as much again.
_TOTALS = log_rows("seq", "messages_total", "bytes_total").where(
    entries.c.seq.in_(map(bindparam, _SEQS))
)


def totals_of(log: SessionLog, sides: Sequence[Sequence[Range]]) -> list[Total]:
    """Read the total of each list of ranges."""
    return to_totals(sides, log.all(totals_queries(sides)))


def totals_queries(sides: Sequence[Sequence[Range]]) -> list[Query]:
    """The queries whose rows `to_totals` takes."""
    ends = sorted(_ends(sides))
    parts = (ends[first : first + len(_SEQS)] for first in range(0, len(ends), len(_SEQS)))
    # The last entry fills up the parameters: one that is named twice is found once.
    filled = (
        dict.fromkeys(_SEQS, part[-1]) | dict(zip(_SEQS, part, strict=False)) for part in parts
    )
    return [(_TOTALS, {**seqs}) for seqs in filled]


def to_totals(sides: Sequence[Sequence[Range]], found: Iterable[Sequence[SqlRow]]) -> list[Total]:
    """Make the totals from the rows of these queries."""
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


def rewound_total(log: SessionLog) -> Total:
    """Read the total of the rewound messages, which is stored with the session."""
    row = log.row(_KEPT)
    assert row is not None
    return Total(*row)


def add_rewound(log: SessionLog, more: Total) -> None:
    """Add what one more rewind took back. Only rewinds change it, so no other writer waits."""
    log.change(_ADD, more_messages=more.messages, more_bytes=more.bytes)


def rewound_sum(log: SessionLog) -> Total:
    """Sum up the rewound messages anew, from the spans."""
    ranges = [(lo, hi) for lo, hi in log.rows(_REWOUND_SPANS)]
    return totals_of(log, [ranges])[0]
