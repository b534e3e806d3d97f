"""The descendants of a session: its children, their children, and so on."""

from typing import Final

from sqlalchemy import select

from roocontext.errors import HistoryCorrupt
from roocontext.store.engine.schema import sessions
from roocontext.store.engine.statements import OneOf, crossing
from roocontext.store.engine.transaction import Transaction

# Level by level: the planner of PostgreSQL joins a recursive query by reading all sessions, and a
# distributed engine refuses it.
_CHILDREN: Final = crossing(
    select(sessions.c.session_id)
    .where(sessions.c.parent.is_not(None), OneOf(sessions.c.parent, "parents"))
    .order_by(sessions.c.session_id)
)


def descended(tx: Transaction, session_id: str) -> list[str]:
    """Find a session and its descendants, those of purged sessions too, level by level."""
    members, level = [session_id], [session_id]
    while level:
        level = [row[0] for row in tx.rows(_CHILDREN, parents=tx.many_values(level))]
        if session_id in level:  # each has one parent, so no other session can come again
            raise HistoryCorrupt(f"Session {session_id!r} is a descendant of itself.")
        members += level
    return members
