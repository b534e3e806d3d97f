"""The timeline of a session as one picture: what the model sees, what is hidden, and side branches.

It is drawn from the control rows, so it takes no longer to draw for a long session. A session with
more rows than a picture has room for is drawn with the largest stretches and the newest marks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roocontext.log.entries import Control, Kind
from roocontext.log.spans import Span
from roocontext.reports.markup.body import Links
from roocontext.reports.markup.elements import Child, Html, link_to, tag
from roocontext.reports.naming import ranges_in_words
from roocontext.reports.tree import StretchBounds, stretches_of

_WIDTH, _LANE, _LANES, _TOP = 1000, 13, 4, 12
_SIGNS: Final = {
    Kind.SUMMARY: "M{x} {y}l-5 -8h10z",
    Kind.MARKER: "M{x} {y}l-5 -8h10z",
    Kind.COVERING: "M{x} {y}l-5 -8h10z",
    Kind.CLEARING: "M{x} {y}m-3 -7h6v6h-6z",
    Kind.REWIND: "M{x} {y}m-4 -4l8 -4v8z",
    Kind.UNCOVERING: "M{x} {y}l5 -8h-10z",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The data of a timeline, up to entry `last`."""

    last: int
    spans: Sequence[Span]
    controls: Sequence[Control]

    def picture(self, links: Links, most: int) -> Html:
        """The picture, of at most so many marks, each a link."""
        acting = [control for control in self.controls if control.kind in _SIGNS]
        went = {control.seq: control.to for control in self.controls if control.to is not None}
        stretches = sorted(stretches_of(went, self.last), key=lambda s: s.hi - s.lo, reverse=True)[
            : most // 4
        ]
        parts = sorted(self._parts(), key=lambda part: part[1] - part[0], reverse=True)
        rewound = sorted(stretch.lo for stretch in stretches if not stretch.live)
        lanes = {lo: 1 + number % (_LANES - 1) for number, lo in enumerate(rewound)}
        drawn: list[Child] = [
            self._branch(stretch, lanes, links) for stretch in stretches if not stretch.live
        ]
        left = most - len(drawn)
        drawn += [self._part(part, links) for part in parts[: left // 2]]
        drawn += [
            self._mark(control, links) for control in acting[-(left - min(len(parts), left // 2)) :]
        ]
        height = _TOP + _LANE * (max(lanes.values(), default=0) + 1)
        name = f"Timeline of {self.last:,} entries"
        return tag("svg", drawn, viewBox=f"0 0 {_WIDTH} {height}", role="group", aria_label=name)

    def _x(self, seq: float) -> float:
        return round(4 + (_WIDTH - 8) * seq / max(self.last, 1), 1)

    def _parts(self) -> list[tuple[int, int, bool]]:
        """The live spans: first, last, and whether the model sees them; neighbours joined."""
        parts: list[tuple[int, int, bool]] = []
        for span in self.spans:
            hi = min(span.hi, self.last)
            if span.rewound_by or span.lo > hi:
                continue
            if parts and parts[-1][2] == span.visible and parts[-1][1] == span.lo - 1:
                parts[-1] = (parts[-1][0], hi, span.visible)
            else:
                parts.append((span.lo, hi, span.visible))
        return parts

    def _part(self, part: tuple[int, int, bool], links: Links) -> Html:
        lo, hi, is_seen = part
        name = (
            f"Entries {ranges_in_words([(lo, hi)])}: {'seen by the model' if is_seen else 'hidden'}"
        )
        line = tag(
            "line",
            x1=self._x(lo - 1),
            x2=self._x(hi),
            y1=_TOP,
            y2=_TOP,
            class_="seen" if is_seen else "unseen",
        )
        return link_to(line, links.entry(lo), aria_label=name)

    def _branch(self, stretch: StretchBounds, lanes: Mapping[int, int], links: Links) -> Html:
        y = _TOP + _LANE * lanes[stretch.lo]
        start, lo, hi = self._x(stretch.after), self._x(stretch.lo - 1), self._x(stretch.hi)
        which = ranges_in_words([(stretch.lo, stretch.hi)])
        name = f"Entries {which}: a branch after entry {stretch.after}, taken back"
        return tag(
            "a",
            tag("path", d=f"M{start} {_TOP}L{start} {y}L{lo} {y}", class_="thin"),
            tag("line", x1=lo, x2=hi, y1=y, y2=y, class_="left"),
            href=links.entry(stretch.lo),
            aria_label=name,
        )

    def _mark(self, control: Control, links: Links) -> Html:
        sign = _SIGNS[control.kind].format(x=self._x(control.seq - 0.5), y=_TOP - 2)
        return link_to(
            tag("path", d=sign, class_=control.kind.value),
            links.entry(control.seq),
            aria_label=f"{control.kind} {control.seq}",
        )


def what_it_did(control: Control) -> str:
    """The action of a control row in words."""
    if control.to is not None:
        return f"back to entry {control.to}" if control.to else "back to the start"
    what, seqs = "took back", control.uncovers
    if control.hides:
        return f"hides {ranges_in_words(control.hides, 6)}"
    if control.clears:
        what, seqs = "clears outputs of", tuple(sorted({seq for seq, _ in control.clears}))
    return f"{what} {ranges_in_words([(seq, seq) for seq in seqs], 6)}" if seqs else ""
