"""The messages of a session as they were written, whatever hides them now."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, text

from roocontext.log.encoding import decode_all
from roocontext.log.entries import Range, common
from roocontext.log.moments import happened
from roocontext.log.quotes import is_quoting
from roocontext.log.spans import within
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.head import read_head
from roocontext.store.live import live_ranges_now
from roocontext.store.schema import entries


class Original(NamedTuple):
    """A message as it was written. `rewound` says that a rewind took it back."""

    seq: int
    role: str
    content: Any
    format: str
    recorded_at: int
    rewound: bool
    ts: int | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


_PAGE = (
    select(
        entries.c.seq,
        entries.c.role,
        entries.c.content,
        entries.c.format,
        entries.c.recorded_at,
        entries.c.extra,
        entries.c.ts,
    )
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("lo"), bindparam("hi")),
        # A redacted message has no salt.
        text("kind = 'message' AND salt IS NOT NULL"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


def read_originals(
    tx: Transaction, session_id: str, *, first: int, last: int | None, limit: int, rewound: bool
) -> list[Original]:
    """The first messages of a range, without what was redacted and what quotes other messages."""
    end = read_head(tx, session_id).last_seq
    wanted: Sequence[Range] = [(first, end if last is None else min(last, end))]
    standing, _ = live_ranges_now(tx, session_id)
    found: list[SqlRow] = []
    for lo, hi in wanted if rewound else common(standing, wanted):
        found += _some(tx, session_id, lo, hi, limit - len(found))
        if len(found) == limit:
            break
    contents = decode_all([row[2] for row in found])
    return [
        Original(seq, role, content, format_, recorded_at, not within(standing, seq), ts)
        for (seq, role, _, format_, recorded_at, _, ts), content in zip(
            found, contents, strict=True
        )
    ]


def _some(tx: Transaction, session_id: str, lo: int, hi: int, limit: int) -> list[SqlRow]:
    found: list[SqlRow] = []
    while lo <= hi and len(found) < limit:
        rows = tx.rows(_PAGE, session_id=session_id, lo=lo, hi=hi, page=limit - len(found))
        if not rows:
            break
        found += [row for row in rows if not is_quoting(row[5])]
        lo = rows[-1][0] + 1
    return found
