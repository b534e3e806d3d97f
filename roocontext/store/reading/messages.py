"""Messages and control rows: read by ranges of seq, and made from rows of the log."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace
from sqlalchemy import bindparam, select, text

from roocontext.errors import HistoryCorrupt, MessageNotFound
from roocontext.log.clearing import ShownOutput, by_row, shown_by, with_cleared
from roocontext.log.compactions import may_hold_compactions
from roocontext.log.draft import check_uncoverings, control_of
from roocontext.log.encoding import decode_all
from roocontext.log.entries import MESSAGE_KINDS, Compacted, Control, Message, Range, block_ref
from roocontext.log.readings import is_known
from roocontext.log.spans import clearings_of, compacted_at
from roocontext.store.engine.schema import (
    AT_SEQ,
    IN_LOG,
    IN_RANGE,
    UP_TO_SEQ,
    entries,
    log_rows,
    of_session,
)
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.reading.head import read_head

Cleared = Mapping[int, Mapping[int, ShownOutput]]
"""The cleared blocks, by seq and block, and what is shown of each."""

IS_MESSAGE = text("role IS NOT NULL")

SHOWN = (
    log_rows(
        # `rows_to_messages` unpacks them by position.
        *("seq", "kind", "role", "content", "format", "ts", "recorded_at", "message_id"),
        *("compaction_id", "model", "asked_at", "answers_seq", "answers_block"),
    )
    .where(IN_RANGE, IS_MESSAGE)
    .order_by(entries.c.seq)
)
SHOWN_PAGE = SHOWN.limit(bindparam("page"))
SHOWN_LAST = SHOWN.order_by(None).order_by(entries.c.seq.desc()).limit(bindparam("page"))
"""The same from the end of a range."""
_controls = (
    log_rows("seq", "kind", "details").where(entries.c.details.is_not(None)).order_by(entries.c.seq)
)
CONTROLS = _controls.where(UP_TO_SEQ)
ALL_CONTROLS = _controls.where(IN_LOG)
_lead = entries.alias("lead")
_ID_OF_LEAD = select(_lead.c.compaction_id).where(
    of_session(_lead), _lead.c.seq == bindparam("seq")
)
COMPANIONS = (
    log_rows("seq")
    .where(
        entries.c.details.is_not(None),
        entries.c.compaction_id == _ID_OF_LEAD.scalar_subquery(),
        text("kind = 'companion'"),
        IN_LOG,
    )
    .order_by(entries.c.seq)
)
_BYTES = log_rows("bytes_total").where(AT_SEQ)
_BEYOND = (
    log_rows("seq")
    .where(IN_RANGE, entries.c.bytes_total > bindparam("total"))
    .order_by(entries.c.seq)
    .limit(1)
)
AT_ONCE_BYTES = 4 << 20
"""The most bytes of messages that a page of a log has, unless one alone has more."""
_KINDS = {kind.value: kind for kind in MESSAGE_KINDS}
_SPEAKER = itemgetter(4, 2)
"""The format and the role of a row of what is shown."""


def placeholders(rows: Iterable[SqlRow]) -> Cleared:
    """The cleared blocks of rows of the table: seq, block, placeholder, head and tail."""
    cleared: dict[int, dict[int, ShownOutput]] = defaultdict(dict)
    for seq, block, *output in rows:
        cleared[seq][block] = ShownOutput(*output)
    return cleared


def companions(log: SessionLog, seq: int) -> list[int]:
    """The companions of a summary, marker or covering."""
    return [row[0] for row in log.rows(COMPANIONS, seq=seq)]


def compacted_in(log: SessionLog, seq: int, rows: Sequence[SqlRow]) -> Mapping[int, Compacted]:
    """The compactions in these rows that count right after entry `seq`, by row.

    The control rows are read only if a row holds a compaction. They never change, so the statement
    may come later than the one that read the rows.
    """
    if not any(row[3] is not None and may_hold_compactions(row[3]) for row in rows):
        return {}
    standing, seqs = compacted_at(read_controls(log, seq), seq), {row[0] for row in rows}
    # Only those of these rows: the companions of each are looked for among all control rows.
    return read_compacted(log, {row: standing[row] for row in standing.keys() & seqs})


def read_compacted(log: SessionLog, coverings: Mapping[int, Control]) -> Mapping[int, Compacted]:
    """The compactions that these coverings put into effect, by row."""
    return {
        row: Compacted(
            *(control.source[1], control.sealed, control.seq), tuple(companions(log, control.seq))
        )
        for row, control in coverings.items()
        if control.source is not None
    }


def read_messages(log: SessionLog, ranges: Sequence[Range], cleared: Cleared) -> list[Message]:
    """Read the messages in these ranges, in the order of the ranges."""
    return shown_messages(log.each(SHOWN, bounds(ranges)), cleared)


def read_backwards(log: SessionLog, ranges: Iterable[Range], page: int) -> Iterator[Message]:
    """Read the messages in descending ranges from the last one backwards, a page at a time."""
    for lo, hi in ranges:
        while rows := log.rows(SHOWN_LAST, lo=lo, hi=hi, page=page):
            yield from rows_to_messages(rows)
            if len(rows) < page:
                break
            hi = rows[-1][0] - 1  # noqa: PLW2901


def shown_messages(
    rows: Sequence[SqlRow],
    cleared: Cleared,
    compacted: Mapping[int, Compacted] = MappingProxyType({}),
) -> list[Message]:
    """Make messages of rows, with their cleared blocks as the view shows them."""
    messages = rows_to_messages(rows)
    if compacted:
        messages = [
            replace(message, compacted=compaction)
            if (compaction := compacted.get(message.seq))
            else message
            for message in messages
        ]
    if not cleared:
        return messages
    return [
        with_cleared(message, blocks) if (blocks := cleared.get(message.seq)) else message
        for message in messages
    ]


def rows_to_messages(rows: Sequence[SqlRow]) -> list[Message]:
    """Make messages of rows; HistoryCorrupt names the first row that is not a message."""
    try:
        # In one call: decoding is a fifth of the cost of a view.
        contents = decode_all([row[3] for row in rows])
        # By position and unpacked in one step: anything else takes a quarter longer for the whole.
        messages = [
            Message(
                seq,
                _KINDS[kind],
                role,
                content,
                form,
                ts,
                at,
                own,
                by,
                model,
                (),
                asked,
                None if call is None else block_ref(call, n),
            )
            for (seq, kind, role, _, form, ts, at, own, by, model, asked, call, n), content in zip(
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
            f"Entry {seq} is not a message: its kind, format or role is unknown, or its content is"
            " not JSON.",
            seq=seq,
        )
    return [message for row in rows for message in rows_to_messages([row])]


def rows_at_once(log: SessionLog, after: int, last: int, most: int) -> int:
    """How many of the entries after one are a page: at most so many, and fewer if they are large.

    It follows from the running totals. If these are damaged, only the number is wrong.
    """
    end = min(after + most, last)
    ends = log.all([(_BYTES, {"seq": seq}) for seq in (after, end)])
    before, total = (rows[0][0] if rows else 0 for rows in ends)
    if total - before <= AT_ONCE_BYTES:
        return most
    row = log.row(_BEYOND, lo=after + 1, hi=end, total=before + AT_ONCE_BYTES)
    return most if row is None else max(1, row[0] - after - 1)


def read_message(log: SessionLog, seq: int) -> Message:
    """Read one message, visible or not, as it was written."""
    last = read_head(log).last_seq
    for message in read_messages(log, [(seq, min(seq, last))], {}):
        return message
    raise MessageNotFound(f"Entry {seq} is not a message.", candidates=(1, last))


def read_controls(log: SessionLog, seq: int) -> list[Control]:
    """Read the control rows up to a seq."""
    return to_controls(log.rows(CONTROLS, seq=seq))


def to_controls(rows: Sequence[SqlRow], since: int = 1) -> list[Control]:
    """Make control rows of their columns; these must be all from `since` on."""
    controls = [control_of(*row) for row in rows]
    check_uncoverings(controls, since)
    return controls


def cleared_at(controls: Sequence[Control], seq: int) -> Cleared:
    """The cleared blocks right after entry `seq`."""
    return by_row(shown_by(clearings_of(controls, seq)))


def ranges_beside(ranges: Sequence[Range], seq: int, *, before: bool) -> list[Range]:
    """The part of these ranges, in their order, that precedes or follows an entry in them."""
    for index, (lo, hi) in enumerate(ranges):
        if lo <= seq <= hi:
            if before:
                return [*ranges[:index], *([(lo, seq - 1)] if lo < seq else [])]
            return [*([(seq + 1, hi)] if seq < hi else []), *ranges[index + 1 :]]
    raise MessageNotFound(f"Entry {seq} is not in this view.", candidates=())


def bounds(ranges: Iterable[Range]) -> list[dict[str, Any]]:
    """The ranges as a statement's parameters."""
    return [{"lo": lo, "hi": hi} for lo, hi in ranges]
