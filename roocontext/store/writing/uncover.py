"""Uncovering: take back one summary, marker, covering or clearing, and keep everything after it.

An uncovering is an entry like any other. The rows that it names stay in the log but no longer have
any effect: the history is what it would be without them. A rewind to before it restores the effect.
"""

from dataclasses import dataclass, replace

from sqlalchemy import text

from roocontext.errors import HistoryCorrupt, UncoverRefused
from roocontext.log.draft import UNCOVERED, control_draft, control_of, details_of
from roocontext.log.encoding import decode
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import first_decided, standing_ranges, within
from roocontext.log.values import Value
from roocontext.store.engine.schema import AFTER_SEQ, AT_SEQ, IN_LOG, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import (
    RequestedChange,
    SessionHead,
    check_version,
    read_with_head,
)
from roocontext.store.reading.messages import COMPANIONS
from roocontext.store.reading.points_in_time import no_entry
from roocontext.store.writing.caches import Decided, moved, reaching, read_tail, write_decided


@dataclass(frozen=True, slots=True)
class Uncovered(Value):
    """The result of an uncovering: entry `target` hides or clears nothing any more.

    `rows` are the entries that it took back: the target and its companions. `left` messages left
    the view, `returned` came back into it, and `restored` blocks show their content again. If the
    target was already uncovered, nothing is written: `changed` is False, and the other fields
    describe the earlier uncovering. In a dry run `seq` is the entry that would be written, and
    `hash` is None.
    """

    session_id: str
    target: int
    rows: tuple[int, ...]
    seq: int
    hash: str | None
    head_seq: int
    left: int
    returned: int
    restored: int
    changed: bool = True
    dry_run: bool = False


_ENTRY = log_rows("kind", "hash", "details").where(AT_SEQ, IN_LOG)
_AFTER = (
    log_rows("seq")
    .where(entries.c.details.is_not(None), text("kind = 'uncovering'"), AFTER_SEQ)
    .order_by(entries.c.seq.desc())
    .limit(1)
)


def newest_uncovering(log: SessionLog, after: int) -> int | None:
    """The newest uncovering after an entry, taken back or not."""
    row = log.row(_AFTER, seq=after)
    return row[0] if row else None


def uncover(log: SessionLog, change: RequestedChange, seq: int) -> Uncovered:
    """Take back a summary, marker, covering or clearing that is live and that nothing hides."""
    queries = [(_ENTRY, {"seq": seq}), (COMPANIONS, {"seq": seq})]
    head, (rows, accompanying) = read_with_head(log, queries, change.head)
    if not rows:
        raise no_entry(seq, head.last_seq)
    kind, _, details = rows[0]
    if kind not in UNCOVERED:
        raise UncoverRefused(
            f"Entry {seq} is {'an' if kind == Kind.UNCOVERING else 'a'} {kind}: only a summary, a"
            " marker, a covering or a clearing can be uncovered.",
            seq=seq,
        )
    named = [seq, *(row[0] for row in accompanying)]
    decided = first_decided([control_of(seq, kind, details)], [])
    tail = read_tail(log, head.last_seq, min(*named, decided))
    span = next((span for span in tail.spans() if span.lo <= seq <= span.hi), None)
    if span is not None and span.uncovered_by is not None:
        return _repeated(log, head, seq, span.uncovered_by)
    # After the check for a repetition: a repeated request expects an old head.
    check_version(change.expected_seq, head)
    standing = standing_ranges(tail.controls, head.last_seq)
    if not within(standing, seq):
        by = f": rewind {span.rewound_by} took it back" if span and span.rewound_by else ""
        raise UncoverRefused(f"Entry {seq} is not live{by}.", seq=seq)
    control = control_of(seq, kind, details)
    # A covering is hidden where its compaction is.
    place = control.source[0] if control.source else seq
    around = next((span for span in tail.spans() if span.lo <= place <= span.hi), None)
    hidden_by = around and (around.condense_parent or around.truncation_parent)
    if hidden_by is not None and kind != Kind.CLEARING:
        raise UncoverRefused(
            f"Entry {seq} is hidden by entry {hidden_by}: uncover that one first.",
            seq=seq,
            hidden_by=hidden_by,
        )
    # A rewind to between companions may have taken some of them back.
    taken_back = tuple(row for row in named if within(standing, row))
    end = head.last_seq + 1
    uncovering = Control(end, Kind.UNCOVERING, uncovers=taken_back)
    # Rows that the uncovered one hid may begin before the end that was read.
    tail = reaching(log, tail, first_decided([uncovering], tail.controls))
    present = tail.followed_by([uncovering])
    (left, returned, rewound), _ = moved(log, tail, present)
    restored = len(tail.cached.clearings - present.clearings)
    done = Uncovered(log.session_id, seq, taken_back, end, None, end, left, returned, restored)
    if change.dry_run:
        return replace(done, dry_run=True)
    moves = {"left": left, "returned": returned, "restored": restored}
    details = details_of(uncovering, {"trigger": change.trigger, **moves})
    draft = control_draft(Kind.UNCOVERING, details, now=change.now)
    decision = Decided(done, head, (draft,), tail, present, rewound)
    (receipt,) = write_decided(log, decision)
    return replace(done, hash=receipt.hash)


def _repeated(log: SessionLog, head: SessionHead, seq: int, first: int) -> Uncovered:
    """The result of the earlier uncovering of an entry."""
    row = log.row(_ENTRY, seq=first)
    if row is not None and row[0] == Kind.UNCOVERING:
        match decode(row[2] or "null"):
            case {
                "uncovers": [*rows],
                "record": {"left": int(left), "returned": int(returned), "restored": int(blocks)},
            }:
                done = (tuple(rows), first, row[1].hex(), head.head_seq, left, returned, blocks)
                return Uncovered(log.session_id, seq, *done, changed=False)
    raise HistoryCorrupt(
        f"Entry {seq} names entry {first} as its uncovering, but that is another kind of entry.",
        seq=first,
    )
