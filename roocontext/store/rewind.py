"""Rewind and undo: find the target, write the rewind, and update the cached tags.

A rewind is an entry like any other. It means: from here on the session is as it was right after
entry `to`. So an undo is a rewind to just before a rewind, and an undo can be undone too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import bindparam, func, select, text

from roocontext.errors import MessageNotFound, NothingToUndo, UndoRefused
from roocontext.log.draft import control_draft, control_of, details_of
from roocontext.log.entries import Control, Kind
from roocontext.log.moments import Moment
from roocontext.log.spans import Path
from roocontext.store.append import Receipt
from roocontext.store.as_of import no_entry
from roocontext.store.caches import (
    Caches,
    Moved,
    Tail,
    moved,
    read_tail,
    rewound_tail,
    write_controls,
)
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.head import SessionHead, check_version, lock_query, to_head
from roocontext.store.schema import AFTER_SEQ, IN_LOG, entries
from roocontext.store.targets import Targets
from roocontext.store.times import IS_FOLDED
from roocontext.store.view import bounds


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind did: the session is as it was right after entry `to`.

    `left` messages left the view and `returned` came back into it. If nothing would change,
    nothing is written: `changed` is False, and `seq` and `hash` are None. In a dry run `seq` is the
    entry that would be written, and `hash` is None. `undone` is the rewind that an undo took back.
    If the rewind names a time or a message's id, `target` is the message
    that was found, and `target_time` when it happened: the agent's `ts`, or else when it was
    recorded. It is the time of recording if the rewind asks for that one.
    """

    session_id: str
    to: int
    seq: int | None
    hash: str | None
    head_seq: int
    left: int
    returned: int
    changed: bool
    undone: int | None = None
    target: int | None = None
    target_time: int | None = None
    dry_run: bool = False


_in_session = entries.c.session_id == bindparam("session_id")
_between = entries.c.seq.between(bindparam("lo"), bindparam("hi"))
_FOLDED = (
    select(entries.c.seq)
    .where(_in_session, _between, text("kind NOT IN ('note', 'rewind')"))
    .limit(1)
)
_newest_control = (
    select(entries.c.seq, entries.c.kind, entries.c.details)
    .where(_in_session, entries.c.details.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_NEWEST_REWIND = _newest_control.where(text("kind = 'rewind'"))
_NEWEST_REWIND_OR_UNCOVERING = _newest_control.where(text("kind IN ('rewind', 'uncovering')"))
_FOLDED_SINCE = select(func.count()).where(_in_session, AFTER_SEQ, IS_FOLDED)


def rewind(
    tx: Transaction,
    session_id: str,
    *,
    to: int | str | Moment | None,
    ts: int | None,
    keep_target: bool,
    expected_seq: int | None,
    now: int,
    trigger: str,
    dry_run: bool = False,
) -> Rewound:
    """Return the session to its state right after the target, or right before it."""
    targets = Targets(tx, session_id, expected_seq, dry_run=dry_run)
    place = targets.find(to, ts)
    after = place.with_target if keep_target else place.without_target
    if after < 0:
        raise MessageNotFound("Nothing comes before the empty session, entry 0.", candidates=(0,))
    tail = place.tail or read_tail(tx, session_id, targets.head.last_seq, after + 1)
    going = _Rewind(tx, session_id, targets.head, now, trigger)
    done = (going.foreseen if dry_run else going.to)(after, tail, place.totals)
    return replace(done, target=place.target, target_time=place.target_time, dry_run=dry_run)


def rewind_on(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    *,
    to: int,
    now: int,
    trigger: str,
    client_id: str | None,
    ts: int | None,
) -> Receipt:
    """Write a rewind to a session that is at this head, whether it changes anything or not."""
    if not 0 <= to <= head.last_seq:
        raise no_entry(to, head.last_seq)
    tail = rewound_tail(tx, session_id, read_tail(tx, session_id, head.last_seq, to + 1), to)
    going = _Rewind(tx, session_id, head, now, trigger, client_id, ts, in_batch=True)
    return going.write(tail, going.change(tail, to))


def undo(
    tx: Transaction,
    session_id: str,
    *,
    of: int | None,
    force: bool,
    expected_seq: int | None,
    now: int,
    trigger: str,
) -> Rewound:
    """Take back the newest rewind of the log, undos included."""
    session = {"session_id": session_id}
    locked, found = tx.all([lock_query(session_id), (_NEWEST_REWIND_OR_UNCOVERING, session)])
    head = to_head(session_id, locked)
    check_version(expected_seq, head)
    newest = found[0] if found else None
    uncovering = None
    if newest is not None and newest[1] == Kind.UNCOVERING:
        uncovering = newest[0]
        newest = tx.row(_NEWEST_REWIND, **session)
    last = newest[0] if newest else 0
    covers = (
        ""
        if uncovering is None
        else f" To cover again what entry {uncovering} uncovered: rewind(to={uncovering - 1})."
    )
    if newest is None:
        raise NothingToUndo(f"Session {session_id!r} has no rewind.{covers}", session_id=session_id)
    facts = {"rewind": last, "uncovering": uncovering}
    if of is not None and of != last:
        raise UndoRefused(f"The newest rewind is entry {last}, not {of}.{covers}", **facts)
    if head.head_seq != last and not force:
        (since,) = tx.row(_FOLDED_SINCE, session_id=session_id, seq=last) or (0,)
        came = "1 entry" if since == 1 else f"{since} entries"
        raise UndoRefused(f"{came} came after rewind {last}.{covers}", **facts, since=since)
    undone = control_of(*newest)
    # What that one took back is what changes.
    tail = read_tail(tx, session_id, head.last_seq, min(last - 1, undone.to or 0) + 1)
    return _Rewind(tx, session_id, head, now, trigger).to(last - 1, tail, undone=last)


@dataclass(frozen=True, slots=True)
class _Rewind:
    """Writes a rewind to a locked session."""

    tx: Transaction
    session_id: str
    head: SessionHead
    now: int
    trigger: str
    client_id: str | None = None
    ts: int | None = None
    in_batch: bool = False

    def to(
        self, to: int, tail: Tail, totals: Sequence[SqlRow] = (), undone: int | None = None
    ) -> Rewound:
        """Return the session to its state right after entry `to`, unless it is in that state."""
        tail = rewound_tail(self.tx, self.session_id, tail, to)
        change = self.change(tail, to, totals)
        # Nothing is written for a rewind to the present. An undo is written in any case: otherwise
        # the next one would find the same rewind.
        if undone is None and change.is_none:
            return self._unchanged(to)
        receipt = self.write(tail, change, undone)
        return Rewound(
            self.session_id,
            to,
            receipt.seq,
            receipt.hash,
            receipt.head_seq,
            change.moved.left,
            change.moved.returned,
            changed=True,
            undone=undone,
        )

    def foreseen(self, to: int, tail: Tail, totals: Sequence[SqlRow] = ()) -> Rewound:
        """What a rewind to entry `to` would do. Nothing is written."""
        change = self.change(rewound_tail(self.tx, self.session_id, tail, to), to, totals)
        if change.is_none:
            return self._unchanged(to)
        seq = change.rewind.seq
        left, returned, _ = change.moved
        return Rewound(self.session_id, to, seq, None, seq, left, returned, changed=True)

    def _unchanged(self, to: int) -> Rewound:
        head_seq = self.head.head_seq
        return Rewound(self.session_id, to, None, None, head_seq, 0, 0, changed=False)

    def change(self, tail: Tail, to: int, totals: Sequence[SqlRow] = ()) -> "_Change":
        """What a rewind to entry `to` would change; some running totals may be read already."""
        rewind = Control(self.head.last_seq + 1, Kind.REWIND, to=to)
        present = tail.followed_by([rewind])
        path, now = Path(tail.controls), self.head.last_seq
        differing = bounds(self.session_id, [*path.removed(now, to), *path.removed(to, now)])
        live = [(_FOLDED, stretch) for stretch in differing]
        # Asked with the totals. If those are known, it is only asked where no message moves.
        asked = () if totals else live
        moving, found = moved(self.tx, self.session_id, tail, present, others=asked, known=totals)
        if not asked and not (moving.left or moving.returned):
            found = self.tx.all(live)
        is_none = not (moving.left or moving.returned or any(found))
        return _Change(rewind, present, moving, is_none)

    def write(self, tail: Tail, change: "_Change", undone: int | None = None) -> Receipt:
        """Write the rewind."""
        rewind, present, (left, returned, rewound), _ = change
        record = {"trigger": self.trigger, "left": left, "returned": returned}
        if undone is not None:
            record["undone"] = undone
        draft = control_draft(
            *(Kind.REWIND, details_of(rewind, record)),
            now=self.now,
            client_id=self.client_id,
            ts=self.ts,
        )
        (receipt,) = write_controls(
            *(self.tx, self.session_id, self.head, [draft]),
            tail=tail,
            present=present,
            rewound=rewound,
            is_last=not self.in_batch,
        )
        return receipt


class _Change(NamedTuple):
    """What a rewind would change: none if the same entries are live after it.

    Notes and rewinds are never live.
    """

    rewind: Control
    present: Caches
    moved: Moved
    is_none: bool
