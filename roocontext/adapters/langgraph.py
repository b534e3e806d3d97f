"""LangGraph: a checkpointer over a store, sync and async in one class.

To switch, replace LangGraph's saver by these two lines::

    from roocontext.adapters.langgraph import RooContextSaver
    graph = builder.compile(checkpointer=RooContextSaver("agent.db"))
"""

import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from roocontext.adapters.langgraph_messages import WORKS
from roocontext.adapters.langgraph_threads import Work, remembering
from roocontext.adapters.serializing import framework
from roocontext.store.given import AnyStore, Done, GivenStore, OverStore
from roocontext.store.store import Store

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        CheckpointTuple,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

Params = ParamSpec("Params")
Result = TypeVar("Result")


def _both(
    method: Callable[Concatenate[Work, Params], Result],
) -> tuple[
    Callable[Concatenate["RooContextSaver", Params], Result],
    Callable[Concatenate["RooContextSaver", Params], Coroutine[Any, Any, Result]],
]:
    """The method as one of the checkpointer, and as a coroutine function of it."""

    @wraps(method)
    def now(saver: "RooContextSaver", /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return saver._now(lambda work: method(work, *args, **kwargs))  # noqa: SLF001

    @wraps(method)
    async def soon(
        saver: "RooContextSaver", /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Result:
        return await saver._soon(lambda work: method(work, *args, **kwargs))  # noqa: SLF001

    return now, soon


class RooContextSaver(OverStore, BaseCheckpointSaver[str]):
    """Keeps the checkpoints of LangGraph's threads in a store, each thread as a session.

    Pass an open store, or a URL or path, which is opened by the first call or by `setup`. With an
    `AsyncStore`, use the async methods, or the sync ones outside of an event loop; otherwise use
    either. Only a store that was opened here is closed here.
    """

    def __init__(self, store: AnyStore, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._given = GivenStore(store)
        self._remember = remembering()

    @classmethod
    def from_conn_string(cls, conn_string: str, *, serde: SerializerProtocol | None = None) -> Self:
        """A checkpointer for a `with` or an `async with`, which closes its store at the end."""
        return cls(conn_string, serde=serde)

    def setup(self) -> Done:
        """Open the store now, and create or upgrade its schema, as the first call does.

        The result may be awaited.
        """
        return self._given.open()

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """The next version of a channel: a number that grows, and a random part."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311 - no secret

    get_tuple, aget_tuple = _both(Work.get_tuple)
    put, aput = _both(Work.put)
    put_writes, aput_writes = _both(Work.put_writes)
    get_delta_channel_history, aget_delta_channel_history = _both(Work.get_delta_channel_history)
    # Deleting hides; only `Store.purge` destroys.
    delete_thread, adelete_thread = _both(Work.delete_thread)
    delete_for_runs, adelete_for_runs = _both(Work.delete_for_runs)
    prune, aprune = _both(Work.prune)
    copy_thread, acopy_thread = _both(Work.copy_thread)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all, those with the greatest ids first."""
        listed = self._now(lambda work: work.list_tuples(config, filter, before, limit))
        while (checkpoint := self._now(lambda _: next(listed, None))) is not None:
            yield checkpoint

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See list."""
        listed = await self._soon(lambda work: work.list_tuples(config, filter, before, limit))
        while (checkpoint := await self._soon(lambda _: next(listed, None))) is not None:
            yield checkpoint

    def _now(self, work: Callable[[Work], Result]) -> Result:
        return self._given.run_now(lambda store: work(self._over(store)))

    async def _soon(self, work: Callable[[Work], Result]) -> Result:
        return await self._given.run(lambda store: work(self._over(store)))

    def _over(self, store: Store) -> Work:
        return Work(store, self.serde, self._remember)
