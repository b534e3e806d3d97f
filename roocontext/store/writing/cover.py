"""Recording a reply in which the provider compacted what its request had read.

The covering that is written with it is no plan: the provider has compacted whatever is pinned, so
nothing can be refused. It records what happened, and the audit says which pins were not kept.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from roocontext.log.draft import Draft, Salts, control_draft, details_of, message_draft
from roocontext.log.entries import (
    Control,
    Kind,
    Message,
    NewMessage,
    Range,
    common,
    natural_position,
    subtract,
)
from roocontext.log.readings import reader, text_of
from roocontext.log.replies import RESPONSES, Compacting
from roocontext.log.spans import within
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.head import SessionHead
from roocontext.store.reading.messages import companions, read_messages
from roocontext.store.reading.notes import pinned
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.caches import Decided, Tail, read_tail, write_decided


class Covered(NamedTuple):
    """A recorded reply and its covering: the messages that it hides, and those left unread."""

    reply: Receipt
    covering: Receipt
    hidden: int
    unread: tuple[int, ...]


class Sources(NamedTuple):
    """The clock's time, and the makers of salts and ids."""

    now: int
    salts: Salts
    new_id: Callable[[], str]


def write_covered(
    tx: Transaction,
    session_id: str,
    head: SessionHead,
    draft: Draft,
    compacting: Compacting,
    *,
    sources: Sources,
) -> Covered | None:
    """Write a reply to a locked session, with its covering; None if that would hide nothing.

    After a rewind or an uncovering since the request, the view is not what the provider read.
    """
    tail = read_tail(tx, session_id, head.last_seq, 1)
    asked_at = draft.sealed.asked_at
    read = head.last_seq if asked_at is None else asked_at
    changed = (Kind.REWIND, Kind.UNCOVERING)
    if any(control.kind in changed and control.seq > read for control in tail.controls):
        return None
    visible = tail.ranges(tail.spans())
    covered = _covered(tx, session_id, tail, visible, read)
    rows = read_messages(tx, session_id, covered, {})
    kept, others = _matched(compacting.kept, rows)
    hides = subtract(covered, [(seq, seq) for seq in kept])
    if not rows or len(kept) == len(rows):
        return None
    compaction_id = sources.new_id()
    around = [
        _companion(head.last_seq + number, item, compaction_id, sources)
        for number, item in enumerate(others, 1)
    ]
    source = head.last_seq + len(around) + 1, compacting.newest.block
    control = Control(
        source[0] + 1,
        Kind.COVERING,
        hides=hides,
        source=source,
        sealed=compacting.newest.text is None,
    )
    record: dict[str, Any] = {
        "by": "provider",
        "trigger": "provider",
        "model": draft.sealed.model,
    }
    if pins := sorted(seq for seq in pinned(tx, session_id, head.last_seq) if within(hides, seq)):
        record["pins"] = pins
    covering = control_draft(
        Kind.COVERING,
        details_of(control, record),
        now=sources.now,
        compaction_id=compaction_id,
    )
    drafts = [*(companion for companion, _ in around), draft, covering]
    present = tail.followed_by([*(placed for _, placed in around), control])
    *_, reply, last = write_decided(tx, session_id, Decided(None, head, drafts, tail, present))
    left = subtract(visible, hides)
    unread = read_messages(tx, session_id, common(left, [(read + 1, head.last_seq)]), {})
    return Covered(reply, last, len(rows) - len(kept), tuple(message.seq for message in unread))


def _covered(
    tx: Transaction, session_id: str, tail: Tail, visible: Sequence[Range], read: int
) -> tuple[Range, ...]:
    """The visible rows that the request had read, and later rows that only stand for such."""
    ranges = list(common(visible, [(1, read)])) if read else []
    for control in tail.controls:
        is_new = control.kind in (Kind.SUMMARY, Kind.MARKER) and control.seq > read
        if is_new and all(hi <= read for _, hi in control.hides):
            rows = [control.seq, *companions(tx, session_id, control.seq)]
            ranges += [(row, row) for row in rows if within(visible, row)]
    return tuple(sorted(ranges))


def _matched(items: Sequence[Any], rows: Sequence[Message]) -> tuple[list[int], list[Any]]:
    """The rows that the provider kept, found in order by their text, and its other messages."""
    kept: list[int] = []
    others: list[Any] = []
    following = iter(rows)
    for item in items:
        words = _words(NewMessage("user", [item], RESPONSES))
        waiting = list(following)
        at = next((at for at, row in enumerate(waiting) if _words(row) == words), None)
        if at is None:
            others.append(item)
            following = iter(waiting)
        else:
            kept.append(waiting[at].seq)
            following = iter(waiting[at + 1 :])
    return kept, others


def _words(message: Message | NewMessage) -> tuple[str, str]:
    speaker, blocks = reader(message.format).blocks(message.role, message.content)
    return speaker, text_of(blocks)


def _companion(seq: int, item: Any, compaction_id: str, sources: Sources) -> tuple[Draft, Control]:
    placed = Control(seq, Kind.COMPANION, position=natural_position(seq))
    draft = message_draft(
        NewMessage("user", [item], RESPONSES),
        now=sources.now,
        salts=sources.salts,
        kind=Kind.COMPANION,
        compaction_id=compaction_id,
        details=details_of(placed, {"by": "provider"}),
    )
    return draft, placed
