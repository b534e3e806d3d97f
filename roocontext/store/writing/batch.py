"""A batch: messages, notes, plans, rewinds and coverings in one transaction, all or none.

Every item is written, even a pin or a rewind that changes nothing. So the seqs of its entries are
known beforehand, and a repeated batch finds every entry again (0024).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from roocontext.errors import InvalidMessage, InvalidOption, VersionConflict
from roocontext.log.compactions import newest_compaction
from roocontext.log.draft import Draft, Sources, control_of, each_drafted, message_draft
from roocontext.log.encoding import check_id, check_integer, encode
from roocontext.log.entries import Control, NewMessage, Range, common, ranges_of, subtract
from roocontext.log.plan import Action, Plan
from roocontext.log.replies import Compacting
from roocontext.log.spans import standing_ranges
from roocontext.store.engine.check_arguments import check_maybe, check_whole, to_plan
from roocontext.store.engine.schema import IN_LOG, IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import HEAD, SessionHead, check_version, lock, read_head
from roocontext.store.reading.messages import read_controls
from roocontext.store.reading.totals import totals_of
from roocontext.store.writing.append import (
    Receipt,
    Stored,
    extended,
    first_receipt,
    merged_receipts,
    refuse_twice,
    repeated_receipt,
    repeated_request,
    stored_by,
    taken,
    write,
)
from roocontext.store.writing.commit import commit_on
from roocontext.store.writing.commit_state import CommitState
from roocontext.store.writing.items import AnyNote, CompactedReply, Item, Rewind
from roocontext.store.writing.notes import Drafted, check_target_exists, drafted, first_note
from roocontext.store.writing.record import CoveredReply, seqs_with, write_covered
from roocontext.store.writing.rewind import rewind_on
from roocontext.store.writing.shown import show


class Written(Receipt, frozen=True):
    """The receipt of one item of a batch.

    `seq` and `hash` belong to the message, note, summary, marker, clearing or rewind. `seqs` are
    all entries of the item, including companions. `head_seq` is the head right after it.
    """

    seqs: tuple[int, ...] = ()


class ReadyReply(NamedTuple):
    """A message with a provider's compaction, drafted, and what it says of the compaction."""

    draft: Draft
    compacting: Compacting
    item: CompactedReply

    @property
    def client_id(self) -> str | None:
        """The client id of the message."""
        return self.draft.sealed.client_id


ReadyItem: TypeAlias = Drafted | Plan | Rewind | ReadyReply
"""An item that passed all checks that need no session."""

_BETWEEN = log_rows(*Stored._fields).where(IN_RANGE, IN_LOG).order_by(entries.c.seq)


def ready_items(
    items: Iterable[Item], expected_seq: int | None, sources: Sources, *, skip_stored: bool
) -> list[ReadyItem]:
    """Draft the items, or raise the error that says why one cannot be written."""
    if not isinstance(items, Iterable):
        raise InvalidOption("items must be a list of items to write.", name="items")
    check_maybe("expected_seq", expected_seq)
    ready = each_drafted("items", items, partial(_ready_item, sources=sources))
    # They name seqs, which are only meaningful relative to a known version.
    if any(isinstance(item, Plan | Rewind | ReadyReply) for item in ready):
        which = "A batch with a plan or a rewind"
        if expected_seq is None:
            raise InvalidOption(f"{which} needs expected_seq.", name="expected_seq")
        if skip_stored:
            raise InvalidOption(f"{which} cannot skip items.", name="skip_stored")
    return ready


def _ready_item(item: object, sources: Sources) -> ReadyItem:
    if isinstance(item, NewMessage):
        return Drafted(message_draft(item, sources))
    if isinstance(item, AnyNote):
        return drafted(item, sources)
    if isinstance(item, Plan):
        return to_plan(item)
    if isinstance(item, CompactedReply):
        return _ready_reply(item, sources)
    if not isinstance(item, Rewind):
        known = "NewMessage, NewNote, SetTitle, SetMetadata, Pin, Unpin, Plan and Rewind"
        raise InvalidOption(
            f"The items of a batch are {known}, not {type(item).__name__}.", name="items"
        )
    check_whole("to", item.to)
    check_maybe("head_seq", item.head_seq)
    check_id("trigger", item.trigger)
    if item.client_id is not None:
        check_id("client_id", item.client_id)
    if item.ts is not None:
        check_integer("ts", item.ts)
    return item


def _ready_reply(item: CompactedReply, sources: Sources) -> ReadyReply:
    message = item.message
    newest = newest_compaction(message.format, message.content)
    if newest is None:
        raise InvalidMessage("The message holds no compaction.", path="message.content")
    draft = message_draft(message, sources)
    return ReadyReply(draft, Compacting(newest, item.kept), item)


def write_batch(
    log: SessionLog,
    items: Sequence[ReadyItem],
    expected_seq: int | None,
    sources: Sources,
    *,
    skip_stored: bool,
) -> list[Written]:
    """Write all items, or none. If all were stored before, return their first receipts.

    With `skip_stored`, write those that were not stored before.
    """
    head = lock(log)
    ids = [
        item.draft.sealed.client_id if isinstance(item, Drafted) else item.client_id
        for item in items
    ]
    firsts: list[Written | None] = [None] * len(items)
    if any(ids):
        # The id of a companion could otherwise be found by a later item as that item's own.
        plans = [item for item in items if isinstance(item, Plan)]
        rows = [row for plan in plans for at, row in enumerate(plan.rows) if at != plan.lead] + [
            row for item in items if isinstance(item, ReadyReply) for row in item.compacting.kept
        ]
        refuse_twice([*ids, *(row.client_id for row in rows)])
        if stored := stored_by(log, ids):
            firsts = [_first(log, item, stored) for item in items]
            if repeated := repeated_request(ids, firsts, skip_stored=skip_stored):
                return repeated
    check_version(expected_seq, head)
    new = [item for item, first in zip(items, firsts, strict=True) if first is None]
    written: list[Written] = []
    for part in _runs(new):
        if written:
            head = read_head(log)
        if isinstance(part, list):
            written += _write_run(log, head, part, are_seqs_known=not skip_stored)
        else:
            written.append(_write_control(log, head, part, sources))
    # Only the last title and metadata of a batch show, so each is written once.
    drafts = [item for item in new if isinstance(item, Drafted)]
    for note, shown in {item.draft.sealed.note: item.shown for item in drafts}.items():
        show(log, note, shown)
    return merged_receipts(firsts, written)


def _runs(items: Iterable[ReadyItem]) -> Iterator[list[Drafted] | Plan | Rewind | ReadyReply]:
    """The items, with messages and notes that follow each other in one list.

    A list of them costs one statement, as in `append_many`.
    """
    run: list[Drafted] = []
    for item in items:
        if isinstance(item, Drafted):
            run.append(item)
            continue
        if run:
            yield run
            run = []
        yield item
    if run:
        yield run


def _write_run(
    log: SessionLog, head: SessionHead, run: Sequence[Drafted], *, are_seqs_known: bool
) -> list[Written]:
    """Write messages and notes that follow each other.

    A note is about a message of the log or, if the seqs are known because no item was skipped, one
    earlier in the run.
    """
    for at, (draft, _) in enumerate(run):
        earlier = (draft.sealed.target or 0) - head.last_seq - 1
        is_earlier = are_seqs_known and 0 <= earlier < at and run[earlier].draft.is_message
        if not is_earlier:
            check_target_exists(log, draft, head.last_seq + at)
    written, head_seq = [], head.head_seq
    receipts = write(log, head, [item.draft for item in run])
    for item, receipt in zip(run, receipts, strict=True):
        seq = receipt.seq
        head_seq = head_seq if item.draft.is_note else seq
        written.append(Written(log.session_id, seq, receipt.hash, head_seq, seqs=(seq,)))
    return written


def _write_control(
    log: SessionLog, head: SessionHead, item: Plan | Rewind | ReadyReply, sources: Sources
) -> Written:
    if isinstance(item, ReadyReply):
        return _write_reply(log, head, item, sources)
    if item.head_seq is not None and item.head_seq != head.head_seq:
        # Another writer's note would have shifted all seqs.
        raise VersionConflict(
            f"An item of the batch was made for head {item.head_seq}, but the head before it"
            f" is {head.head_seq}.",
            expected=item.head_seq,
            actual=head.head_seq,
        )
    if isinstance(item, Rewind):
        receipt = rewind_on(log, head, item, now=sources.now)
        return extended(Written, receipt, seqs=(receipt.seq,))
    state = CommitState(log, item, HEAD)
    done, receipts = commit_on(state, item, sources)
    seqs = tuple(receipt.seq for receipt in receipts)
    return extended(Written, receipts[item.lead], head_seq=done.head_seq, seqs=seqs)


def _write_reply(log: SessionLog, head: SessionHead, item: ReadyReply, sources: Sources) -> Written:
    """Write a message with a compaction.

    If a covering would hide nothing, none is written, and the provider's other messages are
    messages like any others: no other row has them.
    """
    hides = item.item.hides
    covered = write_covered(
        *(log, head, item.draft, item.compacting),
        sources=sources,
        among=None if hides is None else ranges_of(sorted(hides)),
        trigger=item.item.trigger,
        covering_id=item.item.covering_id,
        in_order=True,
    )
    if not isinstance(covered, CoveredReply):
        others = [message_draft(message, sources) for message in covered]
        receipts = write(log, head, [*others, item.draft])
        seqs = tuple(receipt.seq for receipt in receipts)
        return extended(Written, receipts[-1], head_seq=seqs[-1], seqs=seqs)
    head_seq = covered.covering.seq
    return extended(Written, covered.reply, head_seq=head_seq, seqs=covered.seqs)


def _first(log: SessionLog, item: ReadyItem, stored_ids: Mapping[str, Stored]) -> Written | None:
    """The receipt of the item that is stored with its client id, if any is."""
    if isinstance(item, Drafted):
        receipt_of = first_note if item.draft.is_note else first_receipt
        first = receipt_of(log, item.draft, stored_ids)
        return None if first is None else extended(Written, first, seqs=(first.seq,))
    if isinstance(item, ReadyReply):
        reply = first_receipt(log, item.draft, stored_ids)
        if reply is None:
            return None
        seqs = seqs_with(log, reply.seq)
        return extended(Written, reply, head_seq=seqs[-1], seqs=seqs)
    stored = stored_ids.get(item.client_id) if item.client_id else None
    if item.client_id is None or stored is None:
        return None
    found = _seqs_of(log, stored, item)
    if found is None:
        raise taken(item.client_id, stored)
    first = repeated_receipt(log, stored)
    # A later rewind takes back what a rewind did, not the entry.
    by = None if isinstance(item, Rewind) else first.rewound_by
    return extended(Written, first, head_seq=found[-1], seqs=found, rewound_by=by)


def _seqs_of(log: SessionLog, stored: Stored, item: Plan | Rewind) -> tuple[int, ...] | None:
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
    if not _hides_the_same(log, control, item.hides):
        return None
    # The summary or marker and its companions; one more row if there were more than in the plan.
    count = len(item.rows)
    around = {"lo": stored.seq - count, "hi": stored.seq + count}
    rows = [Stored(*row) for row in log.rows(_BETWEEN, **around)]
    rows = [row for row in rows if row.compaction_id == stored.compaction_id]
    same = (
        len(rows) == count
        and rows[item.lead].seq == stored.seq
        and all(
            row.holds(new.role, new.format, encode(new.content))
            for row, new in zip(rows, item.rows, strict=True)
        )
    )
    return tuple(row.seq for row in rows) if same else None


def _hides_the_same(log: SessionLog, control: Control, hides: Sequence[Range]) -> bool:
    """True if a stored summary or marker hides the messages of these ranges, and no other."""
    more = subtract(control.hides, hides)
    if subtract(hides, control.hides):
        return False
    if not more:
        return True
    # A commit also hides the rows that the ranges enclose, if no message is among them.
    before = control.seq - 1
    standing = standing_ranges(read_controls(log, before), before)
    (other,) = totals_of(log, [common(more, standing)])
    return other.messages == 0
