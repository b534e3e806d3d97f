"""The specification, naive and short: which rows are live, hidden, tagged and visible.

    live(0) = {}
    live(n) = live(n-1)          if entry n is a note
            = live(P)            if entry n is a rewind to P
            = live(n-1) + {n}    otherwise
    standing(n) = live(n) without the rows that an uncovering in live(n) names

Only standing rows hide, clear or are visible.

No answer of the product is computed by this module. The tests compare everything else with it. It
is written to be read in one sitting, not to be fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roocontext.log.entries import MESSAGE_KINDS, BlockRef, Control, Kind, natural_position


@dataclass(frozen=True, slots=True)
class FoldRow:
    """The fold's data of one entry; the log is a list of them, seq 1 first."""

    seq: int
    kind: Kind
    control: Control | None = None

    @property
    def position(self) -> int:
        """Its place in the view."""
        placed = self.control.position if self.control else None
        return natural_position(self.seq) if placed is None else placed


@dataclass(frozen=True, slots=True)
class Tags:
    """The summary or covering, marker, rewind or uncovering that keeps a row out of the view."""

    condense_parent: int | None = None
    truncation_parent: int | None = None
    rewound_by: int | None = None
    uncovered_by: int | None = None


def live_sets(log: Sequence[FoldRow]) -> list[frozenset[int]]:
    """live(0) .. live(n)."""
    lives: list[frozenset[int]] = [frozenset()]
    for row in log:
        if row.kind is Kind.NOTE:
            lives.append(lives[-1])
        elif row.control and row.control.to is not None:
            lives.append(lives[row.control.to])
        else:
            lives.append(lives[-1] | {row.seq})
    return lives


def cancelled(log: Sequence[FoldRow]) -> dict[int, int]:
    """The live rows that a live uncovering names, each with its uncovering."""
    now = live_sets(log)[-1]
    return {
        named: row.seq
        for row in log
        if row.seq in now and row.control
        for named in row.control.uncovers
        if named in now
    }


def standing(log: Sequence[FoldRow]) -> frozenset[int]:
    """The live rows that no live uncovering names."""
    return live_sets(log)[-1] - cancelled(log).keys()


def tags(log: Sequence[FoldRow]) -> dict[int, Tags]:
    """The tags of every entry that can have any (rewinds and notes have none)."""
    lives = live_sets(log)
    now, uncovered = lives[-1], cancelled(log)
    acting = now - uncovered.keys()
    condensing = _hiders(log, acting, Kind.SUMMARY, Kind.COVERING)
    truncating = _hiders(log, acting, Kind.MARKER)
    result = {}
    for row in log:
        if row.kind in (Kind.NOTE, Kind.REWIND):
            continue
        if row.seq not in now:
            result[row.seq] = Tags(rewound_by=_rewinder(log, lives, row.seq))
        elif row.seq in uncovered:
            result[row.seq] = Tags(uncovered_by=uncovered[row.seq])
        elif row.kind in MESSAGE_KINDS:
            result[row.seq] = Tags(condensing.get(row.seq), truncating.get(row.seq))
        else:
            result[row.seq] = Tags()
    return result


def effective(log: Sequence[FoldRow]) -> list[int]:
    """The seqs that the model sees, in view order."""
    tagged = tags(log)
    seen = [row for row in log if row.kind in MESSAGE_KINDS and tagged[row.seq] == Tags()]
    return [row.seq for row in sorted(seen, key=lambda row: (row.position, row.seq))]


def cleared(log: Sequence[FoldRow]) -> dict[BlockRef, int]:
    """The blocks that a standing clearing clears, each with its clearing."""
    now = standing(log)
    return {
        block: row.seq
        for row in log
        if row.seq in now and row.control
        for block in row.control.clears
    }


def _hiders(log: Sequence[FoldRow], now: frozenset[int], *kinds: Kind) -> dict[int, int]:
    hiders: dict[int, int] = {}
    for row in log:
        if row.kind in kinds and row.seq in now and row.control:
            for lo, hi in row.control.hides:
                hiders |= dict.fromkeys(range(lo, hi + 1), row.seq)
    return hiders


def _rewinder(log: Sequence[FoldRow], lives: Sequence[frozenset[int]], seq: int) -> int:
    return max(
        row.seq
        for row in log
        if row.kind is Kind.REWIND and seq in lives[row.seq - 1] and seq not in lives[row.seq]
    )
