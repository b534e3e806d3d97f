"""What LangGraph asks of a checkpointer, as work over a store: synchronous, one call at a time."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

from roocontext.adapters.langgraph_conversations import KnownState, Saved, read_state
from roocontext.adapters.langgraph_filter import check_filter, matches
from roocontext.adapters.langgraph_log import CheckpointLog, begin_epoch, short
from roocontext.adapters.langgraph_messages import WORKS
from roocontext.adapters.serializing import framework
from roocontext.errors import InvalidOption, SessionNotFound, SessionPurged, VersionConflict
from roocontext.store.session import Session
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.store import Store

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

Value = TypeVar("Value")

PREFIX = "langgraph:"
_KEPT = 128
"""How many sessions' states are kept in memory."""
_ALL = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread's namespace, and the session that holds it."""

    thread_id: str
    namespace: str = ""

    @classmethod
    def of(cls, config: RunnableConfig) -> "Thread":
        """The one that a config names."""
        named = config["configurable"]
        return cls(str(named["thread_id"]), named.get("checkpoint_ns") or "")

    @classmethod
    def named(cls, info: SessionInfo) -> "Thread":
        """The one that a session holds."""
        thread, _, namespace = info.session_id.removeprefix(PREFIX).partition("/")
        given = info.metadata or {}
        # Digests are no names: the names are in the metadata.
        return cls(
            given["thread_id"] if thread.startswith("~") else thread,
            given["checkpoint_ns"] if namespace.startswith("~") else namespace,
        )

    @property
    def whole(self) -> "Thread":
        """The thread's own namespace."""
        return Thread(self.thread_id)

    @property
    def root(self) -> str:
        """The session of the thread's own namespace."""
        return PREFIX + short(self.thread_id)

    @property
    def session_id(self) -> str:
        """The session of this namespace."""
        return f"{self.root}/{short(self.namespace)}" if self.namespace else self.root

    @property
    def metadata(self) -> dict[str, str]:
        """What a list of sessions shows of it."""
        return {
            "adapter": "langgraph",
            "thread_id": self.thread_id,
            "checkpoint_ns": self.namespace,
        }

    def config(self, checkpoint_id: str) -> RunnableConfig:
        """What names a checkpoint of it."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": checkpoint_id,
            }
        }


@dataclass(frozen=True, slots=True)
class Work:
    """A checkpointer's work over a store. What is known of sessions is shared by all its calls."""

    store: Store
    serde: SerializerProtocol
    states: dict[str, KnownState]
    sessions: dict[str, Session]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint of a thread: that of the config, or the newest."""
        thread = Thread.of(config)
        log = self._log(thread)
        if log is None:
            return None
        asked = get_checkpoint_id(config)
        saved = log.find(asked) if asked else log.newest()
        return None if saved is None or saved.is_hidden else self._tuple(log, thread, saved)

    def list_tuples(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[CheckpointTuple]:
        """The visible checkpoints of a thread or of all, those with the greatest ids first."""
        check_filter(wanted)
        only = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        found = [_visible(*one, only, end) for one in self._threads(config)]
        # The newest of all first, and no thread is read further than that.
        merged = heapq.merge(*found, key=lambda one: one[2].id, reverse=True)
        matching = (
            self._tuple(log, thread, saved)
            for thread, log, saved in merged
            if not wanted or matches(log.read_plain(saved.content["metadata"]), wanted)
        )
        return islice(matching, limit)

    def _threads(self, config: RunnableConfig | None) -> Iterator[tuple[Thread, CheckpointLog]]:
        if config is None:
            for info in self.store.find(PREFIX, limit=_ALL):
                yield from self._found(Thread.named(info))
            return
        thread = Thread.of(config)
        if "checkpoint_ns" in config["configurable"]:
            yield from self._found(thread)
            return
        for one in (thread, *self._namespaces(thread)):
            yield from self._found(one)

    def _namespaces(self, thread: Thread) -> Iterator[Thread]:
        for info in self.store.find(f"{thread.root}/", limit=_ALL):
            yield Thread.named(info)

    def _found(self, thread: Thread) -> Iterator[tuple[Thread, CheckpointLog]]:
        log = self._log(thread)
        if log is not None:
            yield thread, log

    def _log(self, thread: Thread) -> CheckpointLog | None:
        try:
            return CheckpointLog.opened(self._known(thread), self.serde)
        except SessionNotFound:
            return None

    def _tuple(self, log: CheckpointLog, thread: Thread, saved: Saved) -> CheckpointTuple:
        content = saved.content
        checkpoint = {
            **log.read_plain(content["checkpoint"]),
            "channel_values": log.values(saved),
        }
        parent = log.parent(saved)
        return CheckpointTuple(
            thread.config(saved.id),
            cast("Checkpoint", checkpoint),
            log.read_plain(content["metadata"]),
            None if parent is None else thread.config(parent),
            log.writes(saved),
        )

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and show its conversation."""
        thread = Thread.of(config)
        name = thread.session_id
        session = self._session(thread)
        whole = get_checkpoint_metadata(config, metadata)
        while True:
            state = self.states.get(name) or read_state(session)
            log = CheckpointLog(session, self.serde, state.epoch)
            try:
                # Another serializer may encrypt: then no message is laid open beside what it gives.
                state = log.put(
                    state,
                    checkpoint,
                    whole,
                    get_checkpoint_id(config),
                    new_versions,
                    readable=isinstance(self.serde, JsonPlusSerializer),
                )
            except VersionConflict:  # somebody wrote in the meantime: look again
                self.states.pop(name, None)
                continue
            _keep(self.states, name, state)
            return thread.config(checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        """Store what a task has written towards the next checkpoint."""
        thread = Thread.of(config)
        session = self._session(thread)
        state = self.states.get(thread.session_id)
        log = (
            CheckpointLog(session, self.serde, state.epoch)
            if state
            else CheckpointLog.opened(session, self.serde)
        )
        asked = (config["configurable"]["checkpoint_id"], writes, task_id, task_path)
        head = log.put_writes(state, *asked)
        if state is not None and head not in (None, state.head_seq):
            # Another process has written, and may have begun an epoch.
            now = CheckpointLog.opened(session, self.serde)
            if now.epoch != log.epoch:
                now.put_writes(None, *asked)

    def _session(self, thread: Thread) -> Session:
        with suppress(SessionNotFound):
            return self._known(thread)
        # A namespace is the session of a sub-agent: a child of its thread's, which may be empty.
        parent = self._session(thread.whole).id if thread.namespace else None
        return self.store.open_session(thread.session_id, parent=parent, metadata=thread.metadata)

    def _known(self, thread: "Thread") -> Session:
        """The thread's session, if there is one: looked up once, as it holds no state."""
        name = thread.session_id
        if name not in self.sessions:
            _keep(self.sessions, name, self.store.session(name))
        return self.sessions[name]

    def hide_threads(self, thread_ids: Sequence[str], by: str) -> None:
        """Begin a new epoch of every namespace of these threads."""
        for thread_id in ids_of("thread_ids", thread_ids):
            thread = Thread(thread_id)
            # The thread itself last: if the process ends in between, it is still there to delete.
            for _, log in reversed(self._all(thread)):
                with suppress(SessionPurged):  # since it was looked up
                    begin_epoch(log.session, by)
                self.states.pop(log.session.id, None)

    def _all(self, thread: Thread) -> list[tuple[Thread, CheckpointLog]]:
        everywhere = (thread, *self._namespaces(thread))
        return [found for one in everywhere for found in self._found(one)]

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs, and show what is left."""
        runs = frozenset(ids_of("run_ids", run_ids))
        for _, log in self._threads(None) if runs else ():
            visible = [*log.pages()]
            gone = [
                one
                for one in visible
                if log.read_plain(one.content["metadata"]).get("run_id") in runs
            ]
            if len(gone) == len(visible) > 0:
                begin_epoch(log.session, "langgraph.delete_for_runs")
            elif gone:
                left = [one for one in visible if one not in gone]
                log.hide(gone, "langgraph.delete_for_runs", left=left)
            self.states.pop(log.session.id, None)

    def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        """Hide all but the newest checkpoint of each namespace, or all."""
        if strategy == "delete":
            self.hide_threads(thread_ids, "langgraph.prune")
            return
        if strategy != "keep_latest":
            raise InvalidOption('strategy must be "keep_latest" or "delete".', name="strategy")
        for thread_id in ids_of("thread_ids", thread_ids):
            for _, log in self._all(Thread(thread_id)):
                visible = [*log.pages()]
                log.hide(visible[1:], "langgraph.prune", left=visible[:1])

    def copy_thread(self, source: str, target: str) -> None:
        """Fork the session of each namespace."""
        for thread, log in self._all(Thread(str(source))):
            copy = Thread(str(target), thread.namespace)
            parent = self._session(copy.whole).id if copy.namespace else None
            log.session.fork(session_id=copy.session_id, parent=parent).set_metadata(copy.metadata)

    def history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels since a stored value, from the checkpoint's ancestors."""
        channels = ids_of("channels", channels)
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        log = self._log(Thread.of(config))
        if log is None or not channels:
            return found
        asked = get_checkpoint_id(config)
        saved = log.find(asked) if asked else log.newest()
        open_, parent = {*channels}, saved and saved.content.get("parent")
        seen = set() if saved is None else {saved.id}  # a caller may name any parent: also a child
        # Ancestors that were pruned are hidden, not gone: their writes still count.
        while open_ and parent is not None and parent not in seen:
            if (ancestor := log.find(parent)) is None:
                break
            seen.add(parent)
            ancestor = log.original(ancestor)
            for write in reversed(log.writes(ancestor)):
                if write[1] in open_:
                    found[write[1]]["writes"].insert(0, write)
            for channel, value in log.values(ancestor, [*open_]).items():
                found[channel]["seed"] = value
                open_.discard(channel)
            parent = ancestor.content["parent"]
        return found


def _visible(
    thread: Thread, log: CheckpointLog, only: str | None, before: str | None
) -> Iterator[tuple[Thread, CheckpointLog, Saved]]:
    found = log.pages(before) if only is None else filter(None, [log.find(only)])
    for saved in found:
        if not saved.is_hidden and (before is None or saved.id < before):
            yield thread, log, saved


def ids_of(name: str, given: Sequence[str]) -> list[str]:
    """The ids of a list. A single string is a list too, of its characters: it is refused."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{name} is a list of ids, not a {type(given).__name__}.")
    return [str(one) for one in given]


def _keep(kept: dict[str, Value], name: str, value: Value) -> None:
    kept.pop(name, None)  # the one that was used last is the last to go
    kept[name] = value
    while len(kept) > _KEPT:
        kept.pop(next(iter(kept)), None)
