"""The expected state of a session after some operations, computed naively from the fold alone.

A `Model` is built from what was asked of a session and what the receipts said, never from what the
store keeps. It is slow, and holds no decision of its own that the fold or the design does not make.
"""

import json
from collections.abc import Sequence
from copy import copy
from typing import Any

from roocontext.errors import InvalidPlan, RooContextError, VersionConflict
from roocontext.log import fold
from roocontext.log.entries import BlockRef, Control, Kind, Range, natural_position, ranges_of
from roocontext.log.fold import FoldRow, Tags
from roocontext.log.pairs import bound, links_of, pairs
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import calls, reader, results
from roocontext.log.spans import within
from support.separated import split


class Model:
    """One session: its log as the fold sees it, and what was said."""

    def __init__(self, parent: str | None = None) -> None:
        self.parent = parent
        self.rows: list[FoldRow] = []
        self.keys: list[object] = []
        """Who each entry is: a fork's copies are the same ones."""
        self.said: dict[int, tuple[str, Any]] = {}
        self.sizes: dict[int, int] = {}
        self.plans: list[tuple[int, ...]] = []
        """The rows of each plan that hid something, the summary or marker first."""
        self.pins: list[tuple[int, int, bool]] = []
        """The seq of each note about a pin, its target, and whether it pins."""
        self.redacted: set[int] = set()
        self.redactions: list[tuple[int, int]] = []
        """The seq of each redaction's note, and its target."""
        self.answers: dict[int, BlockRef] = {}
        """The call that a row names as the one it answers."""
        self.asked: dict[int, int] = {}
        """The last entry that the request for a reply had read."""
        self.begun: dict[BlockRef, int] = {}
        """The note that says that a call was begun."""
        self.replies: dict[int, int] = {}
        """The number of a recorded reply."""
        self.extras: dict[int, Any] = {}
        """What the agent and the store keep with a message."""
        self.used: dict[int, tuple[str, Any]] = {}
        """The model and the usage that were reported with a message."""
        self.titles: list[tuple[int, str]] = []
        self.metadata: list[tuple[int, Any]] = []
        """The seq of each note of a title, and of metadata, and what it says."""
        self.ts: dict[int, int] = {}
        """The agent's own times: negative ones too, and in any order."""
        self.origin = 0
        """The note of a fork's origin."""
        self._folded: tuple[int, Any] | None = None

    def copy(self) -> "Model":
        """The same session, on which something may be tried."""
        made = Model()
        vars(made).update({name: copy(value) for name, value in vars(self).items()})
        return made

    @property
    def last_seq(self) -> int:
        return len(self.rows)

    @property
    def head_seq(self) -> int:
        return max((row.seq for row in self.rows if row.kind is not Kind.NOTE), default=0)

    # What was done

    def add(
        self, kind: Kind, control: Control | None = None, message: tuple[str, Any] | None = None
    ) -> int:
        seq = len(self.rows) + 1
        self.rows.append(FoldRow(seq, kind, control))
        self.keys.append(object())
        if message is not None:
            self.said[seq] = message
            self.sizes[seq] = len(json.dumps(message[1], separators=(",", ":")))
        return seq

    def commit(self, plan: Plan) -> list[int]:
        """The entries of a plan that is not refused."""
        first = len(self.rows) + 1
        if plan.action is Action.CLEAR:
            control = Control(
                *(first, Kind.CLEARING),
                clears=tuple(sorted(plan.clears)),
                keeps=tuple(sorted(plan.keeps)),
                placeholder=plan.placeholder,
            )
            return [self.add(Kind.CLEARING, control)]
        places = self.places(plan)
        assert places is not None
        kinds = [plan.hider, *[Kind.COMPANION] * (len(plan.rows) - 1)]
        for index, (kind, place, row) in enumerate(zip(kinds, places, plan.rows, strict=True)):
            hides = plan.hides if index == 0 else ()
            control = Control(first + index, kind, hides=hides, position=place)
            self.add(kind, control, (row.role, row.content))
        self.plans.append(tuple(range(first, first + len(plan.rows))))
        return list(self.plans[-1])

    def cover(self, source: int, read: int) -> int | None:
        """The covering of a reply whose request had read up to an entry; None if there is none."""
        later = [row for row in self.rows if row.seq > read]
        if any(row.kind in (Kind.REWIND, Kind.UNCOVERING) for row in later):
            return None
        known = set(range(1, read + 1))
        for row in later:
            control = row.control
            if control and control.hides and control.source is None:
                hidden = {seq for seq in self.said if within(control.hides, seq)}
                known |= {row.seq, *self.companions(row.seq)} if hidden <= known else set()
        hides = known & set(self.effective())
        if not hides:
            return None
        ranges, seq = ranges_of(sorted(hides)), len(self.rows) + 1
        return self.add(
            Kind.COVERING, Control(seq, Kind.COVERING, hides=ranges, source=(source, 0))
        )

    def rewind(self, to: int) -> int:
        return self.add(Kind.REWIND, Control(len(self.rows) + 1, Kind.REWIND, to=to))

    def uncover(self, target: int) -> int:
        rows = (target, *self.companions(target))
        uncovering = Control(len(self.rows) + 1, Kind.UNCOVERING, uncovers=rows)
        return self.add(Kind.UNCOVERING, uncovering)

    def set_title(self, title: str) -> int:
        self.titles.append((self.add(Kind.NOTE), title))
        return self.last_seq

    def set_metadata(self, metadata: Any) -> int:
        self.metadata.append((self.add(Kind.NOTE), metadata))
        return self.last_seq

    def redact(self, target: int) -> None:
        """A redaction; the first one of a message leaves only its skeleton."""
        self.redactions.append((self.add(Kind.NOTE), target))
        self.redacted.add(target)
        self.extras.pop(target, None)
        role, content = self.said[target]
        self.said[target] = (role, reader("anthropic").skeleton(content))

    def fork(self, at: int) -> "Model":
        """A copy up to an entry, with its own note of origin and the later redactions."""
        made = Model()
        made.rows, made.keys = self.rows[:at], self.keys[:at]
        for name in ("said", "sizes", "answers", "replies", "asked", "used", "extras", "ts"):
            facts = getattr(self, name)
            setattr(made, name, {seq: told for seq, told in facts.items() if seq <= at})
        for name in ("titles", "metadata", "pins", "redactions"):
            setattr(made, name, [told for told in getattr(self, name) if told[0] <= at])
        made.begun = {call: note for call, note in self.begun.items() if note <= at}
        made.plans = [tuple(seq for seq in rows if seq <= at) for rows in self.plans]
        made.redacted = {seq for seq in self.redacted if seq <= at}
        made.origin = made.add(Kind.NOTE)
        for _, target in [told for told in self.redactions if told[0] > at >= told[1]]:
            made.redactions.append((made.add(Kind.NOTE), target))
        return made

    def pin_anyway(self, target: int, *, pinned: bool) -> None:
        """A pin of a batch, which is written whether it changes anything or not."""
        self.pins.append((self.add(Kind.NOTE), target, pinned))

    def pin(self, target: int, *, pinned: bool) -> None:
        """A pin, or its end; what is so already is not written."""
        if (target in self.pinned) is not pinned:
            self.pins.append((self.add(Kind.NOTE), target, pinned))

    @property
    def pinned(self) -> set[int]:
        """The pinned messages: of the notes about a message the newest counts."""
        told = {target: pinned for _, target, pinned in self.pins}
        return {target for target, pinned in told.items() if pinned}

    # What should follow

    def shown(self) -> tuple[str | None, Any]:
        """The title and the metadata: the newest note of each counts, rewound or not."""
        title, metadata = (told[-1][1] if told else None for told in (self.titles, self.metadata))
        return title, metadata

    def point(self, when: int, recorded: Sequence[int]) -> int:
        """The seq right before the first fold entry that happened later."""
        later = (
            row.seq
            for row in self.rows
            if row.kind is not Kind.NOTE and self.happened(row.seq, recorded) > when
        )
        return next(later, self.last_seq + 1) - 1

    def place(self, when: int, recorded: Sequence[int]) -> int | None:
        """Where a rewind to a time goes; None if no standing message is as early."""
        folded = sorted(self.standing())
        later = (seq for seq in folded if self.happened(seq, recorded) > when)
        end = next(later, self.last_seq + 1)
        return end - 1 if any(seq in self.said for seq in folded if seq < end) else None

    def latest(self, recorded: Sequence[int], created_at: int) -> int:
        """When the session happened: a fork's own time begins with it."""
        begun = [self.happened(self.origin, recorded)] if self.origin else []
        said = [
            self.happened(row.seq, recorded)
            for row in self.rows
            if row.kind is Kind.MESSAGE and row.seq > self.origin
        ]
        return max([*begun, *said], default=created_at)

    def happened(self, seq: int, recorded: Sequence[int]) -> int:
        """The agent's own time of an entry, or else when it was recorded."""
        return self.ts.get(seq, recorded[seq - 1])

    def usage(self) -> list[tuple[int, Any, bool]]:
        """The usage reported for replies since the fork, and the summaries since: nothing."""
        summaries = {row.seq: (None, None) for row in self.rows if row.kind is Kind.SUMMARY}
        paid = {**self.used, **summaries}
        return [
            (seq, told, seq in summaries) for seq, told in sorted(paid.items()) if seq > self.origin
        ]

    def live(self, seq: int | None = None) -> frozenset[int]:
        """The live entries right after an entry; notes and rewinds are never live."""
        return fold.live_sets(self.rows)[self.last_seq if seq is None else seq]

    def standing(self) -> frozenset[int]:
        """The live entries that no uncovering took back."""
        return fold.standing(self.rows)

    def uncovered(self) -> dict[int, int]:
        """The entries that an uncovering took back, and its seq."""
        return fold.cancelled(self.rows)

    def never_written(self, seq: int | None = None) -> list[FoldRow]:
        """The log as if what is uncovered now had never been written, nor the uncoverings."""
        log = self.rows[:seq]
        gone = fold.cancelled(log)
        without = {*gone, *gone.values()}
        return [FoldRow(row.seq, Kind.NOTE) if row.seq in without else row for row in log]

    def companions(self, target: int) -> list[int]:
        """The rows of the same plan that count now."""
        plan = next((rows for rows in self.plans if target in rows), ())
        return [seq for seq in plan if seq != target and seq in self.standing()]

    def may_uncover(self, target: int) -> bool:
        """True if uncovering an entry, which was not done before, is not refused."""
        tags = self.tags().get(target, Tags())
        row = self.rows[target - 1]
        takes = row.kind in (Kind.SUMMARY, Kind.MARKER, Kind.COVERING, Kind.CLEARING)
        if row.control and row.control.source:  # it is hidden where its compaction is
            tags = tags if tags != Tags() else self.tags().get(row.control.source[0], Tags())
        return takes and tags == Tags() and target in self.standing()

    def tags(self) -> dict[int, Tags]:
        """The tags of all entries that can have any."""
        return self._now()[0]

    def effective(self, seq: int | None = None) -> list[int]:
        return self._now()[1] if seq is None else fold.effective(self.rows[:seq])

    def cleared(self, seq: int | None = None) -> dict[tuple[int, int], int]:
        """The cleared blocks, and the clearing of each."""
        return self._now()[2] if seq is None else fold.cleared(self.rows[:seq])

    def view(self, seq: int | None = None) -> list[tuple[int, str, Any]]:
        """The view: seq, role and content of each message, with placeholders."""
        cleared: dict[int, dict[int, int]] = {}
        for (row, block), clearing in self.cleared(seq).items():
            cleared.setdefault(row, {})[block] = clearing
        return [
            (row, self.said[row][0], self._shown(row, cleared.get(row, {})))
            for row in self.effective(seq)
        ]

    def stats(self) -> tuple[int, ...]:
        """Messages and bytes: all, visible, hidden, rewound."""
        tags = self.tags()
        rewound = {seq for seq in self.said if tags[seq].rewound_by is not None}
        visible = {seq for seq in self.said if tags[seq] == Tags()}
        groups = (set(self.said), visible, set(self.said) - rewound - visible, rewound)
        return tuple(
            total for group in groups for total in (len(group), sum(map(self.sizes.get, group)))
        )

    def judge(self, plan: Plan) -> type[RooContextError] | None:
        """The error that a plan should be refused with, if it should be."""
        if not plan.compat and (plan.counts is None or not plan.counts.shrinks):
            return InvalidPlan
        later = [row for row in self.rows if row.seq > plan.head_seq]
        if plan.head_seq > self.head_seq or any(row.control for row in later):
            return VersionConflict
        fits = self._may_clear(plan) if plan.action is Action.CLEAR else self._may_hide(plan)
        return None if fits else InvalidPlan

    def places(self, plan: Plan) -> list[int] | None:
        """The positions of a plan's rows; None when no gap is left."""
        first, count = len(self.rows) + 1, len(plan.rows)
        standing = self.path() - self.uncovered().keys()
        stands = {row.seq: row.position for row in self.rows if row.seq in standing}
        hidden = self.hidden_by(plan)
        last = max(stands[s] for s in stands if s in hidden or (plan.at_end and s <= plan.head_seq))
        after = [position for position in stands.values() if position > last]
        if not after:
            return [natural_position(first + index) for index in range(count)]
        gap = min(after) - last
        return (
            None if gap <= count else [last + gap * n // (count + 1) for n in range(1, count + 1)]
        )

    def path(self) -> frozenset[int]:
        """The live entries, and the notes that were written on the way there."""
        paths: list[frozenset[int]] = [frozenset()]
        for row in self.rows:
            back = row.control.to if row.control else None
            paths.append(paths[-1] | {row.seq} if back is None else paths[back])
        return paths[-1]

    def hidden_by(self, plan: Plan) -> set[int]:
        """The standing messages that a plan's ranges stand for."""
        standing = self.standing()
        return {seq for seq in _seqs(plan.hides) if seq in standing and seq in self.said}

    def readings(self) -> tuple[list[int], list[Any]]:
        seqs = self.effective()
        return seqs, [reader("anthropic").blocks(*self.said[seq]) for seq in seqs]

    def links(self, seqs: Sequence[int]) -> Any:
        """The rows that name the call that they answer."""
        return links_of((seq, self.answers.get(seq)) for seq in seqs)

    def spoken(self) -> tuple[list[int], list[Any]]:
        """All live messages that no plan wrote, in the order of the log, as their reader shows."""
        live = self.live()
        seqs = [
            row.seq
            for row in self.rows
            if row.kind is Kind.MESSAGE
            and row.seq in live
            and not _only_compacts(self.said[row.seq])
        ]
        return seqs, [reader("anthropic").blocks(*self.said[seq]) for seq in seqs]

    def answer_to(self, call: BlockRef) -> int | None:
        """The live row that answers a live call; first one that names it."""
        seqs, readings = self.spoken()
        for seq, reading in zip(seqs, readings, strict=True):
            if self.answers.get(seq) == call and len(results(reading[1])) == 1:
                return seq
        found = {pair.call: seqs[pair.result[0]] for pair in pairs(readings, self.links(seqs))}
        return next((row for place, row in found.items() if self._named(place) == call), None)

    def calls(self) -> list[BlockRef]:
        """Every live call: its entry, and its number there."""
        seqs, readings = self.spoken()
        return [
            (seq, number)
            for seq, (role, blocks) in zip(seqs, readings, strict=True)
            if role == "assistant"
            for number, _ in enumerate(calls(blocks))
        ]

    def waits_for(self) -> tuple[str, list[BlockRef]]:
        """Whose turn it is, and the calls that wait."""
        seqs, readings = self.spoken()
        who = [
            role if role == "assistant" or len(results(blocks)) < len(blocks) else "tool"
            for role, blocks in readings
        ]
        replies = [index for index, speaker in enumerate(who) if speaker == "assistant"]
        last = replies[-1] if replies else -1
        if "user" in who[last + 1 :]:
            return "model", []
        first = last
        while first > 0 and who[first - 1] == "assistant":
            first -= 1
        run = seqs[max(first, 0) : last + 1]
        waiting = [call for call in self.calls() if call[0] in run and not self.answer_to(call)]
        if waiting:
            return "tools", waiting
        before = [seq for seq, speaker in zip(seqs, who, strict=True) if speaker != "assistant"]
        asked = self.asked.get(seqs[last]) if replies else None
        unread = asked is not None and any(asked < seq < seqs[last] for seq in before)
        return "model" if who[last + 1 :] or unread else "user", []

    def _named(self, place: tuple[int, int]) -> BlockRef:
        seqs, readings = self.spoken()
        index, block = place
        return seqs[index], [at for at, _ in calls(readings[index][1])].index(block)

    def bound_by_pins(self) -> set[int]:
        seqs, readings = self.readings()
        found = bound(pairs(readings, self.links(seqs)))
        others = {
            seqs[other]
            for index, seq in enumerate(seqs)
            if seq in self.pinned
            for other in found.get(index, ())
        }
        return self.pinned | others

    def _may_hide(self, plan: Plan) -> bool:
        tags, hidden = self.tags(), self.hidden_by(plan)
        own = "condense_parent" if plan.action is Action.CONDENSE else "truncation_parent"
        if any(end not in hidden for stretch in plan.hides for end in stretch):
            return False
        if any(getattr(tags[seq], own) is not None for seq in hidden):
            return False
        if hidden & self.bound_by_pins():
            return False
        later = {target for note, target in self.redactions if note > (plan.seen or note)}
        if any(lo <= target <= hi for lo, hi in plan.hides for target in later):
            return False
        if not plan.compat:
            seqs, readings = self.readings()
            away = {index for index, seq in enumerate(seqs) if seq in hidden}
            if len(away) < len(hidden) or split(readings, away, self.links(seqs)):
                return False
        return self.places(plan) is not None

    def _may_clear(self, plan: Plan) -> bool:
        standing, seen, bound = self.standing(), set(self.effective()), self.bound_by_pins()
        return all(
            seq in standing
            and (plan.compat or seq in seen)
            and seq not in bound
            and seq in self.said
            and block in reader("anthropic").outputs(self.said[seq][1])
            and (kept := _kept(plan, (seq, block))) < len(self.said[seq][1][block]["content"])
            and ((seq, block) not in self.cleared() or kept < self._stays((seq, block)))
            for seq, block in plan.clears
        )

    def _shown(self, seq: int, blocks: dict[int, int]) -> Any:
        content = self.said[seq][1]
        if not blocks:
            return content
        shown = copy(content)
        for block, clearing in blocks.items():
            control = self.rows[clearing - 1].control
            assert control is not None
            text = control.placeholder
            for head, tail in [kept[2:] for kept in control.keeps if kept[:2] == (seq, block)]:
                whole = shown[block]["content"]
                text = whole
                if head + tail < len(whole):
                    gone = f"[{len(whole) - head - tail:,} of {len(whole):,} characters"
                    note = f"{control.placeholder} {gone}: entry {seq} has all]"
                    ends = whole[:head], note, whole[len(whole) - tail :]
                    text = "\n".join(end for end in ends if end)
            shown[block] = {**shown[block], "content": text}
        return shown

    def _stays(self, block: BlockRef) -> int:
        """The number of characters of a cleared block that the view shows; -1 if all is cleared."""
        control = self.rows[self.cleared()[block] - 1].control
        return _kept(control, block)

    def _now(self) -> Any:
        if self._folded is None or self._folded[0] != len(self.rows):
            folded = (fold.tags(self.rows), fold.effective(self.rows), fold.cleared(self.rows))
            self._folded = (len(self.rows), folded)
        return self._folded[1]


def _kept(clearing: Any, block: BlockRef) -> int:
    return sum([kept[2] + kept[3] for kept in clearing.keeps if kept[:2] == block] or [-1])


def _only_compacts(said: tuple[str, Any]) -> bool:
    content = said[1]
    return isinstance(content, list) and all(it["type"] == "compaction" for it in content)


def _seqs(ranges: Sequence[Range]) -> list[int]:
    return [seq for lo, hi in ranges for seq in range(lo, hi + 1)]
