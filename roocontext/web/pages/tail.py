"""New entries of a session as they are written: a page that grows, and events for the script.

Both continue from the log itself, so that a reader who was cut off misses nothing. The page that
grows needs no script: the server just never ends it. An entry that changes the view is a row in
both, because rows that are shown already do not change.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from roocontext.errors import RooContextError, SessionPurged
from roocontext.log.entries import Kind
from roocontext.reports.markup.body import Room, session_title
from roocontext.reports.markup.elements import Html, facts, link_to, tag
from roocontext.reports.markup.entry import EntryRows
from roocontext.store.aio import AsyncStore
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.sessions.excerpt import Anchor, ExcerptEntry, Extent
from roocontext.web.api.events import streamed, waking, written
from roocontext.web.pages.addresses import (
    PageLinks,
    PageView,
    address,
    number_asked,
    session_asked,
    session_path,
)
from roocontext.web.pages.respond import framed

_MOST: Final = 300
"""The new rows of a page. After them, it begins anew."""
_SPLIT: Final = "\0rows\0"
_SHARE: Final = (300, 16_000)
"""The elements and compressed bytes of a new entry."""


def follow(request: Request) -> Response:
    """The newest entries, and then each new one, on a page that the server does not end."""
    chat = session_asked(request)
    view = replace(PageView.asked(chat.id, request.query_params), place=Anchor(), as_of=None)
    excerpt = chat.internals.excerpt(view.extent)
    title = session_title(excerpt.overview.info)
    following = address(f"{session_path(chat.id)}/follow", **view.query())
    rows = _rows(request.app.state, view)
    markup = rows.render(excerpt.entries[-20:], Room(600, 24_000), newest=True)
    around = framed(
        f"Following {title}",
        tag("h1", title),
        facts("New entries appear at the end.", link_to("Stop following", view.address())),
        tag("ol", markup, Html(_SPLIT), class_="entries", id="entries"),
        tag("p", link_to("Follow on", following), class_="more"),
        session=chat.id,
    )
    opening, closing = bytes(around.body).split(_SPLIT.encode())

    async def body() -> AsyncIterator[bytes]:
        yield opening
        with suppress(RooContextError):  # purged, or unreadable: a page opened now says why
            async for row in _news(request.app.state, view, excerpt.seq):
                # A space shows both sides that the connection still exists.
                yield row[1].encode("utf-8", "backslashreplace") if row else b" "
        yield closing

    return streamed(request, body(), "text/html")


def rows(request: Request) -> Response:
    """The rows of new entries as events, for the script of a page.

    After `end` it asks for no more. After any other end it connects again, and begins where it was.
    """
    chat = session_asked(request)
    # Here `after` is no place of a page, and it may be 0.
    view = PageView.asked(chat.id, QueryParams({**request.query_params, "after": ""}))
    last = request.headers.get("last-event-id", "")
    after = (
        int(last[:18])
        if last.isascii() and last.isdigit()
        else number_asked(request.query_params, "after")
    )

    async def events() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        try:
            async for row in _news(request.app.state, view, after or 0):
                yield _event(*row) if row else ": still here\n\n"
            is_over = request.app.state.closing.is_set()
        except RooContextError as error:
            is_over = isinstance(error, SessionPurged)
        if is_over:
            yield "event: end\ndata:\n\n"

    return streamed(request, events())


def _event(seq: int, row: Html) -> str:
    lines = "\n".join(f"data: {line}" for line in row.split("\n"))
    return f"id: {seq}\n{lines}\n\n"


async def _news(state: Any, view: PageView, after: int) -> AsyncIterator[tuple[int, Html] | None]:
    """The rows of new entries, each once and in order; None when nothing came for a while."""
    store: AsyncStore = state.async_store
    made, count = _rows(state, view), 0
    # The feed begins before the log is read, so that nothing is written unseen in between.
    async with store.changes(session=view.session_id) as feed:
        async for changes in waking(feed, state.closing):
            if not changes:
                yield None
                continue
            chat = await store.session(view.session_id)
            async for entry in written(chat, after):
                after = entry.seq
                if not _is_shown(entry, view.extent):
                    continue
                row = made.render([ExcerptEntry(entry, 0, None)], Room(*_SHARE), newest=True)
                yield entry.seq, row
                count += 1
                if count >= _MOST:
                    return


def _rows(state: Any, view: PageView) -> EntryRows:
    # Nothing is folded: what hides an entry comes after it.
    links = PageLinks(view.session_id, changes=state.settings.allow_write)
    return EntryRows(links, {}, view.style, is_view=True)


def _is_shown(entry: AuditEntry, extent: Extent) -> bool:
    return extent is Extent.ALL or entry.kind is not Kind.NOTE
