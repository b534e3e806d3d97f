"""Entries of a log as elements: messages, what hides others, folds of what is hidden, notes.

Every entry that hides, clears or takes back others links to them, and each of these links back.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from roocontext.errors import InvalidMessage
from roocontext.log.counting import FAILED_SUMMARIES
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.moments import in_calendar, iso_utc
from roocontext.log.spans import Span
from roocontext.reports.history import TOOL, Speakers
from roocontext.reports.markup.body import (
    EVERYTHING_SHOWN,
    Level,
    Links,
    MessageBody,
    MessageSource,
    Room,
    Style,
    ToolCall,
    answered_calls,
    blocks_of,
    on_one_line,
    tool_calls,
)
from roocontext.reports.markup.elements import Child, Html, enumerated, link_to, tag, together
from roocontext.reports.markup.safe_html import preformatted
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import local_time, zoned_time
from roocontext.store.reading.audit import AuditEntry, Hider
from roocontext.store.sessions.excerpt import ExcerptEntry

_MOST_RANGES: Final = 12
_LONGEST_FOLD: Final = 500


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Facts that the rows of some entries share.

    `kinds` are those of the control rows up to the moment that is shown. In a view, the text is
    what the model sees, and nothing is folded. `pins` are pinned messages with the entries that
    pin them. `spoken` are the speakers of what was rendered. `joined` are the answers that directly
    follow their calls or other answers of these, which are one block with them.
    """

    links: Links
    kinds: Mapping[int, Kind]
    style: Style = field(default_factory=Style)
    is_view: bool = False
    opened: int | None = None
    anchor: str = "e"
    heading: str = "h2"
    moved: Mapping[int, int] = field(default_factory=dict)
    pins: Mapping[int, int] = field(default_factory=dict)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    speakers: Speakers = field(default_factory=Speakers)
    spoken: dict[int, str] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)
    _blocks: list[int] = field(default_factory=list)
    """The entry with which the block of each row begins."""

    def render(self, entries: Sequence[ExcerptEntry], room: Room, *, newest: bool) -> Html:
        """The entries as items of a list. A page that ends with the newest fits these in first."""
        speakers = [self._speaker(entry.audited) for entry in entries]
        self.spoken.update(zip((entry.audited.seq for entry in entries), speakers, strict=True))
        rows: dict[int, Html] = {}
        indices = range(len(entries))
        for done, index in enumerate(reversed(indices) if newest else indices):
            entry, speaker = entries[index], speakers[index]

            def row(level: Level, entry: ExcerptEntry = entry, speaker: str = speaker) -> Html:
                return self._row(entry, speaker, level)

            rows[index] = room.fitted(row, len(entries) - done - 1)
        return together(self._folded((entries[index], rows[index]) for index in indices))

    def _speaker(self, entry: AuditEntry) -> str:
        before = self._blocks[-1] if self._blocks else None
        self._blocks.append(entry.seq)
        if entry.role is None or entry.content is None:
            return entry.role or ""
        form = entry.entry.format or ""
        blocks = blocks_of(_source(entry))
        answered = [self.calls.get(name) for name in answered_calls(blocks)]
        if before and answered and all(call and call.seq == before for call in answered):
            self.joined.add(entry.seq)
            self._blocks[-1] = before
        self.calls.update(tool_calls(entry.seq, blocks))
        return self.speakers.named(entry.role, entry.content, form)[0]

    def whole(self, entries: Iterable[ExcerptEntry]) -> Iterator[Html]:
        """The entries as items of a list, one after the other, with everything that is in them."""
        shown = (
            (item, self._row(item, self._speaker(item.audited), EVERYTHING_SHOWN))
            for item in entries
        )
        return self._folded(shown)

    def _folded(self, rows: Iterable[tuple[ExcerptEntry, Html]]) -> Iterator[Html]:
        """The rows. A run of entries that one entry hides is one fold, with the notes within it."""
        run: list[tuple[ExcerptEntry, Html]] = []
        reason: Hider | None = None
        for item, row in rows:
            own = None if self.is_view else item.audited.hider
            passes = own is None and item.audited.kind in (Kind.NOTE, Kind.REWIND)
            if run and (own == reason or passes) and len(run) < _LONGEST_FOLD:
                run.append((item, row))
                continue
            yield from self._closed(reason, run)
            run, reason = ([(item, row)], own) if own else ([], None)
            if own is None:
                yield row
        yield from self._closed(reason, run)

    def _closed(
        self, reason: Hider | None, run: Sequence[tuple[ExcerptEntry, Html]]
    ) -> Iterator[Html]:
        """A fold, and then the notes and rewinds that follow the last entry with its reason."""
        if reason is None:
            return
        last = max(index for index, (item, _) in enumerate(run) if item.audited.hider == reason)
        folded = run[: last + 1]
        yield self._fold(reason, [item for item, _ in folded], [row for _, row in folded])
        yield from (row for _, row in run[last + 1 :])

    def _fold(self, reason: Hider, entries: Sequence[ExcerptEntry], rows: Sequence[Html]) -> Html:
        first, last = entries[0].audited.seq, entries[-1].audited.seq
        count = sum(entry.audited.kind in MESSAGE_KINDS for entry in entries)
        name = (first == last and f"entry {first}") or f"entries {first}–{last}"
        summary = tag(
            "summary",
            tag(
                "b",
                quantity(count, "message") if count else quantity(len(rows), "entry", "entries"),
            ),
            f" {_HIDING[reason.kind]} {reason.kind} {reason.seq}",
            tag("span", name, class_="range"),
        )
        # Not within the summary: what can be opened must not hold another thing to click on.
        hider = tag("p", self._link_to_hider(reason), class_="hider")
        kind = "rewound" if reason.kind is Kind.REWIND else "hidden"
        is_open = self.opened is not None and first <= self.opened <= last
        inside = tag("ol", rows)
        fold = tag("details", summary, inside, class_=f"fold {kind}", open_=is_open)
        return tag("li", fold, hider, class_="folded")

    def _kind_of(self, seq: int) -> str:
        kind = self.kinds.get(seq)
        return f"{kind} {seq}" if kind else f"entry {seq}"

    def _link_to_hider(self, hider: Hider) -> Html:
        return self.link(hider.seq, f"{hider.kind} {hider.seq}")

    def link(self, seq: int, text: str = "") -> Html:
        """A link to an entry."""
        return link_to(text or str(seq), self.links.entry(seq))

    def _row(self, item: ExcerptEntry, speaker: str, level: Level) -> Html:
        entry = item.audited
        if entry.kind not in MESSAGE_KINDS:
            return self._event(item, level)
        kind = "" if entry.kind is Kind.MESSAGE else entry.kind.value
        who = kind or (speaker if speaker != TOOL else "tool result")
        model = entry.entry.model
        is_made = entry.kind in (Kind.SUMMARY, Kind.MARKER)
        effect = tag("p", self._figures(entry), class_="effect") if is_made else None
        body = self._body(item, level)
        style = f"entry {kind or (speaker if speaker in _STYLED else 'other')}"
        header = tag(
            "header",
            self._heading(entry.seq, on_one_line(who)),
            tag("span", on_one_line(model), class_="model") if model else None,
            self._change(entry),
            self._time(entry),
            class_="head",
        )
        return self._item(entry, style, header, effect, body, self._remarks(entry))

    def _heading(self, seq: int, who: str) -> Html:
        number = link_to(str(seq), self.links.entry(seq), class_="seq")
        return tag(self.heading, number, " ", tag("span", who, class_="who"))

    def _item(self, entry: AuditEntry, style: str, *children: Child) -> Html:
        state = "visible" if entry.visible else "hidden" if entry.hidden_by else "unseen"
        article = tag(
            "article",
            *children,
            id=f"{self.anchor}{entry.seq}",
            class_=style,
            data_seq=str(entry.seq),
            data_kind=entry.kind.value,
            data_state=state,
            tabindex="-1",
        )
        return tag("li", article, class_="joined" if entry.seq in self.joined else None)

    def _change(self, entry: AuditEntry) -> Html | None:
        address = self.links.change(entry.seq)
        name = f"Change at entry {entry.seq}"
        return link_to("change", address, class_="act", aria_label=name) if address else None

    def _time(self, entry: AuditEntry) -> Html:
        at = entry.entry.happened_at
        # An agent's own time may be any number, and no calendar has some of them.
        machine = iso_utc(at) if in_calendar(at) else None
        return tag("time", local_time(at)[:16], datetime=machine, title=zoned_time(at))

    def _body(self, item: ExcerptEntry, level: Level) -> Html:
        entry = item.audited
        whole = self.links.whole(entry.seq)
        if item.head is not None:
            shown = Html(preformatted(item.head[: min(level.characters, 4_000)], "text"))
            what = f"The stored content has {size(item.size)}: show all"
            return together(shown, tag("p", link_to(what, whole), class_="more"))
        try:
            body = MessageBody(
                _source(entry),
                level,
                self.style,
                self.links,
                self.calls,
                is_joined=entry.seq in self.joined,
            )
            return body.markup()
        except InvalidMessage:  # a format whose plugin is not installed
            text = str(entry.content)[: min(level.characters, 16_000)]
            return Html(preformatted(text, "text"))

    def _figures(self, entry: AuditEntry) -> Iterator[Child]:
        """The effect of an entry that hides or clears others, in figures."""
        acts = entry.entry.details or {}
        record = acts.get("record") or {}
        if hides := acts.get("hides"):
            yield tag(
                "span",
                "Stands for " if entry.kind != Kind.MARKER else "Leaves out ",
                self._ranges(hides),
            )
        if clears := acts.get("clears"):
            rows = sorted({seq for seq, _ in clears})
            yield tag(
                "span",
                quantity(len(clears), "tool output"),
                " of ",
                self._ranges([(seq, seq) for seq in rows]),
                " cleared",
            )
        before, after = record.get("before"), record.get("after")
        if type(before) is int and type(after) is int:
            sign = "" if record.get("exact") else "~"
            unit = record["counter"] if record.get("counter") in ("bytes", "images") else "tokens"
            saved = f" (−{100 * (before - after) // before} %)" if before > after > 0 else ""
            yield tag("span", tag("b", f"{sign}{before:,} → {sign}{after:,}"), f" {unit}{saved}")
        policy, trigger = (on_one_line(str(record.get(name, ""))) for name in ("policy", "trigger"))
        if acts.get("by") == "provider" or entry.kind is Kind.COVERING:
            yield tag("span", "compacted by the provider")
        elif policy or trigger:
            who = "" if policy in ("", trigger) else f"policy {policy}"
            yield tag("span", ", ".join(filter(None, (who, trigger))))
        yield from _price(record.get("summary"))

    def _ranges(self, pairs: Sequence[Sequence[int]]) -> Html:
        few = [
            self.link(lo, str(lo) if lo == hi else f"{lo}–{hi}") for lo, hi in pairs[:_MOST_RANGES]
        ]
        return enumerated(few, len(pairs))

    def _remarks(self, entry: AuditEntry) -> Html | None:
        lines = [tag("li", line) for line in self._reasons(entry)]
        return tag("ul", lines, class_="remarks") if lines else None

    def _reasons(self, entry: AuditEntry) -> Iterator[Child]:
        """Why the model does not see an entry, or sees it differently; and what is linked to it."""
        if (following := self.moved.get(entry.seq)) and not self.is_view:
            yield ["The model sees it before ", self.link(following, f"entry {following}")]
        for hider in entry.hiders:
            what, trigger = _HIDING[hider.kind].capitalize(), ""
            if hider.kind is Kind.CLEARING:
                shown = (
                    "This is the placeholder" if self.is_view else "The model sees a placeholder"
                )
                what = f"{shown}: its output was cleared by"
            elif hider.trigger is not None:
                trigger = f" ({on_one_line(hider.trigger)})"
            yield [f"{what} ", self._link_to_hider(hider), trigger]
        if entry.redacted:
            yield "Its content was redacted"
        if pin := self.pins.get(entry.seq):
            yield ["Pinned by ", self.link(pin, f"entry {pin}")]
        asked = entry.entry.asked_at
        if asked is not None and (address := self.links.request(entry.seq)):
            yield link_to("The request as it was sent", address)

    def _event(self, item: ExcerptEntry, level: Level) -> Html:
        """An entry that is no message, on a row."""
        entry = item.audited
        style, name, what = self._action(item)
        if self.opened == entry.seq or level.characters >= 3_000:
            details = self._details(item, level)
        else:
            details = None
        return self._item(
            entry,
            f"event {style}",
            tag(
                "header",
                self._heading(entry.seq, name),
                tag("span", what, class_="effect"),
                self._change(entry),
                self._time(entry),
                class_="head",
            ),
            details,
            self._remarks(entry),
        )

    def _details(self, item: ExcerptEntry, level: Level) -> Html | None:
        """The stored content of a note that has more than its row shows."""
        entry = item.audited
        if entry.kind is not Kind.NOTE or entry.content is None:
            return None
        text = _as_text(entry.content)
        if len(text) <= 200:
            return None
        text = text[: min(level.characters, 2_000)]
        return tag(
            "details", tag("summary", "Content"), Html(preformatted(text, "code")), class_="other"
        )

    def _action(self, item: ExcerptEntry) -> tuple[str, str, Child]:
        """The style of a row, its name, and what the entry does."""
        entry = item.audited
        acts: Mapping[str, Any] = entry.entry.details or {}
        record = acts.get("record") or {}
        match entry.kind:
            case Kind.REWIND:
                to = acts.get("to", 0)
                left, returned = record.get("left", 0), record.get("returned", 0)
                moved = f": {left:,} left the view, {returned:,} came back"
                undone = record.get("undone")
                back: Child = (
                    ["takes back rewind ", self.link(undone)]
                    if isinstance(undone, int)
                    else ["back to ", self.link(to, f"entry {to}") if to else "the start"]
                )
                compare = self.links.difference(entry.seq - 1, entry.seq)
                return (
                    "rewind",
                    "undo" if isinstance(undone, int) else "rewind",
                    [back, moved, [" ", link_to("compare", compare)] if compare else None],
                )
            case Kind.COVERING:
                source = acts.get("source") or [0, 0]
                return (
                    "covering",
                    "covering",
                    [tag("span", "In reply ", self.link(source[0])), *self._figures(entry)],
                )
            case Kind.CLEARING:
                return "clearing", "clearing", list(self._figures(entry))
            case Kind.UNCOVERING:
                back = [
                    [" ", self.link(seq, self._kind_of(seq))] for seq in acts.get("uncovers", ())
                ]
                return "rewind", "uncovering", ["took back", back]
        return self._note(item)

    def _note(self, item: ExcerptEntry) -> tuple[str, str, Child]:
        entry = item.audited
        name, content = entry.entry.note or "note", entry.content
        target = entry.entry.target
        style, what = "note", on_one_line(_as_text(content), 200)
        match content:
            case _ if item.head is not None:
                what = f"{size(item.size)} of content"
            case {"event": "failed" | "refused" as event, **facts}:
                style, name, what = "failure", f"compaction {event}", failure_in_words(facts)
            case {"pinned": bool(pinned)} if name == "pin":
                name, what = "pin" if pinned else "unpin", "entry"
            case {"event": str(event), **facts}:
                name, what = f"{name} {event}", on_one_line(_facts(facts), 200)
            case dict() if len(content) == 1:
                what = on_one_line(_as_text(*content.values()), 200)
            case None:
                what = "redacted" if entry.redacted else ""
        of: Child = [" of ", self.link(target)] if target else None
        return style, on_one_line(name), [what, of]


def failure_in_words(content: Mapping[Any, Any]) -> str:
    """The facts of a compaction that failed or was refused, on one line."""
    return on_one_line(_facts(content), 300)


def is_failure(content: Any) -> bool:
    """True for the content of the note of a compaction that failed or was refused."""
    return isinstance(content, dict) and content.get("event") in ("failed", "refused")


def moved_in(spans: Sequence[Span]) -> dict[int, int]:
    """The earlier entries that rows of a plan precede in the view, by their seq."""
    ordered = sorted((span for span in spans if span.visible), key=lambda span: span.position)
    return {one.lo: after.lo for one, after in pairwise(ordered) if after.lo < one.lo}


_HIDING: Final = {
    Kind.SUMMARY: "replaced by",
    Kind.COVERING: "replaced by",
    Kind.MARKER: "left out by",
    Kind.CLEARING: "cleared by",
    Kind.REWIND: "taken back by",
    Kind.UNCOVERING: "uncovered by",
}
_STYLED: Final = frozenset({"user", "assistant", "tool"})


def _source(entry: AuditEntry) -> MessageSource:
    return MessageSource(entry.seq, entry.role or "", entry.content, entry.entry.format or "")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(facts: Mapping[Any, Any]) -> str:
    """Recorded facts in a line: numbers, names and texts."""
    shown = ("policy", "trigger", "status", "part", "needed", "limit", "unit", "reason")
    named = [(name, facts[name]) for name in shown if facts.get(name) not in (None, "")]
    line = ", ".join(
        f"{name} {value:,}" if type(value) is int else f"{name} {value}" for name, value in named
    )
    failed = facts.get(FAILED_SUMMARIES)
    paid = (
        [attempt for attempt in failed if isinstance(attempt, dict)]
        if isinstance(failed, list)
        else []
    )
    costs = [attempt["cost"] for attempt in paid if isinstance(attempt.get("cost"), (int, float))]
    if paid:
        line += f", {quantity(len(paid), 'summary', 'summaries')} not used"
    return line + (f", ${sum(costs):.4f}" if costs else "")


def _price(facts: Any) -> Iterable[Html]:
    """The cost of a summary."""
    if not isinstance(facts, dict) or facts.get("calls") == 0:
        return
    parts = []
    if type(facts.get("calls")) is int:
        parts.append(quantity(facts["calls"], "call"))
    for name, unit in (("input_tokens", "in"), ("output_tokens", "out")):
        if type(facts.get(name)) is int:
            parts.append(f"{facts[name]:,} {unit}")
    cost = facts.get("cost")
    if isinstance(cost, (int, float)):
        parts.append(f"${cost:.4f}")
    if parts:
        yield tag("span", ", ".join(parts))
