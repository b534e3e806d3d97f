"""Rewind and undo: find the target, write the rewind, and renew the cached tags.

A rewind is an entry like any other. It means: from here on the session is as it was right after
entry `to`. So an undo is a rewind to just before a rewind, and an undo can be undone too.

A rewind names its target by a seq, a message's id, or a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import func, select, text

from roocontext.errors import MessageNotFound, NothingToUndo, UndoRefused
from roocontext.log.draft import control_draft, control_of, details_of
from roocontext.log.entries import Control, Kind, Range
from roocontext.log.moments import Moment, happened, utc
from roocontext.log.spans import Path, standing_ranges, within
from roocontext.log.values import Value
from roocontext.store.engine.schema import (
    AFTER_SEQ,
    IN_RANGE,
    entries,
    log_rows,
    newest_control,
    of_session,
)
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow
from roocontext.store.reading import points_in_time
from roocontext.store.reading.head import (
    RequestedChange,
    SessionHead,
    check_version,
    read_with_head,
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
    read_with_tail,
    rewound_tail,
    write_decided,
)
from roocontext.store.writing.items import Rewind


@dataclass(frozen=True, slots=True)
class Rewound(Value):
    """The result of a rewind: the session is as it was right after entry `to`.

    `left` messages left the view and `returned` came back into it. If nothing would change,
    nothing is written: `changed` is False, and `seq` and `hash` are None. In a dry run `seq` is the
    entry that would be written, and `hash` is None. `undone` is the rewind that an undo took back.
    If the rewind names a time or a message's id, `target` is the message that was found, and
    `target_time` when it happened: the agent's `ts`, or else the time of recording, which a rewind
    can also ask for.
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


# Of the kinds that are ever live: notes and rewinds are not.
_FOLDED = log_rows("seq").where(IN_RANGE, text("kind NOT IN ('note', 'rewind')")).limit(1)
_newest = newest_control("seq", "kind", "details")
_NEWEST_REWIND = _newest.where(text("kind = 'rewind'"))
_NEWEST_REWIND_OR_UNCOVERING = _newest.where(text("kind IN ('rewind', 'uncovering')"))
_FOLDED_SINCE = select(func.count()).where(of_session(entries), AFTER_SEQ, IS_FOLDED)


def rewind(
    log: SessionLog,
    change: RequestedChange,
    *,
    to: int | str | Moment | None,
    ts: int | None,
    keep_target: bool,
) -> Rewound:
    """Return the session to its state right after the target, or right before it."""
    tail: Tail | None = None
    if isinstance(to, int):
        head, tail, _ = read_with_tail(log, change.head, to)
        check_version(change.expected_seq, head)
        if not 0 <= to <= head.last_seq:
            raise no_entry(to, head.last_seq)
        place = Place(to, to - 1)
    else:
        head, place = _find(log, change, to, ts)
    after = place.with_target if keep_target else place.without_target
    if after < 0:
        raise MessageNotFound("Nothing comes before the empty session, entry 0.", candidates=(0,))
    tail = tail or read_tail(log, head.last_seq, after + 1)
    decision = _decide(log, change, head, after, tail)
    done = decision.done if change.dry_run else _written(log, decision)
    target, time = place.target, place.target_time
    return replace(done, target=target, target_time=time, dry_run=change.dry_run)


class Place(NamedTuple):
    """The entry to go to with the message that a rewind names, and the one without it."""

    with_target: int
    without_target: int
    target: int | None = None
    target_time: int | None = None


def _find(
    log: SessionLog, change: RequestedChange, to: str | Moment | None, ts: int | None
) -> tuple[SessionHead, Place]:
    """The head, and the place that a message's id or a time names; else the nearest candidates."""
    queries: list[Query] = [(ALL_CONTROLS, {})]
    if isinstance(to, str):
        queries.append(by_id(to))
    elif ts is not None:
        queries.append(points_in_time.at_ts(ts))
    head, (controls, *matches) = read_with_head(log, queries, change.head)
    check_version(change.expected_seq, head)
    live = standing_ranges(to_controls(controls), head.last_seq)
    if isinstance(to, Moment):
        return head, _until(log, head, live, to)
    if isinstance(to, str):
        return head, _by_message_id(log, live, to, matches[0])
    return head, _by_time(log, live, ts or 0, matches[0])


def _by_message_id(
    log: SessionLog, live: Sequence[Range], message_id: str, rows: Sequence[SqlRow]
) -> Place:
    for seq, ts, recorded_at in rows:
        if within(live, seq):
            return Place(seq, seq - 1, seq, happened(ts, recorded_at))
    if rows:
        raise MessageNotFound(
            f"Message {message_id!r} is entry {rows[0][0]}, which is not live: give its seq.",
            candidates=tuple(row[0] for row in rows),
        )
    raise unknown(log, message_id, live)


def _by_time(log: SessionLog, live: Sequence[Range], ts: int, rows: Sequence[SqlRow]) -> Place:
    """The first live message whose own time is exactly this."""
    for seq, _ in rows:
        if within(live, seq):
            return Place(seq, seq - 1, seq, ts)
    near = points_in_time.nearest(log, ts)
    others = [f"entry {seq}, of {at} ms ({utc(at)})" for seq, at in near]
    nearest = f"the nearest are {join_names(others)}" if near else "none has one"
    raise MessageNotFound(
        f"No live message has the agent's time {ts} ms ({utc(ts)}); {nearest}.",
        candidates=tuple(at for _, at in near),
    )


def _until(log: SessionLog, head: SessionHead, live: Sequence[Range], moment: Moment) -> Place:
    """Just before the first live entry that is later; the target is the last message there."""
    start = points_in_time.none_later(log, head, moment) + 1
    later = points_in_time.first_later(log, live, moment, start=start)
    end = head.last_seq + 1 if later is None else later[0]
    target = points_in_time.last_message(log, live, moment, end)
    if target is not None:
        return Place(end - 1, target[0] - 1, *target)
    if later is None:
        raise MessageNotFound("The session has no live message.", candidates=())
    raise MessageNotFound(
        f"No live message is as early as {utc(moment.time)}; the first is entry {end},"
        f" of {utc(later[1])}.",
        candidates=(end,),
    )


def rewind_on(log: SessionLog, head: SessionHead, item: Rewind, *, now: int) -> Receipt:
    """Write a rewind to a session that is at this head, whether it changes anything or not."""
    if not 0 <= item.to <= head.last_seq:
        raise no_entry(item.to, head.last_seq)
    tail = read_tail(log, head.last_seq, item.to + 1)
    change = RequestedChange(None, item.trigger, now)
    decision = _decide(
        *(log, change, head, item.to, tail), always=True, client_id=item.client_id, ts=item.ts
    )
    return write_decided(log, decision)[0]


def undo(log: SessionLog, change: RequestedChange, *, of: int | None, force: bool) -> Rewound:
    """Take back the newest rewind of the log, undos included."""
    head, (rows,) = read_with_head(log, [(_NEWEST_REWIND_OR_UNCOVERING, {})], change.head)
    check_version(change.expected_seq, head)
    newest = rows[0] if rows else None
    uncovering, covers = None, ""
    if newest is not None and newest[1] == Kind.UNCOVERING:
        uncovering = newest[0]
        covers = f" To cover again what entry {uncovering} uncovered: rewind(to={uncovering - 1})."
        newest = log.row(_NEWEST_REWIND)
    if newest is None:
        raise NothingToUndo(
            f"Session {log.session_id!r} has no rewind.{covers}", session_id=log.session_id
        )
    last = newest[0]
    facts = {"rewind": last, "uncovering": uncovering}
    if of is not None and of != last:
        raise UndoRefused(f"The newest rewind is entry {last}, not {of}.{covers}", **facts)
    if head.head_seq != last and not force:
        (since,) = log.row(_FOLDED_SINCE, seq=last) or (0,)
        came = "1 entry" if since == 1 else f"{since} entries"
        raise UndoRefused(f"{came} came after rewind {last}.{covers}", **facts, since=since)
    undone = control_of(*newest)
    # An undo changes what the rewind changed, back to before it.
    tail = read_tail(log, head.last_seq, min(last - 1, undone.to or 0) + 1)
    # It is written in any case: otherwise the next undo would find the same rewind.
    decision = _decide(log, change, head, last - 1, tail, always=True, undone=last)
    return _written(log, decision)


def _decide(
    log: SessionLog,
    change: RequestedChange,
    head: SessionHead,
    to: int,
    tail: Tail,
    *,
    undone: int | None = None,
    always: bool = False,
    client_id: str | None = None,
    ts: int | None = None,
) -> Decided[Rewound]:
    """A rewind to right after entry `to`. Unless `always`, none if that changes nothing."""
    tail = rewound_tail(log, tail, to)
    last = head.last_seq
    rewind = Control(last + 1, Kind.REWIND, to=to)
    present = tail.followed_by([rewind])
    path = Path(tail.controls)
    differing = bounds([*path.removed(last, to), *path.removed(to, last)])
    folded = [(_FOLDED, stretch) for stretch in differing]
    (left, returned, rewound), rows = moved(log, tail, present, others=folded)
    if not (always or left or returned or any(rows)):
        same = Rewound(log.session_id, to, None, None, head.head_seq, 0, 0, changed=False)
        return Decided(same, head, (), tail, present, rewound)
    record = {"trigger": change.trigger, "left": left, "returned": returned}
    details = details_of(rewind, record if undone is None else {**record, "undone": undone})
    draft = control_draft(Kind.REWIND, details, now=change.now, client_id=client_id, ts=ts)
    seq = rewind.seq
    done = Rewound(log.session_id, to, seq, None, seq, left, returned, changed=True, undone=undone)
    return Decided(done, head, (draft,), tail, present, rewound)


def _written(log: SessionLog, decision: Decided[Rewound]) -> Rewound:
    if not decision.drafts:
        return decision.done
    (receipt,) = write_decided(log, decision)
    return replace(decision.done, hash=receipt.hash)
