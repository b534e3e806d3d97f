"""The index of metadata: the top-level strings of each session's newest metadata.

A cache: it is a function of the newest metadata note, and is written in the note's transaction.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from roocontext.log.encoding import encode
from roocontext.store.engine.transaction import Transaction
from roocontext.store.schema import facts

LONGEST_INDEXED = 256
"""Longer texts are indexed by their digest: PostgreSQL refuses index rows of about 2,700 bytes."""

_READ = select(facts.c.key, facts.c.value).where(facts.c.session_id == bindparam("session_id"))
_DROP = delete(facts).where(facts.c.session_id == bindparam("session_id"))
_ADD = insert(facts).values({column.name: bindparam(column.name) for column in facts.columns})


def indexed(text: str) -> str:
    """Encode a key or a value for the index.

    JSON, because a text of PostgreSQL holds neither NUL nor lone surrogates. A digest has no
    quotation marks, so it is never equal to a text.
    """
    encoded = encode(text)
    return encoded if len(encoded) <= LONGEST_INDEXED else sha256(encoded.encode()).hexdigest()


def set_facts(tx: Transaction, session_id: str, metadata: Mapping[str, Any] | None) -> None:
    """Replace the index rows of a session's metadata."""
    tx.run(_DROP, session_id=session_id)
    rows = _facts_of(metadata).items()
    tx.many(_ADD, [{"session_id": session_id, "key": key, "value": value} for key, value in rows])


def are_fresh(tx: Transaction, session_id: str, metadata: Mapping[str, Any] | None) -> bool:
    """Whether a session's index rows match its metadata."""
    return dict(tx.rows(_READ, session_id=session_id)) == _facts_of(metadata)


def _facts_of(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    strings = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return {indexed(key): indexed(value) for key, value in strings.items()}
