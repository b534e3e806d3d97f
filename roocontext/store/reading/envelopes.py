"""The entries that follow another one, without their contents: for those who watch a log grow."""

from typing import NamedTuple

from sqlalchemy import bindparam

from roocontext.errors import HistoryCorrupt
from roocontext.log.entries import Kind
from roocontext.log.moments import happened
from roocontext.store.engine.schema import AFTER_SEQ, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import read_head


class Envelope(NamedTuple):
    """An entry without its content."""

    seq: int
    kind: Kind
    role: str | None
    note: str | None
    ts: int | None
    recorded_at: int

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


_FOLLOWING = (
    log_rows(*Envelope._fields).where(AFTER_SEQ).order_by(entries.c.seq).limit(bindparam("page"))
)


def read_envelopes(log: SessionLog, after: int, limit: int) -> list[Envelope]:
    """Read the first entries after an entry. No content and no control row is read."""
    read_head(log)  # which says so if it was purged
    rows = log.rows(_FOLLOWING, seq=after, page=limit)
    try:
        return [Envelope(seq, Kind(kind), *rest) for seq, kind, *rest in rows]
    except ValueError:
        seq = next(row[0] for row in rows if row[1] not in [*Kind])
        raise HistoryCorrupt(f"Entry {seq} has an unknown kind.", seq=seq) from None
