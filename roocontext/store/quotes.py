"""Who quotes a message: the answers to recall tools, and the summaries that were made of it."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import bindparam, select

from roocontext.log.encoding import decode
from roocontext.log.entries import Kind
from roocontext.log.quotes import QUOTED, quotes_of
from roocontext.log.spans import standing_ranges, within
from roocontext.store.copies import FAMILY
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import read_head
from roocontext.store.schema import IN_LOG, entries, sessions
from roocontext.store.view import read_controls

Place = tuple[str, int]
"""A session's id and a seq."""

_PARENT = select(sessions.c.parent).where(sessions.c.session_id == bindparam("session_id"))
_QUOTING = (
    select(entries.c.seq, entries.c.extra)
    .where(
        entries.c.session_id == bindparam("session_id"),
        IN_LOG,
        entries.c.extra.is_not(None),
        entries.c.extra.like(bindparam("mark")),
    )
    .order_by(entries.c.seq)
)
_MARK = f'%"{QUOTED}"%'


def quoting_rows(tx: Transaction, holders: Collection[str], seq: int) -> list[Place]:
    """The rows that quote a message which these sessions hold as entry `seq`."""
    return [
        (reader, row)
        for reader in sorted(_readers(tx, holders))
        for row, extra in tx.rows(_QUOTING, session_id=reader, mark=_MARK)
        if any(
            quote.lo <= seq <= quote.hi and (quote.session_id or reader) in holders
            for quote in quotes_of(decode(extra))
        )
    ]


def summaries_of(tx: Transaction, rows: Sequence[Place]) -> list[Place]:
    """The summaries, live or not, that may quote one of the rows: it was live when they were made.

    A summary of a summary may quote what the first one does.
    """
    return [
        (holder, summary)
        for holder in dict.fromkeys(holder for holder, _ in rows)
        for summary in _summaries(tx, holder, {seq for name, seq in rows if name == holder})
    ]


def _readers(tx: Transaction, holders: Collection[str]) -> set[str]:
    """The sessions whose recall reads these: themselves, their ancestors, and forks of all."""
    found: set[str] = set()
    level = set(holders)
    while level:
        found |= level
        parents = {row[0] for row in tx.each(_PARENT, _named(level)) if row[0] is not None}
        forks = {row[0] for row in tx.each(FAMILY, _named(parents))}
        level = (parents | forks) - found
    return found


def _named(names: Collection[str]) -> list[dict[str, str]]:
    return [{"session_id": name} for name in sorted(names)]


def _summaries(tx: Transaction, holder: str, quoted: set[int]) -> Iterator[int]:
    controls = read_controls(tx, holder, read_head(tx, holder).last_seq)
    for control in controls:
        if control.kind is not Kind.SUMMARY:
            continue
        hidden = [seq for seq in quoted if within(control.hides, seq)]
        if hidden:
            standing = standing_ranges(controls, control.seq)
            if any(within(standing, seq) for seq in hidden):
                quoted.add(control.seq)
                yield control.seq
