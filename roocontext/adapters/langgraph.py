"""LangGraph: a checkpointer over a store, sync and async in one class.

To switch, replace LangGraph's saver by these two lines::

    from roocontext.adapters.langgraph import RooContextSaver
    graph = builder.compile(checkpointer=RooContextSaver("agent.db"))
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from roocontext.adapters.langgraph_messages import WORKS
from roocontext.adapters.langgraph_threads import Work, remembering
from roocontext.adapters.serializing import framework
from roocontext.store.given import AnyStore, Done, GivenStore, OverStore
from roocontext.store.store import Store

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

Result = TypeVar("Result")


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

    # Reads

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint of a thread: that of the config, or the newest."""
        return self._now(lambda work: work.get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See get_tuple."""
        return await self._soon(lambda work: work.get_tuple(config))

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
        while (found := self._now(lambda _: next(listed, None))) is not None:
            yield found

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
        while (found := await self._soon(lambda _: next(listed, None))) is not None:
            yield found

    # Writes

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and show its conversation in the session."""
        return self._now(lambda work: work.put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See put."""
        return await self._soon(lambda work: work.put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task towards the next checkpoint."""
        self._now(lambda work: work.put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See put_writes."""
        await self._soon(lambda work: work.put_writes(config, writes, task_id, task_path))

    # Deleting hides; only `Store.purge` destroys.

    def delete_thread(self, thread_id: str) -> None:
        """Hide all of a thread. Its id can be used again."""
        self._now(lambda work: work.hide_threads([thread_id], "langgraph.delete_thread"))

    async def adelete_thread(self, thread_id: str) -> None:
        """See delete_thread."""
        await self._soon(lambda work: work.hide_threads([thread_id], "langgraph.delete_thread"))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs in all threads; each thread shows what is left."""
        self._now(lambda work: work.delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See delete_for_runs."""
        await self._soon(lambda work: work.delete_for_runs(run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the newest checkpoint of each namespace, or with "delete" all."""
        self._now(lambda work: work.prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See prune."""
        await self._soon(lambda work: work.prune(thread_ids, strategy))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its namespaces, by forks of their sessions."""
        self._now(lambda work: work.copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See copy_thread."""
        await self._soon(lambda work: work.copy_thread(source_thread_id, target_thread_id))

    # Delta channels

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes to channels since a stored value, from the checkpoint's ancestors."""
        return self._now(lambda work: work.history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See get_delta_channel_history."""
        return await self._soon(lambda work: work.history(config, channels))

    # Running

    def _now(self, work: Callable[[Work], Result]) -> Result:
        return self._given.run_now(lambda store: work(self._over(store)))

    async def _soon(self, work: Callable[[Work], Result]) -> Result:
        return await self._given.run(lambda store: work(self._over(store)))

    def _over(self, store: Store) -> Work:
        return Work(store, self.serde, self._remember)
