"""A transcript in parts, so that an import need not have all of its rows in memory.

A part may begin behind a message of the user, if everything that follows is below it and no later
row refers to anything ahead of it. A prompt, a summary, or the last result of an answer usually is
such a message. Tests compare the order of the parts with that of the whole.
"""

from array import array
from collections.abc import Hashable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from roocontext.formats.events import Problem
from roocontext.formats.files import opened
from roocontext.formats.importers.claude_code_tree import (
    Loose,
    RowFields,
    RowReader,
    TranscriptRow,
    TranscriptRows,
    compacted_calls,
    heads,
    learn,
    name_removed,
    row_of_line,
)
from roocontext.formats.numbered_names import NumberedNames

LEAST = 500
"""How many rows a part has at least, except the last one."""


class _Part(NamedTuple):
    """Where a part begins: the index of its first row, its line, and where that is in the file.

    The row ahead of it is the `anchor`, the only one of those before to which it refers.
    """

    first: int
    line: int
    start: int
    anchor: int


class _Cuts:
    """Where a transcript can be cut, as far as its rows were seen."""

    def __init__(self) -> None:
        self.parts = [_Part(0, 1, 0, -1)]
        self.names = NumberedNames()
        """The first rows of uuids and answers."""
        self._unanswered: dict[str, int] = {}
        self._parents = array("i")
        """The rows that rows hang on, by their indexes; -1 for none, or a compaction between."""
        self._awaited = NumberedNames()
        self._rootless = NumberedNames()
        """The notes above which there is no message."""
        self._last: TranscriptRow | None = None
        self._answer: int | None = None
        """The first row of the newest answer, while only its rows, results and notes follow it."""
        self._boundary = -1
        """The newest compaction."""
        self._summarised = -1
        """The earliest row to which a summary of the newest compaction refers."""

    def add(self, row: TranscriptRow, *, is_alone: bool) -> None:
        """Add the next row; whether its line holds nothing before it."""
        first = self.names.get(row.uuid)
        # A row that comes again is compared with the first one.
        reach = self._reach(row) if first is None else first - 1
        while self.parts[-1].anchor > reach:
            self.parts.pop()
        if first is not None:
            return
        last = self._last
        is_long = row.index - self.parts[-1].first >= LEAST
        if is_alone and is_long and last and last.index <= reach and self._is_anchor(last):
            self.parts.append(_Part(row.index, row.line, row.start, last.index))
        self._last = row
        self._answer = self._answer_with(row, reach)

    def _is_anchor(self, last: TranscriptRow) -> bool:
        """Whether no message hangs on this message of the user yet, nor on the answer it joins."""
        if not last.speaks or last.type == "assistant":
            return False
        return self._answer is not None if last.results else last.uuid not in self._awaited

    def _answer_with(self, row: TranscriptRow, reach: int) -> int | None:
        """The first row of the newest answer, if this row begins it, or only belongs to it."""
        if row.uuid in self._awaited:
            return None  # earlier rows may hang on it
        is_reply = row.speaks and row.type == "assistant"
        if is_reply and (not row.answer or self.names.get(("answer", row.answer)) == row.index):
            return row.index
        first = self._answer
        is_result = bool(row.results) and all(row.results)
        if first is None or (row.speaks and not is_reply and not is_result):
            return None
        # What refers to something ahead of this answer may belong to another one.
        belongs = self._parents[row.index] >= first and reach >= first - 1
        return first if belongs else None

    def _reach(self, row: TranscriptRow) -> int:
        """The first row that must not be ahead of the anchor of this row's part."""
        reach = min(self._reach_of_parent(row), self._name(row.uuid, row.index))
        if row.answer:
            name = ("answer", row.answer)
            known = self.names.get(name)
            reach = min(reach, self._name(name, row.index) if known is None else known - 1)
        for call in filter(None, row.results):
            # Without its call, a result may be a second one, of a call that is long forgotten.
            reach = min(reach, self._unanswered.pop(call, 0) - 1)
        self._unanswered.update(dict.fromkeys(row.calls, row.index))
        if row.source:
            reach = min(reach, self._refer(row.source, row.index))
        if row.subtype == "compact_boundary":
            for name in (*row.kept, *(row.segment or ())):
                reach = min(reach, self._refer(name, row.index))
            if row.segment and not self._is_above(*row.segment):
                reach = -1  # all rows up to the first one are kept
            self._summarised = min(reach, row.index - 1)
        elif row.is_summary:
            reach = min(reach, self._summarised)
        return reach

    def _reach_of_parent(self, row: TranscriptRow) -> int:
        last, parent = self._last, row.parent
        known = None
        if parent is not None:
            is_last = last is not None and last.uuid == parent
            known = last.index if last and is_last else self.names.get(parent)
            if known is None:
                # If the parent of a compaction comes and hangs on it, both hang on the root.
                self._await(parent, 0 if row.subtype == "compact_boundary" else row.index)
        self._parents.extend([-1] * (row.index - len(self._parents)))
        if row.subtype == "compact_boundary":
            self._boundary = row.index
        self._parents.append(-1 if known is None or known < self._boundary else known)
        if known is not None:
            is_rootless = parent in self._rootless
        else:  # a compaction without a parent hangs on the message before it
            is_rootless = row.subtype != "compact_boundary"
        if is_rootless and row.speaks:
            return -1  # it hangs on the root, and what was before may be continued behind it
        if is_rootless:
            self._rootless[row.uuid] = row.index
        return row.index if known is None else known

    def _is_above(self, head: str, tail: str) -> bool:
        """Whether a row is found on the way up from another one."""
        top, at = self.names.get(head), self.names.get(tail)
        while top is not None and at is not None and at > top:
            at = self._parents[at]
        return top is not None and at == top

    def _refer(self, name: Hashable, index: int) -> int:
        """What this row refers to must be in its own part; in the first one, if it comes later."""
        known = self.names.get(name)
        if known is None:
            self._await(name, 0)
            return index
        return known - 1

    def _await(self, name: Hashable, index: int) -> None:
        known = self._awaited.get(name)
        self._awaited[name] = index if known is None else min(known, index)

    def _name(self, name: Hashable, index: int) -> int:
        """Name a row; earlier ones may have referred to it."""
        self.names[name] = index
        awaited = self._awaited.get(name)
        return index if awaited is None else awaited - 1


class Whole:
    """A session whose rows are all in memory: a single part."""

    def __init__(self, rows: list[TranscriptRow], loose: Loose) -> None:
        self.rows, self.loose = rows, loose
        self.cleared = {
            call
            for row in rows
            if row.subtype == "microcompact_boundary"
            for call in compacted_calls(row.metadata)
        }

    def __contains__(self, uuid: str) -> bool:
        """Whether the session has a row with this uuid."""
        return uuid in self._uuids

    def __iter__(self) -> Iterator[list[TranscriptRow]]:
        """The rows of each part."""
        return iter([self.rows])

    @cached_property
    def _uuids(self) -> set[str]:
        return {row.uuid for row in self.rows}


class Parts:
    """The parts of a transcript that holds a single session, and what is known of it as a whole."""

    def __init__(self, path: Path) -> None:
        self.facts: dict[str, Any] = TranscriptRows().facts
        self.loose = Loose()
        self.speaks = False
        self.begins_elsewhere = False
        """Whether the parent of its first message is in another file."""
        self.cleared: set[str] = set()
        """The calls whose results were cleared."""
        self._path = path
        self._parts: list[_Part] = []
        self._end = 0
        self._leaves: set[str] = set()

    @classmethod
    def read(cls, path: Path, problems: list[Problem], *, of_agent: bool) -> "Parts | None":
        """Find the parts of a file; None if rows of sub-agents are among those of a session."""
        found, cuts = cls(path), _Cuts()
        last: dict[str | None, str] = {}
        first: TranscriptRow | None = None
        line_before = 0
        reported: list[Problem] = []
        for index, (line, head) in enumerate(heads(path, reported)):
            found._end = index + 1
            is_alone, line_before = line.number != line_before, line.number
            if head is None:
                continue
            row = row_of_line(index, line, head)
            if row.agent and not of_agent:
                return None
            name_removed(row, head, last)
            found._learn(row, head)
            if row.uuid:
                cuts.add(row, is_alone=is_alone)
                last[row.agent] = row.uuid
                first = first or (row if row.speaks else None)
        problems += reported
        found._finish(cuts, first)
        return found

    def __contains__(self, uuid: str) -> bool:
        """Whether the session has this row, which a title names."""
        return uuid in self._leaves

    def __iter__(self) -> Iterator[list[TranscriptRow]]:
        """The rows of each part. Afterwards, `loose` are the lines without a place in the tree."""
        self.loose = Loose()
        reading = RowReader()
        # Not to the end of the file: what was appended since then may refer to rows of any part.
        ends = [*(part.first for part in self._parts[1:]), self._end]
        rows: list[TranscriptRow] = []
        with opened(self._path) as file:
            for part, end in zip(self._parts, ends, strict=True):
                lines = heads(self._path, None, start=part.start, first=part.line)
                for index, (line, head) in enumerate(lines, part.first):
                    if index == end:
                        break
                    row = reading.take(index, line, head, file) if head else None
                    if row is None:
                        self.loose.add(line)
                    elif row.uuid:
                        rows.append(row)
                yield rows
                rows = []
                reading.forget()

    def _learn(self, row: TranscriptRow, head: RowFields) -> None:
        learn(self.facts, head)
        if head.leaf_uuid:
            self._leaves.add(head.leaf_uuid)
        if row.uuid and row.subtype == "microcompact_boundary":
            self.cleared.update(compacted_calls(row.metadata))

    def _finish(self, cuts: _Cuts, first: TranscriptRow | None) -> None:
        self._parts = cuts.parts
        self._leaves = {uuid for uuid in self._leaves if uuid in cuts.names}
        if first is not None:
            self.speaks = True
            self.begins_elsewhere = first.parent is not None and first.parent not in cuts.names
