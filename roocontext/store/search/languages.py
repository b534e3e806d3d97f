"""How each engine is asked for terms: FTS5 on SQLite, full text search on PostgreSQL."""

from functools import cache
from typing import Final, NamedTuple

from sqlalchemy import bindparam, column, literal_column, select, table
from sqlalchemy.sql import ColumnElement

from roocontext.search.query import Alternatives, Query, Term
from roocontext.store.schema import search_rows


class _Language(NamedTuple):
    quote: str
    beginning: str
    both: str
    either: str


_LANGUAGES: Final = {
    "sqlite": _Language('"', "*", " AND ", " OR "),
    "postgresql": _Language("'", ":*", " & ", " | "),
}


@cache
def has_terms(dialect: str) -> ColumnElement[bool]:
    """The condition that an indexed message has the terms of an expression."""
    if dialect == "postgresql":
        return search_rows.c.terms.op("@@", is_comparison=True)(bindparam("terms"))
    matching = table("search_terms", column("rowid"), column("search_terms"))
    found = select(matching.c.rowid).where(matching.c.search_terms.op("MATCH")(bindparam("terms")))
    return literal_column("search_rows.id").in_(found)


def expression(query: Query, dialect: str) -> str:
    """The terms of a query, all of which a message has to have, in the language of the engine."""
    language = _LANGUAGES[dialect]

    def one(term: Term) -> str:
        # Letters and digits, or a symbol: nothing in it has to be escaped.
        return (
            f"{language.quote}{term.text}{language.quote}" + term.is_beginning * language.beginning
        )

    def any_of(alternatives: Alternatives) -> str:
        return language.either.join(
            f"({language.both.join(map(one, terms))})" for terms in alternatives
        )

    return language.both.join(f"({any_of(alternatives)})" for alternatives in query.indexed)
