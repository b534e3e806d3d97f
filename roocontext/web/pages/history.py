"""A session over time: two views compared, the timeline, tokens and costs, and the exports."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from roocontext.log.entries import Kind
from roocontext.log.spans import Span
from roocontext.reports.history import EntryRow, MessageRow, difference, text_in
from roocontext.reports.markup.body import session_title
from roocontext.reports.markup.elements import Child, Html, link_to, tag, together
from roocontext.reports.markup.frame import gauge_bar
from roocontext.reports.markup.timeline import Timeline, what_it_did
from roocontext.reports.naming import quantity
from roocontext.reports.times import local_time
from roocontext.reports.usage import UsageReport, usage_of
from roocontext.store.sessions.excerpt import Extent, LogExcerpt, Sizes
from roocontext.tokens import spending, usage_tokens
from roocontext.web.downloads import download
from roocontext.web.pages.addresses import (
    PageLinks,
    address,
    number_asked,
    session_asked,
    session_path,
)
from roocontext.web.pages.forms import number_field
from roocontext.web.pages.respond import framed, session_frame
from roocontext.web.pages.session import heading

if TYPE_CHECKING:
    from roocontext import Session

_MARKS: Final = 300
_ROWS: Final = 100
MOST_LISTED: Final = 60
"""The messages that a page lists."""
ListedRow: TypeAlias = MessageRow | EntryRow
_POINTS: Final = 200


def _opened(request: Request, as_of: int | None = None) -> "tuple[Session, LogExcerpt, PageLinks]":
    """The session, and what its pages say about it."""
    chat = session_asked(request)
    excerpt = chat.internals.excerpt(Extent.ALL, sizes=Sizes(entries=1), as_of=as_of)
    return chat, excerpt, PageLinks(chat.id)


def difference_page(request: Request) -> Response:
    """The messages that left the view between two entries, those that came into it, and why."""
    query = request.query_params
    new = number_asked(query, "to")
    chat, excerpt, links = _opened(request, new)
    old = number_asked(query, "from")
    old = max(0, excerpt.seq - 1) if old is None else old
    change = difference(chat, old, excerpt.seq)
    form = tag(
        "form",
        number_field("From entry ", "from", old),
        number_field("to entry ", "to", excerpt.seq),
        tag("button", "Compare"),
        action=f"{session_path(chat.id)}/diff",
        class_="tools",
    )
    return session_frame(
        f"What changed in the view from entry {old} to entry {excerpt.seq}",
        excerpt.overview.info,
        form,
        _outputs("cleared", change.cleared, links),
        _outputs("shown again", change.restored, links),
        changed_messages(
            change.left, change.came, links, verbs=("left", "came"), spans=excerpt.spans, since=old
        ),
    )


def _outputs(what: str, blocks: Sequence[Sequence[int]], links: PageLinks) -> Html | None:
    """The tool outputs that are cleared or shown again, by their entries."""
    seqs = sorted({seq for seq, _ in blocks})[:MOST_LISTED]
    entries = [[link_to(str(seq), links.entry(seq)), " "] for seq in seqs]
    name = quantity(len(blocks), "tool output")
    return tag("p", f"{name} {what}, of ", entries) if blocks else None


def changed_messages(
    left: Sequence[ListedRow],
    came: Sequence[ListedRow],
    links: PageLinks,
    *,
    verbs: tuple[str, str] = ("would leave", "would come"),
    counts: tuple[int, int] | None = None,
    spans: Sequence[Span] = (),
    since: int = 0,
) -> Html:
    """The messages that leave the view, and those that come into it."""
    gone, new = counts or (len(left), len(came))
    return together(
        tag("h2", quantity(gone, "message"), f" {verbs[0]} the view"),
        tag("ol", _listed(left, gone, links, spans), class_="left-view") if left else None,
        tag("h2", quantity(new, "message"), f" {verbs[1]} into it"),
        tag("ol", _listed(came, new, links, (), since), class_="came") if came else None,
    )


def _listed(
    rows: Sequence[ListedRow], count: int, links: PageLinks, spans: Sequence[Span], since: int = 0
) -> Iterable[Html]:
    for row in rows[:MOST_LISTED]:
        line = " ".join((text_in(row) or "")[:600].split())[:240]
        why: Child = None
        span = next((span for span in spans if span.lo <= row.seq <= span.hi), None)
        if span is not None:
            by = (
                span.rewound_by
                or span.uncovered_by
                or span.condense_parent
                or span.truncation_parent
            )
            why = [" hidden by ", link_to(str(by), links.entry(by))] if by else None
        elif row.seq <= since:
            why = " returned"
        who = row.speaker if row.kind == Kind.MESSAGE else row.kind
        yield tag(
            "li",
            tag("p", link_to(str(row.seq), links.entry(row.seq)), f" {who}", why, class_="note"),
            tag("p", line or "(no text)", dir="auto"),
        )
    if count > MOST_LISTED:
        yield tag("li", f"and {count - MOST_LISTED:,} more", class_="note")


def timeline_page(request: Request) -> Response:
    """The timeline, as a picture and as a table."""
    chat, excerpt, links = _opened(request)
    timeline = Timeline(excerpt.seq, excerpt.spans, excerpt.controls)
    rows: list[list[Child]] = [
        [
            link_to(str(control.seq), links.entry(control.seq)),
            control.kind.value,
            what_it_did(control),
            local_time(excerpt.hiders[control.seq].happened_at)[:16],
        ]
        for control in excerpt.controls[-_ROWS:]
        if control.kind != "companion"
    ]
    return framed(
        f"Timeline, {session_title(excerpt.overview.info)}",
        heading(excerpt),
        tag("p", link_to("Back to the session", session_path(chat.id)), class_="note"),
        tag("figure", timeline.picture(links, _MARKS), class_="strip") if excerpt.seq else None,
        _table(
            "What changed the view, newest last",
            {"entry": "number", "kind": None, "what it did": None, "time": "wide"},
            rows,
        ),
        session=chat.id,
    )


def _table(
    caption: str, columns: Mapping[str, str | None], rows: Sequence[Sequence[Child]]
) -> Html | None:
    """A table. The classes of its columns are also those of their cells."""
    if not rows:
        return None
    kinds = columns.values()
    head = tag("tr", [tag("th", name, scope="col", class_=kind) for name, kind in columns.items()])
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]
    return tag(
        "table",
        tag("caption", caption, class_="note"),
        tag("thead", head),
        tag("tbody", body),
        class_="table",
    )


def usage_page(request: Request) -> Response:
    """The tokens of the view by role and tool, and what the calls cost, over time."""
    chat, excerpt, _ = _opened(request)
    report = usage_of(chat)
    return framed(
        f"Usage, {session_title(excerpt.overview.info)}",
        heading(excerpt),
        tag("p", link_to("Back to the session", session_path(chat.id)), class_="note"),
        gauge_bar(
            report.context,
            visible_bytes=excerpt.visible.bytes,
            compactions=sum(bool(c.hides) for c in excerpt.controls),
            counted=None,
        ),
        _plots(chat),
        _usage_tables(report),
        session=chat.id,
    )


def _usage_tables(report: UsageReport) -> Html:
    tallies = [
        (row.name[:80], row.count, row.tokens) for row in (*report.roles, *report.tools)[:60]
    ]
    models = [
        (
            (row.model or "(not named)")[:80],
            *(row.calls, row.input, row.output, row.cached),
            None if row.cost is None else f"{row.cost:.4f}",
            None if row.ratio is None else f"{row.ratio:.2f}",
        )
        for row in report.models[:40]
    ]
    summaries = report.summaries
    cost = (
        ""
        if report.cost is None
        else f" In all, the calls cost ${report.cost:.4f} by the prices of {report.priced}."
    )
    return together(
        tag(
            "p",
            quantity(summaries.count, "summary", "summaries"),
            f", {quantity(summaries.calls, 'call')} of summarisers.{cost}",
            class_="note",
        ),
        _table(
            "Tokens in the view, by role and by tool",
            {"of": None, **dict.fromkeys(("messages or blocks", "tokens"), "number")},
            tallies,
        ),
        _table(
            "Calls by model; drift is reported to estimated tokens",
            {
                "model": None,
                **dict.fromkeys(("calls", "in", "out", "cached", "dollars", "drift"), "number"),
            },
            models,
        ),
    )


def _plots(chat: "Session") -> Html | None:
    """The tokens of each call and the sum of the costs, over the entries."""
    rows = [row for row in chat.usage() if row.usage is not None]
    used = [(row.seq, usage_tokens(row.usage)) for row in rows if not row.is_summary]
    tokens = [(seq, float(usage.input + usage.output)) for seq, usage in used if usage is not None]
    costs = [(row.seq, sum(spent.cost or 0 for spent in spending([row]))) for row in rows]
    sums = list(zip((seq for seq, _ in costs), accumulate(cost for _, cost in costs), strict=True))
    drawn = [
        _plot("Tokens of each call", tokens, "plot", "{:,.0f}"),
        _plot(
            "Cost so far, in dollars",
            sums if sums and sums[-1][1] else [],
            "plot plot-cost",
            "{:.4f}",
        ),
    ]
    return together(drawn)


def _plot(name: str, points: Sequence[tuple[int, float]], style: str, number: str) -> Html | None:
    if len(points) < 2:
        return None
    # The highest of each group stays, so that no peak is lost.
    step = ceil(len(points) / _POINTS)
    groups = [points[at : at + step] for at in range(0, len(points), step)]
    highest = [max(group, key=lambda point: point[1]) for group in groups]
    first, last, most = (
        highest[0][0],
        max(highest[-1][0], highest[0][0] + 1),
        max(value for _, value in highest) or 1,
    )
    line = " ".join(
        f"{10 + 980 * (seq - first) / (last - first):.1f},{100 - 88 * value / most:.1f}"
        for seq, value in highest
    )
    picture = tag(
        "svg",
        tag("path", d="M10 100H990", class_="axis"),
        tag("polyline", points=line, class_=style),
        viewBox="0 0 1000 104",
        role="img",
        aria_label=f"{name}, at most {number.format(most)}",
    )
    newest = f"{number.format(points[-1][1])} at entry {points[-1][0]}"
    caption = f"{name}: {newest}, at most {number.format(most)}"
    return tag("figure", picture, tag("figcaption", caption), class_="strip")


def download_page(request: Request) -> Response:
    """The exports of a session; with `to`, one of them as a file."""
    query, chat = request.query_params, session_asked(request)
    if (to := query.get("to")) is not None:
        is_masked = query.get("redact") == "1"
        return download(request.app.state.store, chat, to, is_masked=is_masked)
    path = f"{session_path(chat.id)}/export"
    items = [
        ("A page to read", address(path, to="html")),
        (
            "A page to give to others: secrets and local paths masked, images left out",
            address(path, to="html", redact=1),
        ),
        ("Markdown", address(path, to="markdown")),
        ("roocontext JSONL, which loses nothing", address(path, to="jsonl")),
    ]
    listed = [tag("li", link_to(name, where, download=True)) for name, where in items]
    return session_frame("Export", chat.info(), tag("ul", listed, class_="sessions"))
