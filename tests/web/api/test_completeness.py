"""Every public operation of the library has a route, or a reason why it has none."""

import pytest

from roocontext import ContextManager, Session, Store
from roocontext.web.api.table import OPERATIONS

ROUTES = {
    Session: """
        append:post_entries append_many:post_entries answer:post_answer audit:get_entries
        begin:post_begin children:get_sessions commit:post_compaction diff:get_diff fork:post_fork
        frame:get_frame head:get_head head_seq:get_head info:get_session message:get_entry
        messages:get_messages newest_note:get_notes note:post_notes notes:get_notes
        pending:get_pending pin:put_pin pins:get_pins record:post_record redact:post_redaction
        repairs:get_messages request:post_request rewind:post_rewind set_metadata:patch_session
        set_title:patch_session stats:get_session tokens:get_tokens turn:post_turn
        uncover:post_uncover undo:post_undo unpin:delete_pin update_metadata:patch_session
        usage:get_usage verify:get_verification view:get_view waits_for:get_pending""",
    Store: """
        change_cursor:get_events changes:get_events create:post_session find:get_sessions
        index:get_search open_session:put_session overview:get_sessions purge:post_purge
        purged:get_purged search:get_search session:get_session sessions:get_sessions
        usage:get_spending""",
    ContextManager: """
        condense:post_compaction drift:get_context manage:post_compaction preview:post_plan
        prune:post_compaction recover:post_recovery restore:post_restoration
        truncate:post_compaction""",
}
"""The operations of each class, each with the handler that answers for it."""
HANDLERS = {kind: dict(pair.split(":") for pair in pairs.split()) for kind, pairs in ROUTES.items()}
WITHOUT = {
    "internals": "no part of the API of the library",
    "rebuild": "repairs a database: it is for the person who runs it",
    "restore": "writes the log of another store: it is for the person who runs it",
    "write_batch": "a transaction of several kinds of entries: `append_many` and notes have lists",
    "close": "ends the server's store",
    "archive": "it writes files: it is for the person who runs the database",
    "ping": "any route shows whether the database answers",
    "drop_index": "maintenance: it is for the person who runs it",
    "open": "the server has a store",
    "hooks": "functions in the process of the manager",
    "settings": "of the manager in the process",
    "will_manage": "a compaction that is not due is a `noop`",
}


@pytest.mark.parametrize("kind", HANDLERS)
def test_every_public_operation_has_a_route_or_a_reason(kind):
    public = {name for name in dir(kind) if not name.startswith("_")} - {"id", "parent"}
    assert {*HANDLERS[kind]} == public - (WITHOUT.keys() - HANDLERS[kind].keys())


def test_every_route_that_is_named_exists():
    names = {operation.handler.__name__ for operation in OPERATIONS}
    assert {name for handlers in HANDLERS.values() for name in handlers.values()} <= names
