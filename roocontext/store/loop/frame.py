"""Frames: notes that are written when the system prompt or the tools change.

They are compared by their salted digests, so an unchanged prompt is neither written nor read again.
Like any other note, a frame is not taken back by a rewind.
"""

from typing import NamedTuple

from roocontext.log.chain import content_digest
from roocontext.log.draft import Sources, note_draft
from roocontext.log.encoding import encode
from roocontext.log.forms import forms
from roocontext.log.moments import Point
from roocontext.log.request import Frame, GivenFrame, replaced_tools
from roocontext.store.engine.schema import entries
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import lock, read_head
from roocontext.store.reading.notes import FRAME, HAS_NO_TARGET, newest_note, newest_note_of
from roocontext.store.reading.points_in_time import seq_at
from roocontext.store.writing.append import write

RECORDED_COLUMNS = (entries.c.seq, entries.c.salt, entries.c.content_digest)
"""The columns of a frame's note that are read to compare it."""
_NEWEST = newest_note_of(*RECORDED_COLUMNS).where(HAS_NO_TARGET)


class Recorded(NamedTuple):
    """The note of a frame. A redacted one has no salt."""

    seq: int
    salt: bytes | None
    digest: bytes

    def holds(self, frame: Frame) -> bool:
        """Return True for a note of this frame. The frame of a redacted note is unknown."""
        text = encode(frame.content(), "frame")
        return self.salt is not None and content_digest(self.salt, text, None) == self.digest


def newest(log: SessionLog, seq: int) -> Recorded | None:
    """Find the frame that is current at a seq."""
    row = log.row(_NEWEST, note=FRAME, seq=seq)
    return None if row is None else Recorded(*row)


def read_frame(log: SessionLog, as_of: Point = None) -> Frame | None:
    """Read the frame that is current at a point in time, by default now; None if there is none."""
    note = newest_note(log, FRAME, None, seq_at(log, as_of))
    return None if note is None else Frame.of(note.content)


def sent_names(log: SessionLog, form: str) -> dict[str, str]:
    """The names of the recorded tools by those that a form sends instead."""
    known = read_frame(log)
    if known is None or forms.first([form]) is None:
        return {}
    return {new: name for _, name, new in replaced_tools(forms[form], known.tools)}


def frame_sent(log: SessionLog, seq: int) -> Frame | None:
    """Read the frame of the request that an entry replied to; None if it is not known any more."""
    note = newest(log, seq - 1)
    return None if note is None or note.salt is None else read_frame(log, note.seq)


def frame_to_record(log: SessionLog, given: GivenFrame) -> Frame | None:
    """Decide which frame to record: None if the newest note has the given one already."""
    if given.is_empty:
        return None
    last = read_head(log).last_seq
    return frame_unlike(log, given, newest(log, last))


def frame_unlike(log: SessionLog, given: GivenFrame, known: Recorded | None) -> Frame | None:
    """The frame that was given, if it differs from the recorded one."""
    if given.is_empty:
        return None
    if known is None:
        return given.over(None)
    frame = given.over(None if given.is_whole else read_frame(log, known.seq))
    return None if known.holds(frame) else frame


def keep(log: SessionLog, given: GivenFrame, sources: Sources) -> bool:
    """Write a note of the frame if it is new, and return whether it was."""
    head = lock(log)
    frame = frame_to_record(log, given)
    if frame is None:
        return False
    write(log, head, [note_draft(FRAME, frame.content(), sources)])
    return True
