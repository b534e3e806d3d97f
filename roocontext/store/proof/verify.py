"""Verifying a session: the chain, every row of every table, the totals and the caches.

The first bad entry is named. `rebuild` computes the caches anew; nothing changes the log.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import bindparam, literal_column

from roocontext.errors import HistoryCorrupt, InvalidOption
from roocontext.log.chain import (
    GENESIS,
    Sealed,
    content_digest,
    entry_digest,
    link,
    skeleton_digest,
)
from roocontext.log.draft import check_uncovered, control_of, tools_text
from roocontext.log.encoding import decode
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.pairs import may_hold_tools
from roocontext.log.readings import is_known
from roocontext.log.times import Times
from roocontext.log.values import Value
from roocontext.store.engine.check_arguments import check_whole
from roocontext.store.engine.database import SessionDatabase
from roocontext.store.engine.schema import entries, log_rows
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.proof.rebuild import problem_of
from roocontext.store.reading.head import SessionHead, read_head
from roocontext.store.reading.messages import rows_at_once
from roocontext.store.reading.notes import REDACTION, read_notes

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of entries done and their total."""

PAGE = 1_000
_MESSAGE, _NOTE = Kind.MESSAGE.value, Kind.NOTE.value
_MESSAGES = frozenset(kind.value for kind in MESSAGE_KINDS)
_KINDS = frozenset(Kind)
_PLAIN = frozenset({Kind.MESSAGE, Kind.NOTE})


@dataclass(frozen=True, slots=True)
class Head(Value):
    """The last entry of a log. Kept elsewhere, it reveals that a log was cut off or rewritten."""

    session_id: str
    seq: int
    hash: str

    def to_json(self) -> str:
        """A line to keep elsewhere."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, line: str | bytes) -> "Head":
        """Read a line that `to_json` made."""
        try:
            head = msgspec.json.decode(line, type=cls)
        # A TypeError: it is no text.
        except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
            raise InvalidOption("This line is not a saved head.", name="line") from None
        check_whole("seq", head.seq)
        return head


@dataclass(frozen=True, slots=True)
class Verification(Value):
    """The result: `ok`, or the first bad entry (None if no single entry is bad) and the problem."""

    session_id: str
    ok: bool
    entries: int
    head: Head
    seq: int | None = None
    problem: str | None = None


_OWN = ("seq", "salt", "content_digest", "hash", "messages_total", "bytes_total")
_COLUMNS = (*_OWN, "latest_happened", "tools", "extra", "content", *Sealed._fields)
_PAGE = (
    log_rows(*_COLUMNS)
    .where(entries.c.seq > bindparam("after"), entries.c.seq <= bindparam("last"))
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)
_FIRST_SEALED = _COLUMNS.index(Sealed._fields[0])
_NOTED = Sealed._fields.index("note")
_SELDOM = slice(_NOTED, Sealed._fields.index("size"))
_NONE_OF_THEM = (None,) * (_SELDOM.stop - _SELDOM.start)
"""The sealed fields that few messages have."""
_SEQ = log_rows("seq").order_by(entries.c.seq).limit(1)
_BEFORE_THE_FIRST = _SEQ.where(entries.c.seq < literal_column("1"))
_AFTER_THE_LAST = _SEQ.where(entries.c.seq > bindparam("last"))


def verify(
    database: SessionDatabase, saved: Head | None, progress: Progress | None
) -> Verification:
    """Check a log page by page. Each page has its own snapshot, so no writer has to wait."""
    try:
        with database.read() as log:
            verifier = Verifier(log, saved)
    except HistoryCorrupt as damage:
        head = Head(database.session_id, 0, GENESIS.hex())
        return Verification(database.session_id, False, 0, head, damage.seq, damage.fact)  # noqa: FBT003
    done = 0
    while True:
        with database.read() as log:
            checked = verifier.page(log)
            if not checked:
                return verifier.finish(log)
        done += checked
        if progress is not None:
            progress(done, verifier.total)


class Verifier:
    """Checks a session entry by entry; each page may be a read of its own."""

    def __init__(self, log: SessionLog, saved: Head | None = None) -> None:
        self.session_id = log.session_id
        self._standing = read_head(log)
        self._saved = saved
        self._saved_seq = saved.seq if saved else None
        self._speakers: set[tuple[str | None, str | None]] = set()
        self._redacted: dict[int | None, str] = {}
        self._read_up_to = 0
        self._seq, self._hash = 0, GENESIS
        self._head_seq = self._messages = self._bytes = 0
        # A byte for each entry, to compare counts with at the end: a set of a million seqs takes
        # sixty times as much.
        self._is_message = bytearray(1)
        self._controls: dict[int, Kind] = {}
        self._times = Times()
        self._damage: HistoryCorrupt | None = None

    @property
    def total(self) -> int:
        """The number of entries to check."""
        return self._standing.last_seq

    def page(self, log: SessionLog) -> int:
        """Check the next entries; return how many are good, or 0 at the end of the log."""
        start = self._seq
        try:
            self._read_redactions(log)
            self._check(self._rows(log))
        except HistoryCorrupt as damage:
            self._damage = damage
        return 0 if self._damage else self._seq - start

    def _read_redactions(self, log: SessionLog) -> None:
        """Read them again if there may be more than at the page before."""
        last = read_head(log).last_seq
        if last == self._read_up_to:
            return
        self._read_up_to, self._redacted = last, {}
        # A damaged note is reported when the check reaches it, or the row that it proves.
        with suppress(HistoryCorrupt):
            notes = read_notes(log, REDACTION, last)
            self._redacted = {note.target: note.content["digest"] for note in notes}

    def _rows(self, log: SessionLog) -> Iterable[SqlRow]:
        params = {"after": self._seq, "last": self.total}
        try:
            page = rows_at_once(log, self._seq, self.total, PAGE)
            return log.rows(_PAGE, **params, page=page)
        except HistoryCorrupt:
            return self._one_by_one(log)

    def _one_by_one(self, log: SessionLog) -> Iterator[SqlRow]:
        """The rows of the page, until the damaged one, which is named."""
        for seq in range(self._seq + 1, min(self._seq + PAGE, self.total) + 1):
            params = {"after": seq - 1, "last": seq}
            try:
                yield from log.rows(_PAGE, **params, page=2)
            except HistoryCorrupt as damage:
                raise _bad(seq, damage.fact) from None

    def finish(self, log: SessionLog) -> Verification:
        """Check the session's own row and the caches; return the result."""
        damage = self._damage
        try:
            if damage is None:
                self._check_standing()
                head = read_head(log)
                self._check_outside(log, head.last_seq)
                self._check_caches(log, head)
        except HistoryCorrupt as error:
            damage = error
        head_of_log = Head(self.session_id, self._seq, self._hash.hex())
        seq, problem = (damage.seq, damage.fact) if damage else (None, None)
        return Verification(self.session_id, damage is None, self._seq, head_of_log, seq, problem)

    def _check(self, rows: Iterable[SqlRow]) -> None:
        """Check entries in order.

        Fields that most entries lack are checked elsewhere, so that this loop stays cheap.
        """
        for row in rows:
            seq, salt, digest, hash_, messages, size, latest, tools, extra, content, *_ = row
            sealed = row[_FIRST_SEALED:]
            kind, form, role, ts, recorded_at, *_, own_size = sealed
            if seq != self._seq + 1:
                raise _bad(self._seq + 1, f"entry {self._seq + 1} is missing")
            if (
                salt is None
                or content is None
                or content_digest(salt, content, extra) != digest
                or len(content) != own_size
            ):
                self._check_unsalted(seq, salt, digest, content, extra)
            following = link(self._hash, entry_digest(sealed, digest))
            if following != hash_ or seq == self._saved_seq:
                self._check_hash(seq, following, hash_)
            is_message = kind in _MESSAGES
            self._messages += is_message
            self._bytes += own_size if is_message else 0
            self._times = self._times.after(kind, sealed[_NOTED], ts, recorded_at)
            totals = self._messages, self._bytes, self._times.latest_happened
            if totals != (messages, size, latest):
                raise _bad(seq, "the running totals are wrong")
            if not (is_message and (form, role) in self._speakers):
                self._check_speaker(seq, form, role, is_message=is_message)
            if kind != _MESSAGE or sealed[_SELDOM] != _NONE_OF_THEM:
                self._check_kind(seq, Sealed(*sealed))
            if tools is not None or (content is not None and may_hold_tools(content)):
                _check_tools(seq, form, role, tools, content)
            self._is_message.append(is_message)
            self._seq, self._hash = seq, following
            self._head_seq = self._head_seq if kind == _NOTE else seq

    def _check_unsalted(self, seq: int, *stored: Any) -> None:
        """Accept an entry without content, and one whose content was redacted."""
        salt, digest, content, extra = stored
        if digest is None:
            if (salt, content, extra) != (None, None, None):
                raise _bad(seq, "it has content, extra data or a salt that was never written")
        elif content is None:
            raise _bad(seq, "the content is missing")
        elif salt is not None:
            raise _bad(seq, "the content is not what was written")
        elif extra is not None:
            raise _bad(seq, "it has extra data, although its content was redacted")
        elif self._redacted.get(seq) != skeleton_digest(seq, content):
            raise _bad(seq, "the content was replaced, but no redaction records that")

    def _check_hash(self, seq: int, following: bytes, stored: bytes) -> None:
        if following != stored:
            raise _bad(seq, "the hash does not follow from the entry and the one before")
        if self._saved and self._saved.hash != stored.hex():
            raise _bad(seq, "the hash is not that of the saved head")

    def _check_speaker(
        self, seq: int, form: str | None, role: str | None, *, is_message: bool
    ) -> None:
        if is_message and is_known(form, role):
            self._speakers.add((form, role))
        elif is_message or (form, role) != (None, None):
            raise _bad(seq, "its format or role is not that of a message, or its kind is not")

    def _check_kind(self, seq: int, sealed: Sealed) -> None:
        """Refuse unknown kinds, kinds without required fields, and references to later entries."""
        kind, details = sealed.kind, sealed.details
        if details is not None:
            control = control_of(seq, kind, details)
            self._controls[seq] = control.kind
            check_uncovered(control, self._controls)
        if kind not in _KINDS:
            raise _bad(seq, "its kind is unknown to this release")
        if (sealed.note is not None) is not (kind == _NOTE):
            raise _bad(seq, "only a note has a kind of note")
        if (details is None) is not (kind in _PLAIN):
            raise _bad(seq, "only a control row has details")
        if not 0 <= (sealed.asked_at or 0) < seq:
            raise _bad(seq, "asked_at is not an earlier entry")
        call, block = sealed.answers_seq, sealed.answers_block
        is_answer = call is not None or block is not None
        if is_answer and not (0 < (call or 0) < seq and (-1 if block is None else block) >= 0):
            raise _bad(seq, "answers is not a call of an earlier entry")

    def _check_standing(self) -> None:
        # The times and the prompt are caches, which are compared with the others.
        counted = {
            "last_seq": self._seq,
            "last_hash": self._hash,
            "head_seq": self._head_seq,
            "messages": self._messages,
            "bytes": self._bytes,
        }
        for name, value in counted.items():
            if getattr(self._standing, name) != value:
                raise _bad(
                    self._seq + 1 if name == "last_seq" else None,
                    f"the session's row and its log differ in {name}",
                )
        saved = self._saved
        if saved and saved.seq == 0 and saved.hash != GENESIS.hex():
            raise _bad(0, "the hash is not that of an empty log")
        if saved and saved.seq > self._seq:
            raise _bad(self._seq + 1, f"the log ends before the saved head, {saved.seq}")

    def _may_be_counted(self, seq: int) -> bool:
        """True if it is a message; anything appended since the checks began may be one."""
        return seq >= len(self._is_message) or bool(self._is_message[seq])

    def _check_caches(self, log: SessionLog, head: SessionHead) -> None:
        if self._standing.times != self._times:
            raise _bad(None, "the session's times are not those of the log: rebuild() renews them")
        problem = problem_of(log, head, self._may_be_counted)
        if problem:
            raise _bad(None, f"{problem}: rebuild() renews the caches")

    def _check_outside(self, log: SessionLog, last: int) -> None:
        """Refuse rows that no chain covers: they do not belong to the log."""
        try:
            outside = log.row(_BEFORE_THE_FIRST) or log.row(_AFTER_THE_LAST, last=last)
        except HistoryCorrupt:
            raise _bad(None, "entries holds a row whose seq is no integer") from None
        if outside:
            raise _bad(outside[0], f"entries holds a row outside the log, which is 1 to {last}")


def _bad(seq: int | None, problem: str) -> HistoryCorrupt:
    return HistoryCorrupt(problem, seq=seq)


def _check_tools(
    seq: int, form: str | None, role: str | None, stored: str | None, content: str | None
) -> None:
    tools = None
    if form is not None and role is not None and content is not None:
        tools = tools_text(form, role, decode(content))
    if stored != tools:
        raise _bad(seq, "the stored ids of its tool calls and results do not match its content")


def head_of(log: SessionLog) -> Head:
    """The last entry, to be saved elsewhere."""
    standing = read_head(log)
    return Head(log.session_id, standing.last_seq, standing.last_hash.hex())
