"""Recording a reply: once, however often it is given, and with the rows that it compacted.

If the provider compacted the history in a reply, a covering is written with it. It is no plan: the
provider has compacted even pinned rows, so nothing can be refused. It records what happened, and
the audit says which pins were not kept.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, text

from roocontext.errors import DuplicateMessage
from roocontext.log.chain import Sealed
from roocontext.log.draft import (
    Draft,
    Sources,
    control_draft,
    control_of,
    details_of,
    message_draft,
)
from roocontext.log.encoding import encode
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
from roocontext.log.readings import read_message, words_of
from roocontext.log.replies import Compacting
from roocontext.log.spans import visible_ranges, within
from roocontext.store.engine.schema import AFTER_SEQ, IN_LOG, entries, log_rows, span_around, spans
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.reading.head import SessionHead, lock
from roocontext.store.reading.messages import companions, read_controls, read_messages
from roocontext.store.reading.notes import pinned
from roocontext.store.reading.totals import totals_of
from roocontext.store.reading.view import shown_after
from roocontext.store.writing.append import Receipt, Stored, extended, repeated_receipt, write
from roocontext.store.writing.caches import Decided, Tail, read_tail, write_decided

_replies = log_rows("asked_at", *Stored._fields).order_by(entries.c.seq.desc())
_OF_REPLY = _replies.where(
    entries.c.message_id.is_not(None), entries.c.message_id == bindparam("message_id"), IN_LOG
)
# No index is needed: few entries come between a request and its reply.
_NAMELESS = _replies.where(
    entries.c.message_id.is_(None), entries.c.asked_at == bindparam("seq"), AFTER_SEQ
)


_FOLLOWING = log_rows("seq", "kind", "details").where(
    entries.c.seq == bindparam("seq") + 1, text(f"kind = '{Kind.COVERING}'"), IN_LOG
)
_UNDONE_BY = span_around(spans.c.rewound_by, spans.c.uncovered_by)


class RecordedReply(Receipt, frozen=True):
    """The receipt of a reply.

    If the provider compacted the history in it, `covering` is the entry that hides the messages
    that the provider had read, `hidden` is their number, and `unread` are later messages, which the
    model gets after the reply. With `compacted` and no covering, the compaction does not count: the
    session was rewound or uncovered since the request, or nothing was visible.

    A reply that was recorded before gets all of this again. `undone_by` is then the rewind or the
    uncovering that took the covering back, if any.
    """

    compacted: bool = False
    covering: int | None = None
    hidden: int = 0
    unread: tuple[int, ...] = ()
    undone_by: int | None = None


def record(
    log: SessionLog, draft: Draft, compacting: Compacting | None, sources: Sources
) -> RecordedReply:
    """Append a reply; the first receipt if a live row holds the same one.

    An id alone does not make two replies the same, because some servers give the same id again. It
    does if both answer the same request. Then their content must be equal too. Without an id, the
    same request and the same content do.
    """
    head = lock(log)
    if compacting is None:
        receipt = _recorded(log, draft) or write(log, head, [draft])[0]
        return extended(RecordedReply, receipt)
    if first := _recorded(log, draft):
        with_it = _written_with(log, first.seq, draft)
        return extended(RecordedReply, first, compacted=True, **with_it)
    covered = write_covered(log, head, draft, compacting, sources=sources)
    if not isinstance(covered, CoveredReply):
        return extended(RecordedReply, write(log, head, [draft])[0], compacted=True)
    return extended(
        RecordedReply,
        covered.reply,
        head_seq=covered.covering.seq,
        compacted=True,
        covering=covered.covering.seq,
        hidden=covered.hidden,
        unread=covered.unread,
    )


def _written_with(log: SessionLog, reply: int, draft: Draft) -> dict[str, Any]:
    """The fields of a receipt about the covering that was written with a reply, if any."""
    covering = _covering_of(log, reply)
    if covering is None:
        return {}
    ((hidden, _),) = totals_of(log, [covering.hides])
    # Its companions come right before the reply, and before them what the request had not read.
    around = (covering.seq, *companions(log, covering.seq))
    asked_at = draft.sealed.asked_at
    unread = () if asked_at is None else ((asked_at + 1, min(reply, *around) - 1),)
    visible = shown_after(read_controls(log, covering.seq), covering.seq)
    left = read_messages(log, common(sorted(visible.ranges), unread), {})
    tags = log.row(_UNDONE_BY, seq=covering.seq)
    return {
        "head_seq": covering.seq,
        "covering": covering.seq,
        "hidden": hidden,
        "unread": tuple(message.seq for message in left),
        "undone_by": None if tags is None else tags[0] or tags[1],
    }


def _covering_of(log: SessionLog, reply: int) -> Control | None:
    """The covering that was written with a reply, if any."""
    row = log.row(_FOLLOWING, seq=reply)
    covering = control_of(*row) if row is not None else None
    is_own = covering is not None and covering.source is not None and covering.source[0] == reply
    return covering if is_own else None


def seqs_with(log: SessionLog, reply: int) -> tuple[int, ...]:
    """All entries that were written with a stored reply: it, and its covering and companions."""
    covering = _covering_of(log, reply)
    if covering is None:
        return (reply,)
    return (*companions(log, covering.seq), reply, covering.seq)


def _recorded(log: SessionLog, draft: Draft) -> Receipt | None:
    """The receipt of the live row that holds this reply already."""
    new = draft.sealed
    for asked_at, *values in _stored_replies(log, new):
        stored = Stored(*values)
        was_read = new.asked_at is not None and new.asked_at >= stored.seq
        if was_read or stored.kind != new.kind:
            continue  # the request of this reply had read that one, so it is another
        is_same = stored.holds(new.role, new.format, draft.content)
        is_named = new.message_id is not None and asked_at is not None
        if not is_same and not (is_named and asked_at == new.asked_at):
            continue
        receipt = repeated_receipt(log, stored)
        if receipt.rewound_by is not None:
            continue
        if not is_same:
            raise DuplicateMessage(
                f"Reply {new.message_id!r} to this request is entry {stored.seq}, which has other"
                " content.",
                seq=stored.seq,
                advice="If it was recorded before its stream had ended, rewind to the entry before"
                " it, and record the whole reply.",
            )
        return receipt
    return None


def _stored_replies(log: SessionLog, new: Sealed) -> Sequence[SqlRow]:
    """The stored replies with the same id; if it has none, those to the same request."""
    if new.message_id is not None:
        return log.rows(_OF_REPLY, message_id=new.message_id)
    if new.asked_at is not None:
        return log.rows(_NAMELESS, seq=new.asked_at)
    return ()


class CoveredReply(NamedTuple):
    """A recorded reply and its covering: the messages that it hides, and those left unread."""

    seqs: tuple[int, ...]
    reply: Receipt
    covering: Receipt
    hidden: int
    unread: tuple[int, ...]


def write_covered(
    log: SessionLog,
    head: SessionHead,
    draft: Draft,
    compacting: Compacting,
    *,
    sources: Sources,
    among: Sequence[Range] | None = None,
    trigger: str = "provider",
    covering_id: str | None = None,
    in_order: bool = False,
) -> CoveredReply | list[NewMessage]:
    """Write a reply to a locked session, with its covering.

    If that would hide nothing, nothing is written, and the provider's other messages are returned,
    except those that are visible. After a rewind or an uncovering since the request, the view is
    not what the provider read. Only messages `among` these ranges are hidden, if they are given.
    With `in_order`, what the provider kept is visible in its order, so messages of the session that
    it has behind others are written again.
    """
    tail = read_tail(log, head.last_seq, 1)
    asked_at = draft.sealed.asked_at
    read = head.last_seq if asked_at is None else asked_at
    changed = (Kind.REWIND, Kind.UNCOVERING)
    if any(control.kind in changed and control.seq > read for control in tail.controls):
        return []
    spans_ = tail.spans()
    visible = tail.ranges(spans_)
    covered = _covered(log, tail, visible, read)
    if among is not None:
        covered = common(covered, among)
    kept: list[int] = []
    others: list[NewMessage] = []
    if compacting.kept:  # in the order in which they were sent
        visible_now = visible_ranges(spans_, head.last_seq)
        sent = [part for stretch in visible_now for part in common([stretch], covered)]
        rows = read_messages(log, sent, {})
        kept, others = _matched(compacting.kept, rows, in_order=in_order)
    hides = subtract(covered, [(seq, seq) for seq in sorted(kept)])
    (total,) = totals_of(log, [hides])
    if not total.messages:
        return others
    compaction_id = sources.new_id()
    around = [
        _companion(head.last_seq + number, message, compaction_id, sources)
        for number, message in enumerate(others, 1)
    ]
    source = head.last_seq + len(around) + 1, compacting.newest.block
    control = Control(
        source[0] + 1,
        Kind.COVERING,
        hides=hides,
        source=source,
        sealed=compacting.newest.text is None,
    )
    record: dict[str, Any] = {"by": "provider", "trigger": trigger, "model": draft.sealed.model}
    if pins := sorted(seq for seq in pinned(log, head.last_seq) if within(hides, seq)):
        record["pins"] = pins
    covering = control_draft(
        Kind.COVERING,
        details_of(control, record),
        now=sources.now,
        ts=draft.sealed.ts,
        client_id=covering_id,
        compaction_id=compaction_id,
    )
    drafts = [*(companion for companion, _ in around), draft, covering]
    present = tail.followed_by([*(placed for _, placed in around), control])
    written = write_decided(log, Decided(None, head, drafts, tail, present))
    *_, reply, last = written
    left = subtract(visible, hides)
    unread = read_messages(log, common(left, [(read + 1, head.last_seq)]), {})
    seqs = tuple(receipt.seq for receipt in written)
    return CoveredReply(seqs, reply, last, total.messages, tuple(message.seq for message in unread))


def _covered(log: SessionLog, tail: Tail, visible: Sequence[Range], read: int) -> tuple[Range, ...]:
    """The visible rows that the request had read, and later rows that only stand for such."""
    known: list[Range] = [(1, read)] if read else []
    for control in tail.controls:
        if control.kind not in (Kind.SUMMARY, Kind.MARKER) or control.seq <= read:
            continue
        # A plan may hide the rows of an earlier one, and its ranges may contain notes.
        (others,) = totals_of(log, [subtract(control.hides, known)])
        if not others.messages:
            # The request may have read the first rows of the plan: each is named once.
            rows = {control.seq, *(row for row in companions(log, control.seq) if row > read)}
            known = sorted([*known, *((row, row) for row in rows)])
    return common(visible, known)


def _matched(
    messages: Sequence[NewMessage], rows: Sequence[Message], *, in_order: bool
) -> tuple[list[int], list[NewMessage]]:
    """The rows that the provider kept, found in order, and its other messages.

    They are found by their text. `in_order`, only a row with the same content is one of them.
    """
    named = _content if in_order else _words
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        places[named(row)].append(at)
    kept: list[int] = []
    others: list[NewMessage] = []
    start = 0
    for message in messages:
        candidates = places.get(named(message), [])
        index = bisect_left(candidates, start)
        if index == len(candidates) or (in_order and others):
            others.append(message)
        else:
            kept.append(rows[candidates[index]].seq)
            start = candidates[index] + 1
    return kept, others


def _content(message: Message | NewMessage) -> tuple[str, str]:
    return message.role, encode(message.content)


def _words(message: Message | NewMessage) -> tuple[str, str]:
    speaker, blocks = read_message(message)
    return speaker, words_of(blocks) or encode(blocks)


def _companion(
    seq: int, message: NewMessage, compaction_id: str, sources: Sources
) -> tuple[Draft, Control]:
    placed = Control(seq, Kind.COMPANION, position=natural_position(seq))
    draft = message_draft(
        message,
        sources,
        kind=Kind.COMPANION,
        compaction_id=compaction_id,
        details=details_of(placed, {"by": "provider"}),
    )
    return draft, placed
