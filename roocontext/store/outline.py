"""The outline of a session: its control rows and the parts between them. No content is read."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from roocontext.log.encoding import decode
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import Span, spans_of
from roocontext.store import sessions
from roocontext.store.engine.transaction import Transaction
from roocontext.store.sessions import SessionInfo
from roocontext.store.totals import totals_of
from roocontext.store.view import CONTROLS, to_controls


class ControlEntry(NamedTuple):
    """An entry that hides, clears or rewinds, with its details."""

    seq: int
    kind: Kind
    details: Any


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """Entries that have the same tags and no rewind among them, and how many are messages."""

    span: Span
    messages: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What became of a session's entries, in the order of the log.

    A part ends before a rewind and at an entry that a rewind goes back to.
    """

    info: SessionInfo
    controls: tuple[ControlEntry, ...]
    parts: tuple[OutlinePart, ...]


def outline(tx: Transaction, session_id: str) -> Outline:
    """The outline of a session, from its control rows and running totals."""
    info = sessions.info(tx, session_id)
    rows = tx.rows(CONTROLS, session_id=session_id, seq=info.last_seq)
    spans = _cut(to_controls(rows), info.last_seq)
    sizes = totals_of(tx, session_id, [[(span.lo, span.hi)] for span in spans])
    return Outline(
        info,
        tuple(ControlEntry(seq, Kind(kind), decode(details)) for seq, kind, details in rows),
        tuple(
            OutlinePart(span, messages) for span, (messages, _) in zip(spans, sizes, strict=True)
        ),
    )


def _cut(controls: Sequence[Control], last: int) -> list[Span]:
    """The spans up to an entry, cut at rewinds and at their targets, without the rewinds."""
    spans = spans_of(controls, last)
    starts = [span.lo for span in spans]
    rewinds = {control.seq: control.to for control in controls if control.to is not None}
    # A part of the tree ends where another branch begins.
    cuts = {*starts, *rewinds, last + 1}
    cuts |= {seq + 1 for seq in (*rewinds, *rewinds.values())}
    parts = []
    for lo, end in pairwise(sorted(cut for cut in cuts if cut <= last + 1)):
        if lo not in rewinds:
            span = spans[bisect_right(starts, lo) - 1]
            parts.append(replace(span, lo=lo, hi=end - 1, position=span.at(lo)))
    return parts
