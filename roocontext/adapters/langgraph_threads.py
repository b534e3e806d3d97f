"""The calls of a checkpointer over a store: synchronous, one at a time."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, cast
from urllib.parse import unquote

from roocontext.adapters.langgraph_log import (
    CheckpointLog,
    KnownState,
    Saved,
    begin_epoch,
    encoded,
    read_state,
)
from roocontext.adapters.langgraph_messages import WORKS
from roocontext.adapters.serializing import framework
from roocontext.errors import InvalidOption, SessionNotFound, SessionPurged, VersionConflict
from roocontext.store.session import Session
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

_PREFIX = "langgraph:"
_ALL = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Thread:
    """A namespace of a thread, and the session that holds it."""

    thread_id: str
    namespace: str = ""

    @classmethod
    def of(cls, config: RunnableConfig) -> "Thread":
        """The thread and namespace of a config."""
        named = config["configurable"]
        return cls(str(named["thread_id"]), named.get("checkpoint_ns") or "")

    @classmethod
    def held_by(cls, session_id: str) -> "Thread":
        """The thread and namespace that a session holds."""
        thread, _, namespace = session_id.removeprefix(_PREFIX).partition("/")
        return cls(*(unquote(name, errors="surrogatepass") for name in (thread, namespace)))

    @property
    def whole(self) -> "Thread":
        """The thread's own namespace."""
        return Thread(self.thread_id)

    @property
    def session_id(self) -> str:
        """The session of this namespace."""
        root = _PREFIX + encoded(self.thread_id)
        return f"{root}/{encoded(self.namespace)}" if self.namespace else root

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the session."""
        return {
            "adapter": "langgraph",
            "thread_id": self.thread_id,
            "checkpoint_ns": self.namespace,
        }

    def config(self, checkpoint_id: str) -> RunnableConfig:
        """The config of one of its checkpoints."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": checkpoint_id,
            }
        }


@dataclass(slots=True)
class Remembered:
    """A session that was looked up, and its state after the last checkpoint that was put."""

    session: Session
    state: KnownState | None = None


def remembering() -> Callable[[Store, str], Remembered]:
    """Look up sessions of a store by their ids, and remember those that were used last."""
    return lru_cache(128)(lambda store, session_id: Remembered(store.session(session_id)))


@dataclass(frozen=True, slots=True)
class Work:
    """The calls of a checkpointer over a store, which share what they `remember`."""

    store: Store
    serde: SerializerProtocol
    remember: Callable[[Store, str], Remembered]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint of a thread: that of the config, or the newest."""
        thread = Thread.of(config)
        log = self._log(thread)
        saved = None if log is None else self._asked(log, config)
        if log is None or saved is None or saved.is_hidden:
            return None
        return self._tuple(log, thread, saved)

    def list_tuples(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[CheckpointTuple]:
        """The visible checkpoints of a thread or of all, those with the greatest ids first."""
        _check_filter(wanted)
        only = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        listed = [_visible(*pair, only, end) for pair in self._logs(config)]
        # The newest of all first, and no thread is read further than that.
        merged = heapq.merge(*listed, key=lambda one: one[2].id, reverse=True)
        matching = (
            self._tuple(log, thread, saved)
            for thread, log, saved in merged
            if not wanted or _matches(log.read_plain(saved.content["metadata"]), wanted)
        )
        return islice(matching, None if limit is None else max(limit, 0))

    def _logs(self, config: RunnableConfig | None) -> Iterator[tuple[Thread, CheckpointLog]]:
        """The logs of all threads, of a thread with all its namespaces, or of one namespace."""
        if config is None:
            threads = self._held(_PREFIX)
        elif config["configurable"].get("checkpoint_ns") is not None:
            threads = [Thread.of(config)]
        else:
            whole = Thread.of(config).whole
            threads = [whole, *self._held(f"{whole.session_id}/")]
        for thread in threads:
            if (log := self._log(thread)) is not None:
                yield thread, log

    def _namespaces(self, thread_id: str) -> list[tuple[Thread, CheckpointLog]]:
        return [*self._logs({"configurable": {"thread_id": thread_id}})]

    def _held(self, beginning: str) -> list[Thread]:
        infos = self.store.find(beginning, limit=_ALL)
        return [Thread.held_by(info.session_id) for info in infos if info.archived_at is None]

    def _log(self, thread: Thread) -> CheckpointLog | None:
        try:
            session = self.remember(self.store, thread.session_id).session
            return CheckpointLog.opened(session, self.serde)
        except SessionNotFound:
            return None

    @staticmethod
    def _asked(log: CheckpointLog, config: RunnableConfig) -> Saved | None:
        asked = get_checkpoint_id(config)
        return log.find(asked) if asked else next(log.visible(), None)

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
        """Store a checkpoint, and show its conversation in the session."""
        thread = Thread.of(config)
        remembered = self._begun(thread)
        session = remembered.session
        whole = get_checkpoint_metadata(config, metadata)
        while True:
            state = remembered.state or read_state(session, self.serde)
            try:
                remembered.state = CheckpointLog(session, self.serde, state.epoch).put(
                    state,
                    checkpoint,
                    whole,
                    get_checkpoint_id(config),
                    new_versions,
                    # Another serializer may encrypt: then no message is stored in plain text.
                    readable=isinstance(self.serde, JsonPlusSerializer),
                )
            except VersionConflict:  # another writer was first: read the session again
                remembered.state = None
            else:
                return thread.config(checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task towards the next checkpoint."""
        remembered = self._begun(Thread.of(config))
        session, state = remembered.session, remembered.state
        new = (config["configurable"]["checkpoint_id"], writes, task_id, task_path)
        if state is not None:
            # Reading the epoch first would take a seventh of the time of this call.
            head_seq = CheckpointLog(session, self.serde, state.epoch).put_writes(state, *new)
            if head_seq == state.head_seq:
                return
        # Another process has written since, and may have begun an epoch.
        log = CheckpointLog.opened(session, self.serde)
        if state is None or log.epoch != state.epoch:
            log.put_writes(None, *new)

    def _begun(self, thread: Thread) -> Remembered:
        """The thread's session, which is created if it does not exist."""
        with suppress(SessionNotFound):
            return self.remember(self.store, thread.session_id)
        # A namespace belongs to a sub-agent, so its session is a child of the thread's.
        parent = self._begun(thread.whole).session.id if thread.namespace else None
        self.store.open_session(thread.session_id, parent=parent, metadata=thread.metadata)
        return self.remember(self.store, thread.session_id)

    def delete_thread(self, thread_id: str) -> None:
        """Hide all of a thread. Its id can be used again."""
        self._hide_thread(str(thread_id), "langgraph.delete_thread")

    def _hide_thread(self, thread_id: str, by: str) -> None:
        # The thread itself last: if the process ends in between, it can be deleted again.
        for _, log in reversed(self._namespaces(thread_id)):
            with suppress(SessionPurged):  # since it was looked up
                begin_epoch(log.session, by)
                self.remember(self.store, log.session.id).state = None

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs in all threads; each thread shows what is left."""
        runs = frozenset(_ids("run_ids", run_ids))
        for _, log in self._logs(None) if runs else ():
            gone: list[Saved] = []
            left: list[Saved] = []
            for saved in log.visible():
                run = log.read_plain(saved.content["metadata"]).get("run_id")
                (gone if run in runs else left).append(saved)
            if gone and not left:
                begin_epoch(log.session, "langgraph.delete_for_runs")
            else:
                log.hide(gone, "langgraph.delete_for_runs", left=left)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the newest checkpoint of each namespace, or with "delete" all."""
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidOption('strategy must be "keep_latest" or "delete".', name="strategy")
        for thread_id in _ids("thread_ids", thread_ids):
            if strategy == "delete":
                self._hide_thread(thread_id, "langgraph.prune")
                continue
            for _, log in self._namespaces(thread_id):
                visible = [*log.visible()]
                log.hide(visible[1:], "langgraph.prune", left=visible[:1])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its namespaces, by forks of their sessions."""
        for thread, log in self._namespaces(str(source_thread_id)):
            copy = Thread(str(target_thread_id), thread.namespace)
            parent = self._begun(copy.whole).session.id if copy.namespace else None
            log.session.fork(session_id=copy.session_id, parent=parent).set_metadata(copy.metadata)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes to channels since a stored value, from the checkpoint's ancestors."""
        channels = _ids("channels", channels)
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        log = self._log(Thread.of(config)) if channels else None
        saved = None if log is None else self._asked(log, config)
        if log is None or saved is None:
            return history
        open_, parent = {*channels}, saved.content.get("parent")
        seen = {saved.id}  # a caller may name any parent, so a chain may be a circle
        # Ancestors that were pruned are only hidden: their writes still count.
        while open_ and parent is not None and parent not in seen:
            if (ancestor := log.find(parent)) is None:
                break
            seen.add(parent)
            ancestor = log.original(ancestor)
            for write in reversed(log.writes(ancestor)):
                if write[1] in open_:
                    history[write[1]]["writes"].insert(0, write)
            for channel, value in log.values(ancestor, [*open_]).items():
                history[channel]["seed"] = value
                open_.discard(channel)
            parent = ancestor.content["parent"]
        return history


def _visible(
    thread: Thread, log: CheckpointLog, only: str | None, before: str | None
) -> Iterator[tuple[Thread, CheckpointLog, Saved]]:
    listed = log.visible(before) if only is None else filter(None, [log.find(only)])
    for saved in listed:
        if not saved.is_hidden and (before is None or saved.id < before):
            yield thread, log, saved


def _ids(name: str, ids: Sequence[str]) -> list[str]:
    """The ids of a list. A single string is a list too, of its characters: it is refused."""
    if isinstance(ids, str | bytes):
        raise TypeError(f"{name} is a list of ids, not a {type(ids).__name__}.")
    return [str(item) for item in ids]


def _check_filter(wanted: object) -> None:
    """Refuse a filter that is not a mapping of names."""
    is_mapping = isinstance(wanted, Mapping) and all(isinstance(name, str) for name in wanted)
    if wanted is not None and not is_mapping:
        raise InvalidOption("A filter maps names of metadata to values.", name="filter")


def _matches(metadata: Any, wanted: Mapping[str, Any]) -> bool:
    """True if the metadata contains the filter by PostgreSQL's `@>`, which `PostgresSaver` uses.

    An object contains another if it has its keys with values that contain the other's, and a list
    contains another if each of the other's items is in one of its own. A key with dots leads
    inside, as in `SqliteSaver`. None also stands for a name that is missing.
    """
    return all(_contains(_value(metadata, name), value) for name, value in wanted.items())


def _value(metadata: Any, name: str) -> Any:
    if name in metadata:
        return metadata[name]
    for step in name.split("."):
        if not isinstance(metadata, Mapping):
            return None
        metadata = metadata.get(step)
    return metadata


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and _contains(value[name], item) for name, item in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and all(
            any(_contains(mine, item) for mine in value) for item in wanted
        )
    # In JSON true is not 1.
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
