"""The list of sessions, and the sizes of one session or of all."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from roocontext.log.model_names import is_same_model
from roocontext.log.moments import milliseconds
from roocontext.reports import gauge
from roocontext.reports.document import Document, Time
from roocontext.reports.gauge import Gauge
from roocontext.reports.naming import ALL, shortest_id
from roocontext.store.reading.pages import cut_page
from roocontext.store.sessions.sessions import cursor_in_list
from roocontext.store.writing.erase import cursor_of_receipt
from roocontext.tokens import last_request

if TYPE_CHECKING:
    from roocontext import Store
    from roocontext.store.sessions.overview import SessionOverview
    from roocontext.store.sessions.sessions import Stats


class SessionRow(Document):
    """A session of the list. `messages` and `bytes` count everything, hidden messages too.

    `happened_at` is when the latest of its messages happened, or when it was created if it has no
    message; `updated_at` is when its last entry was recorded. `short_id` is the shortest beginning
    of the id that no other session has, or the whole id if it is short. `visible_bytes` is the size
    of the visible messages as they were written: cleared outputs count in full. The tokens of
    `context` that the provider did not report are estimated from bytes. A fork is a copy of session
    `forked_from` up to entry `forked_at`. If the session is archived, `archived_at` is when, and
    nothing of it is visible.
    """

    session_id: str
    short_id: str
    title: str | None
    metadata: Any
    created_at: Time
    happened_at: Time
    updated_at: Time
    head_seq: int
    last_seq: int
    messages: int
    bytes: int
    first_prompt: str | None
    parent: str | None
    owner: str | None
    archived_at: Time | None
    visible_messages: int
    visible_bytes: int
    forked_from: str | None
    forked_at: int | None
    context: Gauge


class PurgedRow(Document):
    """The receipt of a purged session."""

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: Time


class Sessions(Document):
    """A page of the sessions of a database, the newest first.

    `next` is the value of `--after` for the next page; it is null on the last page. Purged sessions
    are listed, in `purged`, only if they are asked for.
    """

    sessions: list[SessionRow]
    purged: list[PurgedRow]
    next: str | None


class StatsReport(Document):
    """The sizes of visible, hidden and rewound messages, of one session or of all.

    For all sessions, `session_id` is null.

    Bytes are those of the messages as they were written: cleared outputs count in full.
    """

    session_id: str | None
    sessions: int
    entries: int
    messages: int
    bytes: int
    visible_messages: int
    visible_bytes: int
    hidden_messages: int
    hidden_bytes: int
    rewound_messages: int
    rewound_bytes: int


def matching_sessions(
    store: "Store",
    text: str = "",
    *,
    parent: str | None = None,
    where: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    recorded: bool = False,
    limit: int = 20,
    after: str | None = None,
    model: str | None = None,
) -> Sessions:
    """The newest sessions with a text in their id, title or first prompt, ignoring case.

    `parent` selects its children; `where` sessions whose metadata has these strings; `since` and
    `until` sessions by when they happened or, if `recorded`, by when their last entry was recorded.
    """
    times: dict[str, Any] = {"since": since, "until": until, "recorded": recorded}
    if not text:
        listed = store.overview(limit=limit, after=after, parent=parent, where=where, **times)
        return Sessions(
            sessions=[_row(each, model) for each in listed], purged=[], next=listed.next
        )
    wanted = text.casefold()
    infos = store.sessions(limit=ALL, after=after, parent=parent, where=where, **times)
    # Python compares the letters, because SQLite ignores the case of ASCII letters only.
    matching = [
        info
        for info in infos
        if any(
            wanted in (name or "").casefold()
            for name in (info.session_id, info.title, info.first_prompt)
        )
    ]
    page = cut_page(matching, limit, lambda last: cursor_in_list(last, recorded=recorded))
    ids = [info.session_id for info in page]
    shown = store.overview(limit=limit, ids=ids, recorded=recorded) if ids else ()
    return Sessions(sessions=[_row(each, model) for each in shown], purged=[], next=page.next)


def purged(
    store: "Store",
    text: str = "",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 20,
    after: str | None = None,
) -> Sessions:
    """The purged sessions with a text in their ids, the last purged first."""
    lo = None if since is None else milliseconds(since)
    hi = None if until is None else milliseconds(until)
    receipts = [
        receipt
        for receipt in store.purged(limit=ALL, after=after)
        if text.casefold() in receipt.session_id.casefold()
        and (lo is None or receipt.purged_at >= lo)
        and (hi is None or receipt.purged_at < hi)
    ]
    page = cut_page(receipts, limit, cursor_of_receipt)
    return Sessions.of(page, sessions=[], purged=page)


def total_stats(store: "Store") -> StatsReport:
    """The sums of all sessions, except archived ones."""
    held = [overview for overview in store.overview(limit=ALL) if overview.info.archived_at is None]
    return summed([overview.stats for overview in held], None)


def summed(stats: "list[Stats]", session_id: str | None) -> StatsReport:
    """The sums of some sessions."""
    names = StatsReport.model_fields.keys() - {"session_id", "sessions"}
    sums = {name: sum(getattr(part, name) for part in stats) for name in names}
    return StatsReport.of(session_id=session_id, sessions=len(stats), **sums)


def _row(overview: "SessionOverview", model: str | None) -> SessionRow:
    short = shortest_id(overview.info.session_id, len(overview.beginning))
    context = context_of(overview, model or overview.model)
    return SessionRow.of(overview.info, overview.stats, overview, short_id=short, context=context)


def context_of(overview: "SessionOverview", model: str | None) -> Gauge:
    """The tokens of the last call if it was this model's, and an estimate of the rest."""
    call = overview.last_call
    used = (
        last_request(call.usage) if call is not None and is_same_model(call.model, model) else None
    )
    if call is None or used is None:
        return gauge.estimated_gauge(model, overview.stats.visible_bytes)
    reported = used.input + used.output
    since = gauge.estimated_gauge(model, call.bytes_since)
    return Gauge.of(
        since,
        tokens=reported + since.tokens,
        exact=not call.bytes_since,
        reported=reported,
        reported_at=call.seq,
        has_frame=True,
    )
