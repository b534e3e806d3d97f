"""Take back the newest messages of a view, and nothing else.

A rewind to before the messages also takes back the plans that were committed after them, and shows
again what these hide. So the plans are written again, in the same transaction.
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

    A summary or marker is only taken back if it is one of these messages, with its companions; what
    it hides is shown again. So it is with a message that holds a provider's compaction. Raises
    VersionConflict if the view is no longer the newest.
    """
    newest = view.messages[-count]
    seq = newest.seq if newest.kind is Kind.MESSAGE else _first_row(session, newest)
    if newest.compacted is not None:
        seq = min((seq, *newest.compacted.companions))
    after: list[AuditEntry] = []
    if view.head_seq > newest.seq:
        after = [entry for entry in session.audit(after=newest.seq) if _is_live(entry)]
    for entry in after:
        # A covering follows its message and its companions: uncovered, it goes with both.
        if entry.kind is Kind.UNCOVERING and entry.entry.details["uncovers"][0] > newest.seq:
            seq = min((seq, *entry.entry.details["uncovers"]))
    bare: list[Item] = [Rewind(seq - 1, head_seq=view.head_seq, trigger=trigger), *instead]
    items = [*bare, *_again(session, after, newest.seq, view.seq + len(bare))]
    try:
        session.write_batch(items, expected_seq=view.head_seq)
    except InvalidPlan:  # for example for a pin that was set since: the rows are shown again
        session.write_batch(bare, expected_seq=view.head_seq)
    for entry in after:
        if entry.kind is Kind.UNCOVERING and entry.entry.details["uncovers"][0] < seq:
            session.uncover(entry.entry.details["uncovers"][0], trigger=trigger)


def _first_row(session: Session, row: Message) -> int:
    """The first row of a plan, given its last one."""
    first = row.seq
    with suppress(MessageNotFound):
        while session.message(first - 1).compaction_id == row.compaction_id:
            first -= 1
    return first


def _is_live(entry: AuditEntry) -> bool:
    return entry.rewound_by is None and entry.uncovered_by is None


def _again(session: Session, after: Iterable[AuditEntry], newest: int, last: int) -> Iterator[Item]:
    """The plans, with the seqs that their entries will have after the entry `last`."""
    moved: dict[int, int] = {}
    planned = (entry for entry in after if entry.kind in _PLANNED)
    for _, run in groupby(planned, key=lambda entry: entry.entry.compaction_id or entry.seq):
        rows = list(run)
        if any(row.kind in _ACTIONS for row in rows):
            plan = _plan(session, rows, newest, moved, head_seq=last)
            if not (plan.hides or plan.clears):
                continue
            yield plan
        else:  # a rewind to between the rows of a plan left companions that no plan can hold
            yield from map(_row, rows)
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
    """The ranges, in which the rows after the newest message have their new seqs."""
    # Committed ranges may begin with notes; the ranges of a plan begin with a message.
    before = [
        (first, min(hi, newest - 1))
        for lo, hi in hides
        if lo < newest and (first := _first_message(session, lo, hi))
    ]
    again = (new for seq, new in moved.items() if any(lo <= seq <= hi for lo, hi in hides))
    return (*before, *ranges_of(sorted(again)))


def _first_message(session: Session, lo: int, hi: int) -> int | None:
    rows = takewhile(lambda row: row.seq <= hi, session.audit(after=lo - 1))
    return next((row.seq for row in rows if row.role is not None and _is_live(row)), None)


def _row(row: AuditEntry) -> NewMessage:
    entry = row.entry
    return NewMessage(
        str(entry.role),
        entry.content,
        str(entry.format),
        ts=entry.ts,
        model=entry.model,
        usage=entry.usage,
        extra=entry.extra,
    )
