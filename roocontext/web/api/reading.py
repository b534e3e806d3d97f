"""The operations that read."""

from typing import Any

from starlette.responses import Response

from roocontext import reports
from roocontext.errors import MessageNotFound
from roocontext.log.counting import counter_named
from roocontext.store.proof.verify import Head
from roocontext.web.api import documents, queries
from roocontext.web.api.operations import JSON, Answer, Plain, Reading
from roocontext.web.downloads import download


def get_sessions(asked: Reading[queries.SessionsQuery]) -> Answer[reports.sessions.Sessions]:
    """List the sessions, the newest first."""
    options = asked.query.model_dump(exclude={"where", "content"})
    where = reports.naming.conditions(asked.query.where)
    return Answer(reports.sessions.matching_sessions(asked.store, where=where, **options))


def get_purged(asked: Reading[queries.PurgedQuery]) -> Answer[reports.sessions.Sessions]:
    """List the receipts of purged sessions, the last purged first."""
    return Answer(reports.sessions.purged(asked.store, **asked.query.model_dump()))


def get_session(asked: Reading[queries.ContentQuery]) -> Answer[documents.SessionReport]:
    """Read the title, metadata, times and sizes of a session."""
    return Answer(documents.session_report(asked.chat))


def get_head(asked: Plain) -> Answer[documents.HeadReport]:
    """Read the version of a session. If-Match takes the ETag of this answer."""
    return Answer(documents.head_report(asked.chat))


def get_context(asked: Reading[queries.ModelQuery]) -> Answer[reports.gauge.Gauge]:
    """Read the gauge: how much of the model's window the next request takes."""
    return Answer(reports.gauge.counted_gauge(asked.chat, asked.query.model))


def get_entries(asked: Reading[queries.EntriesQuery]) -> Answer[documents.EntryPage]:
    """Read a page of the log, hidden and rewound entries too, by default the newest."""
    return Answer(documents.page_of_entries(asked.chat, asked.query))


def get_entry(asked: Reading[queries.ContentQuery]) -> Answer[reports.history.EntryRow]:
    """Read one entry as it was written, and what hides it now."""
    return Answer(reports.history.one_entry(asked.chat, asked.seq))


def get_message(asked: Reading[queries.MessageQuery]) -> Answer[reports.history.EntryRow]:
    """Find the newest live message with this id of the agent's, or else the newest rewound one."""
    seq = asked.chat.message(asked.query.message_id).seq
    return Answer(reports.history.one_entry(asked.chat, seq))


def get_content(asked: Plain) -> Answer[Response]:
    """Read the content of an entry, byte for byte as it is stored."""
    chat = asked.chat
    text = chat.internals.stored_content(asked.seq)
    if text is None:
        line = f"Entry {asked.seq} has no content."
        raise MessageNotFound(line, candidates=(0, chat.info().last_seq))
    return Answer(Response(text.encode("utf-8", "backslashreplace"), media_type=JSON))


def get_why(asked: Plain) -> Answer[reports.why.Why]:
    """Explain why the model does or does not see an entry, and what would bring it back."""
    return Answer(reports.why.why(asked.chat, asked.seq))


def get_view(asked: Reading[queries.ViewQuery]) -> Answer[documents.ViewReport]:
    """Read what the model sees, or saw at an entry or a time."""
    options: dict[str, Any] = asked.query.model_dump(exclude={"content"})
    view = asked.chat.view(**options)
    messages = [*reports.history.message_rows(view.messages)]
    return Answer(documents.ViewReport.of(view, messages=messages))


def get_messages(asked: Reading[queries.MessagesQuery]) -> Answer[documents.MessagesReport]:
    """Read what the model sees in the form that a provider accepts, and what was repaired."""
    chat, query = asked.chat, asked.query
    as_of = chat.view(as_of=query.as_of, recorded=query.recorded, limit=1).seq
    options: dict[str, Any] = {"model": query.model, "dialect": query.dialect, "as_of": as_of}
    report = documents.MessagesReport.of(
        query,
        session_id=chat.id,
        messages=chat.messages(query.form, **options),
        repairs=chat.repairs(query.form, **options),
    )
    return Answer(report)


def get_frame(asked: Reading[queries.FrameQuery]) -> Answer[documents.FrameReport]:
    """Read the system prompt and the tools that were recorded last, now or at a moment."""
    query = asked.query
    frame = asked.chat.frame(as_of=query.as_of, recorded=query.recorded)
    content = None if frame is None else frame.content()
    return Answer(documents.FrameReport(session_id=asked.session_id, frame=content))


def get_tokens(asked: Reading[queries.TokensQuery]) -> Answer[documents.TokensReport]:
    """Count the tokens of the view, now or at a moment. Counts are stored."""
    counter = counter_named(asked.query.counter)
    part: dict[str, Any] = asked.query.model_dump(exclude={"counter"})
    count = asked.chat.tokens(counter, **part)
    named = {"session_id": asked.session_id, "counter": counter.name}
    return Answer(documents.TokensReport.of(counter, tokens=count, **named))


def get_notes(asked: Reading[queries.NotesQuery]) -> Answer[documents.NotesReport]:
    """Read the notes of a kind. The newest note on each target is current."""
    page, following = asked.chat.internals.notes_page(**asked.query.model_dump(exclude={"content"}))
    report = documents.NotesReport.of(session_id=asked.session_id, notes=page, next=following)
    return Answer(report)


def get_pending(asked: Reading[queries.ContentQuery]) -> Answer[documents.PendingReport]:
    """Read whose turn it is, and the tool calls that wait for an answer."""
    chat = asked.chat
    pending = {"waits_for": chat.waits_for(), "pending": chat.pending()}
    return Answer(documents.PendingReport.of(session_id=chat.id, **pending))


def get_pins(asked: Reading[queries.AtPoint]) -> Answer[reports.results.Pins]:
    """List the pinned messages, now or at a moment."""
    query = asked.query
    pins = sorted(asked.chat.pins(as_of=query.as_of, recorded=query.recorded))
    return Answer(reports.results.Pins(session_id=asked.session_id, pins=pins, changed=None))


def get_diff(asked: Reading[queries.DiffQuery]) -> Answer[reports.history.Difference]:
    """Compare the views at two moments."""
    query = asked.query
    change = reports.history.difference(asked.chat, query.from_, query.to, recorded=query.recorded)
    return Answer(change)


def get_timeline(asked: Reading[queries.TimelineQuery]) -> Answer[documents.TimelineReport]:
    """Read which entries hide which, and the branches that rewinds made.

    Each stretch, entry that hides others, and rewind is a mark. A session with more marks than are
    asked for is shown by the largest stretches and the newest of the others.
    """
    return Answer(documents.timeline_report(asked.chat, asked.query.marks))


def get_verification(asked: Reading[queries.VerificationQuery]) -> Answer[reports.results.Checked]:
    """Check every hash, seq, total and cache, and that the log continues a saved head."""
    query = asked.query
    saved = None
    if query.saved_seq is not None and query.saved_hash is not None:
        saved = Head(asked.session_id, query.saved_seq, query.saved_hash)
    return Answer(reports.results.Checked.of(asked.chat.verify(saved)))


def get_usage(asked: Reading[queries.UsageQuery]) -> Answer[reports.usage.UsageReport]:
    """Read the tokens of a session by role and tool, and the costs of its model calls."""
    query = asked.query
    return Answer(
        reports.usage.usage_of(
            asked.chat, query.model, everything=query.everything, family=query.family
        )
    )


def get_spending(asked: Reading[queries.SpendingQuery]) -> Answer[reports.usage.Spending]:
    """Read the costs of the model calls of all sessions."""
    options = asked.query.model_dump(exclude={"where"})
    where = reports.naming.conditions(asked.query.where)
    return Answer(reports.usage.spending_of(asked.store, where=where, **options))


def get_search(asked: Reading[queries.SearchQuery]) -> Answer[reports.search.Found]:
    """Find the messages that contain all words of a query, hidden and rewound ones too."""
    query = asked.query
    reports.search.refresh_index(asked.store)
    options: dict[str, Any] = query.model_dump(exclude={"q", "where"})
    where = reports.naming.conditions(query.where)
    page = asked.store.search(query.q, where=where, **options)
    return Answer(reports.search.found(query.q, page))


def get_export(asked: Reading[queries.ExportQuery]) -> Answer[Response]:
    """Export a session as a file. JSONL loses nothing; the others are to read or to send."""
    query = asked.query
    return Answer(download(asked.store, asked.chat, query.to, family=query.family))
