"""Entries as they are stored: read out of one store, and restored into another with their hashes.

Every other operation writes only entries that it has made itself. So a restore checks every hash,
place and content, and the transaction only commits a log that `verify` accepts.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, get_args, get_type_hints

from sqlalchemy import bindparam, select

from roocontext.errors import (
    HistoryCorrupt,
    InvalidOption,
    MessageNotFound,
    RooContextError,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from roocontext.log.chain import GENESIS, Sealed, entry_digest, link
from roocontext.log.draft import Draft, Sources, tools_text
from roocontext.log.encoding import check_id, check_model, decode, encode
from roocontext.log.entries import MESSAGE_KINDS
from roocontext.log.pairs import may_hold_tools
from roocontext.log.readings import reader
from roocontext.log.values import Value, fields_as_json
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.observing import forget_calls
from roocontext.store.engine.schema import (
    AFTER_SEQ,
    AT_SEQ,
    IN_RANGE,
    entries,
    log_rows,
    of_session,
    sessions,
)
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.proof.rebuild import rebuild
from roocontext.store.proof.verify import Verifier
from roocontext.store.reading.head import SessionHead, lock, read_head
from roocontext.store.reading.messages import AT_ONCE_BYTES, rows_at_once
from roocontext.store.reading.notes import REDACTION
from roocontext.store.sessions.sessions import parent_of, refuse_cycle
from roocontext.store.writing.append import write
from roocontext.store.writing.archived import (
    Tombstone,
    check_return,
    first_hash,
    relatives,
    reopen,
    tombstone_of,
)
from roocontext.store.writing.erase import put_skeleton, redact, redact_copies
from roocontext.store.writing.new_session import add

PAGE = 250
_MESSAGES = frozenset(kind.value for kind in MESSAGE_KINDS)
_NAMES = ("role", "format", "message_id", "client_id", "compaction_id", "note")
_JSON = ("usage", "details")


class StoredEntry(NamedTuple):
    """An entry of a log exactly as it is stored: JSON as text, and what proves it.

    `sealed` holds the fields that the hash covers together with the digest of the content.
    """

    seq: int
    hash: bytes
    salt: bytes | None
    content_digest: bytes | None
    extra: str | None
    content: str | None
    sealed: Sealed

    def to_dict(self) -> dict[str, Any]:
        """The value as dicts, lists and scalars, as `--json` prints it."""
        return fields_as_json(self)


_TYPES = [
    {*get_args(hint)} or {hint}
    for fields in (StoredEntry, Sealed)
    for hint in get_type_hints(fields).values()
]


@dataclass(frozen=True, slots=True)
class RestoredLog(Value):
    """The result of a restore: how many entries it was given, and how many of them were new.

    `redacted` are the messages whose content it erased, in this session and in others, because
    another copy of them is redacted: pairs of session id and seq. `erased` is that of a redaction.
    """

    session_id: str
    entries: int
    new: int
    created: bool
    redacted: tuple[tuple[str, int], ...] = ()
    dry_run: bool = False
    erased: bool = False


_OWN = tuple(name for name in StoredEntry._fields if name != "sealed")
_STORED = (
    log_rows(*_OWN, *Sealed._fields)
    .where(IN_RANGE)
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)
_REDACTED_SINCE = (
    log_rows("seq")
    .where(
        entries.c.note.is_not(None),
        entries.c.note == bindparam("redaction"),
        entries.c.target <= bindparam("seq"),
        AFTER_SEQ,
    )
    .order_by(entries.c.seq)
    .limit(1)
)
_HASH_AND_SALT = log_rows("hash", "salt").where(AT_SEQ)
_OWNER = select(sessions.c.owner).where(of_session(sessions))


def read_stored(log: SessionLog, after: int, last: int) -> list[StoredEntry]:
    """The entries that follow `after`, at most a page of them."""
    read_head(log)  # which raises if it was purged in the meantime
    page = rows_at_once(log, after, last, PAGE)
    rows = log.rows(_STORED, lo=after + 1, hi=last, page=page)
    own = len(_OWN)
    return [StoredEntry._make((*row[:own], Sealed(*row[own:]))) for row in rows]


def stored_entries(database: SessionDatabase, last: int) -> Iterator[StoredEntry]:
    """Every entry up to `last`; VersionConflict if one was redacted while they were read."""
    seq = 0
    while seq < last:
        with database.read() as log:
            page = read_stored(log, seq, last)
            _check_not_redacted_since(log, last)
        if not page:
            return
        yield from page
        seq = page[-1].seq


def _check_not_redacted_since(log: SessionLog, last: int) -> None:
    """Refuse entries up to `last` of which some were redacted later: no note of theirs says so."""
    later = log.row(_REDACTED_SINCE, seq=last, redaction=REDACTION)
    if later is not None:
        raise VersionConflict(
            f"Session {log.session_id!r} was redacted while it was read: entry {later[0]}.",
            expected=last,
            actual=read_head(log).last_seq,
        )


def restore(
    log: SessionLog,
    stored: Iterable[StoredEntry],
    *,
    parent: str | None,
    created_at: int,
    sources: Sources,
) -> RestoredLog:
    """Write entries verbatim, after those of the session if these begin in the same way."""
    redacted: list[tuple[str, int]] = []
    pages = _pages(stored)
    beginning = next(pages)
    if beginning:
        # Before any lock: another restore of these entries sees what this one adds only when it is
        # committed, and a redaction locks sessions in another order.
        log.tx.exclude_others(beginning[0].hash)
    head, created, tombstone = _opened(log, parent, created_at)
    restoring = _Restoring(log, head)
    for page in chain((beginning,), pages):
        restoring.add(page)
    if tombstone is not None:
        check_return(log.session_id, tombstone, *restoring.end)
    last = restoring.seq
    new = max(0, last - head.last_seq)
    if new:
        redacted = [(log.session_id, seq) for seq in restoring.redact_old()]
    else:
        restoring.check_same()
    if new or created:
        rebuild(log)
    if new:
        # Tombstones first: a session that comes back meanwhile is then one of the copies.
        archived = [tombstone_of(log.of(name)) for name in relatives(log, first_hash(log))]
        redacted += redact_copies(log, sources)
        redacted += _redact_now(log, tombstone, archived, sources)
        _verify(log)
        forget_calls()  # they were made when the entries were recorded
    return RestoredLog(log.session_id, last, new, created, tuple(redacted))


def _pages(stored: Iterable[StoredEntry]) -> Iterator[list[StoredEntry]]:
    """The entries in pages that are neither long nor large."""
    page: list[StoredEntry] = []
    size = 0
    for entry in stored:
        _check_entry_types(entry)
        page.append(entry)
        size += len(entry.content or "") + len(entry.extra or "")
        if len(page) == PAGE or size >= AT_ONCE_BYTES:
            yield page
            page, size = [], 0
    yield page


def _check_entry_types(entry: object) -> None:
    """Refuse what `read_stored` cannot have read."""
    if not isinstance(entry, StoredEntry):
        raise InvalidOption(
            f"A log is restored from StoredEntry, not from {type(entry).__name__}.", name="entries"
        )
    values = (*entry, *(entry.sealed if isinstance(entry.sealed, Sealed) else ()))
    names = (*StoredEntry._fields, *Sealed._fields)
    for name, value, types in zip(names, values, _TYPES, strict=False):
        if type(value) not in types:
            seq = entry.seq if type(entry.seq) is int else None
            raise _refused(seq, f"its {name} is of type {type(value).__name__}")


def _opened(
    log: SessionLog, parent: str | None, created_at: int
) -> tuple[SessionHead, bool, Tombstone | None]:
    """The head of the session, locked, and whether it was emptied or created for these entries."""
    tombstone = None
    try:
        head = lock(log)
    except SessionPurged:  # its id is never used again
        raise
    except SessionArchived:
        head, tombstone = reopen(log)
    except SessionNotFound:
        refuse_cycle(log, parent)
        owner = log.tx.owner
        if owner is None and parent is not None and (row := log.row(_OWNER, session_id=parent)):
            owner = row[0]
        head = SessionHead(0, GENESIS, 0, 0, 0, created_at, created_at, owner=owner)
        return add(log, head, parent=parent), True, None
    if (stored := parent_of(log)) != parent:
        raise SessionExists(
            f"Session {log.session_id!r} exists, and its parent is {stored!r}, not {parent!r}.",
            session_id=log.session_id,
        )
    return head, tombstone is not None, tombstone


def _redact_now(
    log: SessionLog,
    own: Tombstone | None,
    others: Iterable[Tombstone | None],
    sources: Sources,
) -> list[tuple[str, int]]:
    """Redact what the session's tombstone says, and those of its archived relatives."""
    of_others = (later for other in others if other for later in other.archive.redactions)
    redactions = (*(own.archive.redactions if own else ()), *(it for it in of_others if it.hash))
    redacted = list[tuple[str, int]]()
    for later in dict.fromkeys(redactions):
        row = log.row(_HASH_AND_SALT, seq=later.seq)
        if row is None or later.hash not in (None, row[0].hex()):
            continue
        if later.hash is not None and row[1] is None:  # it is redacted
            continue
        with suppress(MessageNotFound):  # it is an entry of a kind that is never redacted
            done = redact(log, later.seq, sources, dry_run=False)
            redacted += done.copies if done.changed else ()
    return redacted


class _Restoring:
    """Checks entries in order, and writes those that the session does not have yet."""

    def __init__(self, log: SessionLog, head: SessionHead) -> None:
        self._log = log
        self._old = self._head = head
        self.seq, self._hash = 0, GENESIS
        self._skeletons: dict[int, str] = {}
        self._redacts: list[int] = []

    def add(self, page: Iterable[StoredEntry]) -> None:
        """Check a page of entries and write the new ones."""
        drafts = [draft for entry in page if (draft := self._draft(entry)) is not None]
        if drafts:
            write(self._log, self._head, drafts)
            self._head = read_head(self._log)

    @property
    def end(self) -> tuple[int, bytes]:
        """The seq and the hash of the last entry so far."""
        return self.seq, self._hash

    def redact_old(self) -> list[int]:
        """Redact the session's own entries that are redacted in the log; their seqs."""
        redacted = []
        for seq in self._redacts:
            skeleton = self._skeletons.get(seq)
            if skeleton is not None and self._stored(seq)[1] is not None:
                put_skeleton(self._log, seq, skeleton)
                redacted.append(seq)
        return redacted

    def check_same(self) -> None:
        """Refuse a log that is not the session's own: one is no beginning of the other."""
        old = self._old
        stored = old.last_hash if self.seq == old.last_seq else self._stored(self.seq)[0]
        if stored != self._hash:
            raise SessionExists(
                f"Session {self._log.session_id!r} exists, and its entries 1 to {self.seq} differ.",
                session_id=self._log.session_id,
            )

    def _stored(self, seq: int) -> SqlRow:
        row = self._log.row(_HASH_AND_SALT, seq=seq)
        return (GENESIS, None) if row is None else row

    def _draft(self, entry: StoredEntry) -> Draft | None:
        """The draft of a new entry; None for one that the session has."""
        sealed, due = entry.sealed, self.seq + 1
        if entry.seq != due:
            raise _refused(due, f"entry {due} is missing: entry {entry.seq} came instead")
        try:
            digest = entry_digest(sealed, entry.content_digest)
        except UnicodeEncodeError:
            raise _refused(due, "it has half a surrogate pair, which no UTF-8 can hold") from None
        self.seq, self._hash = due, link(self._hash, digest)
        if self._hash != entry.hash:
            raise _refused(due, "the hash does not follow from the entry and the one before")
        if due <= self._old.last_seq:
            if due == self._old.last_seq:
                self.check_same()
            if entry.salt is None and entry.content is not None:
                self._skeletons[due] = entry.content
            return None
        if sealed.note == REDACTION and sealed.target is not None:
            self._redacts.append(sealed.target)
        own = (entry.content, entry.salt, entry.content_digest, digest)
        return Draft(sealed, *own, tools=_checked_tools(entry), extra=entry.extra)


def _checked_tools(entry: StoredEntry) -> str | None:
    """Refuse what no operation of the store would have written; the ids of its tools."""
    sealed, content = entry.sealed, None
    try:
        for name in _NAMES:
            if (value := getattr(sealed, name)) is not None:
                check_id(name, value)
        if sealed.model is not None:
            check_model(sealed.model)
        for text in (entry.extra, *(getattr(sealed, name) for name in _JSON)):
            _decoded(text)
        content = _decoded(entry.content)
        if sealed.kind not in _MESSAGES or sealed.format is None or sealed.role is None:
            return None
        if entry.salt is not None:
            reader(sealed.format).check(sealed.role, content)
        if entry.content is not None and may_hold_tools(entry.content):
            return tools_text(sealed.format, sealed.role, content)
    except RooContextError as error:
        raise _refused(entry.seq, error.fact.rstrip(".") or type(error).__name__) from None
    return None


def _decoded(text: str | None) -> Any:
    """The value of stored JSON; an error if the store would have written it in another way."""
    if text is None:
        return None
    value = decode(text)
    if encode(value) != text:
        raise HistoryCorrupt("its JSON is not written as the store writes it")
    return value


def _verify(log: SessionLog) -> None:
    verifier = Verifier(log)
    while verifier.page(log):
        pass
    result = verifier.finish(log)
    if result.problem is not None:
        raise _refused(result.seq, result.problem)


def _refused(seq: int | None, problem: str) -> HistoryCorrupt:
    where = "The log" if seq is None else f"Entry {seq}"
    return HistoryCorrupt(f"{where} was not restored: {problem}. Nothing was written.", seq=seq)


def check_repeatable(stored: object) -> None:
    """Refuse entries that a transaction could not read again when it is repeated."""
    if not isinstance(stored, Iterable) or isinstance(stored, Iterator):
        raise InvalidOption(
            "A log is restored from a list of StoredEntry, or from another iterable that can be"
            " read more than once.",
            name="entries",
        )
