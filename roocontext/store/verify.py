"""Proving a session: the chain, the places, the totals, and that the caches are their fold.

The first bad entry is named. The caches can be rebuilt; the log is never mended.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import bindparam, select

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
from roocontext.log.times import Times
from roocontext.store.append import Standing, lock, read_head
from roocontext.store.arguments import check_whole
from roocontext.store.caches import caches_of, read_present, renew
from roocontext.store.database import Database, Row, Transaction
from roocontext.store.notes import REDACTION, read_notes, retell, told_rightly
from roocontext.store.schema import entries
from roocontext.store.times import renew_times

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many entries are done, of how many."""

PAGE = 1_000
_NOTE = Kind.NOTE.value


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
    .where(entries.c.session_id == bindparam("session_id"), entries.c.seq > bindparam("after"))
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


class _Bad(Exception):
    def __init__(self, seq: int | None, problem: str) -> None:
        self.seq = seq
        self.problem = problem
        super().__init__(problem)


def verify(
    database: Database, session_id: str, saved: Head | None, progress: Progress | None
) -> Verification:
    """Check a log page by page, each in a snapshot of its own, so that no writer has to wait."""
    with database.read() as tx:
        verifier = Verifier(tx, session_id, saved)
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
        self._redacted: dict[int | None, Any] = {}
        self._seq, self._hash = 0, GENESIS
        self._head_seq = self._messages = self._bytes = 0
        self._times = Times()
        self._bad: _Bad | None = None

    @property
    def total(self) -> int:
        """How many entries there are to check."""
        return self._standing.last_seq

    def page(self, tx: Transaction) -> int:
        """Check the next entries; how many were found good. 0 when there are no more."""
        start = self._seq
        now = read_head(tx, self.session_id)
        notes = read_notes(tx, self.session_id, REDACTION, now.last_seq)
        self._redacted = {note.target: note.content.get("digest") for note in notes}
        rows = tx.rows(_PAGE, session_id=self.session_id, after=start, page=PAGE)
        try:
            for row in rows:
                if row[0] > self._standing.last_seq:
                    break
                self._check(row)
        except _Bad as bad:
            self._bad = bad
            return 0
        return self._seq - start

    def finish(self, tx: Transaction) -> Verification:
        """Check what the session says of itself, and the caches; tell what was found."""
        try:
            if self._bad:
                raise self._bad
            self._check_standing()
            self._check_caches(tx, read_head(tx, self.session_id).last_seq)
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
        if seq != self._seq + 1:
            raise _Bad(self._seq + 1, f"entry {self._seq + 1} is missing")
        self._check_content(seq, salt, digest, content, own_size)
        following = link(self._hash, entry_digest(sealed, digest))
        if following != hash_:
            raise _Bad(seq, "the hash does not follow from the entry and the one before")
        if self._saved and self._saved.seq == seq and self._saved.hash != hash_.hex():
            raise _Bad(seq, "the hash is not that of the saved head")
        if tools != _tools(sealed, tools, content):
            raise _Bad(seq, "what is stored of its tools does not agree with its content")
        if kind != _NOTE:
            self._head_seq = seq
        if kind in MESSAGE_KINDS:
            self._messages, self._bytes = self._messages + 1, self._bytes + own_size
        if (self._messages, self._bytes) != (messages, size):
            raise _Bad(seq, "the running totals are wrong")
        if details is not None:
            _check_control(seq, kind, details)
        self._seq, self._hash = seq, following
        self._times = self._times.after(sealed)

    def _check_content(
        self, seq: int, salt: bytes | None, digest: bytes | None, content: str | None, size: int
    ) -> None:
        if digest is None:
            if content is not None:
                raise _Bad(seq, "content stands where none was written")
        elif content is None:
            raise _Bad(seq, "the content is missing")
        elif salt is None:
            if self._redacted.get(seq) != skeleton_digest(seq, content):
                raise _Bad(seq, "the content was replaced without a redaction that says so")
        elif content_digest(salt, content) != digest or len(content) != size:
            raise _Bad(seq, "the content is not what was written")

    def _check_standing(self) -> None:
        counted = (self._seq, self._hash, self._head_seq, self._messages, self._bytes)
        for name, told, found in zip(Standing._fields, self._standing, counted, strict=False):
            if told != found:
                raise _Bad(
                    self._seq + 1 if name == "last_seq" else None,
                    f"the session's {name} does not agree with its log",
                )
        if self._saved and self._saved.seq == 0 and self._saved.hash != GENESIS.hex():
            raise _Bad(0, "the hash is not that of an empty log")
        if self._saved and self._saved.seq > self._seq:
            raise _Bad(self._seq + 1, f"the log ends before the saved head, {self._saved.seq}")

    def _check_caches(self, tx: Transaction, last: int) -> None:
        """Whether they are those of the log as it stands by now."""
        beyond = tx.row(_PAGE, session_id=self.session_id, after=last, page=1)
        if beyond:
            raise _Bad(beyond[0], "it stands behind what the session says is the last entry")
        if self._standing.times != self._times:
            raise _Bad(None, "the session's times are not those of the log: rebuild() renews them")
        controls, cached = read_present(tx, self.session_id, last)
        present = caches_of(controls, last)
        if cached.spans != present.spans:
            raise _Bad(None, "the spans are not those of the log: rebuild() renews them")
        if cached.clearings != present.clearings:
            raise _Bad(None, "the clearings are not those of the log: rebuild() renews them")
        if not told_rightly(tx, self.session_id, last):
            raise _Bad(None, "title or metadata are not those of the log: rebuild() renews them")


def rebuild(tx: Transaction, session_id: str) -> int:
    """Compute the caches of a session anew from its log; how many rows were wrong."""
    head = lock(tx, session_id)
    seq = head.last_seq
    wrong = 0 if told_rightly(tx, session_id, seq) else 1
    retell(tx, session_id, seq)
    wrong += renew_times(tx, session_id, head)
    controls, cached = read_present(tx, session_id, seq)
    return wrong + renew(tx, session_id, cached, caches_of(controls, seq))


def _tools(sealed: Sealed, stored: str | None, content: str | None) -> str | None:
    """What should be stored of the tools in an entry."""
    if sealed.role is None or sealed.format is None or content is None:
        return None
    # Most messages have no tools, and need not be decoded to know that.
    if stored is None and not any(word in content for word in TOOL_WORDS):
        return None
    return tools_text(sealed.format, sealed.role, decode(content))


def _check_control(seq: int, kind: str, details: str) -> None:
    try:
        control = control_of(seq, kind, decode(details))
    except (HistoryCorrupt, ValueError, TypeError, AttributeError):
        raise _Bad(seq, "the details cannot be read") from None
    ends: Iterator[Any] = iter([*control.hides, *control.clears])
    if control.to is not None and not 0 <= control.to < seq:
        raise _Bad(seq, "the rewind goes to no earlier entry")
    if any(pair[0] >= seq for pair in ends):
        raise _Bad(seq, "it hides or clears what came later")


def head_of(tx: Transaction, session_id: str) -> Head:
    """The last entry, to be kept elsewhere."""
    standing = read_head(tx, session_id)
    return Head(session_id, standing.last_seq, standing.last_hash.hex())
