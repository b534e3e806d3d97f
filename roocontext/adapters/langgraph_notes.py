"""The notes that hold the checkpoints of a LangGraph thread; those of anybody else are no such."""

import re

from roocontext.adapters.own_notes import Shape, fits, newest_own_notes
from roocontext.store.notes import Note
from roocontext.store.session import Session

KIND = "langgraph/"
"""What the kinds of all notes begin with: the epoch follows, the checkpoint, and `!` for writes."""

_OURS = re.compile(rf"{KIND}\d{{6,}}/.*", re.DOTALL)
_WRITES: Shape = {"task_id": object, "task_path": object, "writes": list}
_HIDDEN: Shape = {"id": str, "hidden": str, "key": str}
_CHECKPOINT: Shape = {
    "id": str,
    "key": str,
    "checkpoint": dict,
    "metadata": dict,
    "channels": list,
    "messages": list,
    "places": dict,
    "values": dict,
}


def own_notes(
    session: Session, beginning: str = KIND, *, before: str | None = None, limit: int
) -> list[Note]:
    """The newest note of each kind, the greatest kind first. See `Session.newest_notes`."""
    return newest_own_notes(session, beginning, _is_own, before=before, limit=limit)


def _is_own(note: Note) -> bool:
    if not _OURS.fullmatch(note.note):
        return False
    if "!" in note.note:
        return fits(note.content, _WRITES)
    if note.note.endswith("/"):
        return fits(note.content, {"begun": str})
    return fits(note.content, _CHECKPOINT) or fits(note.content, _HIDDEN)
