"""The notes that hold the checkpoints of a LangGraph thread, and none that somebody else wrote."""

from collections.abc import Mapping
from typing import Any

from roocontext.adapters.own_notes import newest_own_notes
from roocontext.store.notes import Note
from roocontext.store.session import Session

KIND = "langgraph/"
"""What the kinds of all notes begin with: the epoch follows, the checkpoint, and `!` for writes."""

LOST_PARENT = "!parent"
"""How the kind of the note ends that says that a checkpoint's parent was hidden."""
NO_WRITES: Mapping[str, Any] = {"task_id": "", "task_path": "", "writes": []}
"""What such a note holds: it is read with the checkpoint's writes, and is none."""

_WRITES = frozenset(NO_WRITES)
_HIDDEN = frozenset({"id", "hidden", "key"})
_CHECKPOINT = frozenset(
    {"id", "key", "checkpoint", "metadata", "channels", "messages", "places", "values"}
)


def own_notes(
    session: Session, beginning: str = KIND, *, before: str | None = None, limit: int
) -> list[Note]:
    """The newest note of each kind, the greatest kind first. See `Session.newest_notes`."""
    return newest_own_notes(session, beginning, _is_own, before=before, limit=limit)


def _is_own(note: Note) -> bool:
    # By the names of the fields alone: each load of a thread does this.
    kind, content = note.note, note.content
    if not isinstance(content, dict) or not kind.split("/", 2)[1].isdecimal():
        return False
    names = content.keys()
    if "!" in kind:
        return names >= _WRITES
    return names >= _CHECKPOINT or (kind.endswith("/") and "begun" in names) or names >= _HIDDEN
