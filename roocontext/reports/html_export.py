"""Sessions as one HTML page to read, without scripts and without external resources.

Messages are in the order of the log. Messages that the model does not see are folded under the
entry that hides them. The outline has these stretches, so no content is read to find them.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Any, Final

from roocontext.formats.exporter import Exporter
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.spans import Span
from roocontext.reports.markup.html_message import message_body
from roocontext.reports.markup.safe_html import html_line
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.sessions.sessions import Outline, OutlinePart


def export_page(sessions: Sequence[Session]) -> Iterator[bytes]:
    """The page of a session, or of a family whose first session is the parent of the others."""
    sections = [_Section(session, f"s{number}") for number, session in enumerate(sessions)]
    anchors = {section.session.id: section for section in sections}
    style = _read("page.css")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    opening, closing = _around("page.html")
    yield _utf8(
        opening.substitute(
            title=sections[0].title,
            style=style,
            style_hash=f"sha256-{digest}",
            sessions="\n".join(f"<li>{section.link}</li>" for section in sections),
        )
    )
    for section in sections:
        yield from map(_utf8, section.parts(anchors))
    yield _utf8(closing.substitute())


class _Section:
    """A session's part of the page."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self._name = session, name
        self._outline = session.internals.outline()
        info = self._outline.info
        self.title = html_line(info.title or info.first_prompt or session.id)
        self._moved = _moved_in(self._outline)
        self._targets = {
            row.details["to"] for row in self._outline.controls if row.kind is Kind.REWIND
        }
        self._notes = 0

    @property
    def link(self) -> str:
        """A link to it."""
        return f'<a href="#{self._name}">{self.title}</a>'

    def parts(self, sections: "dict[str, _Section]") -> Iterator[str]:
        """The markup of the section, entry by entry."""
        opening, closing = _around("session.html")
        info, parts = self._outline.info, self._outline.parts
        parent = sections.get(info.parent or "")
        yield opening.substitute(
            id=self._name,
            title=self.title,
            name=html_line(self.session.id),
            messages=_messages(info.messages),
            visible=sum(part.messages for part in parts if part.span.visible),
            parent=f"Its parent is {parent.link}." if parent else "",
            facts="\n".join(self._facts(sections)),
        )
        yield from self._stretches()
        notes = f"{self._notes} notes, which no model sees, are left out." if self._notes else ""
        yield closing.substitute(notes=notes)

    def _facts(self, sections: "dict[str, _Section]") -> Iterator[str]:
        metadata = self._outline.info.metadata
        for name, value in metadata.items() if isinstance(metadata, dict) else ():
            if isinstance(value, str):
                yield f"<dt>{html_line(str(name))}</dt><dd>{html_line(value)}</dd>"
        for section in sections.values():
            if section.session.parent == self.session.id:
                yield f"<dt>sub-agent</dt><dd>{section.link}</dd>"

    def _stretches(self) -> Iterator[str]:
        """The entries. An element of its own holds a stretch that the model does not see."""
        parts = iter(self._outline.parts)
        part = next(parts, None)
        _, fold_end = _around("stretch.html")
        folded: OutlinePart | None = None
        for entry in self.session.audit():
            while part is not None and part.span.hi < entry.seq:
                part = next(parts, None)
            inside = part if part is not None and part.span.lo <= entry.seq else None
            if folded is not None and inside is not folded:
                yield fold_end.substitute()
                folded = None
            if entry.kind is Kind.NOTE:
                self._notes += 1
                if entry.seq not in self._targets:
                    continue
            if folded is None and inside is not None and inside.messages and _reason(inside.span):
                yield self._fold(inside)
                folded = inside
            yield self._entry(entry)
        if folded is not None:
            yield fold_end.substitute()

    def _fold(self, part: OutlinePart) -> str:
        opening, _ = _around("stretch.html")
        kind, what, seq = _reason(part.span) or ("", "", 0)
        return opening.substitute(
            why=kind, messages=_messages(part.messages), reason=f"{what} {self._link(seq)}"
        )

    def _entry(self, entry: AuditEntry) -> str:
        name = f"{self._name}e{entry.seq}"
        if entry.kind not in MESSAGE_KINDS:
            what = "".join(self._control(entry))
            return _template("control.html").substitute(id=name, seq=entry.seq, what=what)
        ts = entry.entry.happened_at
        kind = "" if entry.kind is Kind.MESSAGE else f", {entry.kind}"
        model = f", {html_line(entry.entry.model)}" if entry.entry.model else ""
        remarks = "\n".join(f'<p class="remark">{line}</p>' for line in self._remarks(entry))
        return _template("message.html").substitute(
            id=name,
            seq=entry.seq,
            kind=entry.kind.value,
            role=html_line(entry.role or ""),
            label=f"{kind}{model}",
            datetime=_time(ts, "T"),
            time=_time(ts, " "),
            remarks=remarks,
            body=message_body(entry),
        )

    def _remarks(self, entry: AuditEntry) -> Iterator[str]:
        """Lines about the entries that hide the message, and those that it hides."""
        details = entry.entry.details if isinstance(entry.entry.details, dict) else {}
        if hides := details.get("hides"):
            yield f"Replaces {', '.join(self._range(lo, hi) for lo, hi in hides)}."
        if entry.seq in self._moved:
            yield f"The model sees it before {self._link(self._moved[entry.seq])}."
        for what, seq in (
            ("Replaced by", entry.condense_parent),
            ("Left out by", entry.truncation_parent),
            ("Taken back by", entry.rewound_by),
            ("Cancelled by", entry.uncovered_by),
        ):
            if seq:
                yield f"{what} {self._link(seq)}."
        for seq in dict.fromkeys(seq for _, seq in entry.cleared):
            yield f"Output cleared by {self._link(seq)}: the model sees a placeholder."
        if entry.redacted:
            yield "Its content was redacted."

    def _control(self, entry: AuditEntry) -> Iterator[str]:
        """The action of a control row; or a note that a rewind went to."""
        details: dict[str, Any] = entry.entry.details or {}
        match entry.kind:
            case Kind.NOTE:
                yield "A note"
            case Kind.REWIND:
                yield f"Rewound to {self._link(details['to']) if details['to'] else 'the start'}"
            case Kind.COVERING:
                hides = ", ".join(self._range(lo, hi) for lo, hi in details["hides"])
                yield f"The provider compacted {hides} in {self._link(details['source'][0])}"
            case Kind.CLEARING:
                rows = dict.fromkeys(seq for seq, _ in details["clears"])
                yield f"Cleared outputs of {', '.join(map(self._link, rows))}"
            case Kind.UNCOVERING:
                yield f"Uncovered {', '.join(map(self._link, details['uncovers']))}"
        if entry.rewound_by:
            yield f", taken back by {self._link(entry.rewound_by)}"

    def _range(self, lo: int, hi: int) -> str:
        return self._link(lo) if lo == hi else f"{self._link(lo)} to {self._link(hi)}"

    def _link(self, seq: int) -> str:
        return f'<a href="#{self._name}e{seq}">entry {seq}</a>'


def _reason(span: Span) -> tuple[str, str, int] | None:
    """Why the model does not see a stretch: in short, in words, and the entry that hides it."""
    if span.rewound_by:
        return "rewound", "a branch that was left: taken back by", span.rewound_by
    if span.uncovered_by:
        return "hidden", "cancelled by", span.uncovered_by
    if span.condense_parent:
        return "hidden", "replaced by", span.condense_parent
    if span.truncation_parent:
        return "hidden", "left out by", span.truncation_parent
    return None


def _moved_in(outline: Outline) -> dict[int, int]:
    """The earlier entries that messages precede in the view, by the seq of the message."""
    seen = [part.span for part in outline.parts if part.span.visible and part.messages]
    ordered = sorted(seen, key=lambda span: span.position)
    return {one.lo: after.lo for one, after in pairwise(ordered) if after.lo < one.lo}


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _time(milliseconds: int, separator: str) -> str:
    try:
        when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"  # an agent's own time may be any number
    return f"{when:%Y-%m-%d}{separator}{when:%H:%M:%S}Z"


def _read(name: str) -> str:
    return (files("roocontext.reports.markup") / "page" / name).read_text("utf-8")


def _template(name: str) -> Template:
    return _pieces(name)[0]


def _around(name: str) -> tuple[Template, Template]:
    """The parts before and after the contents."""
    before, after = _pieces(name)
    return before, after


@cache
def _pieces(name: str) -> tuple[Template, ...]:
    return tuple(map(Template, _read(name).split("$contents\n")))


def _utf8(text: str) -> bytes:
    return text.encode()


HTML: Final = Exporter("html", export_page)
