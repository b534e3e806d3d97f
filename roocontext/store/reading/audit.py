"""The full history: every entry ever written, with why each is or is not seen now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import decode
from roocontext.log.entries import (
    MESSAGE_KINDS,
    BlockRef,
    Control,
    Entry,
    Kind,
    Message,
    Range,
    block_ref,
    subtract,
)
from roocontext.log.moments import happened
from roocontext.log.spans import Span, clearings_of, spans_of, visible_ranges
from roocontext.log.values import Value, fields_as_json
from roocontext.store.engine.schema import entries
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import (
    CONTROLS,
    Cleared,
    cleared_at,
    read_controls,
    read_messages,
    to_controls,
)


class Hider(NamedTuple):
    """What keeps a row out of the view: its entry, since when, and what set it off."""

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
    """An entry of the log, and what became of it.

    `visible` says whether the model sees it now. If not, `hidden_by` is the seq of the summary,
    marker, rewind or uncovering that hides it, and `hider` describes that one. A row may be
    hidden by a summary and a marker at once: both are in the parents. `cleared` names cleared
    blocks, with the clearing of each; `hiders` describes all of these.
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


ENTRY_COLUMNS = (
    entries.c.seq,
    entries.c.kind,
    entries.c.format,
    entries.c.role,
    entries.c.content,
    entries.c.ts,
    entries.c.recorded_at,
    entries.c.message_id,
    entries.c.client_id,
    entries.c.model,
    entries.c.usage,
    entries.c.compaction_id,
    entries.c.note,
    entries.c.target,
    entries.c.details,
    entries.c.extra,
    entries.c.asked_at,
    entries.c.answers_seq,
    entries.c.answers_block,
)
_PAGE = (
    select(*ENTRY_COLUMNS, entries.c.salt, entries.c.content_digest)
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("lo"), bindparam("hi")),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)
_CONTROLS = CONTROLS.add_columns(entries.c.recorded_at, entries.c.ts)
# From `visible` to `redacted`: by position, because keywords take half as long again.
_UNTOUCHED = (True, None, None, (), None, None, None, None, (), False)
_KINDS = {kind.value: kind for kind in Kind}


class Auditor:
    """Why each entry of a session is or is not seen right after entry `seq`, page by page."""

    def __init__(self, tx: Transaction, session_id: str, seq: int | None = None) -> None:
        self._session_id = session_id
        last = read_head(tx, session_id).last_seq
        self.seq = last if seq is None else min(seq, last)
        rows = tx.rows(_CONTROLS, session_id=session_id, seq=self.seq)
        controls = to_controls([row[:3] for row in rows])
        self._spans = spans_of(controls, self.seq)
        self._cleared = _by_row(controls, self.seq)
        self._hiders = {row[0]: to_hider(row) for row in rows}

    def page(self, tx: Transaction, after: int, limit: int) -> list[AuditEntry]:
        """The entries that follow `after`."""
        read_head(tx, self._session_id)  # which says so if it was purged meanwhile
        rows = tx.rows(_PAGE, session_id=self._session_id, lo=after + 1, hi=self.seq, page=limit)
        covering = self._covering([row[0] for row in rows])
        return [self._judged(row, span) for row, span in zip(rows, covering, strict=True)]

    def _covering(self, seqs: Sequence[int]) -> Iterator[Span]:
        spans = iter(self._spans)
        span = next(spans)
        for seq in seqs:
            while span.hi < seq:
                span = next(spans)
            yield span

    def _judged(self, row: SqlRow, span: Span) -> AuditEntry:
        *fields, salt, digest = row
        entry = to_entry(fields)
        is_message = entry.kind in MESSAGE_KINDS
        if is_message and span.visible and salt is not None and entry.seq not in self._cleared:
            return _plain(entry)
        # Notes and rewinds take effect whatever happens to the rows around them.
        taggable = is_message or entry.kind in (Kind.CLEARING, Kind.UNCOVERING)
        rewound_by = span.rewound_by if taggable else None
        uncovered_by = span.uncovered_by if taggable else None
        condensed = span.condense_parent if is_message else None
        truncated = span.truncation_parent if is_message else None
        # A rewound row has no other tag. A condensed row may be truncated too: a compat policy's
        # plan does that.
        hidden_by = rewound_by or uncovered_by or condensed or truncated
        cleared = self._cleared.get(entry.seq, ())
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
            hider=self._hiders[hidden_by] if hidden_by else None,
            hiders=tuple(self._hiders[by] for by in acting if by is not None),
            condense_parent=condensed,
            truncation_parent=truncated,
            rewound_by=rewound_by,
            uncovered_by=uncovered_by,
            cleared=cleared,
            redacted=digest is not None and salt is None,
        )


def _plain(entry: Entry) -> AuditEntry:
    """A message that the model sees as it was written: most are, and a stream makes thousands."""
    return AuditEntry(entry.seq, entry.kind, entry.role, entry.content, entry, *_UNTOUCHED)


def diff(tx: Transaction, session_id: str, old: int, new: int) -> Diff:
    """What left the view and what came into it between two entries."""
    ranges, cleared = {}, {}
    for seq in (old, new):
        controls = read_controls(tx, session_id, seq)
        ranges[seq] = visible_ranges(spans_of(controls, seq), seq)
        cleared[seq] = cleared_at(controls, seq)
    was, now = _blocks(cleared[old]), _blocks(cleared[new])
    either = {*was, *now}
    both = set(_seqs(ranges[old], either)) & set(_seqs(ranges[new], either))

    def only(one: int, other: int) -> tuple[Message, ...]:
        apart = _without(ranges[one], ranges[other])
        return tuple(read_messages(tx, session_id, apart, cleared[one]))

    return Diff(
        old,
        new,
        left=only(old, new),
        came=only(new, old),
        cleared=_less(was, now, both),
        restored=_less(now, was, both),
    )


def to_entry(fields: Sequence[Any]) -> Entry:
    """An entry from its columns."""
    seq, kind, format_, role, content, ts, at, mid, cid, model, usage, *rest = fields
    comp, note, target, d, extra, asked_at, answers_seq, answers_block = rest
    try:
        return Entry(
            seq,
            _KINDS[kind],
            format_,
            role,
            None if content is None else decode(content),
            ts,
            at,
            mid,
            cid,
            model,
            None if usage is None else decode(usage),
            comp,
            note,
            target,
            None if d is None else decode(d),
            None if extra is None else decode(extra),
            asked_at,
            block_ref(answers_seq, answers_block),
        )
    except (HistoryCorrupt, KeyError):
        raise HistoryCorrupt(
            f"Entry {seq} cannot be read: its kind is unknown, or its content, usage, extra or"
            " details are not JSON.",
            seq=seq,
        ) from None


def to_hider(row: SqlRow) -> Hider:
    """The entry that hides a row, from its seq, kind, details and times."""
    seq, kind, details, recorded_at, ts = row
    hider = Hider(seq, Kind(kind), recorded_at, None, ts)
    match decode(details):
        case {"record": {"trigger": str(trigger)}}:
            return hider._replace(trigger=trigger)
    return hider


def _by_row(controls: Sequence[Control], seq: int) -> Mapping[int, tuple[tuple[int, int], ...]]:
    rows: dict[int, tuple[tuple[int, int], ...]] = {}
    for (row, block), control in sorted(clearings_of(controls, seq).items(), key=lambda c: c[0]):
        rows[row] = (*rows.get(row, ()), (block, control.seq))
    return rows


def _blocks(cleared: Cleared) -> dict[BlockRef, int]:
    """How many characters stay of each cleared block."""
    return {
        (seq, block): shown.leaves
        for seq, blocks in cleared.items()
        for block, shown in blocks.items()
    }


def _less(
    one: Mapping[BlockRef, int], other: Mapping[BlockRef, int], seqs: set[int]
) -> tuple[BlockRef, ...]:
    """The blocks of these rows of which the other shows less."""
    return tuple(
        sorted(
            block
            for block, leaves in other.items()
            if block[0] in seqs and (block not in one or leaves < one[block])
        )
    )


def _seqs(ranges: Sequence[Range], blocks: set[tuple[int, int]]) -> Iterator[int]:
    return (seq for seq, _ in blocks if any(lo <= seq <= hi for lo, hi in ranges))


def _without(ranges: Sequence[Range], minus: Sequence[Range]) -> list[Range]:
    """What is in the first ranges only, in their order."""
    ascending = sorted(minus)
    return [left for stretch in ranges for left in subtract([stretch], ascending)]
