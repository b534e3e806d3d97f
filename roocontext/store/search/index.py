"""The index of terms: brought up to date in batches, dropped, and searched.

An append writes nothing here. A session's mark says up to which entry it is indexed; a search reads
the entries after it. The terms only say which messages to read: no answer is made of them.

A session is `unindexed` whenever its log may go beyond its mark (0046). Each append sets that.
`_settle` alone takes it back, and `_drop` sets it before it deletes a mark. A session may be
`unindexed` although its whole log is indexed, which does no harm.

The index is FTS5 on SQLite, and full text search on PostgreSQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from heapq import merge
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    bindparam,
    column,
    delete,
    false,
    func,
    insert,
    literal_column,
    or_,
    select,
    table,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.sql import ColumnElement, FromClause, Select

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import MAX_INTEGER, MIN_INTEGER
from roocontext.search.passages import passages
from roocontext.search.query import Alternatives, Query, Term, terms_of
from roocontext.store.engine.database import Database
from roocontext.store.engine.schema import (
    HAPPENED,
    IS_HELD,
    entries,
    of_session,
    search_marks,
    search_rows,
    sessions,
)
from roocontext.store.engine.shapes import whole_number
from roocontext.store.engine.statements import NotByKey, crossing
from roocontext.store.engine.transaction import SqlRow, Transaction
from roocontext.store.proof.verify import Progress
from roocontext.store.search.scope import MatchKey, Search, in_scope, searchable_content
from roocontext.store.sessions.listing import ListShape

BATCH: Final = 1_000
"""The messages that are indexed in one transaction. Other writers of an SQLite file wait for it."""
_LONGEST: Final = 200_000
"""Characters of terms. PostgreSQL indexes up to 1 MB; a message with more has no terms, and is read
by every search."""
_PAGE: Final = 256

FEW: Final = 100
"""So many sessions may stay `unindexed`, so that appends to the busy ones need not set it again."""
_DROPPED: Final = 100
"""The sessions that are dropped from the index in one transaction."""

# As the index says it: SQLite does not know that 1 is the same.
_IS_UNINDEXED = text("sessions.unindexed = TRUE")
_mark = func.coalesce(search_marks.c.seq, 0)
_with_marks = sessions.outerjoin(search_marks, search_marks.c.session_id == sessions.c.session_id)
_unindexed = (
    crossing(select(sessions.c.session_id, _mark, sessions.c.last_seq))
    .select_from(_with_marks)
    .where(_IS_UNINDEXED, IS_HELD)
)
_STALE = _unindexed.where(sessions.c.last_seq > _mark).order_by(sessions.c.session_id).limit(BATCH)
_WHOLE = _unindexed.where(sessions.c.last_seq <= _mark).order_by(sessions.c.session_id).limit(BATCH)
_MISSING = _unindexed.where(sessions.c.last_seq > _mark).with_only_columns(
    func.sum(sessions.c.last_seq - _mark), maintain_column_froms=True
)
_in_range = (of_session(entries), entries.c.seq.between(bindparam("lo"), bindparam("hi")))
_columns = (entries.c.recorded_at, entries.c.format, entries.c.role, entries.c.content)
MESSAGES = (
    select(entries.c.seq, HAPPENED, *_columns)
    .where(*_in_range, text("role IS NOT NULL AND salt IS NOT NULL"))
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)
_REDACTED = select(entries.c.seq).where(*_in_range, text("role IS NOT NULL AND salt IS NULL"))
_named = select(sessions.c.session_id).where(of_session(sessions), IS_HELD)
# A share that no append waits for, because it changes no key; a redaction, a purge and an archive
# wait.
_HOLD = _named.with_for_update(read=True, key_share=True)
# The lock of an append, which waits for this and nothing else.
_LOCK = _named.with_for_update(key_share=True)
_BEGIN = text(
    "INSERT INTO search_marks (session_id, seq) VALUES (:session_id, 0) ON CONFLICT DO NOTHING"
)
_MOVE = text("UPDATE search_marks SET seq = :last WHERE session_id = :session_id AND seq = :after")
_ADD = insert(search_rows)
_MARK = select(search_marks.c.seq).where(of_session(search_marks)).scalar_subquery()
_SETTLE = (
    update(sessions)
    .where(of_session(sessions), sessions.c.last_seq <= func.coalesce(_MARK, 0))
    .values(unindexed=false())
)
_INDEXED = crossing(
    select(sessions.c.session_id)
    .select_from(_with_marks)
    .where(IS_HELD, or_(sessions.c.unindexed.is_(false()), search_marks.c.session_id.is_not(None)))
    .order_by(sessions.c.session_id)
)
# The marks before the rows: whatever else indexes these sessions holds a mark until its rows are
# committed.
_DROP = [
    update(sessions).where(of_session(sessions), IS_HELD).values(unindexed=true()),
    *(delete(table).where(of_session(table)) for table in (search_marks, search_rows)),
]


class _Stretch(NamedTuple):
    """The messages of a session between two marks, with their terms."""

    session_id: str
    after: int
    last: int
    rows: list[SqlRow]


def bring_up_to_date(database: Database, progress: Progress | None) -> int:
    """Index all messages after the marks; how many there were."""
    done = indexed = 0
    total = database.snapshot(_missing)
    # Read and cut into terms before the transaction, so that writers wait for the inserts only.
    while stretches := database.snapshot(_next_batch):
        indexed += database.write(_add, stretches)
        done += sum(last - after for _, after, last, _ in stretches)
        if progress is not None:
            progress(min(done, total), total)
        _settle_many(database)
    _settle_many(database)
    return indexed


def _settle_many(database: Database) -> None:
    # Not in the transaction of a batch, because an append waits for this one.
    while len(whole := database.snapshot(lambda tx: tx.rows(_WHOLE))) >= FEW:
        database.write(_settle, [{"session_id": row[0]} for row in whole])


def drop(database: Database) -> None:
    """Forget all terms and marks."""
    indexed = database.snapshot(lambda tx: tx.rows(_INDEXED))
    for at in range(0, len(indexed), _DROPPED):
        database.write(_drop, [{"session_id": row[0]} for row in indexed[at : at + _DROPPED]])


def _drop(tx: Transaction, named: Sequence[Mapping[str, str]]) -> None:
    for statement in _DROP:
        tx.many(statement, named)


def _missing(tx: Transaction) -> int:
    """The number of entries after the marks."""
    row = tx.row(_MISSING)
    return 0 if row is None or row[0] is None else whole_number(row[0])


def _next_batch(tx: Transaction) -> list[_Stretch]:
    left, batch = BATCH, []
    for session_id, after, last in tx.rows(_STALE):
        if not left:
            break
        read = tx.rows(MESSAGES, session_id=session_id, lo=after + 1, hi=last, page=left)
        end = read[-1][0] if len(read) == left else last
        left -= len(read)
        batch.append(_Stretch(session_id, after, end, [_row(session_id, row) for row in read]))
    return batch


def _row(session_id: str, message: SqlRow) -> SqlRow:
    seq, happened_at, recorded_at, format_, role, content = message
    try:
        text = passages(format_, role, searchable_content(session_id, seq, format_, role, content))
    except HistoryCorrupt:
        # Only the searches that read this message raise the error.
        return session_id, seq, happened_at, recorded_at, None
    terms = " ".join(terms_of(text))
    is_short = len(terms) <= _LONGEST
    return session_id, seq, happened_at, recorded_at, terms if is_short else None


def _add(tx: Transaction, stretches: Sequence[_Stretch]) -> int:
    added: list[SqlRow] = []
    for session_id, after, last, rows in stretches:
        if tx.row(_HOLD, session_id=session_id) is None:  # purged or archived since it was read
            continue
        tx.run(_BEGIN, session_id=session_id)
        if not tx.run(_MOVE, session_id=session_id, after=after, last=last):  # indexed by another
            continue
        redacted = {
            row[0] for row in tx.rows(_REDACTED, session_id=session_id, lo=after + 1, hi=last)
        }
        added += [row for row in rows if row[1] not in redacted]
    if added:
        tx.insert(_ADD, *added)
    return len(added)


def _settle(tx: Transaction, named: Sequence[Mapping[str, str]]) -> None:
    """Note which of these sessions are indexed up to their end."""
    # In the order of their ids, as everywhere. The marks are read when all are locked, because a
    # drop that went first has deleted some.
    tx.each(_LOCK, named)
    tx.many(_SETTLE, named)


# The queries of a search


class _Language(NamedTuple):
    """The signs with which an engine writes an expression of terms."""

    quote: str
    beginning: str
    both: str
    either: str


_LANGUAGES: Final = {
    "fts5": _Language('"', "*", " AND ", " OR "),
    "tsvector": _Language("'", ":*", " & ", " | "),
}


def expression(query: Query, text_search: str) -> str:
    """The terms of a query, all of which a message has to have, in the language of the engine."""
    quote, beginning, both, either = _LANGUAGES[text_search]

    def written(term: Term) -> str:
        # Letters and digits, or a symbol: nothing in it has to be escaped.
        return f"{quote}{term.text}{quote}" + beginning * term.is_beginning

    def any_of(alternatives: Alternatives) -> str:
        return either.join(f"({both.join(map(written, terms))})" for terms in alternatives)

    return both.join(f"({any_of(alternatives)})" for alternatives in query.indexed)


@cache
def _has_terms(text_search: str | None) -> ColumnElement[bool]:
    """The condition that a message has the terms of an expression, or is too large for them."""
    if text_search is None:
        return search_rows.c.terms.is_(None)
    if text_search == "tsvector":
        return search_rows.c.terms.op("@@", is_comparison=True)(bindparam("terms"))
    matching = table("search_terms", column("rowid"), column("search_terms"))
    ids = select(matching.c.rowid).where(matching.c.search_terms.op("MATCH")(bindparam("terms")))
    return literal_column("search_rows.id").in_(ids)


@cache
def _not_indexed(shape: ListShape) -> Select[Any]:
    chosen = in_scope(shape, "last_seq").add_columns(_mark)
    chosen = chosen.outerjoin(search_marks, search_marks.c.session_id == sessions.c.session_id)
    if not any(shape):  # else the sessions are few, and are found by the conditions of the search
        chosen = chosen.where(_IS_UNINDEXED)
    return chosen.where(sessions.c.last_seq > _mark)


def not_indexed(tx: Transaction, search: Search) -> list[SqlRow]:
    """The sessions with messages after their mark: their last entry, and their mark."""
    return tx.rows(_not_indexed(search.scope.shape), **search.scope.params)


def indexed_keys(tx: Transaction, search: Search, text_search: str) -> Iterator[MatchKey]:
    """The indexed messages that may hold the words, in the order of the search."""
    params = {
        "terms": expression(search.query, text_search),
        "lo": MIN_INTEGER if search.since is None else search.since,
        "hi": MAX_INTEGER if search.until is None else search.until - 1,
        **search.scope.params,
    }
    order = {
        "is_oldest_first": search.is_oldest_first,
        "is_recorded": search.is_recorded,
        "is_owned": tx.owner is not None,
        "has_function": tx.has_round_trips and not tx.is_distributed,
        "is_filtered": tx.is_filtered,
    }
    statements = [_candidates(terms, search.scope.shape, **order) for terms in (text_search, None)]
    pages = (_pages(tx, statement, params, search) for statement in statements)
    return merge(*pages, reverse=not search.is_oldest_first)


def _pages(
    tx: Transaction, statement: Select[Any], params: Mapping[str, Any], search: Search
) -> Iterator[MatchKey]:
    step = 1 if search.is_oldest_first else -1
    start = search.start or MatchKey(MIN_INTEGER if step > 0 else MAX_INTEGER, "", 0)
    page = _PAGE
    while True:
        keys = [
            MatchKey(*row) for row in tx.rows(statement, page=page, **start._asdict(), **params)
        ]
        yield from keys
        if len(keys) < page:
            return
        start, page = keys[-1]._replace(seq=keys[-1].seq + step), page * 4


def _of_function() -> tuple[FromClause]:
    """The rows of the owner that have the terms, which a function of the server returns.

    Policies of row-level security would keep the server from using the index in a query (0074).
    """
    matches = func.roocontext_matches_v1(bindparam("terms"))
    # With their types: without one, the text of an id is added to as a number would be.
    columns = (
        column(name, search_rows.c[name].type)
        for name in ("session_id", "seq", "happened_at", "recorded_at")
    )
    return (matches.table_valued(*columns, name="matches"),)


@cache
def _candidates(
    text_search: str | None,
    shape: ListShape,
    *,
    is_oldest_first: bool,
    is_recorded: bool,
    is_owned: bool,
    is_filtered: bool,
    has_function: bool,
) -> Select[Any]:
    """A page of the messages that have the terms, or without an index, of the too large ones."""
    by_function = is_owned and has_function and text_search is not None
    rows, *conditions = _of_function() if by_function else (search_rows, _has_terms(text_search))
    if is_filtered or (is_owned and not by_function):
        # Row by row: the store may show more sessions than there are rows.
        same_session = select(sessions.c.session_id).where(
            sessions.c.session_id == rows.c.session_id
        )
        conditions.append(same_session.exists())
    time = rows.c.recorded_at if is_recorded else rows.c.happened_at
    key = (time, rows.c.session_id, rows.c.seq)
    start = tuple_(*(bindparam(name) for name in MatchKey._fields))
    page = crossing(select(*key)).where(
        *conditions,
        time.between(bindparam("lo"), bindparam("hi")),
        tuple_(*key) >= start if is_oldest_first else tuple_(*key) <= start,
    )
    if any(shape):
        # Not by the key: both engines would read the keys of whole sessions, however long.
        of = rows.c.session_id + literal_column("''")
        page = page.where(of.in_(in_scope(shape)))
    if shape.is_one:
        page = page.where(NotByKey(rows.c.session_id, "one"))
    order = key if is_oldest_first else [part.desc() for part in key]
    return page.order_by(*order).limit(bindparam("page"))
