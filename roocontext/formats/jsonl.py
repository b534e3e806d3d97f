"""roocontext JSONL: sessions with every hash. docs/formats/roocontext-jsonl.md.

A session is a header line and one line for each entry. JSON that the store keeps as text is in
a line as it is, byte for byte, because the hashes cover it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from roocontext.errors import (
    HistoryCorrupt,
    RooContextError,
    StoreUnavailable,
    UnreadableSource,
)
from roocontext.formats.exporter import family_of
from roocontext.formats.files import opened
from roocontext.log.chain import FORM, Sealed
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.session import Session
from roocontext.store.store import Store

VERSION = 1
NAME = "session"
_NOTHING = "Nothing of this session was restored."


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The facts of a session that no hash covers, and the last entry that its section holds."""

    roocontext: str
    version: int
    chain: str
    session_id: str
    created_at: int
    last_seq: int
    last_hash: str
    parent: str | None = None


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry. Bytes are hexadecimal; what the store keeps as JSON text is raw JSON."""

    seq: int
    kind: str
    recorded_at: int
    size: int
    hash: str
    salt: str | None = None
    content_digest: str | None = None
    format: str | None = None
    role: str | None = None
    ts: int | None = None
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    compaction_id: str | None = None
    note: str | None = None
    target: int | None = None
    asked_at: int | None = None
    answers_seq: int | None = None
    answers_block: int | None = None
    # Raw JSON cannot have the default None: a content that is null would be taken for no content.
    usage: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    extra: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    content: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """The outcome for one session of a file. Without a problem, all of it was restored.

    `redacted` are the messages whose content was erased, here and in other sessions, because
    another copy of them is redacted: pairs of session id and seq.
    """

    session_id: str
    entries: int
    new: int
    problem: UnreadableSource | None = None
    redacted: tuple[tuple[str, int], ...] = ()


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_BEGINS = b'{"roocontext":'
_JSON = json.JSONDecoder()
_RAW = ("usage", "details", "extra", "content")
_BYTES = ("hash", "salt", "content_digest")


def export_session(session: Session) -> Iterator[bytes]:
    """The lines of a session, as it is when the first one is asked for."""
    info, head = session.info(), session.head()
    header = Header(
        *(NAME, VERSION, FORM, session.id),
        *(info.created_at, head.seq, head.hash, info.parent),
    )
    yield _encode(header) + b"\n"
    for entry in session.internals.stored(last=head.seq):
        yield _encode(_line(entry)) + b"\n"


def export_family(store: Store, session: Session) -> Iterator[bytes]:
    """The lines of a session and of its descendants, parents first."""
    for member in family_of(store, session):
        yield from export_session(member)


def restore_file(store: Store, path: Path, *, dry_run: bool = False) -> Iterator[SessionRestored]:
    """Restore every session of a file.

    If a line is damaged, the entries before it are restored, and the problem is in the result. A
    dry run gives the same results and writes nothing.
    """
    with opened(path) as file:
        start = _Place(0, 1)
        while section := _next_section(file, path, start):
            if isinstance(section, SessionRestored):
                yield section
            else:
                yield _restored(store, section, dry_run=dry_run)
            start = _next_place(file, start)


def is_ours(first: bytes) -> bool:
    """True if a file with this first line is in this format."""
    return first.startswith(_BEGINS)


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    line: int


class _NoEntryError(RooContextError):
    """Not even the first entry of a section can be read."""


class _Damage(NamedTuple):
    line: int
    why: str


@dataclass(slots=True)
class _Section:
    """The entries of one session in a file. They can be read again."""

    path: Path
    place: _Place
    header: Header
    damage: _Damage | None = None

    def __iter__(self) -> Iterator[StoredEntry]:
        self.damage, seq, number = None, 0, self.place.line
        with opened(self.path) as file:
            file.seek(self.place.offset)
            file.readline()
            for number, text in enumerate(_entry_lines(file), self.place.line + 1):
                try:
                    entry = _entry(_read_line(text))
                except (msgspec.MsgspecError, ValueError) as error:
                    why = str(error) if text.endswith(b"\n") else "the line is cut off"
                    self.damage = _Damage(number, why)
                    break
                seq = entry.seq
                yield entry
        if self.damage is None and seq < self.header.last_seq:
            why = f"it ends after entry {seq} of {self.header.last_seq}"
            self.damage = _Damage(number, why)
        if self.damage is not None and not seq:
            raise _NoEntryError  # a session of nothing would be left


def _next_section(file: BinaryIO, path: Path, start: _Place) -> _Section | SessionRestored | None:
    file.seek(start.offset)
    text = file.readline()
    if not text:
        return None
    try:
        header = _decode_header(text)
    except (msgspec.MsgspecError, ValueError) as error:
        problem = _bad_line(str(error), path, start.line, advice=_NOTHING)
        return SessionRestored("", 0, 0, problem)
    if (header.roocontext, header.version, header.chain) != (NAME, VERSION, FORM):
        why = f"it is version {header.version}, and this release reads version {VERSION}"
        problem = _bad_line(why, path, start.line, advice=_NOTHING)
        return SessionRestored(header.session_id, 0, 0, problem)
    return _Section(path, start, header)


def _next_place(file: BinaryIO, start: _Place) -> _Place:
    """The place at which the next section begins."""
    file.seek(start.offset)
    offset, line = start.offset + len(file.readline()), start.line + 1
    for text in _entry_lines(file):
        offset, line = offset + len(text), line + 1
    return _Place(offset, line)


def _entry_lines(file: BinaryIO) -> Iterator[bytes]:
    for text in file:
        if is_ours(text):
            return
        yield text


def _restored(store: Store, section: _Section, *, dry_run: bool) -> SessionRestored:
    header = section.header
    try:
        done = store.restore(
            header.session_id,
            section,
            parent=header.parent,
            created_at=header.created_at,
            dry_run=dry_run,
        )
    except StoreUnavailable:
        raise  # the fault is not in the file
    except _NoEntryError:
        return SessionRestored(header.session_id, 0, 0, _damaged(section))
    except RooContextError as error:
        return SessionRestored(header.session_id, 0, 0, _refused(section, error))
    problem = _damaged(section)
    return SessionRestored(header.session_id, done.entries, done.new, problem, done.redacted)


def _damaged(section: _Section) -> UnreadableSource | None:
    damage = section.damage
    return damage and _bad_line(damage.why, section.path, damage.line)


def _refused(section: _Section, error: RooContextError) -> UnreadableSource:
    """The refusal of a section, and the damage that may have caused it."""
    line, why, advice = section.place.line, error.fact, _NOTHING
    if isinstance(error, HistoryCorrupt):  # which says itself that nothing was written
        line, advice = line + (error.seq or 0), "Restore this session from a whole file."
        if section.damage is not None:
            line, why = section.damage.line, f"{section.damage.why.rstrip('.')}. {why}"
    return _bad_line(why, section.path, line, advice=advice)


def _line(entry: StoredEntry) -> LogLine:
    fields: dict[str, Any] = {**entry._asdict(), **entry.sealed._asdict()}
    del fields["sealed"]
    for name in _BYTES:
        fields[name] = None if fields[name] is None else fields[name].hex()
    for name in _RAW:
        text = fields[name]
        fields[name] = msgspec.UNSET if text is None else msgspec.Raw(text.encode())
    return LogLine(**fields)


def _read_line(text: bytes) -> LogLine:
    try:
        return _decode_line(text)
    except UnicodeError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses a lone surrogate even in what it passes on as it is.
        if b"\\u" not in text:
            raise
    parts = _parts(text.decode("ascii"))
    raw = {name: msgspec.Raw(parts.pop(name).encode()) for name in _RAW if name in parts}
    rest = ",".join(f"{json.dumps(name)}:{value}" for name, value in parts.items())
    return msgspec.structs.replace(_decode_line(f"{{{rest}}}"), **raw)


def _parts(text: str) -> dict[str, str]:
    """The fields of a JSON object as the texts that they are written with."""
    parts, place = {}, 1
    while text[place : place + 1] not in ("}", ""):
        name, place = _JSON.raw_decode(text, place)
        _, end = _JSON.raw_decode(text, place + 1)
        parts[name] = text[place + 1 : end]
        place = end + (text[end : end + 1] == ",")
    return parts


def _entry(line: LogLine) -> StoredEntry:
    fields = {name: getattr(line, name) for name in line.__struct_fields__}
    for name in _BYTES:
        fields[name] = None if fields[name] is None else bytes.fromhex(fields[name])
    for name in _RAW:
        raw = fields[name]
        fields[name] = None if raw is msgspec.UNSET else bytes(raw).decode("ascii")
    sealed = Sealed(**{name: fields.pop(name) for name in Sealed._fields})
    return StoredEntry(**fields, sealed=sealed)


def _bad_line(why: str, path: Path, line: int, **advice: str) -> UnreadableSource:
    fact = f"{path}:{line}: {why.rstrip('.')}."
    return UnreadableSource(fact, path=str(path), line=line, **advice)
