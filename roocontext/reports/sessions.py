"""The list of sessions, and the sizes of one session or of all."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roocontext.reports import gauge
from roocontext.reports.document import Document, as_json
from roocontext.reports.gauge import Gauge
from roocontext.reports.naming import ALL

if TYPE_CHECKING:
    from roocontext import Stats, Store
    from roocontext.store.overview import SessionOverview
    from roocontext.store.verify import Progress


class SessionRow(Document):
    """A session of the list. `messages` and `bytes` count everything, hidden messages too.

    `visible_bytes` is the size of the visible messages as they were written: cleared outputs count
    in full. Unless tokens are counted, `context` is estimated from these bytes, and is then too
    high.
    """

    session_id: str
    title: str | None
    metadata: Any
    created_at: int
    updated_at: int
    head_seq: int
    last_seq: int
    messages: int
    bytes: int
    first_prompt: str | None
    parent: str | None
    visible_messages: int
    visible_bytes: int
    context: Gauge


class Sessions(Document):
    """The sessions of a database, the newest first. `more` says that there are more than these."""

    sessions: list[SessionRow]
    more: bool


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


def listed(
    store: "Store",
    text: str = "",
    *,
    parent: str | None = None,
    where: Mapping[str, str] | None = None,
    limit: int = 20,
    model: str | None = None,
    count: bool = False,
    progress: "Progress" = gauge.silent,
) -> Sessions:
    """The newest sessions with a text in their id or title, ignoring case.

    With a `parent`, only its children; with `where`, only those whose metadata has these strings.
    It is one statement. Only with `count` is each session's view read, if it is not counted yet.
    """
    # Python compares the letters, because SQLite ignores the case of ASCII letters only.
    found = store.overview(limit=ALL if text else limit + 1, parent=parent, where=where)
    wanted = text.casefold()
    matching = [
        one
        for one in found
        if wanted in one.info.session_id.casefold() or wanted in (one.info.title or "").casefold()
    ]
    rows = []
    for number, one in enumerate(matching[:limit], 1):
        context = (
            gauge.counted_gauge(store.session(one.info.session_id), model)
            if count
            else gauge.estimated_gauge(model or one.model, one.stats.visible_bytes)
        )
        rows.append(_row(one, context))
        progress(number, min(limit, len(matching)))
    return Sessions(sessions=rows, more=len(matching) > limit)


def total_stats(store: "Store") -> StatsReport:
    """The sums of all sessions."""
    return summed([one.stats for one in store.overview(limit=ALL)], None)


def summed(found: "list[Stats]", session_id: str | None) -> StatsReport:
    """The sums of some sessions."""
    known = {"session_id": session_id, "sessions": len(found)}
    names = [name for name in StatsReport.model_fields if name not in known]
    sums = {name: sum(getattr(one, name) for one in found) for name in names}
    return StatsReport.model_validate({**known, **sums})


def _row(one: "SessionOverview", context: Gauge) -> SessionRow:
    return SessionRow(
        **as_json(one.info),
        visible_messages=one.stats.visible_messages,
        visible_bytes=one.stats.visible_bytes,
        context=context,
    )
