"""The rows of a Claude Code transcript as a tree of answers, their results, and what is written.

A single walk from the last row to the first loses rows: one answer is split over several rows, and
each result of a tool hangs on its own. So the rows of one answer and their results are one *unit*,
and the units are the tree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from roocontext.formats.events import Problem
from roocontext.formats.importers.claude_code_rows import TranscriptRow


class TranscriptStep(NamedTuple):
    """The next row. The last row of an answer has its usage; a summary says what it keeps.

    What a summary keeps follows it (`behind`), unless it `keeps_first`.
    """

    row: TranscriptRow
    ends_answer: bool = False
    keeps: frozenset[str] = frozenset()
    behind: tuple[str, ...] = ()
    keeps_first: bool = False
    record: Mapping[str, Any] = MappingProxyType({})


class Back(NamedTuple):
    """A branch ends: the session goes back to right after this row."""

    to: str | None


@dataclass(slots=True, eq=False)
class TreeUnit:
    """A row, or the rows of one answer with the results of its calls, and the notes among them.

    `own` is the index of the newest row that hangs here itself, `newest` that of the newest one
    here or below. The unit `begins` the history after a compaction without a summary. It
    `is_attached` if here and below there are only attachments, and it `is_work` if it has calls or
    results, or attachments that hang on such a unit.
    """

    rows: list[TranscriptRow] = field(default_factory=list)
    notes: list[TranscriptRow] = field(default_factory=list)
    children: list["TreeUnit"] = field(default_factory=list)
    newest: int = -1
    own: int = -1
    begins: bool = False
    is_attached: bool = False
    is_work: bool = False

    def end(self) -> TranscriptRow | None:
        """The last row of an answer, if nothing more of the answer can come."""
        replies = [row for row in self.rows if row.type == "assistant"]
        if not replies:
            return None
        last = replies[-1]
        goes_on = bool(self.children) or len(self.rows) > len(replies)
        return last if goes_on or last.stopped or not last.answer else None

    def ordered(self) -> Sequence[TranscriptRow]:
        """The answer first, and then the results, each in the order of the file."""
        return sorted(self.rows, key=lambda row: (row.type != "assistant", row.index))


class _Chain:
    """The rows by their uuids, and the parents that the tool gives them when it reads a file."""

    def __init__(self) -> None:
        self.rows: dict[str, TranscriptRow] = {}
        self.boundaries: dict[str, TranscriptRow] = {}
        """By summary."""
        self.named: dict[str, list[str]] = {}
        """By boundary: the rows that it says it has kept, in their order."""
        self.summarised: set[str] = set()
        """The boundaries that have a summary."""
        self._parents: dict[str, str | None] = {}
        # What was walked already: a chain may be as long as the file, and have a row at each place.
        self._nearest: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._boundary: TranscriptRow | None = None
        # What the newest compaction has kept; and what the file holds only after it, each with the
        # one before it.
        self._named: list[str] = []
        self._late: dict[str, str] = {}
        self._speaker = self._summary = self._last = ""

    def add(self, row: TranscriptRow) -> None:
        """Give a row its parent. The rows that it refers to may have to be known already."""
        self._parents[row.uuid] = self._parent_for(row)
        if row.speaks:
            self._speaker = row.uuid
        self._last = row.uuid

    def above(self, row: TranscriptRow, *, stop_at_boundary: bool = False) -> str:
        """The nearest message above a row, or the nearest compaction if it is nearer."""
        nearest = self._nearest[stop_at_boundary]
        parent, passed = self._parents[row.uuid], set[str]()
        while parent and parent in self.rows and parent not in passed and parent != row.uuid:
            above = self.rows[parent]
            if above.speaks or (stop_at_boundary and above.subtype == "compact_boundary"):
                nearest.update(dict.fromkeys(passed, parent))
                return parent
            passed.add(parent)
            parent = nearest.get(parent) or self._parents[parent]
        return ""

    def _parent_for(self, row: TranscriptRow) -> str | None:
        """A compaction's place is after what it cuts off, and before what follows."""
        if row.subtype == "compact_boundary":
            self._boundary, self._summary = row, ""
            named = self._named = self.named[row.uuid] = self._named_by(row)
            late = [one for one in named if self.rows[one].index > row.index]
            self._late = dict(zip(late, ["", *late], strict=False))
            above = self.rows.get(row.parent or "")
            # The rows that it keeps may come after its logical parent, and this one after itself.
            if above is None or above.index > row.index or named:
                return self._speaker or None
        elif row.is_summary:
            if self._boundary is not None:
                self.boundaries[row.uuid], self._summary = self._boundary, row.uuid
                self.summarised.add(self._boundary.uuid)
            elif row.parent not in self.rows:
                return self._speaker or None
        elif self._summary and row.uuid in self._late:
            # The rows that are kept follow the summary, in their order, although some come later.
            return self._late[row.uuid] or self._summary
        elif self._summary and (row.parent == self._summary or row.parent in self._named):
            # What follows hangs on a row that was kept, although it comes after the summary.
            return next(reversed(self._late), self._summary)
        elif row.parent and row.parent not in self.rows:
            return self._last or row.parent
        return row.parent

    def _named_by(self, boundary: TranscriptRow) -> list[str]:
        """The rows that a compaction says it has kept, in their order."""
        # If one of the rows is missing, the tool keeps none of them.
        if any(one not in self.rows for one in boundary.kept):
            return []
        head, at = boundary.segment or ("", "")
        segment: dict[str, None] = {}
        while at in self.rows and at not in segment:
            segment[at] = None
            # Nothing is above a compaction for the tool.
            is_end = at == head or self.rows[at].subtype == "compact_boundary"
            at = "" if is_end else self.rows[at].parent or ""
        whole = reversed(segment) if head in segment else ()
        return list(dict.fromkeys([*boundary.kept, *whole]))


class TranscriptTree:
    """The units of a transcript: of a whole one (`build`), or of one that grows (`add`)."""

    def __init__(self) -> None:
        self.root = TreeUnit()
        self._chain = _Chain()
        self._unit_of: dict[str, TreeUnit] = {}
        """By row: the unit that what follows the row hangs on."""
        self._parent_of: dict[TreeUnit, TreeUnit] = {}
        self._answers: dict[str, TreeUnit] = {}
        self._callers: dict[str, TreeUnit] = {}
        self._places: dict[str, int] = {}
        """When rows were played."""

    def build(self, rows: list[TranscriptRow], path: Path, problems: list[Problem]) -> None:
        """Add all rows of a transcript, whatever their order."""
        self._chain.rows.update((row.uuid, row) for row in rows)
        for row in rows:
            self._chain.add(row)
        units = [self._unit_of[row.uuid] for row in rows if row.speaks and self._take(row)]
        for unit in units:
            self._hang(unit)
        last: TreeUnit | None = None
        for row in rows:
            if row.speaks:
                last = self._unit_of[row.uuid]
            else:
                above = self._unit_of.get(self._chain.above(row))
                (above or last or self.root).notes.append(row)
        self._break_cycles(units, path, problems)
        self._date(rows)

    def add(self, row: TranscriptRow) -> TreeUnit | None:
        """Add the next row of a transcript that grows; the unit of a message."""
        self._chain.rows[row.uuid] = row
        self._chain.add(row)
        if not row.speaks:
            return None
        is_new = self._take(row)
        unit = self._unit_of[row.uuid]
        if is_new:
            self._hang(unit)
        self._places.setdefault(row.uuid, len(self._places))
        return unit

    def parent_of(self, unit: TreeUnit) -> TreeUnit | None:
        """The unit that another one hangs on."""
        return self._parent_of.get(unit)

    def walk(self) -> Iterator[TranscriptStep | Back]:
        """All rows: a branch that was left comes first, then a rewind, and then the next one."""
        # Not by recursion: a chain may be longer than Python's stack.
        todo: list[tuple[TreeUnit, str | None] | Back] = [(self.root, None)]
        while todo:
            item = todo.pop()
            if isinstance(item, Back):
                yield item
                continue
            unit, at = item
            beside = _beside(unit)
            for one in (unit, *beside):
                end = one.end()
                if one.begins:
                    yield Back(None)
                for row in one.ordered():
                    yield self.step(row, end)
                    at = row.uuid
                for row in one.notes:
                    yield TranscriptStep(row)
                    if row.subtype == "microcompact_boundary":
                        at = f"{row.uuid}:cleared"
            todo += reversed(_branches(unit, at, beside))

    def step(self, row: TranscriptRow, end: TranscriptRow | None) -> TranscriptStep:
        """A row of a unit that has this end."""
        if not row.is_summary:
            self._places.setdefault(row.uuid, len(self._places))
            return TranscriptStep(row, ends_answer=row is end)
        boundary = self._chain.boundaries.get(row.uuid)
        if boundary is None:
            return TranscriptStep(row)
        kept = self._kept(boundary)
        behind = sorted(kept & self._places.keys(), key=self._places.__getitem__)
        return TranscriptStep(
            row,
            keeps=kept,
            behind=() if boundary.keeps_first else tuple(behind),
            keeps_first=boundary.keeps_first,
            record=boundary.metadata or {},
        )

    def _kept(self, boundary: TranscriptRow) -> frozenset[str]:
        """The rows that a compaction has kept as they are, and the results of their calls."""
        kept = set(self._chain.named.get(boundary.uuid, ()))
        units = [self._unit_of[one] for one in kept if one in self._unit_of]
        calls = {
            call for unit in units for row in unit.rows if row.uuid in kept for call in row.calls
        }
        # The walk sees one of several results that were asked for together.
        kept |= {
            row.uuid
            for unit in units
            for row in unit.rows
            if row.results and (boundary.segment or not calls.isdisjoint(row.results))
        }
        return frozenset(kept)

    def _take(self, row: TranscriptRow) -> bool:
        """Put a message into its unit, and return whether the unit is new."""
        unit = self._joined(row)
        is_new = unit is None
        unit = unit or TreeUnit()
        if row.type == "assistant":
            if row.answer:
                self._answers.setdefault(row.answer, unit)
            self._callers.update(dict.fromkeys(row.calls, unit))
        unit.rows.append(row)
        self._unit_of[row.uuid] = unit
        if row.results and not is_new:
            # It may come late. The tool sends what it hangs on too, and there the session goes on.
            above = self._unit_of.get(self._chain.above(row))
            if above is not None and self._is_below(above, unit):
                self._unit_of[row.uuid] = above
        return is_new

    def _joined(self, row: TranscriptRow) -> TreeUnit | None:
        """The unit that a row belongs to, if it exists already."""
        if row.type == "assistant":
            return self._answers.get(row.answer) if row.answer else None
        if not row.results:
            return None
        for uuid in (row.source, self._chain.above(row)):
            if uuid in self._chain.rows and self._chain.rows[uuid].type == "assistant":
                return self._unit_of.get(uuid)
        return next((self._callers[one] for one in row.results if one in self._callers), None)

    def _is_below(self, below: TreeUnit | None, unit: TreeUnit) -> bool:
        """Whether a unit is another one, or hangs below it."""
        seen: set[TreeUnit] = set()
        while below is not None and below is not unit and below not in seen:
            seen.add(below)
            below = self._unit_of.get(self._chain.above(below.rows[0]))
        return below is unit

    def _hang(self, unit: TreeUnit) -> None:
        first = unit.rows[0]
        # A compaction without a summary: the model sees only what follows it.
        above = self._chain.rows.get(self._chain.above(first, stop_at_boundary=True))
        unit.begins = (
            above is not None
            and above.subtype == "compact_boundary"
            and above.uuid not in self._chain.summarised
        )
        parent = self._unit_of.get(self._chain.above(first))
        parent = self.root if parent is None or parent is unit else parent
        parent.children.append(unit)
        self._parent_of[unit] = parent

    def _break_cycles(self, units: list[TreeUnit], path: Path, problems: list[Problem]) -> None:
        """Hang units that only hang on each other on the root."""
        seen: set[TreeUnit] = set()
        _mark(self.root, seen)
        for unit in units:
            if unit not in seen:
                problems.append(Problem(path, unit.rows[0].line, "its parents form a cycle"))
                self._parent_of[unit].children.remove(unit)
                self.root.children.append(unit)
                _mark(unit, seen)

    def _date(self, rows: list[TranscriptRow]) -> None:
        """Find the newest row below each unit: the branch that holds it is the live one."""
        for row in rows:
            above = row.uuid if row.speaks else self._chain.above(row)
            if row.type != "progress" and (unit := self._unit_of.get(above)) is not None:
                unit.own = max(unit.own, row.index)
        order = [self.root]
        for unit in order:
            unit.is_work |= any(row.calls or row.results for row in unit.rows)
            for child in unit.children:
                child.is_work = unit.is_work and _has_attachments(child)
            order += unit.children
        for unit in reversed(order):
            unit.newest = max([unit.own, *(child.newest for child in unit.children)])
            attached = all(child.is_attached for child in unit.children)
            unit.is_attached = attached and _has_attachments(unit)


def _has_attachments(unit: TreeUnit) -> bool:
    return all(row.type == "attachment" for row in unit.rows)


def _mark(root: TreeUnit, seen: set[TreeUnit]) -> None:
    todo = [root]
    while todo:
        unit = todo.pop()
        if unit not in seen:
            seen.add(unit)
            todo += unit.children


def _beside(unit: TreeUnit) -> list[TreeUnit]:
    """The attachments that are sent although they are not in the branch that goes on.

    They hang on a call or on a result.
    """
    if not unit.is_work:
        return []
    found = [one for one in unit.children if one.is_attached and one.newest < unit.newest]
    for one in found:
        found += one.children
    return sorted(found, key=lambda one: one.rows[0].index)


def _branches(
    unit: TreeUnit, at: str | None, beside: list[TreeUnit]
) -> Sequence[tuple[TreeUnit, str | None] | Back]:
    """The units below, the branch with the newest row last, with a rewind between them.

    If a row of this unit itself is newer than all of them, they are left too.
    """
    following: list[tuple[TreeUnit, str | None] | Back] = []
    children = [child for child in unit.children if child not in beside]
    for number, child in enumerate(sorted(children, key=lambda child: child.newest)):
        if number:
            following.append(Back(at))
        following.append((child, at))
    if children and unit.own == unit.newest:
        following.append(Back(at))
    return following
