"""What a redaction or a purge erases: shown before, and the receipts of what went."""

import json
from typing import TYPE_CHECKING, Any

from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import one_entry, text_in

if TYPE_CHECKING:
    from roocontext import Purged, Session, SessionInfo, Store

_BEGINNING = 200
"""How many characters of an entry are shown before it is erased."""


class RedactedReport(Document):
    """What a redaction erased, or would erase in a dry run.

    `copies`, `quotes` and `summaries` are pairs of a session's id and a seq. `quotes` are answers
    to recall tools that quote the message, `summaries` may quote it; neither is changed. A dry run
    also shows the `beginning` of what would go, and how many `bytes` of JSON it takes. `erased`
    says that the bytes are out of the file and its log too.
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
    changed: bool
    dry_run: bool
    erased: bool


class PurgedReport(Document):
    """The receipt of a purge: what there was, and when it was deleted.

    `changed` is False if the session was purged before: everything else is the first receipt then.
    `copies` are the sessions that still hold entries of it, such as its forks. `erased` says that
    its bytes are out of the file and its log too, as for a redaction. Only a dry run has `title`,
    `first_prompt`, and the times `happened_at` of the last message and `updated_at` of the last
    entry.
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
    copies: list[str]
    dry_run: bool
    erased: bool
    changed: bool


class PurgedSessions(Document):
    """The sessions that were purged together, or would be in a dry run, and the sums of them."""

    sessions: list[PurgedReport]
    messages: int
    bytes: int
    dry_run: bool


def redaction(chat: "Session", seq: int, *, dry_run: bool) -> RedactedReport:
    """Erase the content of an entry, or show what would go."""
    done = chat.redact(seq, dry_run=dry_run)
    row = one_entry(chat, seq) if dry_run and done.changed else None
    text = text_in(row) if row else None
    if row and text is None:
        text = json.dumps(row.content, ensure_ascii=False)
    return RedactedReport.of(
        done,
        title=chat.info().title if dry_run else None,
        speaker=row.speaker or row.note if row else None,
        beginning=None if text is None else text[:_BEGINNING],
        bytes=len(json.dumps(row.content, ensure_ascii=True)) if row else None,
    )


def planned_purge(store: "Store", name: str, *, changed: bool) -> PurgedReport:
    """What purging a session would delete; of one that was purged before, the receipt."""
    info = store.session(name).info() if changed else None
    return purged_report(store.purge(name, dry_run=True), changed=changed, dry_run=True, info=info)


def purged_report(
    receipt: "Purged", *, changed: bool, dry_run: bool, info: "SessionInfo | None" = None
) -> PurgedReport:
    """The receipt of a purge, of this one or of one before; `info` is of a session that exists."""
    return PurgedReport.of(
        receipt,
        changed=changed,
        dry_run=dry_run,
        title=info.title if info else None,
        first_prompt=info.first_prompt if info else None,
        happened_at=info.happened_at if info else None,
        updated_at=info.updated_at if info else None,
    )


def purged_sessions(rows: list[PurgedReport], *, dry_run: bool) -> PurgedSessions:
    """Purges that were done together."""
    return PurgedSessions(
        sessions=rows,
        messages=sum(row.messages for row in rows),
        bytes=sum(row.bytes for row in rows),
        dry_run=dry_run,
    )
