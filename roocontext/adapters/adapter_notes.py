"""The notes of an adapter, and how deleting hides a session.

Anybody may write a note of any kind, and no note is ever taken back. So an adapter ignores notes of
its kinds that do not have the content that it writes: otherwise one such note would make a session
unreadable for ever.

Deleting through an adapter is a rewind to the start, and a note that begins a new epoch. Notes are
never rewound, so an adapter that stores facts in notes reads only those after `epoch`. Nothing is
destroyed (only `Store.purge` does that), and the id can be used again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from roocontext.errors import DuplicateMessage, VersionConflict
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.writing.items import Item, NewNote, Rewind, SetMetadata

_LARGEST_PAGE: Final = 64
Shape: TypeAlias = Mapping[str, type]
"""The fields that the content of an adapter's notes has, with their types."""


def fits(content: object, shape: Shape) -> bool:
    """True if a note's content has these fields."""
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
    page: int = 1,
) -> Iterator[Note]:
    """The newest note of each kind that the adapter wrote. See `SessionInternals.newest_notes`.

    They are read page by page; `page` is the number of notes in the first one.
    """
    while True:
        notes = session.internals.newest_notes(beginning, before=before, limit=page)
        yield from filter(None, (_own(session, note, is_own) for note in notes))
        if len(notes) < page:
            return
        before, page = notes[-1].note, min(4 * page, _LARGEST_PAGE)


def _own(session: Session, newest: Note | None, is_own: Callable[[Note], Any]) -> Note | None:
    if newest is None or is_own(newest):
        return newest
    # The older ones are only read now, because it is rare that somebody else wrote the newest.
    older = (note for note in reversed(session.notes(newest.note)) if note.target is None)
    return next((note for note in older if is_own(note)), None)


EPOCH = "adapter.epoch"
"""The kind of notes that begin an epoch."""
BEGUN: Shape = {"by": str}
"""The content of such a note."""


def epoch(session: Session) -> int:
    """The entry that began the current epoch; 0 in a session that was never hidden."""
    note = newest_own(session, EPOCH, BEGUN)
    return 0 if note is None else note.seq


def hide(
    session: Session,
    *,
    by: str,
    metadata: Mapping[str, Any] | None = None,
    also: Sequence[Item] = (),
) -> int:
    """Hide the whole content of the session, in one transaction, and begin a new epoch.

    `by` names the adapter's call in the log. The `metadata` replaces the session's, for example to
    leave it out of a list; `also` is written after the epoch's note. Returns the new epoch.
    Raises DuplicateMessage if something else was written with a client id of `also`.
    """
    after: list[Item] = [NewNote(EPOCH, {"by": by})]
    if metadata is not None:
        after.append(SetMetadata(metadata))
    while True:
        head = session.head_seq()
        items = [Rewind(0, head_seq=head, trigger=by), *after, *also]
        try:
            written = session.write_batch(items, expected_seq=head)
        except DuplicateMessage:
            raise
        except VersionConflict:  # another writer was first, whose entries are hidden too
            continue
        return written[1].seq
