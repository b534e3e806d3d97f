"""Notes found by what their writer named: the request that wrote them, or the beginning of a kind.

An adapter that keeps facts in notes finds one of many by either, and reads no others.
"""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from roocontext.store.engine.transaction import Transaction
from roocontext.store.notes import HAS_NO_TARGET, Note, to_note
from roocontext.store.schema import IN_LOG, entries

_COLUMNS = (
    *(entries.c.seq, entries.c.note, entries.c.target),
    *(entries.c.content, entries.c.recorded_at),
)
_in_session = entries.c.session_id == bindparam("session_id")
_BY_CLIENT_ID = select(*_COLUMNS).where(
    _in_session, entries.c.client_id == bindparam("client_id"), IN_LOG
)
_BY_KIND = (
    select(*_COLUMNS)
    .where(
        _in_session,
        entries.c.note.is_not(None),
        entries.c.note >= bindparam("beginning"),
        entries.c.note < bindparam("before"),
        HAS_NO_TARGET,
        IN_LOG,
    )
    # The order of the index, so that nothing is sorted.
    .order_by(entries.c.note.desc(), entries.c.target.desc(), entries.c.seq.desc())
    .limit(bindparam("page"))
)
_LAST = "\U0010ffff"
"""The greatest code point: a kind that goes on after its beginning is smaller than this."""


def written_by(tx: Transaction, session_id: str, client_ids: Sequence[str]) -> dict[str, Note]:
    """The notes that were written with these client ids, by client id."""
    queries = [
        (_BY_CLIENT_ID, {"session_id": session_id, "client_id": client_id})
        for client_id in client_ids
    ]
    found = zip(client_ids, tx.all(queries), strict=True)
    return {
        client_id: to_note(*rows[0])
        for client_id, rows in found
        if rows and rows[0][1] is not None  # a message may have the id
    }


def newest_of_kinds(
    tx: Transaction, session_id: str, beginning: str, *, before: str | None, limit: int
) -> list[Note]:
    """The newest note without a target of each kind that begins like this, greatest kind first."""
    newest: dict[str, Note] = {}
    end = beginning + _LAST if before is None else before
    while len(newest) < limit:
        page = limit - len(newest)
        rows = tx.rows(_BY_KIND, session_id=session_id, beginning=beginning, before=end, page=page)
        for row in rows:
            if row[1].startswith(beginning):
                newest.setdefault(row[1], to_note(*row))
        if len(rows) < page:
            break
        end = rows[-1][1]
    return list(newest.values())
