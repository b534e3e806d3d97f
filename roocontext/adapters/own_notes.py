"""An adapter's own notes. Notes of its kinds that somebody else wrote are passed over.

Anybody may write a note of any kind, and no note is ever taken back. So an adapter that took any
note of its kind for its own could never read a session with such a note again.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from roocontext.store.notes import Note
from roocontext.store.session import Session

Shape: TypeAlias = Mapping[str, type]
"""The fields that the content of an adapter's notes has, with their types."""


def fits(content: object, shape: Shape) -> bool:
    """Whether a note's content has these fields."""
    return isinstance(content, dict) and all(
        name in content and isinstance(content[name], kind) for name, kind in shape.items()
    )


def newest_own(session: Session, kind: str, shape: Shape) -> Note | None:
    """The newest note of a kind that the adapter wrote."""
    return _own(session, session.newest_note(kind), lambda note: fits(note.content, shape))


def newest_own_notes(
    session: Session,
    beginning: str,
    is_own: Callable[[Note], Any],
    *,
    before: str | None = None,
    limit: int,
) -> list[Note]:
    """The newest note of each kind that the adapter wrote. See `Session.newest_notes`."""
    found: list[Note] = []
    while True:
        asked = limit - len(found)
        page = session.newest_notes(beginning, before=before, limit=asked)
        if not found and all(map(is_own, page)):
            return page
        found += filter(None, (_own(session, note, is_own) for note in page))
        if len(page) < asked or len(found) == limit:
            return found
        before = page[-1].note


def _own(session: Session, newest: Note | None, is_own: Callable[[Note], Any]) -> Note | None:
    if newest is None or is_own(newest):
        return newest
    # Only now are the others read: that somebody else wrote the newest one is rare.
    older = (note for note in reversed(session.notes(newest.note)) if note.target is None)
    return next((note for note in older if is_own(note)), None)
