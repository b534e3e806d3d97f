"""The table of operations, from which the routes and the OpenAPI document are made."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from roocontext.web.api import events, reading, writing
from roocontext.web.api.operations import Operation
from roocontext.web.downloads import MEDIA

_SESSION: Final = "/sessions/{session}"
_ENTRY: Final = "/sessions/{session}/entries/{seq}"

_versioned = partial(Operation, version="log")
"""A part of a session as it is now."""
_change = partial(Operation, needs="write", turn="optional", statuses=(200, 201))
"""A change of a session, which can be part of a turn."""
_based = partial(_change, if_match="required")
"""A change that names the head that it is based on."""

OPERATIONS: Final[Sequence[Operation]] = (
    Operation("/sessions", reading.get_sessions),
    Operation(
        "/sessions", writing.post_session, needs="write", refuses=(404, 409), statuses=(201,)
    ),
    Operation("/purged", reading.get_purged),
    _versioned(_SESSION, reading.get_session),
    Operation(_SESSION, writing.put_session, needs="write", statuses=(200, 201)),
    _change(_SESSION, writing.patch_session, takes_key=True, statuses=(200,)),
    Operation(f"{_SESSION}/head", reading.get_head, version="head"),
    Operation(f"{_SESSION}/context", reading.get_context),
    _versioned(f"{_SESSION}/entries", reading.get_entries),
    _change(f"{_SESSION}/entries", writing.post_entries, if_match="optional", takes_key=True),
    _versioned(_ENTRY, reading.get_entry),
    _versioned(f"{_ENTRY}/content", reading.get_content),
    _versioned(f"{_ENTRY}/why", reading.get_why),
    _versioned(f"{_SESSION}/message", reading.get_message),
    _versioned(f"{_SESSION}/view", reading.get_view),
    _versioned(f"{_SESSION}/messages", reading.get_messages),
    _versioned(f"{_SESSION}/tokens", reading.get_tokens),
    _versioned(f"{_SESSION}/frame", reading.get_frame),
    _versioned(f"{_SESSION}/notes", reading.get_notes),
    _change(f"{_SESSION}/notes", writing.post_notes, takes_key=True),
    _change(f"{_SESSION}/request", writing.post_request, needs="read", statuses=(200,)),
    _change(f"{_SESSION}/record", writing.post_record),
    _versioned(f"{_SESSION}/pending", reading.get_pending),
    _change(f"{_SESSION}/begin", writing.post_begin),
    _change(f"{_SESSION}/answer", writing.post_answer),
    Operation(f"{_SESSION}/turn", writing.post_turn, needs="write", statuses=(201,)),
    _change(f"{_SESSION}/turn", writing.put_turn, turn="required", statuses=(200,)),
    Operation(f"{_SESSION}/turn", writing.delete_turn, needs="write", turn="required"),
    _versioned(f"{_SESSION}/pins", reading.get_pins),
    _change(f"{_SESSION}/pins/{{seq}}", writing.put_pin, takes_key=True, statuses=(200,)),
    _change(f"{_SESSION}/pins/{{seq}}", writing.delete_pin, takes_key=True, statuses=(200,)),
    _versioned(f"{_SESSION}/diff", reading.get_diff),
    _versioned(f"{_SESSION}/timeline", reading.get_timeline),
    Operation(f"{_SESSION}/verification", reading.get_verification),
    Operation(f"{_SESSION}/usage", reading.get_usage),
    Operation(f"{_SESSION}/export", reading.get_export, media=MEDIA),
    Operation(f"{_SESSION}/plans", writing.post_plan, if_match="optional", refuses=(502,)),
    _based(f"{_SESSION}/compactions", writing.post_compaction, takes_key=True, refuses=(502,)),
    _based(f"{_SESSION}/recoveries", writing.post_recovery, refuses=(502,)),
    _based(f"{_SESSION}/restorations", writing.post_restoration),
    _based(f"{_SESSION}/rewinds", writing.post_rewind, takes_key=True),
    _based(f"{_SESSION}/undo", writing.post_undo),
    _based(f"{_SESSION}/uncover", writing.post_uncover),
    _change(f"{_SESSION}/forks", writing.post_fork, if_match="optional", statuses=(201,)),
    _based(f"{_SESSION}/redactions", writing.post_redaction, needs="admin"),
    Operation(
        f"{_SESSION}/purges",
        writing.post_purge,
        needs="admin",
        if_match="required",
        statuses=(200, 201),
    ),
    Operation(f"{_SESSION}/events", events.get_session_events, media=(events.STREAM,)),
    Operation("/events", events.get_events, media=(events.STREAM,)),
    Operation("/search", reading.get_search, refuses=(409,)),
    Operation("/usage", reading.get_spending),
)
