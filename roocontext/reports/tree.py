"""The tree of a session: which entries hide which, and the branches that rewinds make.

A stretch is a run of entries without a rewind. A branch can begin only at its last entry, so all of
its entries are live, or all were taken back. A tree is made from an outline, so no content is read.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roocontext.log.draft import UNCOVERED
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import live_ranges, within
from roocontext.reports.document import Document

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.store.sessions.sessions import Outline


class Stretch(Document):
    """Consecutive entries, and the entry that they follow.

    The model sees `visible` of the messages. Entries that are not live were taken back by
    `rewound_by`.
    """

    lo: int
    hi: int
    after: int
    messages: int
    visible: int
    live: bool
    rewound_by: int | None


class Hiding(Document):
    """A summary, marker, covering or clearing.

    `hides` are the ranges of seq that it replaces, `clears` pairs of a seq and a block. `hidden_by`
    is the entry that hides it, `uncovered_by` the entry that uncovered the messages or outputs
    again. `messages` is the number of messages that it keeps out of the view now.
    """

    seq: int
    kind: str
    live: bool
    hidden_by: int | None
    uncovered_by: int | None
    hides: list[list[int]]
    clears: list[list[int]]
    messages: int
    record: Any


class Rewinding(Document):
    """A rewind: its start and end, the rewind that it took back, and the one that took it back.

    `came_from` and `reached` are the last live entries before and after it. A rewind to another
    rewind goes to the same place as that rewind.
    """

    seq: int
    to: int
    came_from: int
    reached: int
    undoes: int | None
    undone_by: int | None


class Tree(Document):
    """The tree of a session: its hidden entries, and the branches that rewinds made."""

    session_id: str
    title: str | None
    entries: int
    messages: int
    visible_messages: int
    stretches: list[Stretch]
    hidings: list[Hiding]
    rewinds: list[Rewinding]


def tree_of(chat: "Session") -> Tree:
    """The tree of a session."""
    outline = chat.internals.outline()
    rewinds = {row.seq: row.details for row in outline.controls if row.kind is Kind.REWIND}
    went = {seq: details["to"] for seq, details in rewinds.items()}
    bounds = stretches_of(went, outline.info.last_seq)
    return Tree.of(
        outline.info,
        entries=outline.info.last_seq,
        visible_messages=sum(part.messages for part in outline.parts if part.span.visible),
        stretches=_sized(bounds, outline),
        hidings=_hidings(outline),
        rewinds=rewinds_of(rewinds),
    )


def controls_of(outline: "Outline") -> list[Control]:
    """The control rows of an outline, as `log` computes with them."""
    return [
        Control(
            row.seq,
            row.kind,
            to=row.details.get("to"),
            uncovers=tuple(row.details.get("uncovers", ())),
        )
        for row in outline.controls
    ]


@dataclass(frozen=True, slots=True)
class StretchBounds:
    """The first and last entry of a stretch, the entry that it follows, and whether it is live."""

    lo: int
    hi: int
    after: int
    live: bool


def stretches_of(rewinds: Mapping[int, int], last: int) -> list[StretchBounds]:
    """The stretches of a log with these rewinds, in the order of the log."""
    live = live_ranges([Control(seq, Kind.REWIND, to=to) for seq, to in rewinds.items()], last)
    branches = {tip(rewinds, to) for to in rewinds.values()}
    bounds, lo = [], 1
    # A stretch ends before each rewind, and at each entry that a rewind goes back to.
    for end in sorted({*rewinds, *(seq - 1 for seq in rewinds), *branches, last}):
        if lo <= end and end not in rewinds:
            bounds.append(StretchBounds(lo, end, tip(rewinds, lo - 1), live=within(live, lo)))
        lo = end + 1
    return bounds


def rewinds_of(rewinds: Mapping[int, Mapping[str, Any]]) -> list[Rewinding]:
    """The rewinds, given the details of each."""
    to = {seq: details["to"] for seq, details in rewinds.items()}
    undoes = {seq: details.get("record", {}).get("undone") for seq, details in rewinds.items()}
    undone = {rewind: seq for seq, rewind in undoes.items()}
    return [
        Rewinding(
            seq=seq,
            to=target,
            came_from=tip(to, seq - 1),
            reached=tip(to, target),
            undoes=undoes[seq],
            undone_by=undone.get(seq),
        )
        for seq, target in to.items()
    ]


def tip(rewinds: Mapping[int, int], seq: int) -> int:
    """The last live entry right after an entry: after a rewind, the one that it goes to."""
    while seq in rewinds:
        seq = rewinds[seq]
    return seq


def _sized(bounds: Sequence[StretchBounds], outline: "Outline") -> list[Stretch]:
    """The stretches with their messages. Each part of the outline lies within one stretch."""
    others = [row.seq for row in outline.controls if row.kind is not Kind.REWIND]
    parts, stretches = deque(outline.parts), []
    for bound in bounds:
        inside = []
        while parts and parts[0].span.hi <= bound.hi:
            inside.append(parts.popleft())
        # Notes are never rewound, so no entry takes back a stretch that has only notes.
        rewinding = (
            part.span.rewound_by
            for part in inside
            if part.messages or any(part.span.lo <= seq <= part.span.hi for seq in others)
        )
        stretch = Stretch.of(
            bound,
            messages=sum(part.messages for part in inside),
            visible=sum(part.messages for part in inside if part.span.visible),
            rewound_by=next(rewinding, None),
        )
        stretches.append(stretch)
    return stretches


def _hidings(outline: "Outline") -> list[Hiding]:
    """The summaries, markers and clearings, in the order of the log."""
    starts = [part.span.lo for part in outline.parts]
    kept_out: Counter[int | None] = Counter()
    for part in outline.parts:
        kept_out[part.span.condense_parent] += part.messages
        kept_out[part.span.truncation_parent] += part.messages
    hidings = []
    for row in outline.controls:
        if row.kind not in UNCOVERED:
            continue
        # A covering is hidden where its reply is.
        source, _ = row.details.get("source", (row.seq, None))
        span, shown = (
            outline.parts[bisect_right(starts, seq) - 1].span for seq in (row.seq, source)
        )
        hidden_by = span.rewound_by or span.uncovered_by
        if row.kind is not Kind.CLEARING:
            hidden_by = hidden_by or shown.condense_parent or shown.truncation_parent
        hiding = Hiding.of(
            row,
            live=span.rewound_by is None,
            hidden_by=hidden_by,
            uncovered_by=span.uncovered_by,
            hides=row.details.get("hides", []),
            clears=row.details.get("clears", []),
            messages=kept_out[row.seq],
            record=row.details.get("record", {}),
        )
        hidings.append(hiding)
    return hidings
