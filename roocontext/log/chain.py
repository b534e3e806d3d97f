"""The hash chain, by which a changed, missing, moved or inserted entry is found.

    content_digest = sha256(salt + content), or sha256(salt + content + newline + extra)
    entry digest   = sha256(canonical form of the immutable fields and content_digest)
    hash           = sha256(hash of the entry before + entry digest)

The salt goes with a redaction, so a short secret cannot be guessed from its digest, and the chain
stays whole. Stored JSON has no newline, and the entry digest covers the content's length, so no
text can be moved between content and extra. Neither seq nor session id is in a digest: the chain
fixes the order, and a fork's prefix proves where it came from. The canonical form is a JSON list in
UTF-8 without spaces, its strings escaped as RFC 8785 says.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

GENESIS = bytes(32)
"""The hash before the first entry."""

FORM = "roocontext/1"
"""The canonical form's name, its first element: another form would have another name."""

# The texts of some libraries are of a class of their own, derived from `str`.
_encode = msgspec.json.Encoder(enc_hook=str.__str__).encode


class Sealed(NamedTuple):
    """The immutable fields of an entry as stored, in the order of the canonical form."""

    # The order is part of the hash: a new field goes to the end, with another name of the form.
    kind: str
    format: str | None = None
    role: str | None = None
    ts: int | None = None
    recorded_at: int = 0
    message_id: str | None = None
    client_id: str | None = None
    model: str | None = None
    usage: str | None = None
    compaction_id: str | None = None
    note: str | None = None
    target: int | None = None
    asked_at: int | None = None
    answers_seq: int | None = None
    answers_block: int | None = None
    details: str | None = None
    size: int = 0


def content_digest(salt: bytes, content: str, extra: str | None = None) -> bytes:
    """The digest of stored content and of the agent's own data."""
    covered = content if extra is None else f"{content}\n{extra}"
    return sha256(salt + covered.encode()).digest()


def entry_digest(sealed: Sequence[object], digest: bytes | None) -> bytes:
    """The digest of an entry, given its sealed fields and the digest of its content, if any."""
    # msgspec escapes strings as RFC 8785 does and writes no spaces: any program can compute the
    # same.
    return sha256(_encode((FORM, *sealed, digest and digest.hex()))).digest()


def link(previous: bytes, digest: bytes) -> bytes:
    """The hash of an entry, given the hash of the one before and its own digest."""
    return sha256(previous + digest).digest()


def skeleton_digest(seq: int, skeleton: str) -> str:
    """The digest in a redaction's note, which proves that the skeleton was not replaced."""
    return sha256(f"{seq}:{skeleton}".encode()).hexdigest()
