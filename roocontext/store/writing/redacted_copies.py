"""After a restore: what is redacted in one copy of an entry is redacted in all of them.

A redaction reaches the copies that the store has at the time, and a restore adds others. Without
this, content that was erased would come back in a fork, or stay in one.
"""

from collections import defaultdict

from sqlalchemy import bindparam, select

from roocontext.log.draft import Salts
from roocontext.log.encoding import encode
from roocontext.store.engine.schema import entries
from roocontext.store.engine.transaction import Transaction
from roocontext.store.reading.copies import COPIES, ERASED, WHOLE_COPIES, locked_holders
from roocontext.store.reading.head import lock
from roocontext.store.reading.notes import REDACTION
from roocontext.store.writing.erase import Gone, erase_rows

_FIRST = select(entries.c.hash).where(
    entries.c.session_id == bindparam("session_id"), entries.c.seq == bindparam("seq")
)


def redact_copies(
    tx: Transaction, session_id: str, *, now: int, salts: Salts
) -> list[tuple[str, int]]:
    """Redact the copies of redacted entries, in this session and in others; which ones."""
    first = tx.row(_FIRST, session_id=session_id, seq=1)
    if first is None:
        return []
    first_copies = COPIES, {"session_id": session_id, "seq": 1, "hash": first[0]}
    # All of them, so that a redaction at the same time either sees what this one restores, or is
    # seen by it.
    heads = locked_holders(tx, session_id, first_copies, lock)
    found: defaultdict[str, list[Gone]] = defaultdict(list)
    seen: set[bytes] = set()
    for seq, hash_, role, skeleton, note in tx.rows(
        ERASED, session_id=session_id, redaction=REDACTION
    ):
        gone = Gone(seq, skeleton, is_note=role is None)
        # A skeleton that its redaction does not prove is damage, which must not spread.
        if hash_ in seen or note != encode(gone.note):
            continue
        seen.add(hash_)
        for (copy,) in tx.rows(WHOLE_COPIES, session_id=session_id, seq=seq, hash=hash_):
            found[copy].append(gone)
    for copy in sorted(found):
        erase_rows(tx, copy, heads[copy], found[copy], now=now, salts=salts)
    return [(copy, gone.seq) for copy in sorted(found) for gone in found[copy]]
