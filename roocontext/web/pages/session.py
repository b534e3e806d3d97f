"""The page of a session: what the model sees, what is live, everything; and one entry of it."""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roocontext.context.drift import drift_of
from roocontext.errors import MessageNotFound
from roocontext.log.entries import Kind
from roocontext.reports.gauge import Gauge, estimated_gauge
from roocontext.reports.markup.body import Room, on_one_line, session_title
from roocontext.reports.markup.elements import (
    Child,
    Html,
    enumerated,
    facts,
    link_to,
    tag,
    together,
)
from roocontext.reports.markup.entry import EntryRows, failure_in_words, is_failure, moved_in
from roocontext.reports.markup.frame import contents, gauge_bar, tab_bar
from roocontext.reports.markup.timeline import Timeline, what_it_did
from roocontext.reports.naming import quantity, tool_named
from roocontext.reports.sessions import context_of
from roocontext.reports.times import local_time
from roocontext.store.sessions.excerpt import Anchor, Extent, LogExcerpt
from roocontext.tokens import counter_for
from roocontext.tokens.usage import IMAGES
from roocontext.web.pages.addresses import (
    PageLinks,
    PageView,
    address,
    moment_asked,
    number_asked,
    session_asked,
    session_path,
)
from roocontext.web.pages.forms import hidden_fields, number_field
from roocontext.web.pages.respond import framed

_ROOM: Final = (1_500, 46_000)
"""The elements and the compressed bytes of the entries of a page. The rest of it takes the others
of the 2,000 elements and 64 KB that a page has at most."""
_MARKS: Final = 60
_MOST_PINS: Final = 12
_COMPACTING: Final = frozenset({Kind.SUMMARY, Kind.MARKER, Kind.COVERING})


def session_page(request: Request) -> Response:
    """A page of entries."""
    chat = session_asked(request)
    moment = request.query_params.get("as_of", "")
    if moment and not moment.isdigit():
        # A time is answered by the number of an entry, which names the moment for ever.
        seq = chat.view(as_of=moment_asked(moment), last=1).seq
        rest = QueryParams(
            [item for item in request.query_params.multi_items() if item[0] != "as_of"]
        )
        return RedirectResponse(PageView.asked(chat.id, rest).address(as_of=seq), 303)
    view = PageView.asked(chat.id, request.query_params)
    try:
        excerpt = chat.internals.excerpt(view.extent, view.place, as_of=view.as_of)
    except MessageNotFound:
        at = next(filter(None, view.place), None)
        if view.extent is Extent.ALL or at is None:
            raise
        return RedirectResponse(address_of_entry(chat.id, at, view.as_of), 303)
    allowed = request.app.state.settings.allow_write
    done = number_asked(request.query_params, "done")
    return framed(
        session_title(excerpt.overview.info),
        session_body(view, excerpt, changes=allowed, done=done),
        session=chat.id,
        **_followed(view, excerpt),
    )


def entry_address(request: Request) -> Response:
    """The page of one entry, whatever has become of it: everything, from this entry on."""
    chat = session_asked(request)
    as_of = number_asked(request.query_params, "as_of")
    seq = request.path_params["seq"]
    last = chat.info().last_seq
    if not 1 <= seq <= last or (as_of is not None and seq > as_of):
        near = (max(1, min(seq, last if as_of is None else as_of)),) if last else ()
        raise MessageNotFound(f"Entry {seq} does not exist: the log has {last}.", candidates=near)
    return RedirectResponse(address_of_entry(chat.id, seq, as_of), 303)


def address_of_entry(session_id: str, seq: int, as_of: int | None) -> str:
    """Where an entry is, for ever."""
    view = PageView(session_id, Extent.ALL, as_of, Anchor(at=seq))
    return f"{view.address()}#e{seq}"


def _drift(excerpt: LogExcerpt) -> float | None:
    """The factor from our estimates of the newest calls to the tokens that were reported."""
    model = excerpt.overview.model
    if excerpt.is_past or model is None:
        return None
    known = drift_of(excerpt.calls, counter_for(model).name).get(model)
    return None if known is None else known.ratio


def session_body(
    view: PageView, excerpt: LogExcerpt, *, changes: bool = False, done: int | None = None
) -> Html:
    """The content of the page, with controls if it changes the session.

    `done` is the entry that a change has written.
    """
    on_page = frozenset(item.audited.seq for item in excerpt.entries)
    links = PageLinks(view.session_id, on_page, view.as_of, changes)
    rows = EntryRows(
        links,
        excerpt.kinds,
        view.style,
        is_view=view.extent is Extent.VIEW,
        opened=view.place.at,
        moved=moved_in(excerpt.spans),
        pins=excerpt.pins,
    )
    is_end = view.place.at is None and view.place.after is None
    entries = rows.render(excerpt.entries, Room(*_ROOM), newest=is_end)
    column = tag(
        "div",
        _pager(view, excerpt, "Pages"),
        tag("ol", entries, class_="entries", id="entries")
        if entries
        else tag("p", _nothing(excerpt), class_="note"),
        _pager(view, excerpt, "Pages, again"),
    )
    return together(
        heading(excerpt, changes=changes),
        _notice(done, excerpt, links),
        _failed(excerpt, links),
        gauge_bar(
            gauge_of(excerpt),
            visible_bytes=excerpt.visible.bytes,
            compactions=sum(control.kind in _COMPACTING for control in excerpt.controls),
            counted=address(f"{session_path(view.session_id)}/usage", as_of=view.as_of),
            images=_images(view, excerpt),
            drift=_drift(excerpt),
            pins=_pins(excerpt.pins, links),
        ),
        _strip(excerpt, links) if excerpt.seq else None,
        tab_bar(
            view.extent.value,
            _counts(excerpt),
            {
                e.value: view.elsewhere(tab=e.value if e is not Extent.VIEW else None)
                for e in Extent
            },
        ),
        _moment(view, excerpt, changes=changes),
        tag("div", column, contents(excerpt.entries, rows.spoken), class_="columns"),
    )


def _followed(view: PageView, excerpt: LogExcerpt) -> dict[str, str]:
    """The facts that the script needs to show new entries: only on a page with the newest."""
    if excerpt.is_past or any(view.place):
        return {}
    path = f"{session_path(view.session_id)}/rows"
    return {"events": address(path, **view.query(), after=excerpt.seq)}


def gauge_of(excerpt: LogExcerpt) -> Gauge:
    """The gauge without reading content: the provider's figure, and an estimate of the rest."""
    overview = excerpt.overview
    if not excerpt.is_past:
        return context_of(overview, overview.model)
    return estimated_gauge(overview.model, excerpt.visible.bytes)


def _images(view: PageView, excerpt: LogExcerpt) -> int | None:
    """The images that the model sees, if all of its view is on the page."""
    entries = excerpt.entries
    if view.extent is not Extent.VIEW or excerpt.earlier or excerpt.later:
        return None
    if any(item.head is not None for item in entries):
        return None
    messages = [item.audited for item in entries]
    return sum(
        IMAGES.count(message.role or "", message.content, message.entry.format or "")
        for message in messages
    )


def _pins(pins: Mapping[int, int], links: PageLinks) -> Html:
    few = [link_to(str(seq), links.entry(seq)) for seq in sorted(pins)[:_MOST_PINS]]
    return enumerated(few, len(pins))


def _failed(excerpt: LogExcerpt, links: PageLinks) -> Html | None:
    """The newest compaction, if it failed or was refused."""
    note = excerpt.compaction
    acted = max((c.seq for c in excerpt.controls if c.kind in _COMPACTING), default=0)
    if note is None or note.seq < acted or not is_failure(note.content):
        return None
    event = "was refused" if note.content["event"] == "refused" else "failed"
    return tag(
        "p",
        tag("b", "The last compaction ", event),
        f": {failure_in_words(note.content)} ",
        link_to(f"entry {note.seq}", links.entry(note.seq)),
        class_="alarm",
    )


def _notice(done: int | None, excerpt: LogExcerpt, links: PageLinks) -> Html | None:
    """The change that was just made, as the log has it."""
    written = next((control for control in excerpt.controls if control.seq == done), None)
    if written is None:
        return None
    name = f"{written.kind} {written.seq}"
    path = session_path(links.session_id)
    return facts(
        ["Done: ", link_to(name, links.entry(written.seq)), f" {what_it_did(written)}"],
        link_to("What changed", links.difference(written.seq - 1, written.seq)),
        link_to("Undo", f"{path}/undo") if links.changes else None,
        class_="done",
        role="status",
    )


def heading(excerpt: LogExcerpt, *, changes: bool = False) -> Html:
    """The title of a session, and facts about it."""
    info = excerpt.overview.info
    path, tool = session_path(info.session_id), tool_named(info.metadata)
    parent: Child = None
    if info.parent:
        name = on_one_line(info.parent, 40)
        parent = ["sub-agent of ", link_to(name, session_path(info.parent))]
    children = [
        tag("span", link_to(on_one_line(session_title(child), 50), session_path(child.session_id)))
        for child in excerpt.children
    ]
    return together(
        tag("h1", session_title(info)),
        facts(
            tag("code", on_one_line(info.session_id, 60)),
            None if tool is None else on_one_line(tool, 40),
            local_time(info.happened_at)[:16],
            quantity(info.last_seq, "entry", "entries"),
            parent,
            link_to("timeline", f"{path}/timeline"),
            link_to("usage", f"{path}/usage"),
            link_to("export", f"{path}/export"),
            link_to("change", f"{path}/change") if changes else None,
        ),
        tag("p", "Sub-agents: ", children, class_="facts") if children else None,
    )


def _counts(excerpt: LogExcerpt) -> dict[str, int]:
    stats = excerpt.overview.stats
    if excerpt.is_past:
        return {"view": excerpt.visible.messages, "all": excerpt.seq}
    return {
        "view": excerpt.visible.messages,
        "live": stats.visible_messages + stats.hidden_messages,
        "all": stats.entries,
    }


def _nothing(excerpt: LogExcerpt) -> str:
    return "The session has no entries." if not excerpt.seq else "The model sees nothing."


def _strip(excerpt: LogExcerpt, links: PageLinks) -> Html:
    timeline = Timeline(excerpt.seq, excerpt.spans, excerpt.controls)
    everything = PageLinks(links.session_id, as_of=links.as_of)
    key = [
        tag("span", tag("span", class_=f"key{style}"), name)
        for style, name in (
            ("", "the model sees it"),
            (" unseen", "hidden"),
            (" left", "taken back"),
        )
    ]
    return tag(
        "figure", timeline.picture(everything, _MARKS), tag("figcaption", key), class_="strip"
    )


def _moment(view: PageView, excerpt: LogExcerpt, *, changes: bool) -> Html:
    """Time travel, and the choices of the reader."""
    seq, last = excerpt.seq, excerpt.overview.info.last_seq
    form = tag(
        "form",
        number_field("As of entry ", "as_of", seq),
        hidden_fields(view.kept("as_of")),
        tag("button", "Go"),
        action=session_path(view.session_id),
    )
    choices = [
        link_to(
            "Plain text" if view.style.markdown else "Rendered",
            view.address(md="0" if view.style.markdown else None),
        ),
        link_to(
            "Close edits" if view.style.edits_open else "Open edits",
            view.address(edits=None if view.style.edits_open else "open"),
        ),
    ]
    after = view.elsewhere(as_of=seq + 1 if seq + 1 < last else None)
    tools = tag(
        "div",
        form,
        link_to("← one entry back", view.elsewhere(as_of=seq - 1), rel="prev") if seq > 1 else None,
        link_to("one entry on →", after) if excerpt.is_past else None,
        choices,
        link_to("Follow", address(f"{session_path(view.session_id)}/follow", **view.kept("as_of")))
        if not excerpt.is_past
        else None,
        class_="tools",
    )
    if not excerpt.is_past:
        return tools
    path = session_path(view.session_id)
    compare = address(f"{path}/diff", **{"from": seq, "to": last})
    past = tag(
        "p",
        f"The session right after entry {seq} of {last}. ",
        link_to("Back to now", view.elsewhere(as_of=None)),
        " ",
        link_to("What changed since", compare),
        [" ", link_to("Rewind to here", address(f"{path}/rewind", to=seq))] if changes else None,
        class_="past",
    )
    return together(past, tools)


def _pager(view: PageView, excerpt: LogExcerpt, name: str) -> Html | None:
    if not excerpt.entries:
        return None
    first, last = excerpt.entries[0].audited.seq, excerpt.entries[-1].audited.seq
    span = f"entry {first}" if first == last else f"entries {first}–{last}"
    return tag(
        "nav",
        link_to("← Earlier", view.elsewhere(before=first)) if excerpt.earlier else None,
        tag("span", f"{span} of {excerpt.overview.info.last_seq:,}", class_="note"),
        link_to("Later →", view.elsewhere(after=last)) if excerpt.later else None,
        link_to("Newest", view.elsewhere()) if excerpt.later else None,
        class_="pager",
        aria_label=name,
    )
