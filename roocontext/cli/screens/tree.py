"""The tree: a trunk of live entries from top to bottom, and the branches that were taken back."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roocontext.cli.screens.safe_text import Signs
from roocontext.cli.screens.screen import Screen
from roocontext.cli.screens.timeline import action
from roocontext.reports.naming import quantity, ranges_in_words

if TYPE_CHECKING:
    from roocontext.reports.tree import Hiding, Rewinding, Stretch, Tree

_FIRST, _LAST = 40, 160
"""How many lines of a long tree are drawn, at its beginning and at its end."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the tree: its beginning, that of its continuations, its text and its style."""

    start: str
    below: str
    text: str
    style: str


def draw_tree(screen: Screen, answer: "Tree", *, full: bool) -> None:
    """Draw the live entries as a trunk, and entries that were taken back as branches."""
    screen.headline(answer.session_id, answer.title)
    seen = f"{quantity(answer.messages, 'message')}, {answer.visible_messages:,} visible"
    screen.line(f"{quantity(answer.entries, 'entry', 'entries')}, {seen}")
    if answer.rewinds:
        live, dead, back = screen.signs.live, screen.signs.dead, screen.signs.back
        legend = f"{live} live   {dead} taken back   {back} a rewind to here"
        screen.line((legend, "note"))
    lines = [*_lines(answer, screen.signs)]
    left = 0 if full else len(lines) - _FIRST - _LAST
    if left <= 0:
        _put(screen, lines)
        return
    _put(screen, lines[:_FIRST])
    screen.line((f"{screen.signs.more} {left:,} more lines: --full draws them", "note"))
    _put(screen, lines[-_LAST:])


def _put(screen: Screen, lines: list["_Line"]) -> None:
    widest = screen.width // 2  # a deep branch is cut on the left: the text must stay on the screen
    for line in lines:
        start, below = line.start[-widest:], line.below[-widest:]
        screen.hanging((start, line.style), below, (line.text, line.style))


def _lines(answer: "Tree", signs: Signs) -> Iterator["_Line"]:
    """The stretches, each with its summaries, markers and clearings, and the rewinds to its end."""
    hidings, reached = _by_stretch(answer), defaultdict(list)
    for rewind in answer.rewinds:
        reached[rewind.reached].append(rewind)
    stem = f"{signs.stem} "
    for rewind in reached[0]:
        yield _Line(stem, stem, _rewind(rewind, signs), "note")
    for depth, is_branch, stretch in _walk(answer.stretches):
        live, trunk = stretch.live, stem * (depth + 1)
        start = stem * (depth - 1) + signs.branch if is_branch else stem * depth
        mark = signs.live if live else signs.dead
        yield _Line(f"{start}{mark} ", trunk, _stretch(stretch), "" if live else "hidden")
        style = "acts" if live else "hidden"
        for hiding in hidings[stretch.lo]:
            text = _hiding(hiding, signs, live=live)
            yield _Line(f"{trunk}  ", f"{trunk}    ", text, style)
        for rewind in reached[stretch.hi]:
            yield _Line(trunk, f"{trunk}  ", _rewind(rewind, signs), "note")


def _by_stretch(answer: "Tree") -> "defaultdict[int, list[Hiding]]":
    """The hidings by the first entry of their stretch."""
    starts = sorted(stretch.lo for stretch in answer.stretches)
    groups: defaultdict[int, list[Hiding]] = defaultdict(list)
    for hiding in answer.hidings:
        groups[starts[bisect(starts, hiding.seq) - 1]].append(hiding)
    return groups


def _walk(stretches: "list[Stretch]") -> "Iterator[tuple[int, bool, Stretch]]":
    """Each stretch, its depth, and whether a branch begins with it. Dead branches come first."""
    following: defaultdict[int, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        following[stretch.after].append(stretch)
    waiting = _in_order(following[0], 0)
    while waiting:  # a stack, because branches may be nested a thousand deep
        depth, is_branch, stretch = waiting.pop()
        yield depth, is_branch, stretch
        waiting += _in_order(following[stretch.hi], depth)


def _in_order(stretches: "list[Stretch]", depth: int) -> "list[tuple[int, bool, Stretch]]":
    """The stretches after an entry, for a stack: the last is drawn first, the main one last."""
    main = next(
        (stretch for stretch in stretches if stretch.live), stretches[-1] if stretches else None
    )
    others = [(depth + 1, True, stretch) for stretch in stretches if stretch is not main]
    return [(depth, False, main), *others[::-1]] if main else []


def _stretch(stretch: "Stretch") -> str:
    lo, hi, by = stretch.lo, stretch.hi, stretch.rewound_by
    seen = f", {stretch.visible:,} visible" if stretch.messages else ""
    fate = seen if stretch.live else ", not live" if by is None else f", taken back by {by}"
    return f"{ranges_in_words([[lo, hi]])}  {quantity(stretch.messages, 'message')}{fate}"


def _hiding(hiding: "Hiding", signs: Signs, *, live: bool) -> str:
    by = hiding.hidden_by
    hidden = f"; itself hidden by {by}" if by is not None and live else ""
    if hiding.uncovered_by is not None:
        hidden = f"; uncovered by {hiding.uncovered_by}"
    return f"{hiding.seq} {hiding.kind} {action(dict(hiding), signs.arrow)}{hidden}"


def _rewind(rewind: "Rewinding", signs: Signs) -> str:
    undoes, undone = rewind.undoes, rewind.undone_by
    what = "rewind" if undoes is None else f"takes back rewind {undoes}:"
    back = "" if undone is None else f", taken back by {undone}"
    return f"{signs.back} {rewind.seq} {what} from {rewind.came_from} to here{back}"
