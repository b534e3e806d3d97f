"""Extracts: the notes that say what a sealed compaction hides."""

from roocontext.log.draft import Salts, note_draft
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.coverings import Hidden
from roocontext.store.reading.head import lock
from roocontext.store.reading.notes import (
    EXTRACT,
    REDACTION,
    newest_note,
    notes_query,
    to_redacted,
)
from roocontext.store.writing.append import write


def keep_extract(log: SessionLog, hidden: Hidden, text: str, *, now: int, salts: Salts) -> bool:
    """Write the extract of what a covering hides, unless there is one already; whether it was.

    Nothing is written if anything was redacted since the messages were read: the extract may quote
    it.
    """
    head = lock(log)
    if newest_note(log, EXTRACT, hidden.source, head.last_seq) is not None:
        return False
    statement, of = notes_query(REDACTION)
    if to_redacted(log.rows(statement, **of), after=hidden.last_seq):
        return False
    draft = note_draft(EXTRACT, {"text": text}, now=now, salts=salts, target=hidden.source)
    write(log, head, [draft])
    return True
