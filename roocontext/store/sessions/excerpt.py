"""An excerpt of a log for a page: a few entries, at any moment, with what the page links to.

Which entries are read is decided from the spans and from the sizes of entries, so no content is
read that is not in the excerpt, and of a very large entry only its beginning. The number of
statements depends on the ranges of the excerpt, not on the length of the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, case, cast, func, literal_column, null, select

from roocontext.errors import HistoryCorrupt
from roocontext.log.clearing import clear
from roocontext.log.counting import COMPACTION
from roocontext.log.encoding import MAX_INTEGER
from roocontext.log.entries import MESSAGE_KINDS, Control, Kind, Range, joined_ranges, ranges_of
from roocontext.log.spans import Span, visible_ranges
from roocontext.store.engine.schema import IN_RANGE, entries, log_rows, of_session
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.reading.audit import AUDITED, AuditEntry, Auditor, Hider
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import Cleared, bounds, cleared_at, ranges_beside
from roocontext.store.reading.notes import PIN, Note, newest_query, notes_query, to_newest, to_pins
from roocontext.store.reading.points_in_time import no_entry
from roocontext.store.reading.totals import Total, totals_of
from roocontext.store.reading.usage import Call, calls_query, to_calls
from roocontext.store.sessions.overview import RECENT, SessionOverview, overview_of
from roocontext.store.sessions.sessions import SessionInfo, first_children


class Extent(StrEnum):
    """The entries that an excerpt is taken from, and their order.

    The messages of the view, in its order; the entries that no rewind took back; or all entries.
    """

    VIEW = "view"
    LIVE = "live"
    ALL = "all"


class Anchor(NamedTuple):
    """The part of an extent: its end, or what begins at, follows or precedes an entry."""

    at: int | None = None
    after: int | None = None
    before: int | None = None


class Sizes(NamedTuple):
    """The most entries and children of an excerpt, and the most bytes of the contents.

    No more than `shown` bytes of an entry count, because a page shows no more of it. An entry that
    is larger than `whole` is not read whole.
    """

    entries: int = 50
    bytes: int = 256_000
    shown: int = 16_000
    whole: int = 2_000_000
    children: int = 20


class ExcerptEntry(NamedTuple):
    """An entry of an excerpt. `head` is the beginning of its stored content if it is too large.

    In the view, the content has the placeholders of cleared blocks.
    """

    audited: AuditEntry
    size: int
    head: str | None


@dataclass(frozen=True, slots=True)
class LogExcerpt:
    """Some entries of a session right after entry `seq`, in the order of their extent.

    `overview` is that of the present. `visible` is the size of the view at that moment. `earlier`
    and `later` are whether more entries of the extent precede and follow. `children` are the first
    sessions whose parent this is; there may be one more than asked for. `pins` are the pinned
    messages with the notes that pin them, `compaction` is the newest note about a compaction, and
    `calls` are the newest calls of models.
    """

    overview: SessionOverview
    seq: int
    is_past: bool
    visible: Total
    controls: Sequence[Control]
    hiders: Mapping[int, Hider]
    spans: Sequence[Span]
    entries: tuple[ExcerptEntry, ...]
    earlier: bool
    later: bool
    children: tuple[SessionInfo, ...]
    pins: Mapping[int, int]
    compaction: Note | None
    calls: Sequence[Call]

    @property
    def kinds(self) -> dict[int, Kind]:
        """The kinds of the control rows."""
        return {control.seq: control.kind for control in self.controls}


_RANGES: Final = 16
"""How many ranges are read at a time."""
_CANDIDATES: Final = 240
"""How many entries are considered at a time. Notes among them are not in every extent."""
_HEAD: Final = 6_000
"""How many characters are read of an entry that is too large."""

# A statement for each range: of several ranges in one, SQLite reads the session from end to end.
_SIZES = log_rows("seq", "kind", "size").where(IN_RANGE)
_is_whole = entries.c.size <= bindparam("whole", type_=BigInteger)
_left_out = {"extra"}  # which no page shows, and which may be larger than the content
_columns = [
    case((_is_whole, column)).label("content")
    if column.name == "content"
    else cast(null(), Text).label(column.name)
    if column.name in _left_out
    else column
    for column in map(entries.c.__getitem__, AUDITED)
]
_beginning = func.substr(entries.c.content, literal_column("1"), literal_column(str(_HEAD)))
_head = case((~_is_whole, _beginning)).label("head")
_ROWS = select(*_columns, entries.c.size, _head).where(of_session(entries), IN_RANGE)


def read_excerpt(
    log: SessionLog, extent: Extent, place: Anchor, sizes: Sizes, *, as_of: int | None = None
) -> LogExcerpt:
    """Read an excerpt now, or right after an entry.

    MessageNotFound is raised if the extent does not have the entry that the place names.
    """
    overview = overview_of(log)
    if overview is None or overview.info.archived_at is not None:
        read_head(log)  # which raises the reason
        raise AssertionError
    auditor = Auditor(log, as_of, last=overview.info.last_seq)
    for named in (as_of, *place):
        if named is not None and named > auditor.seq:
            raise no_entry(named, auditor.seq)
    is_past = auditor.seq < overview.info.last_seq
    ranges = _ranges(extent, auditor.spans, auditor.seq)
    reading = _Reading(log, extent, sizes)
    chosen, earlier, later = reading.chosen(ranges, place)
    rows = {row[0]: row for row in _read(log, _ROWS, chosen, whole=sizes.whole)}
    cleared = cleared_at(auditor.controls, auditor.seq) if extent is Extent.VIEW else {}
    # The model sees the rest of a message whose outputs are cleared, so it is needed whole.
    large = [seq for seq in chosen if seq in cleared and rows[seq][-1] is not None]
    rows |= {row[0]: row for row in _read(log, _ROWS, large, whole=MAX_INTEGER)}
    visible = Total(overview.stats.visible_messages, overview.stats.visible_bytes)
    if is_past:
        (visible,) = totals_of(log, [visible_ranges(auditor.spans, auditor.seq)])
    pins, newest, calls = log.all(
        [notes_query(PIN, auditor.seq), newest_query(COMPACTION, auditor.seq), calls_query(RECENT)]
    )
    return LogExcerpt(
        overview=overview,
        seq=auditor.seq,
        is_past=is_past,
        visible=visible,
        controls=auditor.controls,
        hiders=auditor.hiders,
        spans=auditor.spans,
        entries=tuple(_entry(auditor, rows[seq], cleared) for seq in chosen),
        earlier=earlier,
        later=later,
        children=tuple(first_children(log, sizes.children)),
        pins=to_pins(pins),
        compaction=to_newest(newest),
        calls=to_calls(calls, 0),
    )


def _ranges(extent: Extent, spans: Sequence[Span], seq: int) -> Sequence[Range]:
    """The ranges of an extent, in its order."""
    if extent is Extent.VIEW:
        return visible_ranges(spans, seq)
    chosen = (span for span in spans if extent is Extent.ALL or span.rewound_by is None)
    return joined_ranges((span.lo, min(span.hi, seq)) for span in chosen if span.lo <= seq)


class _Reading(NamedTuple):
    """Chooses the entries of an excerpt by their kinds and sizes."""

    log: SessionLog
    extent: Extent
    sizes: Sizes

    def chosen(self, ranges: Sequence[Range], place: Anchor) -> tuple[list[int], bool, bool]:
        """The entries of the excerpt, and whether others precede and follow them."""
        if place.at is None and place.after is None:
            back = ranges
            if place.before is not None:
                back = ranges_beside(ranges, place.before, before=True)
            chosen, earlier = self.some(back, newest=True)
            return chosen[::-1], earlier, place.before is not None
        if place.at is None:
            chosen, later = self.some(ranges_beside(ranges, place.after or 0, before=False))
            return chosen, True, later
        rest = ranges_beside(ranges, place.at, before=False)
        chosen, later = self.some([(place.at, place.at), *rest])
        before = ranges_beside(ranges, place.at, before=True)
        # An entry near the end has too few after it to fill the page.
        left = 0 if later else self.sizes.entries - len(chosen)
        few = self._replace(sizes=self.sizes._replace(entries=max(left, 1)))
        above, earlier = few.some(before, newest=True)
        if left <= 0:  # notes may precede it that are not in the extent
            return chosen, bool(above), later
        return [*above[::-1], *chosen], earlier, later

    def some(self, ranges: Sequence[Range], *, newest: bool = False) -> tuple[list[int], bool]:
        """The first entries of these ranges, or the last backwards; and whether more follow."""
        chosen: list[int] = []
        total = 0
        for candidates in _candidates(ranges, newest=newest):
            facts = {row[0]: row[1:] for row in _read(self.log, _SIZES, candidates)}
            for seq in candidates:
                kind, size = facts[seq]
                if self.extent is not Extent.ALL and kind == Kind.NOTE:
                    continue
                if self.extent is Extent.VIEW and kind not in MESSAGE_KINDS:
                    continue
                total += min(size, self.sizes.shown)
                if chosen and (len(chosen) == self.sizes.entries or total > self.sizes.bytes):
                    return chosen, True
                chosen.append(seq)
        return chosen, False


def _candidates(ranges: Sequence[Range], *, newest: bool) -> Iterator[list[int]]:
    """The entries of these ranges, as many at a time as a statement reads."""
    group: list[int] = []
    parts = 0
    for lo, hi in reversed(ranges) if newest else ranges:
        rest = range(hi, lo - 1, -1) if newest else range(lo, hi + 1)
        while rest:
            taken, rest = rest[: _CANDIDATES - len(group)], rest[_CANDIDATES - len(group) :]
            group += taken
            parts += 1
            if len(group) == _CANDIDATES or parts == _RANGES:
                yield group
                group, parts = [], 0
    if group:
        yield group


def _read(log: SessionLog, statement: Any, seqs: Sequence[int], **params: Any) -> list[SqlRow]:
    """Read the rows of these entries, in any order."""
    ranges = bounds(ranges_of(sorted(seqs)))
    rows = log.each(statement, [{**lo_and_hi, **params} for lo_and_hi in ranges])
    if missing := set(seqs) - {row[0] for row in rows}:
        raise HistoryCorrupt(f"Entry {min(missing)} is missing.", seq=min(missing))
    return rows


def _entry(auditor: Auditor, row: SqlRow, cleared: Cleared) -> ExcerptEntry:
    *fields, size, head = row
    audited = auditor.judged(tuple(fields))
    blocks = cleared.get(audited.seq)
    if blocks and audited.role is not None:
        form = audited.entry.format or ""
        content, _ = clear(form, audited.role, audited.content, audited.seq, blocks)
        audited = audited._replace(content=content)
    return ExcerptEntry(audited, size, head)
