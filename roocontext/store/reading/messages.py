"""Messages and control rows, made of the rows of a log, and messages read by ranges of seq."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace
from sqlalchemy import bindparam, select, text

from roocontext.errors import HistoryCorrupt, MessageNotFound
from roocontext.log.clearing import ShownOutput, shown_by, with_cleared
from roocontext.log.compactions import may_hold_compactions
from roocontext.log.draft import check_uncoverings, control_of
from roocontext.log.encoding import decode_all
from roocontext.log.entries import MESSAGE_KINDS, Compacted, Control, Message, Range, block_ref
from roocontext.log.readings import is_known
from roocontext.log.spans import clearings_of, compacted_at
from roocontext.store.engine.schema import IN_LOG, UP_TO_SEQ, entries
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import read_head

Cleared = Mapping[int, Mapping[int, ShownOutput]]
"""By seq and block: what is shown there."""


_in_session = entries.c.session_id == bindparam("session_id")
IS_MESSAGE = text("role IS NOT NULL")
_between = entries.c.seq.between(bindparam("lo"), bindparam("hi"))

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
SHOWN_PAGE = SHOWN.limit(bindparam("page"))
SHOWN_LAST = SHOWN.order_by(None).order_by(entries.c.seq.desc()).limit(bindparam("page"))
"""The same from the end of a range."""
_controls = (
    select(entries.c.seq, entries.c.kind, entries.c.details)
    .where(_in_session, entries.c.details.is_not(None))
    .order_by(entries.c.seq)
)
CONTROLS = _controls.where(UP_TO_SEQ)
ALL_CONTROLS = _controls.where(IN_LOG)
_named = entries.alias("named")
COMPANIONS = (
    select(entries.c.seq)
    .where(
        _in_session,
        entries.c.details.is_not(None),
        entries.c.compaction_id
        == select(_named.c.compaction_id)
        .where(_named.c.session_id == bindparam("session_id"), _named.c.seq == bindparam("seq"))
        .scalar_subquery(),
        text("kind = 'companion'"),
        IN_LOG,
    )
    .order_by(entries.c.seq)
)
_KINDS = {kind.value: kind for kind in MESSAGE_KINDS}
_SPEAKER = itemgetter(4, 2)
"""The format and the role of a row of what is shown."""


def placeholders(rows: Iterable[SqlRow]) -> Cleared:
    """What each row of clearings shows: a seq, a block, the text, and what stays of the output."""
    cleared: dict[int, dict[int, ShownOutput]] = defaultdict(dict)
    for seq, block, *shown in rows:
        cleared[seq][block] = ShownOutput(*shown)
    return cleared


def companions(tx: Transaction, session_id: str, seq: int) -> list[int]:
    """The companions of a summary, marker or covering."""
    return [row[0] for row in tx.rows(COMPANIONS, session_id=session_id, seq=seq)]


def read_compacted(
    tx: Transaction, session_id: str, seq: int, rows: Sequence[SqlRow]
) -> Mapping[int, Compacted]:
    """The compactions in these rows that count right after entry `seq`, by row.

    The control rows are read only if a row holds a compaction. They never change, so the statement
    may come later than the one that read the rows.
    """
    if not any(row[3] is not None and may_hold_compactions(row[3]) for row in rows):
        return {}
    return {
        row: Compacted(
            *(control.source[1], control.sealed, control.seq),
            tuple(companions(tx, session_id, control.seq)),
        )
        for row, control in compacted_at(read_controls(tx, session_id, seq), seq).items()
        if control.source is not None
    }


def read_messages(
    tx: Transaction, session_id: str, ranges: Sequence[Range], cleared: Cleared
) -> list[Message]:
    """The messages in these ranges, in the ranges' order."""
    return shown_messages(tx.each(SHOWN, bounds(session_id, ranges)), cleared)


def read_backwards(
    tx: Transaction, session_id: str, ranges: Iterable[Range], page: int
) -> Iterator[Message]:
    """The messages in these ranges, which descend, from the last one on: a page at a time."""
    for lo, hi in ranges:
        while rows := tx.rows(SHOWN_LAST, session_id=session_id, lo=lo, hi=hi, page=page):
            yield from rows_to_messages(rows)
            if len(rows) < page:
                break
            hi = rows[-1][0] - 1  # noqa: PLW2901


def shown_messages(
    rows: Sequence[SqlRow],
    cleared: Cleared,
    compacted: Mapping[int, Compacted] = MappingProxyType({}),
) -> list[Message]:
    """The messages that these rows are, with their cleared blocks as the view shows them."""
    messages = rows_to_messages(rows)
    if compacted:
        messages = [
            replace(message, compacted=found) if (found := compacted.get(message.seq)) else message
            for message in messages
        ]
    if not cleared:
        return messages
    return [
        with_cleared(message, blocks) if (blocks := cleared.get(message.seq)) else message
        for message in messages
    ]


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
