"""The table of operations, from which the routes and the OpenAPI document are made."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from roocontext.reports.erasing import PurgedReport, RedactedReport
from roocontext.reports.gauge import Gauge
from roocontext.reports.history import Difference, EntryRow
from roocontext.reports.results import Checked, Forked, OutcomeReport, Pins
from roocontext.reports.search import Found
from roocontext.reports.sessions import Sessions
from roocontext.reports.undo import ViewChange
from roocontext.reports.usage import Spending, UsageReport
from roocontext.reports.why import Why
from roocontext.store.writing.append import Receipt
from roocontext.web.api import bodies, documents, events, queries, reading, writing
from roocontext.web.api.operations import Operation
from roocontext.web.downloads import MEDIA

_SESSION: Final = "/sessions/{session}"
_ENTRY: Final = "/sessions/{session}/entries/{seq}"
_ONE_OR_MANY: Final = (Receipt, list[Receipt])
_PLANNED: Final = (OutcomeReport, documents.CommittedReport)
_COMPACTED: Final = (OutcomeReport, documents.CompactionReceipt)

_versioned = partial(Operation, version="log")
"""A part of a session as it is now."""
_change = partial(Operation, needs="write", turn="optional", statuses=(200, 201))
"""A change of a session, which can be part of a turn."""
_based = partial(_change, if_match="required")
"""A change that names the head that it is based on."""

OPERATIONS: Final[Sequence[Operation]] = (
    Operation("/sessions", reading.get_sessions, Sessions, query=queries.SessionsQuery),
    Operation(
        "/sessions",
        writing.post_session,
        documents.SessionReport,
        body=bodies.NewSession,
        needs="write",
        refuses=(404, 409),
        statuses=(201,),
    ),
    Operation("/purged", reading.get_purged, Sessions, query=queries.PurgedQuery),
    _versioned(_SESSION, reading.get_session, documents.SessionReport, query=queries.ContentQuery),
    Operation(
        _SESSION,
        writing.put_session,
        documents.SessionReport,
        body=bodies.SessionToOpen,
        needs="write",
        statuses=(200, 201),
    ),
    _change(
        _SESSION,
        writing.patch_session,
        documents.SessionReport,
        body=bodies.SessionChange,
        takes_key=True,
        statuses=(200,),
    ),
    Operation(f"{_SESSION}/head", reading.get_head, documents.HeadReport, version="head"),
    Operation(f"{_SESSION}/context", reading.get_context, Gauge, query=queries.ModelQuery),
    _versioned(
        f"{_SESSION}/entries", reading.get_entries, documents.EntryPage, query=queries.EntriesQuery
    ),
    _change(
        f"{_SESSION}/entries",
        writing.post_entries,
        _ONE_OR_MANY,
        query=queries.AppendQuery,
        body=bodies.EntryInput,
        many=True,
        if_match="optional",
        takes_key=True,
    ),
    _versioned(_ENTRY, reading.get_entry, EntryRow, query=queries.ContentQuery),
    _versioned(f"{_ENTRY}/content", reading.get_content, object),
    _versioned(f"{_ENTRY}/why", reading.get_why, Why),
    _versioned(f"{_SESSION}/message", reading.get_message, EntryRow, query=queries.MessageQuery),
    _versioned(f"{_SESSION}/view", reading.get_view, documents.ViewReport, query=queries.ViewQuery),
    _versioned(
        f"{_SESSION}/messages",
        reading.get_messages,
        documents.MessagesReport,
        query=queries.MessagesQuery,
    ),
    _versioned(
        f"{_SESSION}/tokens", reading.get_tokens, documents.TokensReport, query=queries.TokensQuery
    ),
    _versioned(
        f"{_SESSION}/frame", reading.get_frame, documents.FrameReport, query=queries.FrameQuery
    ),
    _versioned(
        f"{_SESSION}/notes", reading.get_notes, documents.NotesReport, query=queries.NotesQuery
    ),
    _change(
        f"{_SESSION}/notes",
        writing.post_notes,
        _ONE_OR_MANY,
        body=bodies.NoteInput,
        many=True,
        takes_key=True,
    ),
    _change(
        f"{_SESSION}/request",
        writing.post_request,
        documents.RequestReport,
        query=queries.ContentQuery,
        body=bodies.RequestInput,
        needs="read",
        statuses=(200,),
    ),
    _change(
        f"{_SESSION}/record", writing.post_record, documents.ReplyReport, body=bodies.ReplyInput
    ),
    _versioned(
        f"{_SESSION}/pending",
        reading.get_pending,
        documents.PendingReport,
        query=queries.ContentQuery,
    ),
    _change(f"{_SESSION}/begin", writing.post_begin, Receipt, body=bodies.CallInput),
    _change(f"{_SESSION}/answer", writing.post_answer, Receipt, body=bodies.AnswerInput),
    Operation(
        f"{_SESSION}/turn",
        writing.post_turn,
        documents.TurnReport,
        body=bodies.TurnInput,
        needs="write",
        statuses=(201,),
    ),
    _change(
        f"{_SESSION}/turn",
        writing.put_turn,
        documents.TurnReport,
        body=bodies.LeaseInput,
        turn="required",
        statuses=(200,),
    ),
    Operation(
        f"{_SESSION}/turn", writing.delete_turn, documents.EndedTurn, needs="write", turn="required"
    ),
    _versioned(f"{_SESSION}/pins", reading.get_pins, Pins, query=queries.AtPoint),
    _change(f"{_SESSION}/pins/{{seq}}", writing.put_pin, Pins, takes_key=True, statuses=(200,)),
    _change(f"{_SESSION}/pins/{{seq}}", writing.delete_pin, Pins, takes_key=True, statuses=(200,)),
    _versioned(f"{_SESSION}/diff", reading.get_diff, Difference, query=queries.DiffQuery),
    _versioned(
        f"{_SESSION}/timeline",
        reading.get_timeline,
        documents.TimelineReport,
        query=queries.TimelineQuery,
    ),
    Operation(
        f"{_SESSION}/verification",
        reading.get_verification,
        Checked,
        query=queries.VerificationQuery,
    ),
    Operation(f"{_SESSION}/usage", reading.get_usage, UsageReport, query=queries.UsageQuery),
    Operation(
        f"{_SESSION}/export",
        reading.get_export,
        bytes,
        query=queries.ExportQuery,
        media=MEDIA,
    ),
    Operation(
        f"{_SESSION}/plans",
        writing.post_plan,
        _PLANNED,
        body=bodies.PlanInput,
        if_match="optional",
        refuses=(502,),
    ),
    _based(
        f"{_SESSION}/compactions",
        writing.post_compaction,
        _COMPACTED,
        body=bodies.PlanInput,
        takes_key=True,
        refuses=(502,),
    ),
    _based(
        f"{_SESSION}/recoveries",
        writing.post_recovery,
        OutcomeReport,
        body=bodies.RecoveryInput,
        refuses=(502,),
    ),
    _based(
        f"{_SESSION}/restorations",
        writing.post_restoration,
        documents.RestoredReport,
        body=bodies.RestorationInput,
    ),
    _based(
        f"{_SESSION}/rewinds",
        writing.post_rewind,
        ViewChange,
        body=bodies.RewindInput,
        takes_key=True,
    ),
    _based(f"{_SESSION}/undo", writing.post_undo, ViewChange, body=bodies.UndoInput),
    _based(f"{_SESSION}/uncover", writing.post_uncover, ViewChange, body=bodies.UncoverInput),
    _change(
        f"{_SESSION}/forks",
        writing.post_fork,
        Forked,
        body=bodies.ForkInput,
        if_match="optional",
        statuses=(201,),
    ),
    _based(
        f"{_SESSION}/redactions",
        writing.post_redaction,
        RedactedReport,
        body=bodies.RedactionInput,
        needs="admin",
    ),
    Operation(
        f"{_SESSION}/purges",
        writing.post_purge,
        PurgedReport,
        body=bodies.PurgeInput,
        needs="admin",
        if_match="required",
        statuses=(200, 201),
    ),
    Operation(
        f"{_SESSION}/events",
        events.get_session_events,
        str,
        query=queries.EventsQuery,
        media=(events.STREAM,),
    ),
    Operation("/events", events.get_events, str, query=queries.EventsQuery, media=(events.STREAM,)),
    Operation("/search", reading.get_search, Found, query=queries.SearchQuery, refuses=(409,)),
    Operation("/usage", reading.get_spending, Spending, query=queries.SpendingQuery),
)
