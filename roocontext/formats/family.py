"""A session and its descendants, as every export of a family goes through them."""

from collections.abc import Iterator

from roocontext.store.session import Session
from roocontext.store.store import Store


def family_of(store: Store, session: Session) -> Iterator[Session]:
    """The session, its sub-agents' sessions and theirs, parents first."""
    # A stack of its own: a family may be deeper than Python's. No session comes twice, even if
    # somebody has changed a parent in the database.
    waiting, seen = [session.id], {session.id}
    while waiting:
        one = session if waiting[-1] == session.id else store.session(waiting[-1])
        waiting.pop()
        yield one
        new = [info.session_id for info in one.children() if info.session_id not in seen]
        seen.update(new)
        waiting += reversed(new)
