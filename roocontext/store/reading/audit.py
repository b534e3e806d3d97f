"""The audit: every entry ever written, with why each is or is not visible; and views compared."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode
from roocontext.log.entries import (
    MESSAGE_KINDS,
    BlockRef,
    Entry,
    Kind,
    Message,
    block_ref,
    subtract,
    to_kind,
)
from roocontext.log.moments import happened
from roocontext.log.spans import Span, clearings_of, spans_of, within
from roocontext.log.values import Value, fields_as_json
from roocontext.store.engine.schema import AFTER_SEQ, IN_RANGE, entries, log_rows
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import CONTROLS, read_controls, read_messages, to_controls
from roocontext.store.reading.view import ShownRanges, shown_after


class Hider(NamedTuple):
    """The entry that keeps a row out of the view: since when, and what triggered it."""

    seq: int
    kind: Kind
    recorded_at: int
    trigger: str | None
    ts: int | None = None

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


class AuditEntry(NamedTuple):
    """An entry of the log, and why the model does or does not see it.

    If it is not `visible`, `hidden_by` is the seq of the summary, covering, marker, rewind or
    uncovering that hides it, and `hider` describes that entry. A row may be hidden by a summary and
    a marker at once: the parents have both. `cleared` are pairs of a cleared block and its
    clearing. `hiders` describes all of these entries.
    """

    seq: int
    kind: Kind
    role: str | None
    content: Any
    entry: Entry
    visible: bool
    hidden_by: int | None
    hider: Hider | None
    hiders: tuple[Hider, ...]
    condense_parent: int | None
    truncation_parent: int | None
    rewound_by: int | None
    uncovered_by: int | None
    cleared: tuple[tuple[int, int], ...]
    redacted: bool

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class Diff(Value):
    """How the view after entry `new` differs from that after entry `old`.

    `cleared` and `restored` are blocks (seq, block) that are in both views.
    """

    old: int
    new: int
    left: tuple[Message, ...]
    came: tuple[Message, ...]
    cleared: tuple[tuple[int, int], ...]
    restored: tuple[tuple[int, int], ...]


_AS_IN_ENTRY = tuple(name for name in Entry._fields if name != "answers")
AUDITED = (*_AS_IN_ENTRY, "answers_seq", "answers_block", "salt", "content_digest")
"""The columns of the rows that an Auditor judges."""
_PAGE = log_rows(*AUDITED).where(IN_RANGE).order_by(entries.c.seq).limit(bindparam("page"))
_JSON = tuple(map(_AS_IN_ENTRY.index, ("content", "usage", "details", "extra")))
"""The places of the columns that hold JSON."""
_CONTROLS = CONTROLS.add_columns(entries.c.recorded_at, entries.c.ts)
# From `visible` to `redacted`: by position, because keywords take half as long again.
_UNTOUCHED = (True, None, None, (), None, None, None, None, (), False)
_KINDS = {kind.value: kind for kind in Kind}


class _Hiders(dict[int, Hider]):
    """Control rows as hiders of others, by seq, each decoded when it is asked for."""

    def __init__(self, rows: Sequence[SqlRow]) -> None:
        self._rows = {row[0]: row for row in rows}

    def __missing__(self, seq: int) -> Hider:
        hider = self[seq] = to_hider(self._rows[seq])
        return hider


class Auditor:
    """Reads the audit of a session right after entry `seq`, page by page.

    `spans` and `controls` are those of that moment.
    """

    def __init__(self, log: SessionLog, seq: int | None = None, *, last: int | None = None) -> None:
        """`last` is the last entry of the log, if it was read in this transaction."""
        last = read_head(log).last_seq if last is None else last
        self.seq = last if seq is None else min(seq, last)
        rows = log.rows(_CONTROLS, seq=self.seq)
        self.controls = to_controls([row[:3] for row in rows])
        self.spans = spans_of(self.controls, self.seq)
        self._starts = [span.lo for span in self.spans]
        self._cleared: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        cleared = clearings_of(self.controls, self.seq)
        for (row, block), control in sorted(cleared.items()):
            self._cleared[row].append((block, control.seq))
        self.hiders: Mapping[int, Hider] = _Hiders(rows)

    def page(self, log: SessionLog, after: int, limit: int) -> list[AuditEntry]:
        """Read the entries that follow `after`."""
        read_head(log)  # which says so if it was purged meanwhile
        rows = log.rows(_PAGE, lo=after + 1, hi=self.seq, page=limit)
        spans = iter(self.spans)
        span = next(spans)
        audited = []
        for row in rows:
            while span.hi < row[0]:
                span = next(spans)
            audited.append(self._judged(row, span))
        return audited

    def judged(self, row: SqlRow) -> AuditEntry:
        """The entry of a row with the columns of `AUDITED`."""
        return self._judged(row, self.spans[bisect_right(self._starts, row[0]) - 1])

    def _judged(self, row: SqlRow, span: Span) -> AuditEntry:
        *fields, salt, digest = row
        entry = _to_entry(fields)
        is_message = entry.kind in MESSAGE_KINDS
        cleared = tuple(self._cleared.get(entry.seq, ()))
        if is_message and span.visible and salt is not None and not cleared:
            # A message that the model sees as it was written: most are.
            return AuditEntry(entry.seq, entry.kind, entry.role, entry.content, entry, *_UNTOUCHED)
        # Notes and rewinds take effect whatever happens to the rows around them.
        taggable = is_message or entry.kind in (Kind.COVERING, Kind.CLEARING, Kind.UNCOVERING)
        rewound_by = span.rewound_by if taggable else None
        uncovered_by = span.uncovered_by if taggable else None
        condensed = span.condense_parent if is_message else None
        truncated = span.truncation_parent if is_message else None
        # A rewound row has no other tag. A condensed row may be truncated too: a compat policy's
        # plan does that.
        hidden_by = rewound_by or uncovered_by or condensed or truncated
        acting = dict.fromkeys(
            [rewound_by, uncovered_by, condensed, truncated, *(by for _, by in cleared)]
        )
        return AuditEntry(
            entry.seq,
            entry.kind,
            entry.role,
            entry.content,
            entry,
            visible=is_message and hidden_by is None,
            hidden_by=hidden_by,
            hider=self.hiders[hidden_by] if hidden_by else None,
            hiders=tuple(self.hiders[by] for by in acting if by is not None),
            condense_parent=condensed,
            truncation_parent=truncated,
            rewound_by=rewound_by,
            uncovered_by=uncovered_by,
            cleared=cleared,
            redacted=digest is not None and salt is None,
        )


def _to_entry(fields: list[Any]) -> Entry:
    """Make an entry of its columns, in the order of its fields."""
    *values, answers_seq, answers_block = fields
    try:
        values[1] = _KINDS[values[1]]
        for place in _JSON:
            if (text := values[place]) is not None:
                values[place] = decode(text)
    except (HistoryCorrupt, KeyError):
        raise HistoryCorrupt(
            f"Entry {values[0]} cannot be read: its kind is unknown, or its content, usage, extra"
            " or details are not JSON.",
            seq=values[0],
        ) from None
    return Entry._make([*values, block_ref(answers_seq, answers_block)])


def to_hider(row: SqlRow) -> Hider:
    """Describe the entry that hides a row, from its seq, kind, details and times."""
    seq, kind, details, recorded_at, ts = row
    hider = Hider(seq, to_kind(seq, kind), recorded_at, None, ts)
    match decode(details):
        case {"record": {"trigger": str(trigger)}}:
            return hider._replace(trigger=trigger)
    return hider


def diff(log: SessionLog, old: int, new: int) -> Diff:
    """Compare the views right after two entries."""
    was, now = (shown_after(read_controls(log, seq), seq) for seq in (old, new))

    def only_in(one: ShownRanges, other: ShownRanges) -> tuple[Message, ...]:
        others = sorted(other.ranges)
        rest = [part for stretch in one.ranges for part in subtract([stretch], others)]
        return tuple(read_messages(log, rest, one.cleared))

    return Diff(
        old,
        new,
        left=only_in(was, now),
        came=only_in(now, was),
        cleared=_shortened(was, now),
        restored=_shortened(now, was),
    )


def _shortened(one: ShownRanges, other: ShownRanges) -> tuple[BlockRef, ...]:
    """The blocks of which the other view shows less, of messages that are in both."""
    ascending = sorted(one.ranges)
    return tuple(
        (seq, block)
        for seq, blocks in sorted(other.cleared.items())
        if within(ascending, seq)
        for block, shown in sorted(blocks.items())
        if (before := one.cleared.get(seq, {}).get(block)) is None or shown.leaves < before.leaves
    )


class Envelope(NamedTuple):
    """An entry without its content."""

    seq: int
    kind: Kind
    role: str | None
    note: str | None
    ts: int | None
    recorded_at: int

    @property
    def happened_at(self) -> int:
        """When it happened: the agent's own time, or else when it was recorded."""
        return happened(self.ts, self.recorded_at)


_FOLLOWING = (
    log_rows(*Envelope._fields).where(AFTER_SEQ).order_by(entries.c.seq).limit(bindparam("page"))
)


def read_envelopes(log: SessionLog, after: int, limit: int) -> list[Envelope]:
    """Read the first entries after an entry. No content and no control row is read."""
    read_head(log)  # which says so if it was purged
    rows = log.rows(_FOLLOWING, seq=after, page=limit)
    return [Envelope(seq, to_kind(seq, kind), *rest) for seq, kind, *rest in rows]
