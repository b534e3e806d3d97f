"""Messages read other than as the view: all live ones, originals, and those with an agent's id.

Live messages, hidden ones too and with what hides them, are the view of a program that keeps one
list; what an uncovering took back is not live. Originals are messages as they were written,
whatever hides them now. An agent may give the same id to several messages.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from sqlalchemy import bindparam, text

from roocontext.errors import MessageNotFound
from roocontext.log.encoding import decode_all
from roocontext.log.entries import Control, Message, Range, common, is_quoting
from roocontext.log.moments import happened
from roocontext.log.spans import compacted_at, spans_of, standing_ranges, within
from roocontext.store.engine.schema import AT_SEQ, IN_LOG, IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import Query, SessionLog, SqlRow
from roocontext.store.reading.head import read_head, read_with_head
from roocontext.store.reading.messages import (
    ALL_CONTROLS,
    IS_MESSAGE,
    SHOWN,
    bounds,
    cleared_at,
    read_compacted,
    read_controls,
    read_messages,
    shown_messages,
    to_controls,
)
from roocontext.store.reading.points_in_time import IS_FOLDED
from roocontext.store.reading.view import ShownRanges


class LiveMessage(NamedTuple):
    """A live message, and the ids of the summary and of the marker that hide it."""

    message: Message
    condense_parent: str | None
    truncation_parent: str | None


_COMPACTION = log_rows("seq", "compaction_id").where(AT_SEQ)


def live_ranges_now(log: SessionLog) -> ShownRanges:
    """Read the ranges of what is live and not uncovered, ascending, and what is cleared in them."""
    last = read_head(log).last_seq
    controls = read_controls(log, last)
    standing = standing_ranges(controls, last)
    return ShownRanges(standing, cleared_at(controls, last), compacted_at(controls, last))


def read_live(log: SessionLog) -> list[LiveMessage]:
    """Read the live messages in view order, cleared as the view shows them."""
    last = read_head(log).last_seq
    return live_messages(log, read_controls(log, last), last)


def live_messages(log: SessionLog, controls: Sequence[Control], last: int) -> list[LiveMessage]:
    """Read the same of a session with these control rows that ends at entry `last`.

    A message knows its compaction if it is visible.
    """
    alive = sorted(
        (s for s in spans_of(controls, last) if s.standing and s.lo <= last),
        # In view order, as a program that keeps one list has them: an inserted row has a late seq.
        key=lambda span: span.position,
    )
    parents = {seq for s in alive for seq in (s.condense_parent, s.truncation_parent) if seq}
    ids = log.each(_COMPACTION, [{"seq": seq} for seq in sorted(parents)])
    names: dict[int | None, str | None] = dict(ids)
    cleared = cleared_at(controls, last)
    visible = sorted((span.lo, span.hi) for span in alive if span.visible)
    standing = compacted_at(controls, last).items()
    compacted = read_compacted(log, {row: it for row, it in standing if within(visible, row)})
    live: list[LiveMessage] = []
    for span in alive:
        tags = names.get(span.condense_parent), names.get(span.truncation_parent)
        rows = log.each(SHOWN, bounds([(span.lo, min(span.hi, last))]))
        messages = shown_messages(rows, cleared, compacted)
        live += [LiveMessage(message, *tags) for message in messages]
    return live


class Original(NamedTuple):
    """A message as it was written. `rewound` says that a rewind took it back."""

    seq: int
    role: str
    content: Any
    format: str
    recorded_at: int
    rewound: bool
    ts: int | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


_PAGE = (
    log_rows("seq", "role", "content", "format", "recorded_at", "extra", "ts")
    # A redacted message has no salt.
    .where(IN_RANGE, text("kind = 'message' AND salt IS NOT NULL"))
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


def read_originals(
    log: SessionLog, *, first: int, last: int | None, limit: int, rewound: bool
) -> list[Original]:
    """Read the first messages of a range, but not those that were redacted or that quote others."""
    end = read_head(log).last_seq
    wanted: Sequence[Range] = [(first, end if last is None else min(last, end))]
    standing = live_ranges_now(log).ranges
    rows: list[SqlRow] = []
    for lo, hi in wanted if rewound else common(standing, wanted):
        start = lo
        # Until a page is empty, because messages that quote others are left out of it.
        while len(rows) < limit and start <= hi:
            asked = {"lo": start, "hi": hi, "page": limit - len(rows)}
            page = log.rows(_PAGE, **asked)
            rows += [row for row in page if not is_quoting(row[5])]
            start = page[-1][0] + 1 if page else hi + 1
    contents = decode_all([row[2] for row in rows])
    return [
        Original(seq, role, content, format_, recorded_at, not within(standing, seq), ts)
        for (seq, role, _, format_, recorded_at, _, ts), content in zip(rows, contents, strict=True)
    ]


_BY_ID = (
    log_rows("seq", "ts", "recorded_at")
    .where(
        entries.c.message_id.is_not(None),
        entries.c.message_id == bindparam("message_id"),
        IS_FOLDED,
        IS_MESSAGE,
        IN_LOG,
    )
    .order_by(entries.c.seq.desc())
)
# Candidates for an error: the newest hundred, so that a typing error in a long session costs
# little.
_NEWEST_IDS = (
    log_rows("message_id", "seq")
    .where(entries.c.message_id.is_not(None), IN_LOG)
    .order_by(entries.c.seq.desc())
    .limit(100)
)


def by_id(message_id: str) -> Query:
    """The query for the messages with an id, newest first: seq, ts and the time of recording."""
    return _BY_ID, {"message_id": message_id}


def message_with_id(log: SessionLog, message_id: str) -> Message:
    """Read the newest live message with an id, or else the newest that a rewind took back."""
    head, (controls_rows, rows) = read_with_head(log, [(ALL_CONTROLS, {}), by_id(message_id)])
    if not rows:
        raise unknown(log, message_id)
    live = standing_ranges(to_controls(controls_rows), head.last_seq)
    seqs: list[int] = [row[0] for row in rows]
    seq = next((seq for seq in seqs if within(live, seq)), seqs[0])
    (message,) = read_messages(log, [(seq, seq)], {})
    return message


def unknown(
    log: SessionLog, message_id: str, live: Sequence[Range] | None = None
) -> MessageNotFound:
    """The error for an id that no message has, or no live one, with the nearest ids."""
    ids = log.rows(_NEWEST_IDS)
    known = {name[:64]: name for name, seq in ids if live is None or within(live, seq)}
    near = get_close_matches(message_id[:64], known, n=3, cutoff=0.0) if known else []
    nearest = f"; the nearest are {join_names([*map(repr, near)])}" if near else ""
    messages = "message" if live is None else "live message"
    return MessageNotFound(
        f"No {messages} has the id {message_id[:64]!r}{nearest}.",
        candidates=tuple(known[name] for name in near),
        message_id=message_id,
    )


def join_names(names: Sequence[str]) -> str:
    """Join a few names: `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
