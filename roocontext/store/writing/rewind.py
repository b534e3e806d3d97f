"""Rewind and undo: find the target, write the rewind, and update the cached tags.

A rewind is an entry like any other. It means: from here on the session is as it was right after
entry `to`. So an undo is a rewind to just before a rewind, and an undo can be undone too.

Finds the entry that a rewind names: by its seq, a message's id, or a time.
"""

from dataclasses import dataclass, replace

from sqlalchemy import bindparam, func, select, text

from roocontext.errors import MessageNotFound, NothingToUndo, UndoRefused
from roocontext.log.draft import control_draft, control_of, details_of
from roocontext.log.entries import Control, Kind, Range
from roocontext.log.moments import Moment, happened, utc
from roocontext.log.spans import Path, standing_ranges, within
from roocontext.log.values import Value
from roocontext.store.engine.schema import AFTER_SEQ, IN_LOG, entries
from roocontext.store.engine.transaction import Query, SqlRow, Transaction
from roocontext.store.reading import points_in_time
from roocontext.store.reading.head import (
    SessionHead,
    check_version,
    head_query,
    lock_query,
    to_head,
)
from roocontext.store.reading.live import by_id, join_names, unknown
from roocontext.store.reading.messages import ALL_CONTROLS, bounds, to_controls
from roocontext.store.reading.points_in_time import IS_FOLDED, no_entry
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.caches import (
    Decided,
    Tail,
    moved,
    read_tail,
    rewound_tail,
    tail_queries,
    to_tail,
    write_decided,
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a rewind names: the entry to go to with the target, and the one without it.

    The end of the session that the rewind changes may have been read on the way.
    """

    with_target: int
    without_target: int
    target: int | None = None
    target_time: int | None = None
    tail: Tail | None = None


class Targets:
    """Finds the entry that a rewind names, or raises an error with the nearest candidates."""

    head: SessionHead
    """The head of the session, known when a target was found."""

    def __init__(
        self, tx: Transaction, session_id: str, expected_seq: int | None, *, dry_run: bool
    ) -> None:
        self._tx = tx
        self._session_id = session_id
        self._session = {"session_id": session_id}
        self._expected_seq = expected_seq
        self._head = (head_query if dry_run else lock_query)(session_id)

    def find(self, to: int | str | Moment | None, ts: int | None) -> Place:
        """Find the entry to go to."""
        if isinstance(to, Moment):
            return self._until(to)
        if isinstance(to, str):
            return self._by_message_id(to)
        if ts is not None:
            return self._by_time(ts)
        return self._by_seq(to or 0)

    def _locked(self, *queries: Query) -> list[list[SqlRow]]:
        """Lock the session, unless this is a dry run; the rows of other queries."""
        locked, *rows = self._tx.all([self._head, *queries])
        self.head = to_head(self._session_id, locked)
        check_version(self._expected_seq, self.head)
        return rows

    def _live_and(self, query: Query) -> tuple[tuple[Range, ...], list[SqlRow]]:
        """What is live, and the rows of another query."""
        controls, rows = self._locked((ALL_CONTROLS, self._session), query)
        return standing_ranges(to_controls(controls), self.head.last_seq), rows

    def _by_seq(self, seq: int) -> Place:
        found = self._locked(*tail_queries(self._session_id, seq))
        if not 0 <= seq <= self.head.last_seq:
            raise no_entry(seq, self.head.last_seq)
        tail = to_tail(seq, self.head.last_seq, *found)
        return Place(seq, seq - 1, tail=tail)

    def _by_message_id(self, message_id: str) -> Place:
        live, rows = self._live_and(by_id(self._session_id, message_id))
        for seq, ts, recorded_at in rows:
            if within(live, seq):
                return Place(seq, seq - 1, seq, happened(ts, recorded_at))
        seqs = [row[0] for row in rows]
        if seqs:
            raise MessageNotFound(
                f"Message {message_id!r} is entry {seqs[0]}, which is not live: give its seq.",
                candidates=tuple(seqs),
            )
        raise unknown(self._tx, self._session_id, message_id, live)

    def _by_time(self, ts: int) -> Place:
        """The first live message whose own time is exactly this."""
        live, rows = self._live_and(points_in_time.at_ts(self._session_id, ts))
        found = next((row[0] for row in rows if within(live, row[0])), None)
        if found is not None:
            return Place(found, found - 1, found, ts)
        near = points_in_time.nearest(self._tx, self._session_id, ts)
        others = [f"entry {seq}, of {at} ms ({utc(at)})" for seq, at in near]
        nearest = f"the nearest are {join_names(others)}" if near else "none has one"
        raise MessageNotFound(
            f"No live message has the agent's time {ts} ms ({utc(ts)}); {nearest}.",
            candidates=tuple(at for _, at in near),
        )

    def _until(self, moment: Moment) -> Place:
        """Just before the first live entry that is later; the target is the last message there."""
        (controls,) = self._locked((ALL_CONTROLS, self._session))
        live = standing_ranges(to_controls(controls), self.head.last_seq)
        where = (self._tx, self._session_id)
        start = points_in_time.none_later(*where, self.head, moment) + 1
        later = points_in_time.first_later(*where, live, moment, start=start)
        end = self.head.last_seq + 1 if later is None else later[0]
        target = points_in_time.last_message(*where, live, moment, end)
        if target is not None:
            return Place(end - 1, target[0] - 1, *target)
        if later is None:
            raise MessageNotFound("The session has no live message.", candidates=())
        raise MessageNotFound(
            f"No live message is as early as {utc(moment.time)}; the first is entry {end},"
            f" of {utc(later[1])}.",
            candidates=(end,),
        )


@dataclass(frozen=True, slots=True)
class Rewound(Value):
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
# What is ever live: notes and rewinds are not.
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
    decision = _decide(tx, session_id, targets.head, after, tail, now=now, trigger=trigger)
    done = decision.done if dry_run else _written(tx, session_id, decision)
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
    tail = read_tail(tx, session_id, head.last_seq, to + 1)
    decision = _decide(
        *(tx, session_id, head, to, tail),
        now=now,
        trigger=trigger,
        always=True,
        client_id=client_id,
        ts=ts,
    )
    return write_decided(tx, session_id, decision)[0]


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
    # An undo is written in any case: otherwise the next one would find the same rewind.
    decision = _decide(
        *(tx, session_id, head, last - 1, tail), now=now, trigger=trigger, undone=last, always=True
    )
    return _written(tx, session_id, decision)


def _decide(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    to: int,
    tail: Tail,
    *,
    now: int,
    trigger: str,
    undone: int | None = None,
    always: bool = False,
    client_id: str | None = None,
    ts: int | None = None,
) -> Decided[Rewound]:
    """A rewind to right after entry `to`. Unless `always`, none if that changes nothing."""
    tail = rewound_tail(tx, session_id, tail, to)
    rewind = Control(head.last_seq + 1, Kind.REWIND, to=to)
    present = tail.followed_by([rewind])
    path, last = Path(tail.controls), head.last_seq
    differing = bounds(session_id, [*path.removed(last, to), *path.removed(to, last)])
    folded = [(_FOLDED, stretch) for stretch in differing]
    (left, returned, rewound), found = moved(tx, session_id, tail, present, others=folded)
    if not (always or left or returned or any(found)):
        same = Rewound(session_id, to, None, None, head.head_seq, 0, 0, changed=False)
        return Decided(same, head, (), tail, present, rewound)
    record = {"trigger": trigger, "left": left, "returned": returned}
    draft = control_draft(
        Kind.REWIND,
        details_of(rewind, record if undone is None else {**record, "undone": undone}),
        now=now,
        client_id=client_id,
        ts=ts,
    )
    done = Rewound(
        *(session_id, to, rewind.seq, None, rewind.seq, left, returned), changed=True, undone=undone
    )
    return Decided(done, head, (draft,), tail, present, rewound)


def _written(tx: Transaction, session_id: str, decision: Decided[Rewound]) -> Rewound:
    if not decision.drafts:
        return decision.done
    (receipt,) = write_decided(tx, session_id, decision)
    return replace(decision.done, hash=receipt.hash)
