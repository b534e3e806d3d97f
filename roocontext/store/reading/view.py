"""Reading what the model sees, now and at any past seq.

The view is its visible spans in order, each fetched by a range of seq, in one snapshot. The spans
of the present are in a table; those of the past are computed from the control rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import and_, bindparam, select, text

from roocontext.errors import HistoryCorrupt, MessageNotFound
from roocontext.log.clearing import ShownOutput, shown_by, with_cleared
from roocontext.log.draft import check_uncoverings, control_of
from roocontext.log.encoding import decode_all
from roocontext.log.entries import MESSAGE_KINDS, Control, Message, Range, View, block_ref
from roocontext.log.moments import Point
from roocontext.log.readings import is_known
from roocontext.log.spans import clearings_of, spans_of, visible_ranges
from roocontext.store.engine.schema import IN_LOG, UP_TO_SEQ, VISIBLE, clearings, entries, spans
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import SessionHead, head_query, read_head, to_head
from roocontext.store.reading.points_in_time import head_at, seq_at

Cleared = Mapping[int, Mapping[int, ShownOutput]]
"""By seq and block: what is shown there."""

ShownRanges = tuple[list[Range], Cleared]
"""The ranges of a view in view order, and what is cleared in them."""


_in_session = entries.c.session_id == bindparam("session_id")
IS_MESSAGE = text("role IS NOT NULL")
_between = entries.c.seq.between(bindparam("lo"), bindparam("hi"))

VISIBLE_SPANS = (
    select(spans.c.lo, spans.c.hi, spans.c.position)
    .where(spans.c.session_id == bindparam("session_id"), text(VISIBLE))
    .order_by(spans.c.position)
)
SHOWN = (
    select(
        entries.c.seq,
        entries.c.kind,
        entries.c.role,
        # In the order of a `Message`, not of the table: `rows_to_messages` unpacks by position.
        entries.c.content,
        entries.c.format,
        entries.c.ts,
        entries.c.recorded_at,
        entries.c.message_id,
        entries.c.compaction_id,
        entries.c.model,
        entries.c.asked_at,
        entries.c.answers_seq,
        entries.c.answers_block,
    )
    .where(_in_session, _between, IS_MESSAGE)
    .order_by(entries.c.seq)
)
_SHOWN_PAGE = SHOWN.limit(bindparam("page"))
CLEARED = (
    select(
        *(clearings.c.seq, clearings.c.block),
        *(clearings.c.placeholder, clearings.c.head, clearings.c.tail),
    )
    .select_from(
        spans.join(
            clearings,
            and_(
                clearings.c.session_id == spans.c.session_id,
                clearings.c.seq.between(spans.c.lo, spans.c.hi),
            ),
        )
    )
    .where(spans.c.session_id == bindparam("session_id"), text(VISIBLE))
)
_controls = (
    select(entries.c.seq, entries.c.kind, entries.c.details)
    .where(_in_session, entries.c.details.is_not(None))
    .order_by(entries.c.seq)
)
CONTROLS = _controls.where(UP_TO_SEQ)
ALL_CONTROLS = _controls.where(IN_LOG)
_KINDS = {kind.value: kind for kind in MESSAGE_KINDS}
_SPEAKER = itemgetter(4, 2)
"""The format and the role of a row of what is shown."""


def read_view(
    tx: Transaction,
    session_id: str,
    *,
    as_of: Point = None,
    after: int | None = None,
    limit: int | None = None,
) -> View:
    """The view, or the page of it that follows the message `after`."""
    if as_of is None:
        head, shown = read_now(tx, session_id)
        seq, head_seq = head.last_seq, head.head_seq
        ranges, cleared = shown
    else:
        seq = seq_at(tx, session_id, as_of)
        head_seq = head_at(tx, session_id, seq)
        controls = read_controls(tx, session_id, seq)
        ranges = visible_ranges(spans_of(controls, seq), seq)
        cleared = cleared_at(controls, seq)
    if after is not None:
        ranges = _following(ranges, after)
    messages = read_messages(tx, session_id, ranges, cleared, limit=limit)
    whole = after is None and limit is None
    return View(session_id, seq, head_seq, tuple(messages), whole)


def read_now(tx: Transaction, session_id: str) -> tuple[SessionHead, ShownRanges]:
    """The head of a session, and what its present view shows."""
    session = {"session_id": session_id}
    row, spans_, blocks = tx.all(
        [head_query(session_id), (VISIBLE_SPANS, session), (CLEARED, session)]
    )
    head = to_head(session_id, row)
    return head, _shown(spans_, blocks, head.last_seq)


def visible_now(tx: Transaction, session_id: str, last: int) -> ShownRanges:
    """The ranges of the present view in view order, and what is cleared in them."""
    session = {"session_id": session_id}
    spans_, blocks = tx.all([(VISIBLE_SPANS, session), (CLEARED, session)])
    return _shown(spans_, blocks, last)


def _shown(spans_: Sequence[SqlRow], blocks: Sequence[SqlRow], last: int) -> ShownRanges:
    # Bounded, as every read of a log is (0020).
    cleared = placeholders(row for row in blocks if 1 <= row[0] <= last)
    return [(max(lo, 1), min(hi, last)) for lo, hi, _ in spans_ if lo <= last], cleared


def placeholders(rows: Iterable[SqlRow]) -> Cleared:
    """What each row of clearings shows: a seq, a block, the text, and what stays of the output."""
    cleared: dict[int, dict[int, ShownOutput]] = defaultdict(dict)
    for seq, block, *shown in rows:
        cleared[seq][block] = ShownOutput(*shown)
    return cleared


def read_messages(
    tx: Transaction,
    session_id: str,
    ranges: Sequence[Range],
    cleared: Cleared,
    *,
    limit: int | None = None,
) -> list[Message]:
    """The messages in these ranges, in the ranges' order."""
    # Sent together on PostgreSQL. With a limit, the ranges behind a full page are not asked for.
    if limit is None:
        rows = tx.each(SHOWN, bounds(session_id, ranges))
    else:
        rows = []
        for lo, hi in ranges:
            page = limit - len(rows)
            if page <= 0:
                break
            rows += tx.rows(_SHOWN_PAGE, session_id=session_id, lo=lo, hi=hi, page=page)
    return shown_messages(rows, cleared)


def shown_messages(rows: Sequence[SqlRow], cleared: Cleared) -> list[Message]:
    """The messages that these rows are, with what is cleared in them."""
    messages = rows_to_messages(rows)
    return as_shown(messages, cleared) if cleared else messages


def rows_to_messages(rows: Sequence[SqlRow]) -> list[Message]:
    """The messages that these rows are, or HistoryCorrupt naming the first that is none."""
    try:
        # In one call: decoding is a fifth of the cost of a view.
        contents = decode_all([row[3] for row in rows])
        # By position and unpacked in one step: anything else takes a quarter longer for the whole.
        messages = [
            Message(
                seq,
                _KINDS[kind],
                role,
                it,
                form,
                ts,
                at,
                own,
                by,
                model,
                (),
                asked,
                None if to is None else block_ref(to, n),
            )
            for (seq, kind, role, _, form, ts, at, own, by, model, asked, to, n), it in zip(
                rows, contents, strict=True
            )
        ]
        # A set, because a view has many rows and few formats and roles.
        if all(is_known(*speaker) for speaker in set(map(_SPEAKER, rows))):
            return messages
    except (HistoryCorrupt, KeyError):
        pass
    if len(rows) == 1:
        seq = rows[0][0]
        raise HistoryCorrupt(
            f"Entry {seq} is no message: its kind, format or role is unknown, or its content is"
            " not JSON.",
            seq=seq,
        )
    return [message for row in rows for message in rows_to_messages([row])]


def read_message(tx: Transaction, session_id: str, seq: int) -> Message:
    """One message, visible or not, as it was written."""
    last = read_head(tx, session_id).last_seq
    if found := read_messages(tx, session_id, [(seq, min(seq, last))], {}):
        return found[0]
    raise MessageNotFound(f"Entry {seq} is not a message.", candidates=(1, last))


def read_controls(tx: Transaction, session_id: str, seq: int) -> list[Control]:
    """The control rows up to a seq."""
    return to_controls(tx.rows(CONTROLS, session_id=session_id, seq=seq))


def to_controls(rows: Sequence[SqlRow], since: int = 1) -> list[Control]:
    """Control rows from their columns; all from `since` on."""
    controls = [control_of(*row) for row in rows]
    check_uncoverings(controls, since)
    return controls


def cleared_at(controls: Sequence[Control], seq: int) -> Cleared:
    """The cleared blocks right after entry `seq`."""
    cleared: dict[int, dict[int, ShownOutput]] = defaultdict(dict)
    for (row, block), control in clearings_of(controls, seq).items():
        cleared[row][block] = shown_by(control, row, block)
    return cleared


def bounds(session_id: str, ranges: Iterable[Range]) -> list[dict[str, Any]]:
    """The ranges as a statement's parameters."""
    return [{"session_id": session_id, "lo": lo, "hi": hi} for lo, hi in ranges]


def _following(ranges: Sequence[Range], after: int) -> list[Range]:
    index, (_, hi) = holding(ranges, after)
    rest = [(after + 1, hi)] if after < hi else []
    return [*rest, *ranges[index + 1 :]]


def holding(ranges: Sequence[Range], seq: int) -> tuple[int, Range]:
    """The index of the range that holds an entry, and the range."""
    for index, (lo, hi) in enumerate(ranges):
        if lo <= seq <= hi:
            return index, (lo, hi)
    raise not_in_view(seq)


def not_in_view(seq: int) -> MessageNotFound:
    """The error for a page that begins or ends at an entry outside of the view."""
    return MessageNotFound(f"Entry {seq} is not in this view.", candidates=())


def as_shown(messages: Iterable[Message], cleared: Cleared) -> list[Message]:
    """The messages with their cleared blocks as the view shows them."""
    return [
        with_cleared(message, blocks) if (blocks := cleared.get(message.seq)) else message
        for message in messages
    ]
