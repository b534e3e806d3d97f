"""The shape of a session: what hides what, and the branches that rewinds make.

Entries that no rewind parts and at which none branches off are one stretch: they are live, or
taken back, together. What is live is the trunk; what was taken back hangs on it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from roocontext.cli import shapes
from roocontext.cli.histories import did
from roocontext.cli.showing import Screen
from roocontext.cli.wording import counted, named, one_line
from roocontext.log.entries import MESSAGE_KINDS, Control, Kind
from roocontext.log.spans import live_ranges, within

if TYPE_CHECKING:
    from roocontext import AuditEntry

_HIDING = frozenset({Kind.SUMMARY, Kind.MARKER, Kind.CLEARING})


class Shape:
    """Gathers what the tree needs while the audit streams by; no content is kept."""

    def __init__(self) -> None:
        self.last = 0
        self.messages = self.visible = 0
        self.hidings: list[shapes.Hiding] = []
        self._is_message: set[int] = set()
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
            if one.rewound_by is not None:
                self._rewound[one.seq] = one.rewound_by
            details = one.entry.details or {}
            if one.kind is Kind.REWIND:
                self._to[one.seq] = details["to"]
                if "undone" in details.get("record", {}):
                    self._undone[details["record"]["undone"]] = one.seq
            elif one.kind in _HIDING:
                self.hidings.append(_hiding(one, details))
        return self

    def rewinds(self) -> list[shapes.Rewinding]:
        """Every rewind."""
        return [
            {"seq": seq, "to": to, "undone_by": self._undone.get(seq)}
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


def draw(screen: Screen, answer: shapes.Tree) -> None:
    """The trunk from top to bottom, with the branches that were taken back before they part."""
    title = f"  {one_line(answer['title'])}" if answer["title"] else ""
    screen.line((named(answer["session_id"]), "title"), title)
    seen = f"{counted(answer['messages'], 'message')}, {answer['visible_messages']:,} seen"
    screen.line(f"{counted(answer['entries'], 'entry', 'entries')}, {seen}")
    for depth, stretch in _walk(answer["stretches"]):
        _stretch(screen, depth, stretch, answer["hidings"])
    for rewind in answer["rewinds"]:
        undone = rewind["undone_by"]
        back = "" if undone is None else f", taken back by {undone}"
        screen.line((f"rewind {rewind['seq']} to {rewind['to']}{back}", "note"))


def _walk(stretches: list[shapes.Stretch]) -> Iterator[tuple[int, shapes.Stretch]]:
    """Each stretch with how deep it hangs: first what was taken back, then what went on."""
    following: defaultdict[int, list[shapes.Stretch]] = defaultdict(list)
    for stretch in stretches:
        following[stretch["after"]].append(stretch)
    waiting = _in_order(following[0], 0)
    while waiting:
        depth, stretch = waiting.pop()
        yield depth, stretch
        waiting += _in_order(following[stretch["hi"]], depth)


def _in_order(these: list[shapes.Stretch], depth: int) -> list[tuple[int, shapes.Stretch]]:
    """What follows one entry, the main one first, because the last of a stack is taken first."""
    main = next((one for one in these if one["live"]), these[-1] if these else None)
    others = [(depth + 1, one) for one in these if one is not main]
    return [(depth, main), *others[::-1]] if main else []


def _stretch(
    screen: Screen, depth: int, stretch: shapes.Stretch, hidings: list[shapes.Hiding]
) -> None:
    indent = min(2 * depth, screen.width // 3)
    style = "" if stretch["live"] else "hidden"
    by = stretch["rewound_by"]
    fate = "live" if stretch["live"] else "not live" if by is None else f"taken back by {by}"
    name = f"{stretch['lo']}-{stretch['hi']}" if stretch["lo"] < stretch["hi"] else stretch["lo"]
    mark = "*" if stretch["live"] else "|"
    said = f"{mark} {name}  {counted(stretch['messages'], 'message')}, {fate}"
    screen.line((said, style), indent=indent)
    for hiding in hidings:
        if stretch["lo"] <= hiding["seq"] <= stretch["hi"]:
            _hider(screen, indent + 4, hiding, live=stretch["live"])


def _hider(screen: Screen, indent: int, hiding: shapes.Hiding, *, live: bool) -> None:
    by = hiding["hidden_by"]
    hidden = f", itself hidden by {by}" if by is not None and live else ""
    told = did(hiding, screen.signs.arrow)
    style = "acts" if live else "hidden"
    screen.line((f"{hiding['seq']} {hiding['kind']} {told}{hidden}", style), indent=indent)


def _hiding(found: "AuditEntry", details: dict[str, Any]) -> shapes.Hiding:
    return {
        "seq": found.seq,
        "kind": found.kind.value,
        "live": found.rewound_by is None,
        "hidden_by": found.hidden_by,
        "hides": details.get("hides", []),
        "clears": details.get("clears", []),
        "record": details.get("record", {}),
    }
