"""Computes the spans from the control rows, for the view, now and at any past seq.

A span is a stretch of seq whose rows have the same tags; a session is covered by a handful of
them, the last one open-ended. Only control rows decide, so an append changes no span.

A control row refers to earlier rows only. So the spans from any row on follow from the control rows
from there on, and after a new control row `first_changed` names the row up to which all spans stay
as they are. The rest is computed anew, by the function that time travel, fork, rebuild and verify
call (0028).

The live set is a path through a tree: live(s) = (R, s] + live(to(R)), with R the last rewind up to
s. Two live sets are compared by walking down from both tips until they meet.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from roocontext.log.entries import (
    POSITION_BITS,
    BlockRef,
    Control,
    Kind,
    Range,
    natural_position,
    subtract,
)

OPEN_END = (1 << 62) - 1
"""The last seq of the open-ended span."""


class Span(msgspec.Struct, frozen=True):
    """Rows lo..hi have these tags; the first has this position, the others follow by seq.

    A struct, because each control row makes all of them anew: a dataclass takes several times as
    long to make.
    """

    lo: int
    hi: int
    position: int
    condense_parent: int | None = None
    truncation_parent: int | None = None
    rewound_by: int | None = None
    uncovered_by: int | None = None

    @property
    def visible(self) -> bool:
        """True if nothing keeps these rows out of the view."""
        return self.standing and self.condense_parent is self.truncation_parent is None

    @property
    def standing(self) -> bool:
        """True if neither a rewind nor an uncovering took these rows back."""
        return self.rewound_by is self.uncovered_by is None

    def at(self, seq: int) -> int:
        """The position of one of its rows."""
        return self.position + natural_position(seq - self.lo)

    def after(self, position: int) -> int | None:
        """The first position of its rows that is greater than this one."""
        if self.position > position:
            return self.position
        seq = self.lo + ((position - self.position) >> POSITION_BITS) + 1
        return self.at(seq) if seq <= self.hi else None

    def cut(self, ranges: Sequence[Range]) -> "Iterator[Span]":
        """The parts of it within these ascending, disjoint ranges, each as a span of its own."""
        start = max(0, bisect_right(ranges, (self.lo, OPEN_END)) - 1)
        for index in range(start, len(ranges)):
            lo, hi = ranges[index]
            if lo > self.hi:
                break
            first, last = max(lo, self.lo), min(hi, self.hi)
            if (first, last) == (self.lo, self.hi):
                yield self
            elif first <= last:
                yield replace(self, lo=first, hi=last, position=self.at(first))


class Path:
    """The tree of the rewinds: the entries that are live at a seq, and how two seqs differ."""

    def __init__(self, controls: Sequence[Control]) -> None:
        self._at = [c.seq for c in controls if c.to is not None]
        self._to = [c.to for c in controls if c.to is not None]

    def live(self, seq: int) -> Iterator[Range]:
        """The live stretches right after entry `seq`, newest first; rewinds and notes included."""
        while seq > 0:
            base, to = self._base(seq)
            if base < seq:
                yield base + 1, seq
            seq = to

    def removed(self, old: int, new: int) -> Iterator[Range]:
        """The ranges that are live after entry `old` and not after entry `new`, newest first."""
        while old != new:
            base, to = self._base(max(old, new))
            if old > new:
                # Both are on the same stretch: one is the beginning of the other.
                if new >= base:
                    yield new + 1, old
                    return
                if base < old:
                    yield base + 1, old
                old = to
            elif old >= base:
                return
            else:
                new = to

    def _base(self, seq: int) -> tuple[int, int]:
        """The last rewind up to `seq` and where it went; entry 0 is the empty log."""
        index = bisect_right(self._at, seq) - 1
        return (self._at[index], self._to[index]) if index >= 0 else (0, 0)


def live_ranges(controls: Sequence[Control], seq: int) -> tuple[Range, ...]:
    """The ranges that are live right after entry `seq`, ascending."""
    return tuple(Path(controls).live(seq))[::-1]


def standing_ranges(controls: Sequence[Control], seq: int) -> tuple[Range, ...]:
    """The live ranges right after entry `seq` without the rows that an uncovering took back."""
    live = live_ranges(controls, seq)
    cancelled = _cancelled(control for control in controls if within(live, control.seq))
    return subtract(live, [(row, row) for row in sorted(cancelled)])


def spans_of(controls: Sequence[Control], seq: int, since: int = 1) -> list[Span]:
    """The spans of a session right after entry `seq`, given its control rows up to there.

    They cover 1 to OPEN_END; what comes after `seq` is in the last one. If `since` is the first row
    of a span, only the control rows from there on are needed, and the spans from there on returned.
    """
    path = Path(controls)
    # Rows appended later will be live, so the last span needs no update by an append (0001).
    live = [*live_ranges(controls, seq), (seq + 1, OPEN_END)]
    rewound = [
        (lo, hi, control.seq)
        for control in controls
        if control.to is not None
        # A row that several rewinds took back has the tag of the last one: that is painted over.
        for lo, hi in path.removed(control.seq - 1, control.to)
    ]
    # A summary that was rewound hides nothing any more, and an uncovering that was rewound covers
    # again.
    alive = [control for control in controls if within(live, control.seq)]
    cancelled = _cancelled(alive)
    acting = [control for control in alive if control.seq not in cancelled]
    condensed = _hidden(acting, Kind.SUMMARY, Kind.COVERING)
    truncated = _hidden(acting, Kind.MARKER)
    uncovered = [(row, row, by) for row, by in cancelled.items()]
    placed = {c.seq: c.position for c in acting if c.position is not None}

    painted = [*rewound, *condensed, *truncated, *uncovered]
    stretches = _Stretches(since, live, [(lo, hi) for lo, hi, _ in painted], placed)
    return stretches.spans(
        live=stretches.paint((lo, hi, 1) for lo, hi in live),
        condensed=stretches.paint(condensed),
        truncated=stretches.paint(truncated),
        rewound=stretches.paint(rewound),
        uncovered=stretches.paint(uncovered),
    )


def first_changed(controls: Sequence[Control], old: int, new: int) -> int:
    """The first row that may have other tags after entry `new` than after entry `old`.

    One of both is the last entry, and the other where a rewind would go. If the answer is before
    the control rows that are given, the true one is too: ask again with those from there on.
    """
    path = Path(controls)
    changed = sorted([*path.removed(old, new), *path.removed(new, old)])
    deciding = [control for control in controls if within(changed, control.seq)]
    return min(min(old, new) + 1, *(lo for lo, _ in changed), first_decided(deciding, controls))


def first_decided(deciding: Iterable[Control], controls: Iterable[Control]) -> int:
    """The first row whose tags, span or cleared blocks some of the control rows decide.

    An uncovering decides what the rows decided that it names, as far as these are given.
    """
    known = {control.seq: control for control in controls}
    first = OPEN_END
    for control in deciding:
        for row in (control.seq, *control.uncovers):
            named = known.get(row, control)
            hidden = [lo for lo, _ in named.hides[:1]]
            # An earlier clearing of the same block, which may count again, comes after its row.
            cleared = [seq for seq, _ in named.clears]
            apart = [] if named.position is None else [_apart(named.position)]
            first = min([first, row, *hidden, *cleared, *apart])
    return first


def clearings_of(controls: Sequence[Control], seq: int) -> dict[BlockRef, Control]:
    """The blocks that are cleared right after entry `seq`, and the newest clearing of each."""
    clearings = [control for control in controls if control.clears]
    standing = standing_ranges(controls, seq) if clearings else ()
    return {
        block: control
        for control in clearings
        if within(standing, control.seq)
        for block in control.clears
    }


def compacted_at(controls: Sequence[Control], seq: int) -> dict[int, Control]:
    """The standing coverings right after entry `seq`, by the entry that holds the compaction."""
    coverings = [control for control in controls if control.source is not None]
    standing = standing_ranges(controls, seq) if coverings else ()
    return {
        control.source[0]: control
        for control in coverings
        if control.source is not None and within(standing, control.seq)
    }


def visible_ranges(spans: Sequence[Span], seq: int) -> list[Range]:
    """The ranges of seq to read for the view right after entry `seq`, in view order."""
    visible = sorted((s for s in spans if s.visible and s.lo <= seq), key=lambda s: s.position)
    return [(span.lo, min(span.hi, seq)) for span in visible]


def within(ranges: Sequence[Range], seq: int) -> bool:
    """True if a seq is in one of the ranges, which are ascending and disjoint."""
    index = bisect_right(ranges, (seq, OPEN_END)) - 1
    return index >= 0 and seq <= ranges[index][1]


def _apart(position: int) -> int:
    """The row that begins a span because another is placed before it.

    A placed row comes before the row with the next natural position. If that row, or a note or
    rewind just before it, were in the middle of a span, the whole span would come before the placed
    row.
    """
    return (position >> POSITION_BITS) + 1


def _cancelled(alive: Iterable[Control]) -> dict[int, int]:
    """The rows that live uncoverings name, each with its uncovering."""
    return {row: control.seq for control in alive for row in control.uncovers}


def _hidden(acting: Sequence[Control], *kinds: Kind) -> list[tuple[int, int, int]]:
    return [(lo, hi, c.seq) for c in acting if c.kind in kinds for lo, hi in c.hides]


_Layer: TypeAlias = list[int | None]

_Shared: TypeAlias = tuple[int, int | None, int | None, int | None, int | None]
"""The common data of a span's rows: the distance from their natural positions, and four tags."""


class _Stretches:
    """The elementary stretches between all bounds; a layer has one value for each of them."""

    def __init__(
        self, since: int, live: Sequence[Range], painted: Sequence[Range], placed: dict[int, int]
    ) -> None:
        # Spans are read whole, in the order of their positions: a span in which a row is inserted
        # has to be split. Two inserted rows are apart too, because others may lie between them.
        moved = {seq for seq, position in placed.items() if position != natural_position(seq)}
        self._apart = moved.union(map(_apart, placed.values()))
        cuts = {since, *placed, *(seq + 1 for seq in placed), *self._apart}
        for lo, hi in (*live, *painted):
            cuts.add(lo)
            cuts.add(hi + 1)
        self._cuts = sorted(cut for cut in cuts if since <= cut <= OPEN_END)
        self._placed = placed

    def paint(self, ranges: Iterable[tuple[int, int, int]]) -> _Layer:
        """A layer in which the ranges have their values; later ranges win."""
        layer: _Layer = [None] * len(self._cuts)
        for lo, hi, value in ranges:
            start, stop = bisect_left(self._cuts, lo), bisect_right(self._cuts, hi)
            layer[start:stop] = [value] * (stop - start)
        return layer

    def spans(
        self,
        *,
        live: _Layer,
        condensed: _Layer,
        truncated: _Layer,
        rewound: _Layer,
        uncovered: _Layer,
    ) -> list[Span]:
        """The stretches as spans, neighbours with the same tags joined."""
        spans: list[Span] = []
        start = self._cuts[0]
        shared: _Shared | None = None
        apart = False
        for lo, is_live, condense, truncate, rewind, uncover in zip(
            self._cuts, live, condensed, truncated, rewound, uncovered, strict=True
        ):
            own: _Shared
            apart |= lo in self._apart
            if is_live and uncover:
                own = (0, None, None, None, uncover)
            elif is_live:
                natural = natural_position(lo)
                shift = self._placed.get(lo, natural) - natural
                own = (shift, condense, truncate, None, None)
            elif rewind is None and shared is not None:
                # Rewinds have no tags, and go with what precedes them. As a span of their own they
                # would be visible, and nothing would ever hide them.
                continue
            else:
                own = (0, None, None, rewind, None)
            if shared is None:
                shared = own
            elif own != shared or apart:
                spans.append(Span(start, lo - 1, natural_position(start) + shared[0], *shared[1:]))
                start, shared = lo, own
            apart = False
        shift, *tags = shared or (0, None, None, None, None)
        spans.append(Span(start, OPEN_END, natural_position(start) + shift, *tags))
        return spans
