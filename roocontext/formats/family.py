"""A session and its descendants, as every export of a family goes through them."""

from collections.abc import Iterator

from roocontext.store.session import Session
from roocontext.store.store import Store


def family_of(store: Store, session: Session) -> Iterator[Session]:
    """The session, its sub-agents' sessions and theirs, parents first."""
    yield session
    for child in session.children():
        yield from family_of(store, store.session(child.session_id))
