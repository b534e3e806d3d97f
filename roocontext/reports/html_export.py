"""Sessions as one HTML file: the page of the server without a script and without the server.

It shows everything: messages in the order of the log, and those that the model does not see folded
under the entry that hides them. The outline has these stretches, so that the file is written entry
by entry. Secrets and local paths can be masked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from roocontext.formats.exporter import Exporter
from roocontext.log.entries import Kind
from roocontext.log.readings import reader
from roocontext.reports.history import Speakers
from roocontext.reports.markup.body import Links, session_title
from roocontext.reports.markup.elements import Child, Html, facts, is_safe_address, link_to, tag
from roocontext.reports.markup.entry import EntryRows, is_failure, moved_in
from roocontext.reports.markup.frame import contents, gauge_bar, inline_style, page_frame
from roocontext.reports.markup.timeline import Timeline
from roocontext.reports.masking import Masker, counts_in_words
from roocontext.reports.naming import quantity, tool_named
from roocontext.reports.sessions import context_of
from roocontext.reports.times import zoned_time
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.session import Session
from roocontext.store.sessions.excerpt import ExcerptEntry, Extent, Sizes

_LARGEST: Final = 1 << 20
"""Larger images are left out, because the file has to contain them."""
_MARKS: Final = 300
_SPLIT: Final = "\0contents\0"


def export_page(sessions: Sequence[Session], *, is_masked: bool = False) -> Iterator[bytes]:
    """The page of a session, or of a family whose first session is the parent of the others."""
    sections = [
        _Section(session, f"s{number}", is_masked=is_masked)
        for number, session in enumerate(sessions)
    ]
    by_id = {section.session.id: section for section in sections}
    style, known_as = inline_style()
    policy = (
        f"default-src 'none'; style-src {known_as}; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )
    title = sections[0].title
    around = page_frame(
        title,
        tag(
            "main",
            tag("h1", title),
            tag(
                "p", "Written by roocontext. What the model does not see is folded.", class_="note"
            ),
            _masked_report(sections) if is_masked else None,
            tag(
                "nav",
                tag("ol", (tag("li", section.link) for section in sections)),
                aria_label="Sessions",
            )
            if sections[1:]
            else None,
            Html(_SPLIT),
        ),
        head=(
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="referrer", content="no-referrer"),
            style,
        ),
    )
    opening, closing = around.split(_SPLIT)
    yield opening.encode()
    for section in sections:
        for part in section.parts(by_id):
            yield part.encode("utf-8", "backslashreplace")
    yield closing.encode()


def _masked_report(sections: "Sequence[_Section]") -> Html:
    # Before the sections are written, which masks and counts everything once more.
    counts = (section.masker.counts for section in sections if section.masker)
    masked = counts_in_words(sum(counts, start=Counter[str]()))
    return tag("p", f"Masked: {masked}." if masked else "Nothing was found to mask.", class_="past")


class _Section(Links):
    """A session's part of the page, and the links in it: the page has all of each entry."""

    def __init__(self, session: Session, name: str, *, is_masked: bool) -> None:
        self.session, self._name = session, name
        self.masker = Masker() if is_masked else None
        self._excerpt = session.internals.excerpt(Extent.ALL, sizes=Sizes(entries=1))
        self._rewound_to = {control.to for control in self._excerpt.controls if control.to}
        self.title = self._text(session_title(self._excerpt.overview.info))
        self._shown: list[int] = []
        self._contents = self._prompts()

    @property
    def link(self) -> Html:
        """A link to it."""
        return link_to(self.title, f"#{self._name}")

    def parts(self, sections: "Mapping[str, _Section]") -> Iterator[Html]:
        """The markup of the section, entry by entry."""
        excerpt = self._excerpt
        info, stats = excerpt.overview.info, excerpt.overview.stats
        timeline = Timeline(info.last_seq, excerpt.spans, excerpt.controls)
        gauge = context_of(excerpt.overview, excerpt.overview.model)
        # A local model may be named by its path.
        gauge = gauge.model_copy(update={"model": gauge.model and self._text(gauge.model)})
        around = tag(
            "section",
            tag("h2", self.title, id=self._name),
            facts(*self._facts(sections)),
            gauge_bar(
                gauge,
                visible_bytes=stats.visible_bytes,
                compactions=sum(bool(control.hides) for control in excerpt.controls),
                counted=None,
            ),
            tag("figure", timeline.picture(self, _MARKS), class_="strip")
            if excerpt.controls
            else None,
            self._contents,
            tag("ol", Html(_SPLIT), class_="entries"),
            tag("p", "End of the session.", class_="note"),
            aria_labelledby=self._name,
        )
        opening, closing = around.split(_SPLIT)
        yield Html(opening)
        rows = EntryRows(
            self,
            excerpt.kinds,
            anchor=f"{self._name}e",
            heading="h3",
            moved=moved_in(excerpt.spans),
        )
        yield from rows.whole(self._entries())
        yield Html(closing)

    def _facts(self, sections: "Mapping[str, _Section]") -> Iterator[Child]:
        info, stats = self._excerpt.overview.info, self._excerpt.overview.stats
        yield tag("code", self._text(info.session_id))
        if tool := tool_named(info.metadata):
            yield self._text(tool[:40])
        yield f"{zoned_time(info.created_at)} to {zoned_time(info.happened_at)}"
        seen = f"the model sees {stats.visible_messages:,}"
        yield f"{quantity(info.messages, 'message')}, of which {seen}"
        if parent := sections.get(info.parent or ""):
            yield ["sub-agent of ", parent.link]
        for section in sections.values():
            if section.session.parent == self.session.id:
                yield ["sub-agent: ", section.link]

    def _entries(self) -> Iterator[ExcerptEntry]:
        """The entries that are shown: of the notes, failures and those that a rewind went to."""
        for entry in self.session.audit():
            if entry.seq > self._excerpt.seq:
                return
            is_note = entry.kind is Kind.NOTE
            if is_note and entry.seq not in self._rewound_to and not is_failure(entry.content):
                continue
            yield ExcerptEntry(self._masked(entry), 0, None)

    def _masked(self, entry: AuditEntry) -> AuditEntry:
        """The entry without secrets, images and files, if the page is masked."""
        if self.masker is None:
            return entry
        content, own = entry.content, entry.entry
        if entry.role is not None:
            # The reading has the images and files of every format in the same shape.
            _, content = reader(own.format or "").blocks(entry.role, content)
            own = own._replace(format="anthropic")
        own = own._replace(
            model=own.model and self._text(own.model), details=self.masker.value(own.details)
        )
        hiders = tuple(
            hider._replace(trigger=hider.trigger and self._text(hider.trigger))
            for hider in entry.hiders
        )
        return entry._replace(content=self.masker.value(content), entry=own, hiders=hiders)

    def _prompts(self) -> Html | None:
        """The contents: all prompts and compactions of the session."""
        speakers, spoken = Speakers(), dict[int, str]()

        def heard() -> Iterator[ExcerptEntry]:
            for item in self._entries():
                entry = item.audited
                if entry.role is not None:
                    spoken[entry.seq] = speakers.named(
                        entry.role, entry.content, entry.entry.format or ""
                    )[0]
                self._shown.append(entry.seq)
                yield item

        return contents(heard(), spoken, anchor=f"{self._name}e", most=None)

    def _text(self, text: str) -> str:
        return self.masker.text(text) if self.masker else text

    # The links of the page

    def entry(self, seq: int) -> str | None:
        """An entry of this section, or the next one if it is a note that is left out."""
        index = bisect_left(self._shown, seq)
        return f"#{self._name}e{self._shown[index]}" if index < len(self._shown) else None

    def image(self, seq: int, source: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """The image itself, unless it is too large."""
        address = f"data:{source['media_type']};base64,{source['data']}"
        return address if len(address) * 3 // 4 <= _LARGEST and is_safe_address(address) else None


HTML: Final = Exporter("html", export_page)
MASKED_HTML: Final = Exporter("html", partial(export_page, is_masked=True))
"""The same with secrets and local paths masked."""
