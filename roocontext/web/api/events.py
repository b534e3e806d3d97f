"""Streams of events (SSE): the entries of a session as they are written, or the sessions that are.

The `id` of an entry's event is its seq, and a stream that begins after it continues from the log
itself. So nothing is kept for readers that were cut off, and none of them misses or repeats an
entry. Changes are found by the store's change feed, which polls once for all streams.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from roocontext.errors import RooContextError, SessionPurged
from roocontext.log.encoding import MAX_INTEGER
from roocontext.log.entries import Kind
from roocontext.reports.document import Document, Time
from roocontext.store.aio import AsyncChanges, AsyncSession, AsyncStore
from roocontext.store.reading.audit import Envelope
from roocontext.web.api.operations import Answer, Reading
from roocontext.web.api.queries import EventsQuery
from roocontext.web.errors import MalformedRequest

if TYPE_CHECKING:
    from roocontext import AuditEntry

STREAM: Final = "text/event-stream"
_BEAT_SECONDS: Final = 10
"""A comment as often as this shows both sides that the connection still exists."""
_PAGE: Final = 100
_SEQ: Final = re.compile(r"[0-9]{1,18}")
_CHANGING: Final = frozenset(Kind) - {Kind.MESSAGE, Kind.NOTE}
_BEGINNING: Final = "retry: 1000\n\n"
_BEAT: Final = ": still here\n\n"


class EntryEvent(Document):
    """An entry that was written, without its content."""

    session_id: str
    seq: int
    kind: str
    role: str | None
    note: str | None
    happened_at: Time
    recorded_at: Time


class SessionEvent(Document):
    """A session that was written, with its last entry, or purged."""

    session_id: str
    last_seq: int
    purged: bool


def get_session_events(asked: Reading[EventsQuery]) -> Answer[Response]:
    """Stream the entries of a session, those that are written from now on or after an entry.

    The event is `entry` for a message or a note, and `view` for any entry that changes what the
    model sees; its `id` is the seq. `end` says that the server stops or the session was purged.
    """
    chat = asked.chat
    last_id = _given(asked)
    if last_id is not None and not _SEQ.fullmatch(last_id):
        line = "A stream of a session begins after an entry's number."
        raise MalformedRequest(line, name="after")
    after = chat.info().last_seq if last_id is None else min(int(last_id), MAX_INTEGER)
    events = _entries(asked.request.app.state, asked.session_id, after)
    return Answer(streamed(asked.request, events))


def get_events(asked: Reading[EventsQuery]) -> Answer[Response]:
    """Stream the sessions that are written, by any process, from now on or after a cursor.

    The event is `session`, and its `id` is the cursor. After a reconnection some sessions may be
    reported again.
    """
    last_id = _given(asked)
    cursor = asked.store.change_cursor() if last_id is None else last_id
    feed = asked.request.app.state.async_store.changes(cursor)  # refuses an unknown cursor
    return Answer(streamed(asked.request, _sessions(asked.request.app.state, feed)))


def _given(asked: Reading[EventsQuery]) -> str | None:
    """The event after which a stream begins: of the header, or of the parameter."""
    return asked.request.headers.get("last-event-id") or asked.query.after


def streamed(request: Request, chunks: AsyncIterator[str | bytes], media: str = STREAM) -> Response:
    """An answer that the server does not end. HEAD gets its headers, and nothing is read for it."""
    headers = {"X-Accel-Buffering": "no"}  # a proxy must send each event at once
    if request.method == "HEAD":
        return Response(media_type=media, headers=headers)
    return StreamingResponse(chunks, media_type=media, headers=headers)


async def _entries(state: Any, session_id: str, after: int) -> AsyncIterator[str]:
    """The events of a session."""
    yield _BEGINNING
    store: AsyncStore = state.async_store
    try:
        # The feed begins before the log is read, so that nothing is written unseen in between.
        async with store.changes(session=session_id) as feed:
            chat = await store.session(session_id)
            async for wakes in waking(feed, state.closing):
                if not wakes:
                    yield _BEAT
                    continue
                page: list[Envelope] | None = None
                while page is None or len(page) == _PAGE:
                    page = await chat.internals.envelopes(after=after, limit=_PAGE)
                    for entry in page:
                        event = EntryEvent.of(entry, session_id=session_id)
                        yield _event(event, _kind(entry), str(entry.seq))
                        after = entry.seq
        yield "event: end\ndata: {}\n\n"
    except SessionPurged:
        yield "event: end\ndata: {}\n\n"
    except RooContextError:
        return  # the reader connects again, and begins where it was


async def _sessions(state: Any, feed: AsyncChanges) -> AsyncIterator[str]:
    """The events of all sessions."""
    yield _BEGINNING
    try:
        async with feed:
            async for changes in waking(feed, state.closing):
                if not changes:
                    yield _BEAT
                for change in changes:
                    yield _event(SessionEvent.of(change), "session", change.cursor)
        yield "event: end\ndata: {}\n\n"
    except RooContextError:
        return


async def waking(feed: AsyncChanges, closing: asyncio.Event) -> AsyncIterator[list[Any]]:
    """The changes as they come; none if nothing came for a while. It ends with the server."""
    ending = asyncio.ensure_future(closing.wait())
    reading: asyncio.Future[list[Any]] | None = None
    try:
        while not (closing.is_set() or feed.closed):
            reading = asyncio.ensure_future(feed.read(_BEAT_SECONDS))
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                yield reading.result()
    finally:
        ending.cancel()
        if reading is not None:
            reading.cancel()


async def written(chat: AsyncSession, after: int) -> "AsyncIterator[AuditEntry]":
    """The entries that were written after one."""
    async for page in chat.internals.audit_pages(_PAGE, after=after):
        for entry in page:
            yield entry


def _kind(entry: Envelope) -> str:
    return "view" if entry.kind in _CHANGING else "entry"


def _event(document: Document, name: str, event_id: str) -> str:
    return f"id: {event_id}\nevent: {name}\ndata: {json.dumps(document.to_dict())}\n\n"
