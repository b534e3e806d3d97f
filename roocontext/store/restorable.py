"""What the view would cost if the newest summary, marker or clearing were uncovered."""

from collections.abc import Sequence
from dataclasses import dataclass

from roocontext.log.counting import Counter
from roocontext.log.draft import UNCOVERED
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import standing_ranges, within
from roocontext.store.count import Counting, shown_before
from roocontext.store.engine.database import Database
from roocontext.store.engine.transaction import Transaction
from roocontext.store.head import read_head
from roocontext.store.kept_counts import keep_if_possible
from roocontext.store.uncover import companions
from roocontext.store.view import read_controls


@dataclass(frozen=True, slots=True)
class Restorable:
    """The newest summary, marker or clearing that counts, and what the view costs without it.

    `costs` are by each of the counters, in their order. `head_seq` is the version of the session.
    """

    seq: int
    kind: Kind
    costs: tuple[int, ...]
    head_seq: int


def restorable(
    database: Database, session_id: str, counters: Sequence[Counter], given: Sequence[int]
) -> Restorable | None:
    """The newest one, as if those `given` were uncovered already; None if there is none."""
    with database.read() as tx:
        head = read_head(tx, session_id)
        controls = read_controls(tx, session_id, head.last_seq)
        for seq in given:
            controls.append(_uncovering(tx, session_id, controls, head.last_seq, seq))
        standing = standing_ranges(controls, _end(controls, head.last_seq))
        found = [one for one in controls if one.kind in UNCOVERED and within(standing, one.seq)]
        if not found:
            return None
        newest = found[-1]
        controls.append(_uncovering(tx, session_id, controls, head.last_seq, newest.seq))
        shown, cleared = shown_before(controls, _end(controls, head.last_seq))
        # The uncoverings that are only assumed are in no table.
        ranges = [(lo, min(hi, head.last_seq)) for lo, hi in shown if lo <= head.last_seq]
        tallies = [Counting(tx, session_id, counter) for counter in counters]
        parts = [tally.part(ranges, cleared) for tally in tallies]
    for tally in tallies:
        keep_if_possible(database, session_id, tally.count())
    costs = tuple(tally.sum(part) for tally, part in zip(tallies, parts, strict=True))
    return Restorable(newest.seq, newest.kind, costs, head.head_seq)


def _uncovering(
    tx: Transaction, session_id: str, controls: Sequence[Control], last: int, seq: int
) -> Control:
    """The entry that would uncover another one, after all existing entries."""
    end = _end(controls, last)
    named = companions(tx, session_id, seq)
    standing = standing_ranges(controls, end)
    rows = (seq, *(one for one in named if within(standing, one)))
    return Control(end + 1, Kind.UNCOVERING, uncovers=rows)


def _end(controls: Sequence[Control], last: int) -> int:
    """The last entry, those that are only assumed included."""
    return max(last, controls[-1].seq) if controls else last
