"""Deleting through an adapter hides: a rewind to the start, and a note that begins a new epoch.

The messages leave the view with the rewind. Notes are never rewound, so an adapter that keeps facts
in notes reads only those behind `epoch`. Nothing is destroyed (only `Store.purge` does that), and
the id can be used again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from roocontext.adapters.own_notes import Shape, newest_own
from roocontext.errors import DuplicateMessage, VersionConflict
from roocontext.store.items import Describe, Item, NewNote, Rewind
from roocontext.store.session import Session

EPOCH = "adapter.epoch"
"""The kind of the notes that begin an epoch."""
BEGUN: Shape = {"by": str}
"""What such a note holds."""


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
    """Hide all that the session holds, in one transaction, and begin a new epoch.

    `by` names the adapter's call in the log. The `metadata` replaces the session's, for example to
    leave it out of a list; `also` is written behind the epoch's note. Returns the new epoch.
    Raises DuplicateMessage if something else was written with a client id of `also`.
    """
    behind: list[Item] = [NewNote(EPOCH, {"by": by})]
    if metadata is not None:
        behind.append(Describe(metadata))
    while True:
        head = session.head_seq()
        items = [Rewind(0, head_seq=head, trigger=by), *behind, *also]
        try:
            written = session.write_batch(items, expected_seq=head)
        except DuplicateMessage:
            raise
        except VersionConflict:  # somebody wrote in the meantime, and that is hidden too
            continue
        return written[1].seq
