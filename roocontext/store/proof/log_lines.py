"""A session as lines of JSON with every hash: what an export writes, and an archive keeps.

A session is a header line and one line for each entry. JSON that the store keeps as text is in
a line as it is, byte for byte, because the hashes cover it. docs/formats/roocontext-jsonl.md.
"""

import json
from typing import Any, Final

import msgspec

from roocontext.log.chain import FORM, Sealed
from roocontext.store.proof.restore import StoredEntry

VERSION: Final = 1
NAME: Final = "session"
BEGINS: Final = b'{"roocontext":'
"""The first bytes of a session."""


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


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_JSON = json.JSONDecoder()
_RAW = ("usage", "details", "extra", "content")
_BYTES = ("hash", "salt", "content_digest")


def header_line(
    session_id: str, created_at: int, parent: str | None, last_seq: int, last_hash: str
) -> bytes:
    """The line that a session begins with."""
    place = (session_id, created_at, last_seq, last_hash, parent)
    return _encode(Header(NAME, VERSION, FORM, *place)) + b"\n"


def entry_line(entry: StoredEntry) -> bytes:
    """The line of an entry."""
    fields: dict[str, Any] = {**entry._asdict(), **entry.sealed._asdict()}
    del fields["sealed"]
    for name in _BYTES:
        fields[name] = None if fields[name] is None else fields[name].hex()
    for name in _RAW:
        text = fields[name]
        fields[name] = msgspec.UNSET if text is None else msgspec.Raw(text.encode())
    return _encode(LogLine(**fields)) + b"\n"


def read_header(text: bytes) -> Header:
    """Read the line that a session begins with; ValueError if it is not one."""
    return _decode_header(text)


def is_known(header: Header) -> bool:
    """True if this release reads what follows a header."""
    return (header.roocontext, header.version, header.chain) == (NAME, VERSION, FORM)


def read_entry(text: bytes) -> StoredEntry:
    """Read the line of an entry; ValueError if it is not one."""
    line = _read_line(text)
    fields = {name: getattr(line, name) for name in line.__struct_fields__}
    for name in _BYTES:
        fields[name] = None if fields[name] is None else bytes.fromhex(fields[name])
    for name in _RAW:
        raw = fields[name]
        fields[name] = None if raw is msgspec.UNSET else bytes(raw).decode("ascii")
    sealed = Sealed(**{name: fields.pop(name) for name in Sealed._fields})
    return StoredEntry(**fields, sealed=sealed)


def _read_line(text: bytes) -> LogLine:
    try:
        return _decode_line(text)
    except UnicodeError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses a lone surrogate even in what it passes on as it is.
        if b"\\u" not in text:
            raise
    parts = _parts(text.decode())
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
