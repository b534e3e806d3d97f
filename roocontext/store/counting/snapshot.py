"""Everything that a manager needs of a session, read in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from roocontext.log.compactions import is_compaction_only
from roocontext.log.counting import Counter
from roocontext.log.entries import Control, Message, common
from roocontext.log.request import Frame, GivenFrame
from roocontext.log.spans import standing_ranges, within
from roocontext.store.counting.count import (
    CountedPart,
    Counting,
    assumed_controls,
    shown_if,
    uncounted,
)
from roocontext.store.counting.first_row import first_query, note_query, to_first
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.loop.frame import frame_sent, frame_unlike
from roocontext.store.reading.coverings import SealedCovering, sealed_by
from roocontext.store.reading.live import LiveMessage, live_messages
from roocontext.store.reading.messages import (
    SHOWN,
    bounds,
    cleared_at,
    read_compacted,
    read_controls,
    read_messages,
    shown_messages,
)
from roocontext.store.reading.notes import Note, pinned, to_note
from roocontext.store.reading.usage import Call, calls_query, to_calls
from roocontext.store.reading.view import VISIBLE_SPANS, shown_after, visible_by
from roocontext.store.writing.kept_counts import Counted, is_whole


class SnapshotRows(StrEnum):
    """Which messages a snapshot holds."""

    NONE = "none"
    VISIBLE = "visible"
    LIVE = "live"  # the hidden ones too, with what hides them


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The contents of a snapshot; nothing else is read.

    Pins are read with the `rows`, or if `pins` is set. The view is summed up by `counter` and by
    the `others`. Calls are searched for among the last `calls` entries; where `estimates` returns
    True, the request that a call answered is counted too. Of `notes`, the newest of each kind is
    read. `known` are counts of an earlier snapshot that are not stored yet. The `frame` is compared
    with the recorded one. With `sealed`, the sealed coverings in the view are read. The session is
    read as if the `uncovered` entries were uncovered, the first of them first.
    """

    counter: Counter
    rows: SnapshotRows = SnapshotRows.NONE
    others: Sequence[Counter] = ()
    calls: int = 0
    estimates: Callable[[Call], bool] | None = None
    notes: Sequence[str] = ()
    known: Counted = field(default_factory=Counted)
    frame: GivenFrame | None = None
    sealed: bool = False
    pins: bool = False
    uncovered: Sequence[int] = ()


class CountedMessage(NamedTuple):
    """A message, its tokens, and the ids of the summary and of the marker that hide it."""

    message: Message
    tokens: int
    condense_parent: str | None
    truncation_parent: str | None

    @property
    def visible(self) -> bool:
        """True if the model sees it."""
        return self.condense_parent is None and self.truncation_parent is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A session at one moment, as far as it was asked for.

    `sums` are the costs of the view by the name of each counter, and `bytes` is its size as stored;
    `exact` is False if the first counter is not exact, or had to estimate a sealed compaction.
    `since` is the cost of the messages that the newest call had not read, if the view has only
    grown since. By the seq of a call's reply, `estimated` are the costs of the view that was sent,
    and `frames` the frames if they are recorded. `counted` are the counts that are not stored yet:
    pass them to the next commit. `is_new_frame` says that the given frame differs from the recorded
    one. `sealed` are the sealed coverings whose compactions are in the view, oldest first.
    """

    session_id: str
    last_seq: int
    head_seq: int
    sums: Mapping[str, int]
    exact: bool
    bytes: int
    rows: tuple[CountedMessage, ...]
    pins: frozenset[int]
    calls: tuple[Call, ...]
    since: int | None
    estimated: Mapping[int, int]
    frames: Mapping[int, Frame]
    notes: Mapping[str, Note | None]
    counted: Counted
    is_new_frame: bool = False
    sealed: tuple[SealedCovering, ...] = ()


def read_snapshot(database: SessionDatabase, wanted: Wanted) -> Snapshot:
    """Read a snapshot in one transaction, and count what has no count when that has ended."""
    with database.read() as log:
        reading = _Reading(log, wanted)
    return reading.counted()


class _Reading:
    """Everything that was read for a snapshot, before messages without a count are counted."""

    def __init__(self, log: SessionLog, wanted: Wanted) -> None:
        self._log = log
        self._wanted = wanted
        kind, *kinds = wanted.notes or ("",)
        first, spans_, calls, *notes = log.all(
            [
                first_query(kind),
                (VISIBLE_SPANS, {}),
                calls_query(wanted.calls),
                *(note_query(other) for other in kinds),
            ]
        )
        self._first = to_first(log.session_id, first)
        self._notes = {kind: self._first.note}
        for other, rows in zip(kinds, notes, strict=True):
            self._notes[other] = to_note(*rows[0]) if rows else None
        self._head = self._first.head
        last = self._head.last_seq
        # If nothing is assumed, the cached spans say what is visible.
        self._assumed = assumed_controls(log, last, wanted.uncovered) if wanted.uncovered else None
        self._end = last + len(wanted.uncovered)
        self._view = (
            visible_by(
                log,
                last,
                spans_,
                has_cleared=self._first.has_cleared,
                has_coverings=self._first.has_coverings,
            )
            if self._assumed is None
            else shown_if(self._assumed, last)
        )
        self._tally = Counting(log, wanted.counter, wanted.known)
        self._whole = self._shown = self._tally.part(*self._view)
        tallies = [Counting(log, other) for other in wanted.others]
        self._others = [(other, other.part(*self._view)) for other in tallies]
        # From here on the order matters: estimates depend on the calls, and the tail on both.
        self._calls = to_calls(calls, self._first.changed)
        if self._assumed is not None:  # no call was made of a view that is only assumed
            self._calls = [replace(call, current=False) for call in self._calls]
        self._new = self._to_estimate()
        sent = ((call.seq, frame_sent(log, call.seq)) for call in self._new)
        self._frames = {seq: frame for seq, frame in sent if frame is not None}
        self._past = self._requests_before_a_change()
        self._tail = self._after_calls()
        self._rows = self._messages(last)
        self._pins = frozenset[int]()
        if wanted.pins or wanted.rows is not SnapshotRows.NONE:
            self._pins = frozenset(pinned(log, last))
        self._sealed: tuple[SealedCovering, ...] = ()
        if wanted.sealed:
            self._sealed = sealed_by(log, self._view.compacted.values(), last)
        given = wanted.frame
        self._is_new_frame = (
            given is not None and frame_unlike(log, given, self._first.frame) is not None
        )

    def counted(self) -> Snapshot:
        """Count the messages that have no count, and add up."""
        counter, tally = self._wanted.counter, self._tally
        # The transaction has ended: a counter may be slow, and no writer waits for it.
        counted = tally.count()
        for other, _ in self._others:
            counted = counted.plus(other.count())
        costs = tally.by_seq(self._shown)
        for message, *_ in self._rows:
            if message.seq not in costs:
                raise uncounted(message.seq)
        total = tally.sum(self._whole)

        def after(call: Call) -> int:
            return sum(costs[row] for row in self._tail if row > call.read)

        current = self._calls[-1] if self._calls and self._calls[-1].current else None
        # The sum of the whole view is known and its end is short, so the end is subtracted (0029).
        estimated = {call.seq: total - after(call) for call in self._new if call.current}
        estimated |= {seq: tally.sum(part) for seq, part in self._past.items()}
        return Snapshot(
            session_id=self._log.session_id,
            last_seq=self._end,
            head_seq=self._head.head_seq if self._assumed is None else self._end,
            sums={
                counter.name: total,
                **{other.name: other.sum(part) for other, part in self._others},
            },
            exact=tally.is_exact(self._whole),
            bytes=self._whole.bytes,
            rows=tuple(
                CountedMessage(message, costs[message.seq], *tags) for message, *tags in self._rows
            ),
            pins=self._pins,
            calls=tuple(self._calls),
            since=after(current) - costs.get(current.seq, 0) if current else None,
            estimated=estimated,
            frames=self._frames,
            notes=self._notes,
            counted=counted,
            is_new_frame=self._is_new_frame,
            sealed=self._sealed,
        )

    def _to_estimate(self) -> list[Call]:
        """The calls whose requests are to be counted. For a redacted reply no count is stored."""
        if self._wanted.estimates is None:
            return []
        new = filter(self._wanted.estimates, self._calls)
        return [call for call in new if is_whole(self._log, call.seq)]

    def _requests_before_a_change(self) -> dict[int, CountedPart]:
        """The views that were sent before the newest plan or rewind, by the seq of the reply."""
        past = {call.seq: call for call in self._new if not call.current}
        if not past:
            return {}
        # Read once for all calls; each uses those before it.
        controls = read_controls(self._log, max(past) + 1)
        parts = {}
        own = {control.source[0]: control for control in controls if control.source is not None}
        for seq, call in past.items():
            covering, usage = own.get(seq), call.usage
            if covering is not None and not self._only_compacted(seq):
                # Without its requests one by one, the report is of the view before and after.
                if isinstance(usage, dict) and usage.get("iterations"):
                    parts[seq] = self._after_compaction(seq, covering, controls)
                continue
            then = [control for control in controls if control.seq <= call.read]
            parts[seq] = self._tally.part(*shown_after(then, call.read))
        return parts

    def _only_compacted(self, seq: int) -> bool:
        """True if a call only compacted, so that its request was the whole view."""
        (message,) = read_messages(self._log, [(seq, seq)], {})
        return is_compaction_only(message.format, message.content)

    def _after_compaction(
        self, seq: int, covering: Control, controls: Sequence[Control]
    ) -> CountedPart:
        """The last request of a call that compacted: the compaction, and what it did not hide."""
        then = [control for control in controls if control.seq <= covering.seq]
        ranges, cleared, _ = shown_after(then, covering.seq)
        before = common(sorted(ranges), [(1, seq - 1)])
        earlier = {row: blocks for row, blocks in cleared.items() if within(before, row)}
        return self._tally.part(before, earlier, {seq: covering})

    def _after_calls(self) -> list[int]:
        """The visible messages from the first call on whose request can be counted from the end.

        If the view has only grown since a call, its request was the view without the messages that
        followed. These are few: only they are looked up one by one, and subtracted from the sum.
        """
        current = [call.read for call in (*self._new, *self._calls[-1:]) if call.current]
        if not current:
            return []
        return self._tally.each(self._view.after(min(current)).ranges)

    def _messages(self, last: int) -> list[LiveMessage]:
        match self._wanted.rows:
            case SnapshotRows.NONE:
                return []
            case SnapshotRows.VISIBLE:
                self._tally.each(self._view.ranges)
                return [LiveMessage(message, None, None) for message in self._visible()]
            case SnapshotRows.LIVE:
                controls = self._assumed or read_controls(self._log, last)
                ranges = common(standing_ranges(controls, self._end), [(1, last)])
                cleared = cleared_at(controls, self._end)
                self._shown = self._tally.part(ranges, cleared, self._view.compacted)
                self._tally.each(ranges)
                return live_messages(self._log, controls, self._end)

    def _visible(self) -> list[Message]:
        """The messages of the view, with the compactions in them that stand for others."""
        ranges, cleared, coverings = self._view
        rows = self._log.each(SHOWN, bounds(ranges))
        return shown_messages(rows, cleared, read_compacted(self._log, coverings))
