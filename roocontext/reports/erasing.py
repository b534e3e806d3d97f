"""Redactions, purges and archives: the plan before, and the receipt afterwards."""

import json
from typing import TYPE_CHECKING, Any

from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import one_entry, text_in

if TYPE_CHECKING:
    from roocontext import Session, Store
    from roocontext.store.proof.archive import Archiving

_BEGINNING = 200
"""How many characters of an entry are shown before it is erased."""


class RedactedReport(Document):
    """The content that a redaction erased, or would erase in a dry run.

    `copies`, `quotes` and `summaries` are pairs of a session's id and a seq. `quotes` are answers
    to recall tools that quote the message. `summaries`, coverings and extracts of what a sealed
    compaction hides may quote it. None of them is changed. `archived` are entries of archived
    sessions: if they are copies, they are redacted when the session comes back, but its file still
    holds the content. A dry run
    also has the `beginning` of the content, and its size in `bytes` of JSON. `erased` says that the
    bytes were removed from the file and its log too. If there is an `owner`, only that owner's
    copies are erased: others may have restored the same log.
    """

    session_id: str
    title: str | None
    seq: int
    speaker: str | None
    beginning: Text | None
    bytes: int | None
    copies: list[list[Any]]
    quotes: list[list[Any]]
    summaries: list[list[Any]]
    archived: list[list[Any]]
    changed: bool
    dry_run: bool
    erased: bool
    owner: str | None


class PurgedReport(Document):
    """The receipt of a purge: the sizes of the session, and when it was deleted.

    If the session was purged before, `changed` is False, and the other fields are those of the
    first receipt. `copies` are the sessions that still hold entries of it, such as its forks. If
    the session was archived, `file` still holds its content; `digest` is the SHA-256 of that file.
    `erased` says that its bytes were removed from the file and its log too. Only a dry run has
    `title`, `first_prompt`, and the times `happened_at` of the last message and `updated_at` of the
    last entry.
    """

    session_id: str
    title: str | None
    first_prompt: str | None
    happened_at: Time | None
    updated_at: Time | None
    entries: int
    messages: int
    bytes: int
    last_hash: str
    purged_at: Time
    file: str | None
    digest: str | None
    copies: list[str]
    dry_run: bool
    erased: bool
    changed: bool


class PurgedSessions(Document):
    """Sessions that were purged together, or would be in a dry run, and their sums."""

    sessions: list[PurgedReport]
    messages: int
    bytes: int
    dry_run: bool


def redaction(chat: "Session", seq: int, *, dry_run: bool) -> RedactedReport:
    """Erase the content of an entry, or show what would be erased."""
    done = chat.redact(seq, dry_run=dry_run)
    title = chat.info().title if dry_run else None
    if not (dry_run and done.changed):
        return RedactedReport.of(done, title=title)
    row = one_entry(chat, done.seq)
    text = text_in(row)
    if text is None:
        text = json.dumps(row.content, ensure_ascii=False)
    return RedactedReport.of(
        done,
        title=title,
        speaker=row.speaker or row.note,
        beginning=text[:_BEGINNING],
        bytes=len(json.dumps(row.content)),
    )


def planned_purge(store: "Store", name: str, *, changed: bool) -> PurgedReport:
    """The content that a purge would delete. If the session was purged before, its receipt."""
    infos = store.find(name, limit=1) if changed else []
    info = next((info for info in infos if info.session_id == name), None)
    receipt = store.purge(name, dry_run=True)
    return PurgedReport.of(receipt, info, changed=changed, dry_run=True)


def purged_sessions(rows: list[PurgedReport], *, dry_run: bool) -> PurgedSessions:
    """The receipts of several purges."""
    return PurgedSessions(
        sessions=rows,
        messages=sum(row.messages for row in rows),
        bytes=sum(row.bytes for row in rows),
        dry_run=dry_run,
    )


class ArchivedRow(Document):
    """A session that was archived: its sizes and times, and the file with its SHA-256 and size.

    A dry run has no file.
    """

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str | None
    happened_at: Time
    updated_at: Time
    file: str | None
    digest: str | None
    size: int | None


class NotArchivedRow(Document):
    """A session that was left as it is.

    `why` is `changed` if it was written, erased or archived meanwhile, `turn` if a runner has its
    turn, and `damaged` if `verify` finds an error, at entry `seq`. `file` was written: after a
    change it was deleted again, and with `turn` the next run uses it.
    """

    session_id: str
    why: str
    file: str | None
    seq: int | None


class ArchivingReport(Document):
    """The sessions that were archived together, or would be in a dry run, and their sums."""

    archived: list[ArchivedRow]
    left: list[NotArchivedRow]
    messages: int
    bytes: int
    size: int
    dry_run: bool


def archiving(done: "Archiving") -> ArchivingReport:
    """The outcome of an archiving."""
    return ArchivingReport.of(
        done,
        messages=sum(session.messages for session in done.archived),
        bytes=sum(session.bytes for session in done.archived),
        size=sum(session.size or 0 for session in done.archived),
    )
