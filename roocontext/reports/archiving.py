"""Sessions that were archived, or would be."""

from typing import TYPE_CHECKING

from roocontext.reports.document import Document, Time

if TYPE_CHECKING:
    from roocontext.store.proof.archive import Archiving


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

    `why` is `changed` if it was written or erased meanwhile, `turn` if a runner has its turn, and
    `damaged` if `verify` finds an error, at entry `seq`. `file` holds an older state of it.
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
    return ArchivingReport(
        archived=[ArchivedRow.of(one) for one in done.archived],
        left=[NotArchivedRow.of(one) for one in done.left],
        messages=sum(one.messages for one in done.archived),
        bytes=sum(one.bytes for one in done.archived),
        size=sum(one.size or 0 for one in done.archived),
        dry_run=done.dry_run,
    )
