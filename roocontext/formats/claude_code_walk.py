"""The order in which a model would read the rows of a Claude Code transcript.

A branch that was left is followed by a rewind.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from roocontext.formats.claude_code_releases import NEWEST, Release
from roocontext.formats.claude_code_rows import TranscriptRow
from roocontext.formats.claude_code_tree import TranscriptStep, TranscriptTree, TreeUnit
from roocontext.formats.events import Problem


@dataclass(frozen=True, slots=True)
class Back:
    """A branch ends: the session goes back to right after this row."""

    to: str | None


Steps: TypeAlias = Iterator[TranscriptStep | Back]


def in_tree_order(
    parts: Iterable[list[TranscriptRow]],
    path: Path,
    problems: list[Problem],
    release: Release = NEWEST,
) -> Steps:
    """All rows: a branch that was left comes first, and then a rewind, and then the next one.

    Each part begins below the last row of the one before.
    """
    tree = TranscriptTree(release)
    anchor: TranscriptRow | None = None
    at: str | None = None
    for rows in parts:
        if anchor is not None:
            tree.go_on_below(anchor)
        at = yield from _walk(tree, tree.build(rows, path, problems), at)
        anchor = rows[-1] if rows else None


def _walk(
    tree: TranscriptTree, root: TreeUnit, at: str | None
) -> Generator[TranscriptStep | Back, None, str | None]:
    """The rows below a unit, and the notes at it. Returns where the session is then."""
    # Not by recursion: a chain may be longer than Python's stack.
    todo: list[tuple[TreeUnit, str | None] | Back] = [(root, at)]
    while todo:
        item = todo.pop()
        if isinstance(item, Back):
            yield item
            continue
        unit, at = item
        beside = tree.beside(unit)
        for one in (unit, *beside):
            end = one.end()
            if one.begins:
                yield Back(None)
            for row in one.ordered():
                yield tree.step(row, end)
                at = row.uuid
            for row in one.notes:
                yield TranscriptStep(row)
                if row.subtype == "microcompact_boundary":
                    at = f"{row.uuid}:cleared"
        todo += reversed(_branches(unit, at, beside))
    return at


def _branches(
    unit: TreeUnit, at: str | None, beside: list[TreeUnit]
) -> Sequence[tuple[TreeUnit, str | None] | Back]:
    """The units below, the branch with the newest row last, with a rewind between them.

    If a row of this unit itself is newer than all of them, they are left too.
    """
    following: list[tuple[TreeUnit, str | None] | Back] = []
    sent = set(beside)
    children = [child for child in unit.children if child not in sent]
    for number, child in enumerate(sorted(children, key=lambda child: child.newest)):
        if number:
            following.append(Back(at))
        following.append((child, at))
    if children and unit.own == unit.newest:
        following.append(Back(at))
    return following
