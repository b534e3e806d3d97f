"""Take back the newest messages of a view, and nothing else.

A rewind to before the messages would also take back the plans that were committed behind them: what
they hide would be seen again. So they are written again, in the same transaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, takewhile

from roocontext.errors import InvalidPlan, MessageNotFound
from roocontext.log.entries import Kept, Kind, Message, NewMessage, Range, View, ranges_of
from roocontext.log.plan import Action, Plan
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.writing.items import Item, Rewind

_ACTIONS = {
    Kind.SUMMARY: Action.CONDENSE,
    Kind.MARKER: Action.TRUNCATE,
    Kind.CLEARING: Action.CLEAR,
}
_PLANNED = frozenset({*_ACTIONS, Kind.COMPANION})


def take_back(
    session: Session,
    view: View,
    *,
    count: int = 1,
    instead: Sequence[NewMessage] = (),
    trigger: str,
) -> None:
    """Rewind to before the `count` newest messages of the view, and write `instead` in their place.

    A summary or marker is taken back by itself only, with its companions, so what it hides is seen
    again. Raises VersionConflict if the view is no longer the newest.
    """
    newest = view.messages[-count]
    seq = newest.seq if newest.kind is Kind.MESSAGE else _first_row(session, newest)
    bare: list[Item] = [Rewind(seq - 1, head_seq=view.head_seq, trigger=trigger), *instead]
    behind: list[AuditEntry] = []
    if view.head_seq > newest.seq:
        behind = [one for one in session.audit(after=newest.seq) if _stands(one)]
    items = [*bare, *_again(session, behind, newest.seq, view.seq + len(bare))]
    try:
        session.write_batch(items, expected_seq=view.head_seq)
    except InvalidPlan:  # such as a pin that was set since: what was hidden is seen again
        session.write_batch(bare, expected_seq=view.head_seq)
    for one in behind:
        if one.kind is Kind.UNCOVERING and one.entry.details["uncovers"][0] < seq:
            session.uncover(one.entry.details["uncovers"][0], trigger=trigger)


def _first_row(session: Session, row: Message) -> int:
    """The first of the rows that a plan has inserted, of which this is the last."""
    first = row.seq
    with suppress(MessageNotFound):
        while session.message(first - 1).compaction_id == row.compaction_id:
            first -= 1
    return first


def _stands(one: AuditEntry) -> bool:
    return one.rewound_by is None and one.uncovered_by is None


def _again(
    session: Session, behind: Iterable[AuditEntry], newest: int, last: int
) -> Iterator[Plan]:
    """The plans, for the seqs that their entries will have when the last entry is `last`."""
    moved: dict[int, int] = {}
    planned = (one for one in behind if one.kind in _PLANNED)
    for _, run in groupby(planned, key=lambda one: one.entry.compaction_id or one.seq):
        rows = list(run)
        plan = _plan(session, rows, newest, moved, head_seq=last)
        if not (plan.hides or plan.clears):
            continue
        yield plan
        for row in rows:
            last += 1
            moved[row.seq] = last


def _plan(
    session: Session,
    rows: Sequence[AuditEntry],
    newest: int,
    moved: Mapping[int, int],
    *,
    head_seq: int,
) -> Plan:
    (lead,) = (number for number, row in enumerate(rows) if row.kind in _ACTIONS)
    kind, decided = rows[lead].kind, rows[lead].entry.details
    record = dict(decided["record"])
    clears = decided.get("clears", ())
    return Plan(
        head_seq=head_seq,
        action=_ACTIONS[kind],
        hides=_moved(session, decided.get("hides", ()), newest, moved),
        rows=() if kind is Kind.CLEARING else tuple(map(_row, rows)),
        clears=tuple((seq, block) for seq, block in clears if seq < newest),
        keeps=tuple(Kept(*kept) for kept in decided.get("keeps", ()) if kept[0] < newest),
        placeholder=decided.get("placeholder", ""),
        lead=lead,
        # Its counts were checked when it was first committed.
        compat=True,
        policy=record.pop("policy"),
        trigger=record.pop("trigger"),
        record=record,
    )


def _moved(
    session: Session, hides: Sequence[Range], newest: int, moved: Mapping[int, int]
) -> tuple[Range, ...]:
    """The ranges, with the rows behind the newest message where they are now."""
    # Ranges that were committed may begin with notes; those of a plan begin with a message.
    before = [
        (first, min(hi, newest - 1))
        for lo, hi in hides
        if lo < newest and (first := _first_message(session, lo, hi))
    ]
    after = (new for seq, new in moved.items() if any(lo <= seq <= hi for lo, hi in hides))
    return (*before, *ranges_of(sorted(after)))


def _first_message(session: Session, lo: int, hi: int) -> int | None:
    rows = takewhile(lambda one: one.seq <= hi, session.audit(after=lo - 1))
    return next((one.seq for one in rows if one.role is not None and _stands(one)), None)


def _row(one: AuditEntry) -> NewMessage:
    entry = one.entry
    return NewMessage(
        str(entry.role),
        entry.content,
        str(entry.format),
        ts=entry.ts,
        model=entry.model,
        usage=entry.usage,
        extra=entry.extra,
    )
