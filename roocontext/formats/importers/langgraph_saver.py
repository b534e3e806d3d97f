"""Threads of LangGraph's checkpointers SqliteSaver and PostgresSaver. docs/formats/langgraph.md.

A checkpoint holds the whole conversation. It is compared with that of its parent: new messages are
added, a fork or a changed message is a rewind, and messages that the graph removed are hidden by
what it put in their place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from roocontext.errors import UnreadableSource
from roocontext.formats.databases import Rows, SourceDatabase, Tables, utc_ms
from roocontext.formats.events import Added, Event, Hid, Noted, Problem, Source, WentBack
from roocontext.formats.files import non_empty, report
from roocontext.formats.importer import Importer
from roocontext.formats.importers.langgraph_values import (
    Known,
    StoredMessage,
    conversation,
    json_value,
    plain_value,
    read_value,
)
from roocontext.formats.langchain_conversations import (
    MARKER,
    kept_count,
    new_marker,
    replaced,
    to_new,
)
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict

NAME: Final = "langgraph-saver"
_NEWEST: Final = 4
"""The newest version of a checkpoint that is known."""
_KEY: Final = ("thread_id", "checkpoint_ns")
_OF_CHECKPOINT: Final = ("checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata")
_OF_BLOB: Final = ("channel", "version", "type", "blob")
_PARENTS: Final = (
    "SELECT parent_checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
)
_FILE: Final = (
    "SELECT checkpoint_id, parent_checkpoint_id, metadata, type, checkpoint FROM checkpoints"
    " WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
)
# The values of channels are rows of their own, each for the versions from which it did not change.
_SERVER: Final = (
    "SELECT checkpoint_id, parent_checkpoint_id, metadata, checkpoint,"
    " (SELECT array_agg(ARRAY[convert_to(b.channel, 'UTF8'), convert_to(b.version, 'UTF8'),"
    " convert_to(b.type, 'UTF8'), b.blob])"
    " FROM jsonb_each_text(checkpoint -> 'channel_versions') AS v JOIN checkpoint_blobs AS b"
    " ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns"
    " AND b.channel = v.key AND b.version = v.value)"
    " FROM checkpoints AS c WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
)


def _is_database(tables: Tables) -> bool:
    return {*_KEY} <= tables.get("checkpoints", frozenset())


def sources(database: SourceDatabase, tables: Tables) -> Iterator[Source]:
    """The threads of a database, each before the namespaces of its subgraphs."""
    needs = {"checkpoints": _OF_CHECKPOINT, "checkpoint_blobs": _OF_BLOB}
    for table in needs.keys() & tables.keys():
        database.check_columns(tables, table, *_KEY, *needs[table], by="LangGraph's checkpointers")
    is_split = "checkpoint_blobs" in tables
    with database.reading() as rows:
        query = "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints ORDER BY 1, 2"
        threads = list(rows(query))
    for thread, namespace in threads:
        name = str(thread).replace("%", "%25").replace("/", "%2F")
        yield database.source(
            NAME,
            f"{name}/{namespace}" if namespace else name,
            partial(_events, database, (thread, namespace), is_split=is_split),
            parent=name if namespace else None,
            thread=thread,
            namespace=namespace or None,
        )


class _Checkpoint(NamedTuple):
    """A checkpoint: the conversations of its channels, and what is said of it."""

    id: str
    parent: str | None
    ts: int | None
    conversations: Mapping[str, list[StoredMessage]]
    metadata: Mapping[str, Any]


def _events(
    database: SourceDatabase, key: tuple[str, str], problems: list[Problem], *, is_split: bool
) -> Iterator[Event]:
    graph = _Graph()
    with database.reading() as rows:
        graph.children.update(parent for (parent,) in rows(_PARENTS, key))
        for checkpoint in _read_split(rows, key) if is_split else _read_whole(rows, key):
            if deltas := as_dict(checkpoint.metadata.get("counters_since_delta_snapshot")):
                what = (
                    f"from checkpoint {checkpoint.id} on, {', '.join(sorted(deltas))} is stored as"
                    " changes (DeltaChannel), which only its graph can add up"
                )
                report(problems, Problem(database.place, None, what, cuts=True))
                return
            yield from graph.take(checkpoint)


def _read_whole(rows: Rows, key: tuple[str, str]) -> Iterator[_Checkpoint]:
    known: Known = {}
    for name, parent, metadata, kind, data in rows(_FILE, key):
        checkpoint = read_value(kind, data, known)
        yield _checkpoint(name, parent, metadata, checkpoint, checkpoint["channel_values"])


def _read_split(rows: Rows, key: tuple[str, str]) -> Iterator[_Checkpoint]:
    known: Known = {}
    before: dict[tuple[bytes, bytes], Any] = {}
    for name, parent, metadata, checkpoint, blobs in rows(_SERVER, key):
        stored = as_dict(json_value(checkpoint))
        values = dict(as_dict(stored.get("channel_values")))
        current: dict[tuple[bytes, bytes], Any] = {}
        for channel, version, kind, data in blobs or ():
            place = bytes(channel), bytes(version)
            if place in before:  # nothing has been written to the channel
                current[place] = before[place]
            else:
                current[place] = read_value(bytes(kind).decode(), data, known)
            values[place[0].decode()] = current[place]
        before = current
        yield _checkpoint(name, parent, metadata, stored, values)


def _checkpoint(
    name: str, parent: str | None, metadata: Any, stored: Mapping[str, Any], values: Any
) -> _Checkpoint:
    if stored.get("v", 0) > _NEWEST:
        raise UnreadableSource(
            f"checkpoint {name} has version {stored['v']}, and the newest that is known is"
            f" {_NEWEST}",
            advice="",
        )
    readable = {channel: conversation(value) for channel, value in values.items()}
    conversations = {
        channel: conversation for channel, conversation in readable.items() if conversation
    }
    facts = as_dict(json_value(metadata)) if metadata is not None else {}
    ts = utc_ms(non_empty(stored.get("ts")))
    return _Checkpoint(name, parent, ts, conversations, facts)


class _Said(NamedTuple):
    """A message of the conversation: its event, and the last event before it."""

    event: str
    before: str | None
    channel: str
    digest: bytes
    id: str | None


class _State(NamedTuple):
    """The conversation after a checkpoint.

    `tip` is the last event. Of `shown`, the first `fixed` were there when messages were hidden
    last, so that no earlier event shows the conversation without the rest of them.
    """

    tip: str | None = None
    shown: tuple[_Said, ...] = ()
    fixed: int = 0


@dataclass(slots=True)
class _Graph:
    """Goes through the checkpoints of a thread in their order."""

    state: _State = field(default_factory=_State)
    children: Counter[str | None] = field(default_factory=Counter)
    """How many checkpoints follow each checkpoint."""
    states: dict[str, _State] = field(default_factory=dict)
    """The states of checkpoints that others still follow."""
    names: Counter[str] = field(default_factory=Counter)

    def take(self, checkpoint: _Checkpoint) -> Iterator[Event]:
        """The events that lead from the parent's conversation to that of a checkpoint."""
        parent = checkpoint.parent
        # A parent may have been pruned.
        base = self.states.get(parent, self.state) if parent else self.state
        if parent in self.states:
            self.children[parent] -= 1
            if not self.children[parent]:
                del self.states[parent]
        if base.tip != self.state.tip:
            yield self._back(checkpoint, base.tip, base.shown, base.fixed)
        yield from self._reach(checkpoint)
        if self.children[checkpoint.id]:
            self.states[checkpoint.id] = self.state
        if self.state.tip is not None:  # a graph may keep no conversation at all
            record = {
                name: value for name, value in checkpoint.metadata.items() if name != "writes"
            }
            about = {"checkpoint": checkpoint.id, "parent": parent, "metadata": plain_value(record)}
            yield Noted(None, "checkpoint", about, checkpoint.ts)

    def _reach(self, checkpoint: _Checkpoint) -> Iterator[Event]:
        wanted = {
            channel: [message.digest for message in messages]
            for channel, messages in checkpoint.conversations.items()
        }
        shown = self.state.shown
        stays = kept_count(shown, wanted)
        if stays < len(shown):
            if hid := self._hid(checkpoint, wanted, stays):
                yield hid
            elif stays >= self.state.fixed:
                yield self._back(checkpoint, shown[stays].before, shown[:stays], self.state.fixed)
            else:
                yield self._back(checkpoint, None, (), 0)
        have = Counter(message.channel for message in self.state.shown)
        for channel, messages in checkpoint.conversations.items():
            for message in messages[have[channel] :]:
                added = self._said(message, channel)
                self.state = self.state._replace(tip=added.event, shown=(*self.state.shown, added))
                yield Added(added.event, self._new(message, channel, checkpoint))

    def _back(
        self, checkpoint: _Checkpoint, to: str | None, shown: tuple[_Said, ...], fixed: int
    ) -> WentBack:
        name = self._named(f"rewind {checkpoint.id}")
        self.state = _State(name, shown, fixed)
        return WentBack(name, to, ts=checkpoint.ts)

    def _hid(
        self, checkpoint: _Checkpoint, wanted: Mapping[str, list[bytes]], stays: int
    ) -> Hid | None:
        """A summary of the graph's own, or a marker, for the messages that it removed."""
        shown = self.state.shown
        cut = replaced(shown, wanted, checkpoint.conversations, stays)
        if cut is None:
            return None
        channel, gone, new = cut
        messages = checkpoint.conversations[channel][new]
        inserted = [self._said(message, channel) for message in messages]
        rows = [
            with_fields(self._new(message, channel, checkpoint), message_id=said.event)
            for message, said in zip(messages, inserted, strict=True)
        ]
        if not rows:
            marker = self._named(f"marker {checkpoint.id}")
            inserted = [_Said(marker, None, MARKER, b"", None)]
            rows = [with_fields(new_marker(), message_id=marker, ts=checkpoint.ts)]
        name = self._named(f"hidden {checkpoint.id}")
        after = (*shown[: gone.start], *inserted, *shown[gone.stop :])
        self.state = _State(name, after, len(after))
        hides = frozenset(message.event for message in shown[gone])
        return Hid(name, tuple(rows), hides=hides, truncates=inserted[0].channel == MARKER)

    def _said(self, message: StoredMessage, channel: str) -> _Said:
        event = self._named(message.id or message.digest.hex())
        return _Said(event, self.state.tip, channel, message.digest, message.id)

    def _named(self, name: str) -> str:
        """A name that no other event has."""
        self.names[name] += 1
        return name if self.names[name] == 1 else f"{name}~{self.names[name]}"

    def _new(self, message: StoredMessage, channel: str, checkpoint: _Checkpoint) -> NewMessage:
        extra = {"checkpoint": checkpoint.id}
        return with_fields(to_new(message.content, channel), ts=checkpoint.ts, extra=extra)


IMPORTER: Final = Importer(tool=NAME, database=sources, is_database=_is_database)
