"""LangGraph's savers are ours: in memory, SQLite and PostgreSQL, also where a test subclasses them.

A pytest plugin: it is loaded before the tests are, which import the savers by name.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, Self

import langgraph.checkpoint.memory
import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
from langgraph.checkpoint.serde.base import SerializerProtocol

from frameworks.ours.stores import new_store, store_at
from roocontext.adapters.langgraph import RooContextSaver


class InMemorySaver(RooContextSaver):
    """Made as LangGraph's own, and a context manager as that."""

    def __init__(self, *, serde: SerializerProtocol | None = None, factory: Any = None) -> None:
        super().__init__(new_store(), serde=serde)
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        self.stack.__enter__()
        return self

    def __exit__(self, *raised: object) -> bool | None:
        return self.stack.__exit__(*raised)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> bool | None:
        return self.__exit__(*raised)


class SqliteSaver(RooContextSaver):
    """Made from a connection string, as LangGraph's own."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[Self]:
        yield cls(store_at(conn_string))


class AsyncSqliteSaver(RooContextSaver):
    """Made from a connection string, as LangGraph's own."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[Self]:
        yield cls(store_at(conn_string))


langgraph.checkpoint.memory.InMemorySaver = InMemorySaver
langgraph.checkpoint.memory.MemorySaver = InMemorySaver
langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSqliteSaver
