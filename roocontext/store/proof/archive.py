"""Archiving: a session becomes a compressed file, and leaves a tombstone.

The file is written, read again and checked against the session's head before it is given to `put`.
Only when `put` has returned are the entries deleted, in one transaction, and only if the head is
still the same. So a crash at any moment leaves a session that is whole in the store, in the file,
or in both, and a repeated run continues. The bytes of a file follow from the log alone.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from gzip import GzipFile
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, BinaryIO, Final, Literal, TypeAlias

from roocontext.errors import (
    HistoryCorrupt,
    SessionArchived,
    SessionNotFound,
    StoreUnavailable,
    VersionConflict,
)
from roocontext.log.chain import GENESIS, content_digest, entry_digest, link
from roocontext.log.encoding import check_id
from roocontext.log.moments import milliseconds
from roocontext.log.values import Value
from roocontext.store.engine.database import Database, SessionDatabase
from roocontext.store.proof.log_lines import entry_line, header_line, read_entry, read_header
from roocontext.store.proof.restore import stored_entries
from roocontext.store.proof.verify import verify
from roocontext.store.reading.head import Archive
from roocontext.store.sessions.listing import wanted
from roocontext.store.sessions.sessions import SessionInfo, all_newest_first
from roocontext.store.writing import archived

Put: TypeAlias = Callable[[str, BinaryIO], str | os.PathLike[str] | None]
"""Stores a file under a name, durably, and returns where it is; None is the name itself."""

ENDING: Final = ".jsonl.gz"
_LEVEL: Final = 6
_PAGE: Final = 1_000
_BLOCK: Final = 1 << 20
_NAME: Final = 16
"""How many hexadecimal digits of a hash are part of a file's name."""


@dataclass(frozen=True, slots=True)
class Archived(Value):
    """A session that was archived: its sizes, its head, its file with the SHA-256 and the size.

    In a dry run there is no file.
    """

    session_id: str
    entries: int
    messages: int
    bytes: int
    last_hash: str
    happened_at: int
    updated_at: int
    file: str | None = None
    digest: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class NotArchived(Value):
    """A session that was left as it is, and why.

    `file` was put. If the session was changed, it is of no use. If a runner took its turn, the next
    run may put the same one, so do not delete it.
    """

    session_id: str
    why: Literal["changed", "turn", "damaged"]
    file: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Archiving(Value):
    """The outcome: the sessions that were archived or would be, and those that were left."""

    archived: tuple[Archived, ...]
    left: tuple[NotArchived, ...]
    dry_run: bool = False


def older(database: Database, end: datetime) -> list[SessionInfo]:
    """The sessions in which nothing happened and nothing was recorded since then."""
    before = milliseconds(end)
    # A list goes by the earlier of the two clocks, so it has every session that is meant.
    return [
        info
        for info in all_newest_first(database, wanted(None, None, None, end), _PAGE)
        if info.archived_at is None and max(info.happened_at, info.updated_at) < before
    ]


def outcome_of(outcomes: Sequence[Archived | NotArchived]) -> Archiving:
    """The outcome of several sessions."""
    return Archiving(
        tuple(outcome for outcome in outcomes if isinstance(outcome, Archived)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, NotArchived)),
    )


def planned(info: SessionInfo) -> Archived:
    """A session that would be archived."""
    return Archived(
        *(info.session_id, info.last_seq, info.messages, info.bytes, ""),
        *(info.happened_at, info.updated_at),
    )


def archive(
    database: SessionDatabase, info: SessionInfo, put: Put, clock: Callable[[], int]
) -> Archived | NotArchived:
    """Archive a session, unless it changes meanwhile."""
    session_id, where, now = info.session_id, None, clock()
    try:
        if database.lookup(archived.has_turn, now):
            return NotArchived(session_id, "turn")
        checked = verify(database, None, None)
        if not checked.ok:
            return NotArchived(session_id, "damaged", seq=checked.seq)
        head = checked.head.seq, bytes.fromhex(checked.head.hash)
        if head[0] != info.last_seq:
            return NotArchived(session_id, "changed")
        file, digest = _packed(_lines(database, info, *head))
        with file:
            _check(file, session_id, *head)
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            place = put(_file_name(session_id, *head), file)
        where = _file_name(session_id, *head) if place is None else os.fspath(place)
        check_id("file", where)
        _check_stored(where, digest)
        stored = Archive(where, digest, size)
        left = database.write(archived.bury, head, stored, now=now)
    except (SessionArchived, SessionNotFound, VersionConflict) as error:
        # It was archived by another run, whose file may be the same one, or purged or redacted.
        is_archived = isinstance(error, SessionArchived)
        return NotArchived(session_id, "changed", None if is_archived else where)
    if left is not None:
        return NotArchived(session_id, left, where)
    return replace(planned(info), last_hash=checked.head.hash, file=where, digest=digest, size=size)


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """A `put` that writes files into a folder, which is created if it does not exist.

    A file has its name only when it is on the disk as a whole. Only its owner can read it.
    """

    folder: str | os.PathLike[str]

    def __call__(self, name: str, content: BinaryIO) -> Path:
        """Write a file, and return its path when it is durable."""
        directory = Path(self.folder).absolute()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=directory, prefix=f".{name}.", delete=False) as file:
                try:
                    while some := content.read(_BLOCK):
                        file.write(some)
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(directory / name)
                except BaseException:
                    with suppress(OSError):
                        Path(file.name).unlink()
                    raise
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)  # the name is durable too
            finally:
                os.close(handle)
        except OSError as error:
            raise StoreUnavailable(
                f"{str(directory)!r} cannot hold the archive: {error.strerror}.",
                advice="Sessions that are already archived stay so. Repeat the call to continue.",
            ) from None
        return directory / name


def _file_name(session_id: str, seq: int, hash_: bytes) -> str:
    """A name that needs no quoting, and that another head of the session does not have."""
    session = sha256(session_id.encode()).hexdigest()[:_NAME]
    return f"session-{session}-{seq}-{hash_.hex()[:_NAME]}{ENDING}"


def _lines(
    database: SessionDatabase, info: SessionInfo, last: int, hash_: bytes
) -> Iterator[bytes]:
    yield header_line(info.session_id, info.created_at, info.parent, last, hash_.hex())
    yield from map(entry_line, stored_entries(database, last))


def _packed(lines: Iterator[bytes]) -> tuple[BinaryIO, str]:
    """A temporary file with the compressed lines, and its SHA-256."""
    try:
        file = TemporaryFile()  # noqa: SIM115 - closed by the caller
        try:
            return file, _write(file, lines)
        except BaseException:
            with suppress(OSError):  # it writes what it holds, and the disk may be full
                file.close()
            raise
    except StoreUnavailable:  # an OSError too: the database could not be read
        raise
    except OSError as error:
        raise StoreUnavailable(
            f"No temporary file can hold the archive: {error.strerror}.",
            advice="TMPDIR names a folder with more room. Sessions that are already archived stay"
            " so. Repeat the call to continue.",
        ) from None


def _write(file: IO[bytes], lines: Iterator[bytes]) -> str:
    """Write the compressed lines, and return the SHA-256 of the file."""
    with GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
        for line in lines:
            packed.write(line)
    file.flush()
    file.seek(0)
    digest = sha256()
    while some := file.read(_BLOCK):
        digest.update(some)
    return digest.hexdigest()


def _check(file: IO[bytes], session_id: str, last: int, hash_: bytes) -> None:
    """Read a file back, and refuse it unless it proves the head."""
    file.seek(0)
    seq, chained = 0, GENESIS
    with GzipFile(fileobj=file) as packed:
        read_header(packed.readline())
        for line in packed:
            entry = read_entry(line)
            seq, digest = seq + 1, entry.content_digest
            if entry.salt is not None and entry.content is not None:
                digest = content_digest(entry.salt, entry.content, entry.extra)
            chained = link(chained, entry_digest(entry.sealed, digest))
            if (seq, chained) != (entry.seq, entry.hash):
                break
    if (seq, chained) != (last, hash_):
        raise HistoryCorrupt(
            f"The file of session {session_id!r} does not hold its log up to entry {last}:"
            f" entry {seq} differs. Nothing was archived.",
            seq=seq,
        )


def _check_stored(where: str, digest: str) -> None:
    """Refuse a file that is here and is not what was given to `put`."""
    try:
        with Path(where).open("rb") as file:
            stored = file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return  # it is somewhere else
    if stored != digest:
        raise StoreUnavailable(
            f"{where!r} is not the file that was put there: its SHA-256 is {stored}, not {digest}.",
            advice="The session was not archived.",
        )
