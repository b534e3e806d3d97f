"""A batch: messages, notes, plans and rewinds written in one transaction, all or none.

Every item is written, even a pin or a rewind that changes nothing. So the seqs of its entries are
known beforehand, and a repeated batch finds every entry again (0024).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from msgspec.structs import asdict, replace
from sqlalchemy import bindparam, select

from roocontext.errors import InvalidOption, VersionConflict
from roocontext.log.draft import Salts, control_of, message_draft
from roocontext.log.encoding import check_id, check_integer, encode
from roocontext.log.entries import Control, NewMessage, Range, common, subtract
from roocontext.log.plan import Action, Plan
from roocontext.log.spans import standing_ranges
from roocontext.store.engine.check_arguments import check_maybe, check_whole, to_plan
from roocontext.store.engine.schema import IN_LOG, entries
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead, check_version, head_query, lock, read_head
from roocontext.store.reading.messages import read_controls
from roocontext.store.reading.totals import totals_of
from roocontext.store.writing.append import (
    Receipt,
    Stored,
    all_or_none,
    all_stored,
    first_receipt,
    merged_receipts,
    refuse_twice,
    repeated_receipt,
    stored_by,
    taken,
    write,
)
from roocontext.store.writing.commit import commit_on
from roocontext.store.writing.commit_state import CommitState
from roocontext.store.writing.items import AnyNote, Item, Rewind
from roocontext.store.writing.notes import (
    Drafted,
    check_target_exists,
    drafted,
    first_note,
    set_title,
)
from roocontext.store.writing.rewind import rewind_on


class Written(Receipt, frozen=True):
    """The receipt of one item of a batch.

    `seq` and `hash` belong to the message, note, summary, marker, clearing or rewind. `seqs` are
    all entries of the item, including companions. `head_seq` is the head right after it.
    """

    seqs: tuple[int, ...] = ()


ReadyItem: TypeAlias = Drafted | Plan | Rewind
"""An item that passed all checks that need no session."""

_BETWEEN = (
    select(*(entries.c[name] for name in Stored._fields))
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("lo"), bindparam("hi")),
        IN_LOG,
    )
    .order_by(entries.c.seq)
)


def ready_items(
    items: Iterable[Item],
    expected_seq: int | None,
    *,
    skip_stored: bool,
    now: int,
    salts: Salts,
) -> list[ReadyItem]:
    """Draft the items, or raise the error that says why one cannot be written."""
    if not isinstance(items, Iterable):
        raise InvalidOption("A batch is a list of items.", name="items")
    check_maybe("expected_seq", expected_seq)
    ready = [_ready_item(item, now=now, salts=salts) for item in items]
    # They name seqs, which are only meaningful relative to a known version.
    if any(isinstance(item, Plan | Rewind) for item in ready):
        if expected_seq is None:
            raise InvalidOption(
                "A batch with a plan or a rewind needs expected_seq.", name="expected_seq"
            )
        if skip_stored:
            raise InvalidOption(
                "A batch with a plan or a rewind cannot skip items.", name="skip_stored"
            )
    return ready


def _ready_item(item: object, *, now: int, salts: Salts) -> ReadyItem:
    if isinstance(item, NewMessage):
        return Drafted(message_draft(item, now=now, salts=salts))
    if isinstance(item, AnyNote):
        return drafted(item, now=now, salts=salts)
    if isinstance(item, Plan):
        return to_plan(item)
    if not isinstance(item, Rewind):
        known = "NewMessage, NewNote, SetTitle, SetMetadata, Pin, Unpin, Plan and Rewind"
        raise InvalidOption(f"A batch holds {known}, not {type(item).__name__}.", name="items")
    check_whole("to", item.to)
    check_maybe("head_seq", item.head_seq)
    check_id("trigger", item.trigger)
    if item.client_id is not None:
        check_id("client_id", item.client_id)
    if item.ts is not None:
        check_integer("ts", item.ts)
    return item


def write_batch(
    tx: Transaction,
    session_id: str,
    items: Sequence[ReadyItem],
    expected_seq: int | None,
    *,
    skip_stored: bool,
    now: int,
    salts: Salts,
    new_id: Callable[[], str],
) -> list[Written]:
    """Write all items, or none. If all were stored before, return their first receipts.

    With `skip_stored`, write those that were not stored before.
    """
    head = lock(tx, session_id)
    ids = [_client_id(item) for item in items]
    found: list[Written | None] = [None] * len(items)
    if any(ids):
        # A companion's id would otherwise be found by a later item and taken for that item's own.
        refuse_twice([*ids, *_ids_of_companions(items)])
        if stored := stored_by(tx, session_id, ids):
            found = [_first(tx, session_id, item, stored) for item in items]
            first = all_stored(found) if skip_stored else all_or_none(ids, found)
            if first is not None:
                return first
    check_version(expected_seq, head)
    batch = _Batch(tx, session_id, head, now, salts, new_id, foreseen=not skip_stored)
    for item, stored_before in zip(items, found, strict=True):
        if stored_before is None:
            batch.add(item)
    return merged_receipts(found, batch.finish())


@dataclass(slots=True)
class _Batch:
    """Writes a batch to a locked session.

    Messages and notes are held back until a plan or a rewind needs them in the log, or until the
    end. So a run of them costs one statement, as in `append_many`. The seqs are `foreseen` if no
    item is skipped.
    """

    tx: Transaction
    session_id: str
    head: SessionHead
    now: int
    salts: Salts
    new_id: Callable[[], str]
    foreseen: bool
    waiting: list[Drafted] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)

    def add(self, item: ReadyItem) -> None:
        """Write an item, or hold it back until the run is complete."""
        if isinstance(item, Drafted):
            self._check_target(item)
            self.waiting.append(item)
            return
        if self.waiting:
            self._flush()
            self.head = read_head(self.tx, self.session_id)
        if isinstance(item, Plan):
            self._commit(item)
        else:
            self._rewind(item)
        self.head = read_head(self.tx, self.session_id)

    def finish(self) -> list[Written]:
        """Write the items held back; return the receipts of all."""
        if self.waiting:
            self._flush()
        # Only the last title and metadata of a batch show, so each is written once.
        for note, shown in self.shown.items():
            set_title(self.tx, self.session_id, note, shown)
        return self.written

    def _flush(self) -> None:
        drafts = [new.draft for new in self.waiting]
        head_seq = self.head.head_seq
        receipts = write(self.tx, self.session_id, self.head, drafts)
        for new, receipt in zip(self.waiting, receipts, strict=True):
            note, seq = new.draft.sealed.note, receipt.seq
            if note is None:
                head_seq = seq
            else:
                self.shown[note] = new.shown
            self.written.append(Written(self.session_id, seq, receipt.hash, head_seq, seqs=(seq,)))
        self.waiting = []

    def _check_target(self, new: Drafted) -> None:
        """Check that a note is about a message of the log, or one earlier in the batch."""
        target = new.draft.sealed.target
        waiting = 0 if target is None or not self.foreseen else target - self.head.last_seq
        if not (0 < waiting <= len(self.waiting) and self.waiting[waiting - 1].draft.is_message):
            last = self.head.last_seq + len(self.waiting)
            check_target_exists(self.tx, self.session_id, new.draft, last)

    def _commit(self, plan: Plan) -> None:
        self._check_head(plan.head_seq)
        state = CommitState(self.tx, self.session_id, plan, head_query(self.session_id))
        done, receipts = commit_on(state, plan, now=self.now, salts=self.salts, new_id=self.new_id)
        seqs = tuple(receipt.seq for receipt in receipts)
        self.written.append(_written(receipts[plan.lead], done.head_seq, seqs))

    def _rewind(self, item: Rewind) -> None:
        if item.head_seq is not None:
            self._check_head(item.head_seq)
        receipt = rewind_on(
            self.tx,
            self.session_id,
            self.head,
            to=item.to,
            now=self.now,
            trigger=item.trigger,
            client_id=item.client_id,
            ts=item.ts,
        )
        self.written.append(_written(receipt, receipt.head_seq, (receipt.seq,)))

    def _check_head(self, head_seq: int) -> None:
        """Refuse an item for another head: another writer's note would have shifted all seqs."""
        if head_seq != self.head.head_seq:
            raise VersionConflict(
                f"An item of the batch was made for head {head_seq},"
                f" but the head before it is {self.head.head_seq}.",
                expected=head_seq,
                actual=self.head.head_seq,
            )


def _client_id(item: ReadyItem) -> str | None:
    return item.draft.sealed.client_id if isinstance(item, Drafted) else item.client_id


def _ids_of_companions(items: Sequence[ReadyItem]) -> list[str | None]:
    return [
        row.client_id
        for item in items
        if isinstance(item, Plan)
        for index, row in enumerate(item.rows)
        if index != item.lead
    ]


def _first(
    tx: Transaction, session_id: str, item: ReadyItem, found: Mapping[str, Stored]
) -> Written | None:
    """The receipt of the item that was `found` by its client id, if any was."""
    if isinstance(item, Drafted):
        receipt_of = first_note if item.draft.is_note else first_receipt
        first = receipt_of(tx, session_id, item.draft, found)
        return None if first is None else _written(first, first.head_seq, (first.seq,))
    stored = found.get(item.client_id) if item.client_id else None
    if item.client_id is None or stored is None:
        return None
    seqs = _seqs_of(tx, session_id, stored, item)
    if seqs is None:
        raise taken(item.client_id, stored)
    first = repeated_receipt(tx, session_id, stored)
    if isinstance(item, Rewind):  # a later one takes back what it did, not the entry
        first = replace(first, rewound_by=None)
    return _written(first, seqs[-1], seqs)


def _written(receipt: Receipt, head_seq: int, seqs: tuple[int, ...]) -> Written:
    return Written(**{**asdict(receipt), "head_seq": head_seq, "seqs": seqs})


def _seqs_of(
    tx: Transaction, session_id: str, stored: Stored, item: Plan | Rewind
) -> tuple[int, ...] | None:
    """The entries of a stored plan or rewind; None if it differs from the item."""
    if stored.details is None:
        return None
    control = control_of(stored.seq, stored.kind, stored.details)
    if isinstance(item, Rewind):
        return (stored.seq,) if control.to == item.to else None
    if control.kind is not item.hider:
        return None
    if item.action is Action.CLEAR:
        named = tuple(sorted(item.clears)), tuple(sorted(item.keeps)), item.placeholder
        same = (control.clears, control.keeps, control.placeholder) == named
        return (stored.seq,) if same else None
    rows = _rows_of(tx, session_id, stored, len(item.rows))
    same = (
        _hides_the_same(tx, session_id, control, item.hides)
        and len(rows) == len(item.rows)
        and rows[item.lead].seq == stored.seq
        and all(
            row.holds(new.role, new.format, encode(new.content))
            for row, new in zip(rows, item.rows, strict=True)
        )
    )
    return tuple(row.seq for row in rows) if same else None


def _hides_the_same(
    tx: Transaction, session_id: str, control: Control, hides: Sequence[Range]
) -> bool:
    """Whether a stored summary or marker hides the messages of these ranges, and no other."""
    more = subtract(control.hides, hides)
    if subtract(hides, control.hides):
        return False
    if not more:
        return True
    # A commit takes in what no message stands among.
    before = control.seq - 1
    standing = standing_ranges(read_controls(tx, session_id, before), before)
    (other,) = totals_of(tx, session_id, [common(more, standing)])
    return other.messages == 0


def _rows_of(tx: Transaction, session_id: str, stored: Stored, count: int) -> list[Stored]:
    """The summary or marker and its companions, and one more if there were more than `count`."""
    lo, hi = stored.seq - count, stored.seq + count
    rows = [Stored(*row) for row in tx.rows(_BETWEEN, session_id=session_id, lo=lo, hi=hi)]
    return [row for row in rows if row.compaction_id == stored.compaction_id]
