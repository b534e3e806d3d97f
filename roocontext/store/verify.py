"""Proving a session: the chain, every row of every table, the totals, and the caches.

The first bad entry is named. The caches can be rebuilt; the log is never changed.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import bindparam, literal_column, select

from roocontext.errors import HistoryCorrupt, InvalidOption
from roocontext.log.chain import (
    GENESIS,
    Sealed,
    content_digest,
    entry_digest,
    link,
    skeleton_digest,
)
from roocontext.log.draft import control_of, tools_text
from roocontext.log.encoding import decode
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.pairs import TOOL_WORDS
from roocontext.log.readings import is_known
from roocontext.log.times import Times
from roocontext.store.check_arguments import check_whole
from roocontext.store.database import Database
from roocontext.store.head import SessionHead, read_head
from roocontext.store.notes import REDACTION, read_notes
from roocontext.store.rebuild import problem_of
from roocontext.store.schema import entries
from roocontext.store.transaction import Row, Transaction

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many entries are done, of how many."""

PAGE = 1_000
_NOTE = Kind.NOTE.value
_KINDS = frozenset(Kind)
_PLAIN = frozenset({Kind.MESSAGE, Kind.NOTE})


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a log. Kept elsewhere, it makes a cut or rewritten tail show."""

    session_id: str
    seq: int
    hash: str

    def to_json(self) -> str:
        """A line to keep elsewhere."""
        return json.dumps({"session_id": self.session_id, "seq": self.seq, "hash": self.hash})

    @classmethod
    def from_json(cls, line: str | bytes) -> "Head":
        """The head that a line made by `to_json` keeps."""
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - heavy, and this is an edge

        try:
            head = TypeAdapter(cls).validate_json(line, strict=True)
        except ValidationError:
            raise InvalidOption("This is not the line of a saved head.", name="line") from None
        check_whole("seq", head.seq)
        return head


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: `ok`, or the first bad entry (None where no single one is) and why."""

    session_id: str
    ok: bool
    entries: int
    head: Head
    seq: int | None = None
    problem: str | None = None


_SEALED = tuple(entries.c[name] for name in Sealed._fields)
_PAGE = (
    select(
        entries.c.seq,
        entries.c.salt,
        entries.c.content_digest,
        entries.c.hash,
        entries.c.messages_total,
        entries.c.bytes_total,
        entries.c.tools,
        entries.c.content,
        *_SEALED,
    )
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq > bindparam("after"),
        entries.c.seq <= bindparam("last"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)
_SEQ = select(entries.c.seq).where(entries.c.session_id == bindparam("session_id")).limit(1)
_BEFORE_THE_FIRST = _SEQ.where(entries.c.seq < literal_column("1")).order_by(entries.c.seq)
_BEHIND_THE_LAST = _SEQ.where(entries.c.seq > bindparam("last")).order_by(entries.c.seq)


class _Bad(Exception):
    def __init__(self, seq: int | None, problem: str) -> None:
        self.seq = seq
        self.problem = problem
        super().__init__(problem)


def verify(
    database: Database, session_id: str, saved: Head | None, progress: Progress | None
) -> Verification:
    """Check a log page by page, each in a snapshot of its own, so that no writer has to wait."""
    try:
        with database.read() as tx:
            verifier = Verifier(tx, session_id, saved)
    except HistoryCorrupt as damage:
        head = Head(session_id, 0, GENESIS.hex())
        return Verification(
            session_id, ok=False, entries=0, head=head, seq=damage.seq, problem=damage.fact
        )
    done = 0
    while True:
        with database.read() as tx:
            found = verifier.page(tx)
            if not found:
                return verifier.finish(tx)
        done += found
        if progress is not None:
            progress(done, verifier.total)


class Verifier:
    """Checks a session entry by entry; each page may be a read of its own."""

    def __init__(self, tx: Transaction, session_id: str, saved: Head | None = None) -> None:
        self.session_id = session_id
        self._standing = read_head(tx, session_id)
        self._saved = saved
        self._redacted: dict[int | None, str] = {}
        self._seq, self._hash = 0, GENESIS
        self._head_seq = self._messages = self._bytes = 0
        self._is_message = bytearray(1)
        self._times = Times()
        self._bad: _Bad | None = None

    @property
    def total(self) -> int:
        """How many entries there are to check."""
        return self._standing.last_seq

    def page(self, tx: Transaction) -> int:
        """Check the next entries; how many were found good. 0 when there are no more."""
        start = self._seq
        try:
            self._redacted = self._redactions(tx)
            for row in self._rows(tx):
                self._check(row)
        except HistoryCorrupt as damage:
            self._bad = _Bad(damage.seq, damage.fact)
        except _Bad as bad:
            self._bad = bad
        return 0 if self._bad else self._seq - start

    def _redactions(self, tx: Transaction) -> dict[int | None, str]:
        last = read_head(tx, self.session_id).last_seq
        try:
            notes = read_notes(tx, self.session_id, REDACTION, last)
        except HistoryCorrupt:  # it is named when its turn comes, or what it vouches for
            return {}
        return {note.target: note.content["digest"] for note in notes}

    def _rows(self, tx: Transaction) -> Iterable[Row]:
        session = {"session_id": self.session_id}
        start, end = self._seq, min(self._seq + PAGE, self.total)
        try:
            return tx.rows(_PAGE, **session, after=start, last=self.total, page=PAGE)
        except HistoryCorrupt:  # one by one, to say which of them it is
            return self._one_by_one(tx, range(start + 1, end + 1))

    def _one_by_one(self, tx: Transaction, seqs: Iterable[int]) -> Iterator[Row]:
        for seq in seqs:
            try:
                session = {"session_id": self.session_id}
                yield from tx.rows(_PAGE, **session, after=seq - 1, last=seq, page=2)
            except HistoryCorrupt as damage:
                raise _Bad(seq, damage.fact) from None

    def finish(self, tx: Transaction) -> Verification:
        """Check what the session says of itself, and the caches; tell what was found."""
        try:
            if self._bad:
                raise self._bad
            self._check_standing()
            last = read_head(tx, self.session_id).last_seq
            self._check_outside(tx, last)
            self._check_beside(tx, last)
        except HistoryCorrupt as damage:
            return self._found(damage.seq, damage.fact)
        except _Bad as bad:
            return self._found(bad.seq, bad.problem)
        return self._found(None, None)

    def _found(self, seq: int | None, problem: str | None) -> Verification:
        head = Head(self.session_id, self._seq, self._hash.hex())
        return Verification(self.session_id, problem is None, self._seq, head, seq, problem)

    def _check(self, row: Row) -> None:
        seq, salt, digest, hash_, messages, size, tools, content, *fields = row
        sealed = Sealed(*fields)
        kind, details, own_size = sealed.kind, sealed.details, sealed.size
        format_, role, note = sealed.format, sealed.role, sealed.note
        if seq != self._seq + 1:
            raise _Bad(self._seq + 1, f"entry {self._seq + 1} is missing")
        self._check_content(seq, salt, digest, content, own_size)
        following = link(self._hash, entry_digest(sealed, digest))
        if following != hash_:
            raise _Bad(seq, "the hash does not follow from the entry and the one before")
        if self._saved and self._saved.seq == seq and self._saved.hash != hash_.hex():
            raise _Bad(seq, "the hash is not that of the saved head")
        is_message = kind in MESSAGE_KINDS
        if kind != _NOTE:
            self._head_seq = seq
        if is_message:
            self._messages, self._bytes = self._messages + 1, self._bytes + own_size
        self._is_message.append(is_message)
        if (self._messages, self._bytes) != (messages, size):
            raise _Bad(seq, "the running totals are wrong")
        if details is not None:
            control_of(seq, kind, details)
        _check_kind(seq, kind, note, details)
        if (is_message or role is not None or format_ is not None) and not (
            is_message and is_known(format_, role)
        ):
            raise _Bad(seq, "its format or role is not one of a message, or it is no message")
        if tools != _tools(sealed, tools, content):
            raise _Bad(seq, "what is stored of its tools does not agree with its content")
        self._seq, self._hash = seq, following
        self._times = self._times.after(sealed)

    def _check_content(
        self, seq: int, salt: bytes | None, digest: bytes | None, content: str | None, size: int
    ) -> None:
        if digest is None:
            if content is not None or salt is not None:
                raise _Bad(seq, "it has content or a salt, and none was written")
        elif content is None:
            raise _Bad(seq, "the content is missing")
        elif salt is None:
            if self._redacted.get(seq) != skeleton_digest(seq, content):
                raise _Bad(seq, "the content was replaced without a redaction that says so")
        elif content_digest(salt, content) != digest or len(content) != size:
            raise _Bad(seq, "the content is not what was written")

    def _check_standing(self) -> None:
        # When the last entry came is no part of the log: the list alone is ordered by it. The times
        # are a cache, and are compared with the others.
        counted = SessionHead(
            *(self._seq, self._hash, self._head_seq, self._messages, self._bytes),
            updated_at=self._standing.updated_at,
            times=self._standing.times,
        )
        for name, told, found in zip(SessionHead._fields, self._standing, counted, strict=True):
            if told != found:
                raise _Bad(
                    self._seq + 1 if name == "last_seq" else None,
                    f"the session's {name} does not agree with its log",
                )
        if self._saved and self._saved.seq == 0 and self._saved.hash != GENESIS.hex():
            raise _Bad(0, "the hash is not that of an empty log")
        if self._saved and self._saved.seq > self._seq:
            raise _Bad(self._seq + 1, f"the log ends before the saved head, {self._saved.seq}")

    def _may_be_counted(self, seq: int) -> bool:
        """Whether it is a message; what was appended since the checks began may be one."""
        return seq >= len(self._is_message) or bool(self._is_message[seq])

    def _check_beside(self, tx: Transaction, last: int) -> None:
        if self._standing.times != self._times:
            raise _Bad(None, "the session's times are not those of the log: rebuild() renews them")
        problem = problem_of(tx, self.session_id, last, self._may_be_counted)
        if problem:
            raise _Bad(None, f"{problem}: rebuild() renews what is kept beside the log")

    def _check_outside(self, tx: Transaction, last: int) -> None:
        """Refuse rows that no chain can prove: they are none of the log's entries."""
        session = {"session_id": self.session_id}
        try:
            outside = tx.row(_BEFORE_THE_FIRST, **session) or tx.row(
                _BEHIND_THE_LAST, **session, last=last
            )
        except HistoryCorrupt:
            raise _Bad(None, "entries holds a row whose seq is no integer") from None
        if outside:
            raise _Bad(outside[0], f"entries holds a row outside the log, which is 1 to {last}")


def _check_kind(seq: int, kind: str, note: str | None, details: str | None) -> None:
    """Refuse a kind that is unknown, or that lacks what makes it one."""
    if kind not in _KINDS:
        raise _Bad(seq, "its kind is unknown to this release")
    if (note is not None) is not (kind == _NOTE):
        raise _Bad(seq, "only a note has a kind of note")
    if (details is None) is not (kind in _PLAIN):
        raise _Bad(seq, "only a control row has details")


def _tools(sealed: Sealed, stored: str | None, content: str | None) -> str | None:
    """What should be stored of the tools in an entry."""
    if sealed.role is None or sealed.format is None or content is None:
        return None
    # Most messages have no tools, and need not be decoded to know that.
    if stored is None and not any(word in content for word in TOOL_WORDS):
        return None
    return tools_text(sealed.format, sealed.role, decode(content))


def head_of(tx: Transaction, session_id: str) -> Head:
    """The last entry, to be kept elsewhere."""
    standing = read_head(tx, session_id)
    return Head(session_id, standing.last_seq, standing.last_hash.hex())
