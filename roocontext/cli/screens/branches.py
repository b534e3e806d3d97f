"""The shape of a session: what hides what, and the branches that rewinds make.

Entries that no rewind parts and at which none branches off are one stretch: they are live, or
taken back, together. What is live is the trunk; what was taken back hangs on it.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from roocontext.cli.answers import shapes
from roocontext.cli.screens.histories import did
from roocontext.cli.screens.screen import Screen
from roocontext.cli.screens.wording import Signs, counted, headline, ranges
from roocontext.log.entries import MESSAGE_KINDS, Control, Kind
from roocontext.log.spans import live_ranges, within

if TYPE_CHECKING:
    from roocontext import AuditEntry

_HIDING = frozenset({Kind.SUMMARY, Kind.MARKER, Kind.CLEARING})

_FIRST, _LAST = 40, 160
"""How many lines are drawn of a long picture: where it began, and where it is now."""


class _Line(NamedTuple):
    """A line of the picture: what leads to it and on from it, what it says, and in which style."""

    start: str
    below: str
    said: str
    style: str


class Shape:
    """Gathers what the tree needs while the audit streams by; no content is kept."""

    def __init__(self) -> None:
        self.last = 0
        self.messages = self.visible = 0
        self.hidings: list[shapes.Hiding] = []
        self._is_message: set[int] = set()
        self._is_visible: set[int] = set()
        self._held: Counter[int] = Counter()
        self._rewound: dict[int, int] = {}
        self._to: dict[int, int] = {}
        self._undone: dict[int, int] = {}

    def take(self, found: Iterable["AuditEntry"]) -> "Shape":
        """Learn from the entries."""
        for one in found:
            self.last = one.seq
            if one.kind in MESSAGE_KINDS:
                self.messages += 1
                self.visible += one.visible
                self._is_message.add(one.seq)
                if one.visible:
                    self._is_visible.add(one.seq)
                self._held.update(
                    by for by in (one.condense_parent, one.truncation_parent) if by is not None
                )
            if one.rewound_by is not None:
                self._rewound[one.seq] = one.rewound_by
            details = one.entry.details or {}
            if one.kind is Kind.REWIND:
                self._to[one.seq] = details["to"]
                if "undone" in details.get("record", {}):
                    self._undone[details["record"]["undone"]] = one.seq
            elif one.kind in _HIDING:
                self.hidings.append(_hiding(one, details))
        for hiding in self.hidings:
            hiding["messages"] = self._held[hiding["seq"]]
        return self

    def rewinds(self) -> list[shapes.Rewinding]:
        """Every rewind."""
        undoes = {undo: seq for seq, undo in self._undone.items()}
        return [
            {
                "seq": seq,
                "to": to,
                "came_from": self._tip(seq - 1),
                "reached": self._tip(to),
                "undoes": undoes.get(seq),
                "undone_by": self._undone.get(seq),
            }
            for seq, to in self._to.items()
        ]

    def stretches(self) -> list[shapes.Stretch]:
        """The stretches, in the order of the log."""
        controls = [Control(seq, Kind.REWIND, to=to) for seq, to in self._to.items()]
        live = live_ranges(controls, self.last)
        return [
            {
                "lo": lo,
                "hi": hi,
                "after": self._tip(lo - 1),
                "messages": sum(seq in self._is_message for seq in range(lo, hi + 1)),
                "visible": sum(seq in self._is_visible for seq in range(lo, hi + 1)),
                "live": within(live, lo),
                "rewound_by": next(
                    (self._rewound[seq] for seq in range(lo, hi + 1) if seq in self._rewound), None
                ),
            }
            for lo, hi in self._parted()
        ]

    def _parted(self) -> Iterator[tuple[int, int]]:
        """The entries between rewinds, parted where another branch leaves them."""
        ends = {self._tip(to) for to in self._to.values()} | {self.last}
        start = 1
        for seq in range(1, self.last + 1):
            if seq in self._to:
                if start < seq:
                    yield start, seq - 1
                start = seq + 1
            elif seq in ends:
                yield start, seq
                start = seq + 1

    def _tip(self, seq: int) -> int:
        """The entry that is last in the live path of another: a rewind stands for its target."""
        while seq in self._to:
            seq = self._to[seq]
        return seq


def draw(screen: Screen, answer: shapes.Tree, *, full: bool) -> None:
    """The trunk from top to bottom, with the branches that were taken back where they part."""
    screen.line(*headline(answer["session_id"], answer["title"], screen.signs.more))
    seen = f"{counted(answer['messages'], 'message')}, {answer['visible_messages']:,} seen"
    screen.line(f"{counted(answer['entries'], 'entry', 'entries')}, {seen}")
    if answer["rewinds"]:
        live, dead, back = screen.signs.live, screen.signs.dead, screen.signs.back
        legend = f"{live} live   {dead} taken back   {back} a rewind that went to here"
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
    widest = screen.width // 2  # of a deep branch its end: what is said must stay on the screen
    for line in lines:
        start, below = line.start[-widest:], line.below[-widest:]
        screen.hanging((start, line.style), below, (line.said, line.style))


def _lines(answer: shapes.Tree, signs: Signs) -> Iterator["_Line"]:
    """The stretches, each with what hides in it, and the rewinds where they went."""
    hidings, reached = _by_stretch(answer), defaultdict(list)
    for rewind in answer["rewinds"]:
        reached[rewind["reached"]].append(rewind)
    stem = f"{signs.stem} "
    for rewind in reached[0]:
        yield _Line(stem, stem, _rewind(rewind, signs), "note")
    for depth, is_branch, stretch in _walk(answer["stretches"]):
        live, trunk = stretch["live"], stem * (depth + 1)
        start = stem * (depth - 1) + signs.branch if is_branch else stem * depth
        mark = signs.live if live else signs.dead
        yield _Line(f"{start}{mark} ", trunk, _stretch(stretch), "" if live else "hidden")
        style = "acts" if live else "hidden"
        for hiding in hidings[stretch["lo"]]:
            told = _hiding_said(hiding, signs, live=live)
            yield _Line(f"{trunk}  ", f"{trunk}    ", told, style)
        for rewind in reached[stretch["hi"]]:
            yield _Line(trunk, f"{trunk}  ", _rewind(rewind, signs), "note")


def _by_stretch(answer: shapes.Tree) -> defaultdict[int, list[shapes.Hiding]]:
    """What hides, by the first entry of the stretch that it stands in."""
    starts = sorted(one["lo"] for one in answer["stretches"])
    found: defaultdict[int, list[shapes.Hiding]] = defaultdict(list)
    for hiding in answer["hidings"]:
        found[starts[bisect(starts, hiding["seq"]) - 1]].append(hiding)
    return found


def _walk(stretches: list[shapes.Stretch]) -> Iterator[tuple[int, bool, shapes.Stretch]]:
    """Each stretch, how deep it hangs, and whether a branch begins with it.

    First comes what was taken back, then what went on.
    """
    following: defaultdict[int, list[shapes.Stretch]] = defaultdict(list)
    for stretch in stretches:
        following[stretch["after"]].append(stretch)
    waiting = _in_order(following[0], 0)
    while waiting:
        depth, is_branch, stretch = waiting.pop()
        yield depth, is_branch, stretch
        waiting += _in_order(following[stretch["hi"]], depth)


def _in_order(these: list[shapes.Stretch], depth: int) -> list[tuple[int, bool, shapes.Stretch]]:
    """What follows one entry, the main one first, because the last of a stack is taken first."""
    main = next((one for one in these if one["live"]), these[-1] if these else None)
    others = [(depth + 1, True, one) for one in these if one is not main]
    return [(depth, False, main), *others[::-1]] if main else []


def _stretch(stretch: shapes.Stretch) -> str:
    lo, hi, by = stretch["lo"], stretch["hi"], stretch["rewound_by"]
    seen = f", {stretch['visible']:,} seen" if stretch["messages"] else ""
    fate = seen if stretch["live"] else ", not live" if by is None else f", taken back by {by}"
    return f"{ranges([[lo, hi]])}  {counted(stretch['messages'], 'message')}{fate}"


def _hiding_said(hiding: shapes.Hiding, signs: Signs, *, live: bool) -> str:
    by = hiding["hidden_by"]
    hidden = f"; itself hidden by {by}" if by is not None and live else ""
    return f"{hiding['seq']} {hiding['kind']} {did(hiding, signs.arrow)}{hidden}"


def _rewind(rewind: shapes.Rewinding, signs: Signs) -> str:
    undoes, undone = rewind["undoes"], rewind["undone_by"]
    what = "rewind" if undoes is None else f"takes back rewind {undoes}:"
    back = "" if undone is None else f", taken back by {undone}"
    return f"{signs.back} {rewind['seq']} {what} from {rewind['came_from']} to here{back}"


def _hiding(found: "AuditEntry", details: dict[str, Any]) -> shapes.Hiding:
    return {
        "seq": found.seq,
        "kind": found.kind.value,
        "live": found.rewound_by is None,
        "hidden_by": found.hidden_by,
        "hides": details.get("hides", []),
        "clears": details.get("clears", []),
        "messages": 0,
        "record": details.get("record", {}),
    }
