"""Which messages may hold the words of a query, newest or oldest first."""

from collections.abc import Iterator
from heapq import merge

from roocontext.search.letters import composed
from roocontext.search.match import occurrences
from roocontext.search.passages import passages
from roocontext.store.engine.transaction import Transaction
from roocontext.store.search.index import MESSAGES, indexed, not_indexed
from roocontext.store.search.scope import Key, Search
from roocontext.store.search.text import content_of

_PAGE = 500


def candidates(tx: Transaction, search: Search, dialect: str) -> Iterator[Key]:
    """The messages that may match, in the order of the search."""
    beyond = [key for session in not_indexed(tx, search) for key in _beyond(tx, search, *session)]
    beyond.sort(reverse=not search.is_oldest_first)
    return merge(indexed(tx, search, dialect), beyond, reverse=not search.is_oldest_first)


def _beyond(
    tx: Transaction, search: Search, session_id: str, last: int, after: int
) -> Iterator[Key]:
    """The messages that the index does not know."""
    while rows := tx.rows(MESSAGES, session_id=session_id, lo=after + 1, hi=last, page=_PAGE):
        for seq, happened_at, recorded_at, format_, role, content in rows:
            key = Key(search.time_of(happened_at, recorded_at), session_id, seq)
            if search.follows(key) and search.query.may_be_in(content):
                text_ = composed(
                    passages(format_, role, content_of(session_id, seq, format_, role, content))
                )
                if occurrences(search.query, text_):
                    yield key
        after = rows[-1][0]
