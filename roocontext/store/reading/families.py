"""The descendants of a session: its children, their children, and so on."""

from typing import Final

from sqlalchemy import select

from roocontext.errors import HistoryCorrupt
from roocontext.store.engine.schema import of_session, sessions
from roocontext.store.engine.statements import OneOf, crossing
from roocontext.store.engine.transaction import SessionLog

# Level by level: the planner of PostgreSQL joins a recursive query by reading all sessions, and a
# distributed engine refuses it.
_CHILDREN: Final = crossing(
    select(sessions.c.session_id, sessions.c.owner)
    .where(sessions.c.parent.is_not(None), OneOf(sessions.c.parent, "parents"))
    .order_by(sessions.c.session_id)
)
_OWNER: Final = select(sessions.c.owner).where(of_session(sessions))


def descended(log: SessionLog) -> list[str]:
    """Find a session and its descendants, those of purged sessions too, level by level.

    A session of another owner is none, although a restore may give it this parent.
    """
    first = _CHILDREN, {"parents": log.tx.many_values([log.session_id])}
    own, children = log.all([(_OWNER, {}), first])
    members = [log.session_id]
    while level := [name for name, owner in children if own and owner == own[0][0]]:
        if log.session_id in level:  # each has one parent, so no other session can come again
            raise HistoryCorrupt(f"Session {log.session_id!r} is a descendant of itself.")
        members += level
        children = log.rows(_CHILDREN, parents=log.tx.many_values(level))
    return members
