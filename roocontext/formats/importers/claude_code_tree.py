"""The rows of a Claude Code transcript as a tree.

The parents of the rows alone are not enough: an answer is split over several rows, and each result
of a tool hangs on its own call. So the rows of one answer and their results are a *unit*, and the
units are the tree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from roocontext.formats.events import Problem
from roocontext.formats.importers.claude_code_rows import SPEAKERS, TranscriptRow


class TranscriptStep(NamedTuple):
    """The next row. The last row of an answer has its usage; a summary has the rows it keeps.

    The rows that a summary keeps follow it (`kept_after`), unless it `keeps_first`. The tool does
    not send an answer without content.
    """

    row: TranscriptRow
    is_sent: bool = True
    ends_answer: bool = False
    keeps: frozenset[str] = frozenset()
    kept_after: tuple[str, ...] = ()
    keeps_first: bool = False
    record: Mapping[str, Any] = MappingProxyType({})


class Back(NamedTuple):
    """The end of a branch: the session goes back to right after this row."""

    to: str | None


@dataclass(slots=True, eq=False)
class TreeUnit:
    """A row, or the rows of one answer with the results of its calls, and the notes among them.

    `own` is the index of the newest row that hangs on the unit itself, `newest` that of the newest
    row here or below. The unit `begins` the history after a compaction without a summary. It
    `is_attached` if it and the units below hold only attachments. It `is_work` if it has calls or
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
        """The last row of an answer, if the answer is complete."""
        replies = [row for row in self.rows if row.type == "assistant"]
        if not replies:
            return None
        last = replies[-1]
        is_followed = bool(self.children) or len(self.rows) > len(replies)
        return last if is_followed or last.stopped or not last.answer else None

    def says_something(self) -> bool:
        """False for an answer that holds the tool's own text in place of none."""
        says = {row.says for row in self.rows}
        return True in says or False not in says

    def ordered(self) -> Sequence[TranscriptRow]:
        """The answer first, and then the results, each in the order of the file."""
        return sorted(self.rows, key=lambda row: (row.type != "assistant", row.index))


class _Chain:
    """The rows by uuid, and the parents that the tool gives them when it reads a file."""

    def __init__(self) -> None:
        self.rows: dict[str, TranscriptRow] = {}
        self.boundaries: dict[str, TranscriptRow] = {}
        """By summary."""
        self.named: dict[str, list[str]] = {}
        """By boundary: the rows that it names as kept, in their order."""
        self.summarised: set[str] = set()
        """The boundaries that have a summary."""
        self._parents: dict[str, str | None] = {}
        # The results of earlier walks: a chain may be as long as the file.
        self._nearest: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._boundary: TranscriptRow | None = None
        # The rows that the newest compaction has kept; and those of them that the file holds only
        # after it, each with the row before it.
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
        """The parent of a row. A compaction comes after the rows that it hides."""
        if row.subtype == "compact_boundary":
            self._boundary, self._summary = row, ""
            named = self._named = self.named[row.uuid] = self._named_by(row)
            late = [uuid for uuid in named if self.rows[uuid].index > row.index]
            self._late = dict(zip(late, ["", *late], strict=False))
            above = self.rows.get(row.parent or "")
            # Kept rows may follow the logical parent, and the logical parent may follow this row.
            if above is None or above.index > row.index or named:
                return self._speaker or None
        elif row.is_summary:
            if self._boundary is not None:
                self.boundaries[row.uuid], self._summary = self._boundary, row.uuid
                self.summarised.add(self._boundary.uuid)
            elif row.parent not in self.rows:
                return self._speaker or None
        elif self._summary and row.uuid in self._late:
            # Kept rows follow the summary in their order, also if the file has them later.
            return self._late[row.uuid] or self._summary
        elif self._summary and (row.parent == self._summary or row.parent in self._named):
            # A row that hangs on the summary or on a kept row follows the last late kept row.
            return next(reversed(self._late), self._summary)
        elif row.parent and row.parent not in self.rows:
            return self._last or row.parent
        return row.parent

    def _named_by(self, boundary: TranscriptRow) -> list[str]:
        """The rows that a compaction names as kept, in their order."""
        # If one of the rows is missing, the tool keeps none of them.
        if any(uuid not in self.rows for uuid in boundary.kept):
            return []
        head, at = boundary.segment or ("", "")
        segment: dict[str, None] = {}
        while at in self.rows and at not in segment:
            segment[at] = None
            # For the tool, a chain ends at a compaction.
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
        """By row: its number in the order of the walk."""

    def build(self, rows: list[TranscriptRow], path: Path, problems: list[Problem]) -> None:
        """Add all rows of a transcript, whatever their order."""
        self._chain.rows.update((row.uuid, row) for row in rows)
        for row in rows:
            self._chain.add(row)
        units = [self._unit_of[row.uuid] for row in rows if row.speaks and self._take(row)]
        cut = [unit for unit in units if not self._hang(unit)]
        what = "its parents form a cycle"
        problems += [Problem(path, unit.rows[0].line, what) for unit in cut]
        last: TreeUnit | None = None
        for row in rows:
            if row.speaks:
                last = self._unit_of[row.uuid]
            else:
                above = self._unit_of.get(self._chain.above(row))
                (above or last or self.root).notes.append(row)
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

    def is_below(self, below: TreeUnit, unit: TreeUnit) -> bool:
        """True if a unit is the other unit, or hangs below it."""
        at: TreeUnit | None = below
        while at is not None and at is not unit:
            at = self._parent_of.get(at)
        return at is unit

    def walk(self) -> Iterator[TranscriptStep | Back]:
        """All rows: abandoned branches first, each followed by a rewind, and the live one last."""
        # Not by recursion: a chain may be longer than Python's stack.
        todo: list[tuple[TreeUnit, str | None] | Back] = [(self.root, None)]
        while todo:
            item = todo.pop()
            if isinstance(item, Back):
                yield item
                continue
            first, at = item
            attached = _attached(first)
            for unit in (first, *attached):
                end = unit.end()
                if unit.begins:
                    yield Back(None)
                is_sent = end is None or unit.says_something()
                for row in unit.ordered():
                    yield self.step(row, end) if is_sent else TranscriptStep(row, is_sent=False)
                    at = row.uuid if is_sent else at
                for row in unit.notes:
                    yield TranscriptStep(row)
                    if row.subtype == "microcompact_boundary":
                        at = f"{row.uuid}:cleared"
            todo += reversed(_branches(first, at, attached))

    def step(self, row: TranscriptRow, end: TranscriptRow | None) -> TranscriptStep:
        """A row of a unit; `end` is the unit's last row of a complete answer."""
        self._places.setdefault(row.uuid, len(self._places))
        if not row.is_summary:
            return TranscriptStep(row, ends_answer=row is end)
        boundary = self._chain.boundaries.get(row.uuid)
        if boundary is None:
            return TranscriptStep(row)
        kept = self._kept(boundary)
        kept_after = sorted(kept & self._places.keys(), key=self._places.__getitem__)
        return TranscriptStep(
            row,
            keeps=kept,
            kept_after=() if boundary.keeps_first else tuple(kept_after),
            keeps_first=boundary.keeps_first,
            record=boundary.metadata or {},
        )

    def _kept(self, boundary: TranscriptRow) -> frozenset[str]:
        """The rows that a compaction has kept, and the results of their calls."""
        kept = set(self._chain.named.get(boundary.uuid, ()))
        units = [self._unit_of[uuid] for uuid in kept if uuid in self._unit_of]
        calls = {
            call for unit in units for row in unit.rows if row.uuid in kept for call in row.calls
        }
        # The chain of parents holds only one of several results of an answer.
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
            # A late result: the tool sends the row above it too, and the session continues there.
            above = self._unit_of.get(self._chain.above(row))
            if above is not None and self._will_be_below(above, unit):
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
        return next((self._callers[id_] for id_ in row.results if id_ in self._callers), None)

    def _will_be_below(self, below: TreeUnit | None, unit: TreeUnit) -> bool:
        """True if a unit is the other unit, or will hang below it."""
        seen: set[TreeUnit] = set()
        while below is not None and below is not unit and below not in seen:
            seen.add(below)
            below = self._unit_of.get(self._chain.above(below.rows[0]))
        return below is unit

    def _hang(self, unit: TreeUnit) -> bool:
        """Hang a unit on the one above it, or on the root if that hangs below the unit: False."""
        first = unit.rows[0]
        # After a compaction without a summary, the model sees only the rows that follow it.
        above = self._chain.rows.get(self._chain.above(first, stop_at_boundary=True))
        unit.begins = (
            above is not None
            and above.subtype == "compact_boundary"
            and above.uuid not in self._chain.summarised
        )
        parent = self._unit_of.get(self._chain.above(first))
        parent = self.root if parent is None or parent is unit else parent
        # Only a unit with children can be above itself; the others need no walk.
        if is_cycle := bool(unit.children) and self.is_below(parent, unit):
            parent = self.root
        parent.children.append(unit)
        self._parent_of[unit] = parent
        return not is_cycle

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
    return all(row.type not in SPEAKERS for row in unit.rows)


def _attached(unit: TreeUnit) -> list[TreeUnit]:
    """The attachments that are sent although they are not in the live branch.

    They hang on a call or on a result.
    """
    if not unit.is_work:
        return []
    attached = [
        child for child in unit.children if child.is_attached and child.newest < unit.newest
    ]
    for child in attached:
        attached += child.children
    return sorted(attached, key=lambda child: child.rows[0].index)


def _branches(
    unit: TreeUnit, at: str | None, attached: list[TreeUnit]
) -> Sequence[tuple[TreeUnit, str | None] | Back]:
    """The units below with a rewind between them, the branch with the newest row last.

    If a row of this unit itself is newer than all of them, that branch is abandoned too.
    """
    following: list[tuple[TreeUnit, str | None] | Back] = []
    children = [child for child in unit.children if child not in attached]
    for number, child in enumerate(sorted(children, key=lambda child: child.newest)):
        if number:
            following.append(Back(at))
        following.append((child, at))
    if children and unit.own == unit.newest:
        following.append(Back(at))
    return following
