"""The visible rows that belong together, and those that no plan may hide.

A group can only be hidden as a whole: a tool call with all its results, thinking with the assistant
message right after it, a summary with its companions. Every visible row is in exactly one group. A
plan that hides whole groups never separates rows that a provider requires together.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from roocontext.log.clearing import shown_outputs
from roocontext.log.counting import FREE, Size
from roocontext.log.entries import BlockRef, Kind
from roocontext.log.pairs import Pair, links_of, pairs
from roocontext.log.readings import Block, RoleAndBlocks, calls, read_message, results
from roocontext.policies.situation import Row, Situation

SYSTEM: Final = ("system", "developer")
"""The roles that belong to neither side of the conversation."""

_THINKING: Final = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[Row, ...]

    @property
    def seqs(self) -> frozenset[int]:
        """Their seqs."""
        return frozenset(row.seq for row in self.rows)

    @property
    def size(self) -> Size:
        """Their size together."""
        return total_size(self.rows)


@dataclass(frozen=True, slots=True)
class Group(_Rows):
    """Rows that are hidden together or not at all, in view order, not always adjacent."""


@dataclass(frozen=True, slots=True)
class Turn(_Rows):
    """A message of the user and everything up to the user's next message.

    Rows before the first such message are a turn without a `question`. Tool results, summaries,
    markers and their companions do not begin a turn.
    """

    question: Row | None = None


@dataclass(frozen=True)
class Layout:
    """The groups and turns of the visible rows; each property is computed once."""

    situation: Situation

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order of each one's newest row."""
        rows = self.situation.visible
        parts = joined(len(rows), self._bonds())
        return tuple(Group(tuple(rows[index] for index in part)) for part in parts)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, oldest first; the last one is the newest turn."""
        rows = self.situation.visible
        starts = [index for index, row in enumerate(rows) if self._asks(index, row)]
        head = rows[: starts[0]] if starts else rows
        cuts = pairwise([*starts, len(rows)])
        asked = tuple(Turn(rows[start:end], rows[start]) for start, end in cuts)
        return (Turn(head), *asked) if head else asked

    @cached_property
    def summaries(self) -> tuple[Row, ...]:
        """The visible summaries, and the replies in which a provider compacted other messages."""
        return tuple(row for row in self.situation.visible if row.summarises)

    @cached_property
    def waiting(self) -> frozenset[int]:
        """The rows at the very end with a tool call that has no result yet."""
        rows, readings = self.situation.visible, self._readings
        answered = {pair.call for pair in self._pairs}
        return frozenset(
            rows[index].seq
            for index in _last_callers(readings)
            if any((index, block) not in answered for block, _ in calls(readings[index][1]))
        )

    @cached_property
    def tools(self) -> Mapping[BlockRef, str]:
        """The tool that gave each output, by the output's place."""
        return tools_by_output(self.situation.visible, self._readings)

    @cached_property
    def fresh(self) -> frozenset[int]:
        """The rows with results of tools that no recorded reply has read.

        A summary or marker replaces replies too, so the rows before it were read.
        """
        rows = self.situation.visible
        ends = [index for index, row in enumerate(rows) if self._has_read(index, row)]
        if not ends:
            return frozenset()
        # A result that came while the reply was being made is fresh as well.
        asked_at = rows[ends[-1]].message.asked_at
        return frozenset(
            row.seq
            for index, row in enumerate(rows)
            if (index > ends[-1] or (asked_at is not None and row.seq > asked_at))
            and results(self._readings[index][1])
        )

    @cached_property
    def fixed(self) -> frozenset[int]:
        """The rows that not even a compat policy hides.

        They are the pins, and sealed compactions, which no summary can replace.
        """
        compacted = ((row.seq, row.message.compacted) for row in self.summaries)
        return self.situation.pins.union(seq for seq, it in compacted if it and it.sealed)

    def held(self, *, summaries: bool = True) -> frozenset[int]:
        """The seqs that no plan may hide, each with its whole group.

        They are the fixed rows, the question of the newest turn, calls at the very end that wait
        for their results, results that no reply has read, system rows and, unless a new summary
        replaces them, the visible summaries.
        """
        cores = {*self.fixed, *self.waiting, *self.fresh}
        # Without its question, the model would continue work whose purpose it no longer sees.
        cores |= {turn.question.seq for turn in self.turns[-1:] if turn.question}
        cores |= {row.seq for row in self.situation.visible if row.message.role in SYSTEM}
        if summaries:
            cores |= {row.seq for row in self.summaries}
        return whole_groups(self.groups, cores)

    @cached_property
    def _readings(self) -> list[RoleAndBlocks]:
        messages = (row.message for row in self.situation.visible)
        return [read_message(m) for m in messages]

    @cached_property
    def _pairs(self) -> list[Pair]:
        return _pairs_of(self.situation.visible, self._readings)

    def _asks(self, index: int, row: Row) -> bool:
        """True if this row is the user's own message and not only tool results."""
        role, blocks = self._readings[index]
        own = row.message.kind is Kind.MESSAGE and row.message.role not in SYSTEM
        return own and role == "user" and not _only_results(blocks)

    def _has_read(self, index: int, row: Row) -> bool:
        """True if this row is a reply, or replaces some."""
        is_reply = row.message.kind is Kind.MESSAGE and self._readings[index][0] == "assistant"
        return is_reply or row.message.kind in (Kind.SUMMARY, Kind.MARKER)

    def _bonds(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of rows that must stay together."""
        for pair in self._pairs:
            yield pair.call[0], pair.result[0]
        thought = False
        for index, (role, blocks) in enumerate(self._readings):
            if thought and role == "assistant":
                yield index - 1, index
            thinks = any(block.get("type") in _THINKING for block in blocks)
            thought = role == "assistant" and (thought or thinks)
        plans: dict[str, int] = {}
        for index, row in enumerate(self.situation.visible):
            if row.message.compaction_id is not None:
                yield plans.setdefault(row.message.compaction_id, index), index


def groups(situation: Situation) -> tuple[Group, ...]:
    """Divide the visible rows into groups, in the order of each group's newest row."""
    return Layout(situation).groups


def turns(situation: Situation) -> tuple[Turn, ...]:
    """Divide the visible rows into turns, oldest first."""
    return Layout(situation).turns


def held(situation: Situation, *, summaries: bool = True) -> frozenset[int]:
    """The seqs that no plan may hide; see `Layout.held`."""
    return Layout(situation).held(summaries=summaries)


def whole_groups(parts: Iterable[Group], cores: Collection[int]) -> frozenset[int]:
    """The seqs in `cores` that are in a group, with the rest of their groups."""
    chosen = (part.seqs for part in parts if any(row.seq in cores for row in part.rows))
    return frozenset().union(*chosen)


def tools_by_output(rows: Sequence[Row], readings: Sequence[RoleAndBlocks]) -> dict[BlockRef, str]:
    """The tool that gave each output, by the output's entry and its block in the content.

    Outputs without a call are left out. Ids alone would not do: agents reuse them.
    """
    asked = {pair.result: pair.call for pair in _pairs_of(rows, readings)}
    tools: dict[BlockRef, str] = {}
    for index, row in enumerate(rows):
        message = row.message
        content = message.format, message.role, message.content
        for place, at in shown_outputs(*content, readings[index][1]):
            if call := asked.get((index, at)):
                tools[row.seq, place] = str(readings[call[0]][1][call[1]].get("name", ""))
    return tools


def total_size(rows: Iterable[Row]) -> Size:
    """The size of rows together."""
    sizes = [row.size for row in rows]
    return Size(*map(sum, zip(*sizes, strict=True))) if sizes else FREE


def joined(count: int, bonds: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Divide 0 to count-1 as finely as the bonds allow, ordered by each part's last member."""
    parts = [{index} for index in range(count)]
    for one, other in bonds:
        small, large = sorted((parts[one], parts[other]), key=len)
        if small is not large:
            large |= small
            for index in small:
                parts[index] = large
    distinct = {id(part): part for part in parts}
    return sorted(map(sorted, distinct.values()), key=max)


def _pairs_of(rows: Sequence[Row], readings: Sequence[RoleAndBlocks]) -> list[Pair]:
    return pairs(readings, links_of((row.seq, row.message.answers) for row in rows))


def _last_callers(readings: Sequence[RoleAndBlocks]) -> range:
    """The last run of assistant rows, if only tool results follow it."""
    end = len(readings)
    while end and readings[end - 1][0] == "user" and _only_results(readings[end - 1][1]):
        end -= 1
    start = end
    while start and readings[start - 1][0] == "assistant":
        start -= 1
    return range(start, end)


def _only_results(blocks: Sequence[Block]) -> bool:
    return len(results(blocks)) == len(blocks)
