"""A session as it would be with some of its entries uncovered, without writing anything."""

from collections.abc import Sequence

from roocontext.log.entries import Control, Kind
from roocontext.log.spans import standing_ranges, within
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.messages import companions, read_controls
from roocontext.store.reading.view import ShownRanges, shown_after


def assumed_controls(log: SessionLog, last: int, uncovered: Sequence[int]) -> list[Control]:
    """The control rows up to the last entry, and those that would uncover these entries."""
    controls = read_controls(log, last)
    for seq in uncovered:
        controls.append(uncovering(log, controls, last, seq))
    return controls


def uncovering(log: SessionLog, controls: Sequence[Control], last: int, seq: int) -> Control:
    """The entry that would uncover another one, after all existing entries."""
    end = assumed_end(controls, last)
    standing = standing_ranges(controls, end)
    others = (row for row in companions(log, seq) if within(standing, row))
    return Control(end + 1, Kind.UNCOVERING, uncovers=(seq, *others))


def assumed_end(controls: Sequence[Control], last: int) -> int:
    """The last entry, those that are only assumed included."""
    return max(last, controls[-1].seq) if controls else last


def shown_if(controls: Sequence[Control], last: int) -> ShownRanges:
    """The ranges of the view after the control rows, as far as its entries exist."""
    visible = shown_after(controls, assumed_end(controls, last))
    ranges = [(lo, min(hi, last)) for lo, hi in visible.ranges if lo <= last]
    return visible._replace(ranges=ranges)
