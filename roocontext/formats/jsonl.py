"""Our own JSONL: a session, or a family of them, with every hash. docs/formats/roocontext-jsonl.md.

A session is a header line and one line for each entry. JSON that the store keeps as text stands in
a line as it is, byte for byte, because the hashes cover it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from roocontext.errors import (
    HistoryCorrupt,
    RooContextError,
    SessionNotFound,
    SessionPurged,
    UnreadableSource,
)
from roocontext.formats.family import family_of
from roocontext.formats.source_files import opened
from roocontext.log.chain import FORM, GENESIS, Sealed, entry_digest, link
from roocontext.store.restore import StoredEntry
from roocontext.store.session import Session
from roocontext.store.store import Store

VERSION = 1
NAME = "session"


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


class Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
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
class Restoration:
    """What became of one session of a file. Without a problem, all of it was restored."""

    session_id: str
    entries: int
    new: int
    problem: UnreadableSource | None = None


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_line = msgspec.json.Decoder(Line).decode
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
    for entry in session.stored(last=head.seq):
        yield _encode(_line(entry)) + b"\n"


def export_family(store: Store, session: Session) -> Iterator[bytes]:
    """The lines of a session and of its descendants, parents first."""
    for one in family_of(store, session):
        yield from export_session(one)


def restore_file(store: Store, path: Path) -> Iterator[Restoration]:
    """Restore every session of a file.

    If a line is damaged, the entries before it are restored, and the problem is in the result.
    """
    with opened(path) as file:
        start = _Place(0, 1)
        while section := _next_section(file, path, start):
            yield section if isinstance(section, Restoration) else _restored(store, section)
            start = _behind(file, start)


def check_file(store: Store, path: Path) -> Iterator[Restoration]:
    """What `restore_file` would do. The hashes are compared, and nothing is written."""
    with opened(path) as file:
        start = _Place(0, 1)
        while section := _next_section(file, path, start):
            yield section if isinstance(section, Restoration) else _checked(store, section)
            start = _behind(file, start)


def is_ours(first: bytes) -> bool:
    """Whether a file that begins like this is in this format."""
    return first.startswith(_BEGINS)


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    line: int


@dataclass(slots=True)
class _Section:
    """The entries of one session in a file. They can be read again."""

    path: Path
    place: _Place
    header: Header
    problem: UnreadableSource | None = field(default=None)

    def __iter__(self) -> Iterator[StoredEntry]:
        self.problem, seq, number = None, 0, self.place.line
        with opened(self.path) as file:
            file.seek(self.place.offset)
            file.readline()
            for number, text in enumerate(_entry_lines(file), self.place.line + 1):
                try:
                    entry = _entry(_read_line(text))
                except (msgspec.MsgspecError, ValueError) as error:
                    why = str(error) if text.endswith(b"\n") else "the line is cut off"
                    self.problem = _bad_line(why, self.path, number)
                    return
                seq = entry.seq
                yield entry
        if seq < self.header.last_seq:
            self.problem = _bad_line(
                f"it ends after entry {seq} of {self.header.last_seq}", self.path, number
            )


def _next_section(file: BinaryIO, path: Path, start: _Place) -> _Section | Restoration | None:
    file.seek(start.offset)
    text = file.readline()
    if not text:
        return None
    try:
        header = _decode_header(text)
    except (msgspec.MsgspecError, ValueError) as error:
        return Restoration("", 0, 0, _bad_line(str(error), path, start.line))
    if (header.roocontext, header.version, header.chain) != (NAME, VERSION, FORM):
        why = f"it is version {header.version}, and this release reads version {VERSION}"
        return Restoration(header.session_id, 0, 0, _bad_line(why, path, start.line))
    return _Section(path, start, header)


def _behind(file: BinaryIO, start: _Place) -> _Place:
    """Where the next section begins."""
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


def _restored(store: Store, section: _Section) -> Restoration:
    header = section.header
    try:
        done = store.restore(
            header.session_id, section, parent=header.parent, created_at=header.created_at
        )
    except HistoryCorrupt as error:
        line = section.place.line + (error.seq or 0)
        problem = section.problem or _bad_line(error.fact, section.path, line)
        return Restoration(header.session_id, 0, 0, problem)
    except RooContextError as error:
        problem = _bad_line(error.fact, section.path, section.place.line)
        return Restoration(header.session_id, 0, 0, problem)
    return Restoration(header.session_id, done.entries, done.new, section.problem)


def _checked(store: Store, section: _Section) -> Restoration:
    name, number, hash_ = section.header.session_id, section.place.line, GENESIS
    seq = kept = 0
    try:
        stored = iter(store.session(name).stored())
    except SessionPurged as error:
        return Restoration(name, 0, 0, _bad_line(error.fact, section.path, number))
    except SessionNotFound:
        stored = iter(())
    for entry in section:
        there = next(stored, None)
        kept += there is not None
        hash_ = link(hash_, entry_digest(entry.sealed, entry.content_digest))
        if (entry.seq, entry.hash) != (seq + 1, hash_):
            why = f"the hash of entry {entry.seq} does not follow from the entry and the one before"
            return Restoration(name, 0, 0, _bad_line(why, section.path, number + seq + 1))
        if there is not None and there.hash != entry.hash:
            why = f"session {name!r} exists, and its entry {entry.seq} is another"
            return Restoration(name, 0, 0, _bad_line(why, section.path, number))
        seq = entry.seq
    return Restoration(name, seq, seq - kept, section.problem)


def _line(entry: StoredEntry) -> Line:
    fields: dict[str, Any] = {**entry._asdict(), **entry.sealed._asdict()}
    del fields["sealed"]
    for name in _BYTES:
        fields[name] = None if fields[name] is None else fields[name].hex()
    for name in _RAW:
        text = fields[name]
        fields[name] = msgspec.UNSET if text is None else msgspec.Raw(text.encode())
    return Line(**fields)


def _read_line(text: bytes) -> Line:
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


def _entry(line: Line) -> StoredEntry:
    fields = {name: getattr(line, name) for name in line.__struct_fields__}
    for name in _BYTES:
        fields[name] = None if fields[name] is None else bytes.fromhex(fields[name])
    for name in _RAW:
        raw = fields[name]
        fields[name] = None if raw is msgspec.UNSET else bytes(raw).decode("ascii")
    sealed = Sealed(**{name: fields.pop(name) for name in Sealed._fields})
    return StoredEntry(**fields, sealed=sealed)


def _bad_line(why: str, path: Path, line: int) -> UnreadableSource:
    return UnreadableSource(f"{path}:{line}: {why.rstrip('.')}.", path=str(path), line=line)
