"""The list of sessions, and the sizes of one session or of all.

Which of a session's messages or entries are shown, and in which order.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from roocontext.log.moments import milliseconds
from roocontext.reports import gauge
from roocontext.reports.document import Document, Time
from roocontext.reports.gauge import Gauge
from roocontext.reports.naming import ALL, shortest_id
from roocontext.store.reading.pages import cut_page
from roocontext.store.sessions.sessions import cursor_in_list
from roocontext.store.writing.erase import cursor_of_receipt
from roocontext.tokens import usage_tokens

if TYPE_CHECKING:
    from roocontext import SessionInfo, Store
    from roocontext.store.sessions.overview import SessionOverview
    from roocontext.store.sessions.sessions import Stats


class SessionRow(Document):
    """A session of the list. `messages` and `bytes` count everything, hidden messages too.

    `happened_at` is when the latest of its messages happened, or when it was created, until it has
    one; `updated_at` is when its last entry was recorded.

    `short_id` is the shortest beginning of the id that no other session has, or the whole id if it
    is short. `visible_bytes` is the size of the visible messages as they were written: cleared
    outputs count in full. What the provider did not report of `context` is estimated from bytes.
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
    visible_messages: int
    visible_bytes: int
    context: Gauge


class PurgedRow(Document):
    """A purged session: what its receipt says."""

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: Time


class Sessions(Document):
    """A page of the sessions of a database, the newest first.

    `next` is what `--after` takes to show the next page; without one, there is none. Only if purged
    sessions are asked for, these are listed, in `purged`.
    """

    sessions: list[SessionRow]
    purged: list[PurgedRow]
    next: str | None


class StatsReport(Document):
    """How much is visible, hidden and taken back, of one session or of all (`session_id` None).

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

    With a `parent`, only its children; with `where`, only those whose metadata has these strings;
    with `since` and `until`, those of that time: of when they happened or, if `recorded`, of their
    last entry. It is one statement.
    """
    times: dict[str, Any] = {"since": since, "until": until, "recorded": recorded}
    # Python compares the letters, because SQLite ignores the case of ASCII letters only.
    size = ALL if text else limit
    found = store.overview(limit=size, after=after, parent=parent, where=where, **times)
    wanted = text.casefold()

    def is_about(info: "SessionInfo") -> bool:
        texts = (info.session_id, info.title or "", info.first_prompt or "")
        return any(wanted in text.casefold() for text in texts)

    matching = [one for one in found if is_about(one.info)] if text else found
    page = cut_page(matching, limit, lambda last: cursor_in_list(last.info, recorded=recorded))
    rows = [_row(one, model) for one in page]
    return Sessions(sessions=rows, purged=[], next=found.next or page.next)


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
    found = [
        one
        for one in store.purged(limit=ALL, after=after)
        if text.casefold() in one.session_id.casefold()
        and (lo is None or one.purged_at >= lo)
        and (hi is None or one.purged_at < hi)
    ]
    page = cut_page(found, limit, cursor_of_receipt)
    return Sessions(sessions=[], purged=[PurgedRow.of(one) for one in page], next=page.next)


def total_stats(store: "Store") -> StatsReport:
    """The sums of all sessions."""
    return summed([one.stats for one in store.overview(limit=ALL)], None)


def summed(found: "list[Stats]", session_id: str | None) -> StatsReport:
    """The sums of some sessions."""
    known = {"session_id": session_id, "sessions": len(found)}
    names = [name for name in StatsReport.model_fields if name not in known]
    sums = {name: sum(getattr(one, name) for one in found) for name in names}
    return StatsReport.of(**known, **sums)


def _row(one: "SessionOverview", model: str | None) -> SessionRow:
    whole = one.info.session_id
    return SessionRow.of(
        *(one.info, one.stats),
        short_id=shortest_id(whole, len(one.beginning)),
        context=_context(one, model or one.model),
    )


def _context(one: "SessionOverview", model: str | None) -> Gauge:
    """The gauge of the last call's model, and what was appended since; else of the whole view."""
    call = one.last_call
    used = usage_tokens(call.usage) if call is not None and call.model == model else None
    if call is None or used is None:
        return gauge.estimated_gauge(model, one.stats.visible_bytes)
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


class _Selectable(Protocol):
    """What a row is selected by."""

    @property
    def seq(self) -> int: ...

    @property
    def speaker(self) -> str | None: ...

    @property
    def kind(self) -> str: ...

    @property
    def content(self) -> Any: ...


RowT = TypeVar("RowT", bound=_Selectable)


PAGE_BYTES: Final = 1_000_000
"""How many bytes of content a page holds at most, unless its first row alone holds more."""


def within_bytes(rows: Iterable[RowT], most: int = PAGE_BYTES) -> Iterator[RowT]:
    """The first rows whose contents together take no more bytes of JSON; at least one row."""
    held = 0
    for row in rows:
        size = len(json.dumps(row.content))
        if held and held + size > most:
            return
        held += size
        yield row


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The `newest` rows, or all, of those after entry `after` that have one of these names.

    A role is matched with the speaker, so that `tool` selects the outputs of tools. No role and no
    kind select all. Of the newest rows, the content of all but one is within `most_bytes`.
    """

    newest: int | None = None
    most_bytes: int | None = None
    after: int = 0
    roles: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    reverse: bool = False

    @property
    def is_all(self) -> bool:
        """Whether every row after the entry is wanted."""
        return not self.roles and not self.kinds

    def of(self, rows: Iterable[RowT]) -> Iterator[RowT]:
        """The selected rows. They are read one by one unless the order or number needs them all."""
        found: Iterable[RowT] = filter(self.has, rows)
        if self.newest is None:
            return reversed([*found]) if self.reverse else iter(found)
        newest = reversed(deque(found, maxlen=self.newest))
        if self.most_bytes is not None:
            newest = within_bytes(newest, self.most_bytes)
        return newest if self.reverse else reversed([*newest])

    def has(self, row: _Selectable) -> bool:
        """Whether a row is selected, if it is new enough."""
        return (
            row.seq > self.after
            and (not self.roles or row.speaker in self.roles)
            and (not self.kinds or row.kind in self.kinds)
        )
