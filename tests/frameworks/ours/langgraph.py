"""LangGraph's savers are ours: in memory, SQLite and PostgreSQL, also where a test subclasses them.

A pytest plugin: it is loaded before the tests are, which import the savers by name.
"""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any, Self

import langgraph.checkpoint.memory
import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
from langgraph.checkpoint.serde.base import SerializerProtocol

from frameworks.ours.stores import new_store, url_at
from roocontext.adapters.langgraph import RooContextSaver


class InMemorySaver(RooContextSaver):
    """Made as LangGraph's own, and a context manager as that.

    Its asynchronous methods call the others, which is where tests interfere.
    """

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

    async def aget_tuple(self, *args: Any, **options: Any) -> Any:
        return self.get_tuple(*args, **options)

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        for found in self.list(*args, **options):
            yield found

    async def aput(self, *args: Any, **options: Any) -> Any:
        return self.put(*args, **options)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)  # LangGraph looks for `task_path`

    async def aget_delta_channel_history(self, *args: Any, **options: Any) -> Any:
        return self.get_delta_channel_history(*args, **options)


class SqliteSaver(RooContextSaver):
    """Made from a connection string, as LangGraph's own."""

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        return super().from_conn_string(url_at(conn_string), **options)


class AsyncSqliteSaver(SqliteSaver):
    """The same: one class of ours has both interfaces."""


langgraph.checkpoint.memory.InMemorySaver = InMemorySaver
langgraph.checkpoint.memory.MemorySaver = InMemorySaver
langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSqliteSaver
