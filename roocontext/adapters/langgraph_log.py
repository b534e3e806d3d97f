"""How a session's log holds the checkpoints of one thread and namespace.

A checkpoint is a note whose kind names it, so that the newest note of a kind is the checkpoint as
it was put last, and a page of kinds is a page of checkpoints in their order. It holds the values
of the channels that are new in it, and names the notes that hold the others. Messages are messages
of the session: a conversation, as a checkpoint has it, is the session's view as of its note.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from operator import attrgetter, itemgetter
from typing import Any

from roocontext.adapters.adapter_notes import hide
from roocontext.adapters.langgraph_conversations import (
    KIND,
    LOST_PARENT,
    NO_WRITES,
    Aligned,
    KnownState,
    Said,
    Saved,
    ShownMessage,
    own_notes,
    read_epoch,
    read_said,
    rewound,
    summary_of_graph,
)
from roocontext.adapters.langgraph_messages import (
    MARKER,
    WORKS,
    channel_of,
    holds_messages,
    is_exact,
    packed,
    to_content,
    to_message,
    to_new,
    unpacked,
)
from roocontext.adapters.langgraph_sends import Left, completed, without_messages
from roocontext.adapters.serializing import framework
from roocontext.errors import DuplicateMessage, InvalidPlan
from roocontext.log.encoding import encode
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.writing.items import Item, NewNote, Rewind

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key
    from langgraph.checkpoint.serde.base import SerializerProtocol

_FIRST_PAGE, _LAST_PAGE = 1, 64


def short(name: str) -> str:
    """A name as a part of our ids: itself, or a digest if it is long or odd. Injective."""
    try:
        plain = 0 < len(name.encode()) <= 300 and name.isprintable()
    except UnicodeEncodeError:
        plain = False
    if plain and not name.startswith("~") and not {*"/!"} & {*name}:
        return name
    return "~" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def begin_epoch(session: Session, by: str) -> None:
    """Hide all checkpoints, and show an empty conversation."""
    after = read_epoch(own_notes(session, limit=1)) + 1
    hide(session, by=by, also=[NewNote(f"{KIND}{after:06}/", {"begun": by})])


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The checkpoints of a session, in one epoch of it. The `first` notes may be known already."""

    session: Session
    serde: SerializerProtocol
    epoch: int
    first: Sequence[Note] | None = None

    @classmethod
    def opened(cls, session: Session, serde: SerializerProtocol) -> "CheckpointLog":
        """The current epoch of a session, as it is now."""
        first = own_notes(session, limit=_FIRST_PAGE)
        return cls(session, serde, read_epoch(first), first)

    def find(self, checkpoint_id: str) -> Saved | None:
        """A checkpoint by its id, hidden or not."""
        kind = self._kind(checkpoint_id)
        return next(self._grouped(self._notes(kind, _behind(kind))), None)

    def newest(self) -> Saved | None:
        """The visible checkpoint with the greatest id."""
        return next(self.pages(), None)

    def pages(self, before: str | None = None) -> Iterator[Saved]:
        """The visible checkpoints, those with the greatest ids first."""
        end = None if before is None else self._kind(before)
        notes = self._notes(self._kind(), end, None if before else self.first)
        return (saved for saved in self._grouped(notes) if not saved.is_hidden)

    def _notes(
        self, beginning: str, end: str | None, page: Sequence[Note] | None = None
    ) -> Iterator[Note]:
        limit = _FIRST_PAGE
        while True:
            if page is None:
                page = own_notes(self.session, beginning, before=end, limit=limit)
            yield from (note for note in page if note.note.startswith(beginning))
            if len(page) < limit:
                return
            end, limit, page = page[-1].note, min(limit * 4, _LAST_PAGE), None

    def _grouped(self, notes: Iterator[Note]) -> Iterator[Saved]:
        """Checkpoints, each with the writes that come ahead of it in the order of the kinds."""
        writes: list[Note] = []
        for note in notes:
            if "!" in note.note:
                writes.append(note)
            elif note.note != self._kind():
                own = [one for one in writes if one.note.startswith(f"{note.note}!")]
                yield Saved(note.seq, note.content, own)
                writes = []

    def original(self, saved: Saved) -> Saved:
        """A hidden checkpoint as it was."""
        if not saved.is_hidden:
            return saved
        (note,) = self.session.internals.noted([saved.content["key"]]).values()
        return Saved(note.seq, note.content, saved.writes)

    def values(self, saved: Saved, wanted: Sequence[str] | None = None) -> dict[str, Any]:
        """The values of the channels at a checkpoint, in their order; or only some of them."""
        content = saved.content
        channels = [
            channel for channel in content["channels"] if wanted is None or channel in wanted
        ]
        places = content["places"]
        elsewhere = {places[channel] for channel in channels if channel in places}
        notes = self.session.internals.noted([*elsewhere]) if elsewhere else {}
        conversations = {channel for channel in channels if channel in content["messages"]}
        said = self._said(saved.seq) if conversations else {}

        def read(channel: str) -> Any:
            if channel in conversations:
                return said[channel]
            holder = notes[places[channel]] if channel in places else saved
            return self._unpacked(holder.content["values"][channel], holder.seq)

        return {channel: read(channel) for channel in channels}

    def _packed(self, channel: str, value: Any, path: str, said: Said, seq: int) -> list[Any]:
        """A value, and where messages were left out of it that the session shows: see `Left`."""
        value, left = without_messages(channel, value, said, seq)
        return [*packed(self.serde, value, path), *map(list, left)]

    def _unpacked(self, stored: Sequence[Any], seq: int) -> Any:
        """A value in the note at `seq`, with the messages that were left out of it."""
        left = [Left(*one) for one in stored[2:]]
        return completed(
            unpacked(self.serde, stored[:2]), left, lambda shown: self._said(shown or seq)
        )

    def _said(self, seq: int) -> dict[str, list[BaseMessage]]:
        said: dict[str, list[BaseMessage]] = {}
        view = self.session.view()
        if view.head_seq > seq:  # not the newest: what the session shows has changed since
            view = self.session.view(as_of=seq)
        for one in view.messages:
            if (channel := channel_of(one.content)) != MARKER:
                said.setdefault(channel, []).append(to_message(one.content, self.serde))
        return said

    def put_writes(
        self,
        state: KnownState | None,
        checkpoint_id: str,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> int | None:
        """Keep what a task has written towards the next checkpoint; the head of the session then.

        None if there was nothing to write. The state may be one that is out of date.
        """
        indexed: list[list[Any]] = []
        special: list[list[Any]] = []
        newest = state.newest if state else None
        for index, (channel, value) in enumerate(writes):
            place = WRITES_IDX_MAP.get(channel, index)
            said, seq = (state.said, newest.seq) if state and newest else (Said({}, {}, {}), 0)
            stored = self._packed(channel, value, f"writes[{index}]", said, seq)
            (special if place < 0 else indexed).append([place, channel, *stored])
        notes: list[Item] = []
        for some in (indexed, special):
            if some:
                content = {"task_id": task_id, "task_path": task_path, "writes": some}
                key = _key(self.epoch, checkpoint_id, content)
                # Of writes with an index the first counts, so that a repeated one is not needed. Of
                # the others the newest does, which may be equal to one that was replaced.
                kind = f"{self._kind(checkpoint_id)}!{key[-16:]}"
                notes.append(NewNote(kind, content, client_id=None if some is special else key))
        if not notes:
            return None
        return self.session.write_batch(notes, skip_stored=True)[-1].head_seq

    def writes(self, saved: Saved) -> list[tuple[str, str, Any]]:
        """What tasks have written towards the next checkpoint, in the order of a run."""
        found: dict[tuple[str, int], tuple[str, tuple[str, str, list[Any], int]]] = {}
        for note in sorted(saved.writes, key=attrgetter("seq")):
            task_id, path = note.content["task_id"], note.content["task_path"]
            for index, channel, *stored in note.content["writes"]:
                if index < 0 or (task_id, index) not in found:
                    found[task_id, index] = (path, (task_id, channel, stored, note.seq))
        order = sorted(found, key=lambda key: writes_sort_key(found[key][0], *key))
        return [
            (task_id, channel, self._unpacked(stored, seq))
            for task_id, channel, stored, seq in (found[key][1] for key in order)
        ]

    def hide(self, gone: Sequence[Saved], by: str, *, left: Sequence[Saved]) -> None:
        """Hide checkpoints, the newest first; show the conversation of the newest that is left."""
        if not gone:
            return
        ids = {saved.id for saved in gone}
        notes: list[Item] = [
            NewNote(self._kind(one.id), {"id": one.id, "hidden": by, "key": one.content["key"]})
            for one in gone
        ]
        notes += [
            NewNote(f"{self._kind(one.id)}{LOST_PARENT}", {**NO_WRITES, "by": by})
            for one in left
            if one.content["parent"] in ids
        ]
        self.session.write_batch(notes)
        if left and self._kind(gone[0].id) > self._kind(left[0].id):
            self.session.rewind(left[0].seq, trigger=by)

    def parent(self, saved: Saved) -> str | None:
        """The checkpoint behind which this one was put, unless that was hidden."""
        parent: str | None = saved.content["parent"]
        # Only those whose parent was hidden once have the note, so that a load needs no other read.
        if parent is not None and any(one.note.endswith(LOST_PARENT) for one in saved.writes):
            found = self.find(parent)
            return None if found is None or found.is_hidden else parent
        return parent

    def _kind(self, checkpoint_id: str | None = None) -> str:
        own = "" if checkpoint_id is None else short(checkpoint_id)
        return f"{KIND}{self.epoch:06}/{own}"

    def put(
        self,
        state: KnownState,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        new_versions: Mapping[str, Any],
        *,
        readable: bool,
    ) -> KnownState:
        """Store a checkpoint in one transaction; VersionConflict if the session has moved."""
        values = checkpoint["channel_values"]
        said = read_said(
            {c: v for c, v in values.items() if readable and holds_messages(v)},
            state,
            self.serde,
        )
        base = self._base(state, parent)
        places = {} if base is None else self._places(base, checkpoint, new_versions)
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        content: dict[str, Any] = {
            "id": checkpoint["id"],
            "parent": parent,
            "checkpoint": self._plain(rest),
            "metadata": self._plain(metadata),
            # A delta channel that the step did not write is left out of the values: it has the
            # value that it had.
            "channels": [*values, *(c for c in places if c not in values)],
            "messages": [*said.channels],
            "places": {c: place for c, place in places.items() if c not in said.channels},
        }
        content["values"] = {
            channel: self._packed(channel, value, f"channel_values.{channel}", said, 0)
            for channel, value in values.items()
            if channel not in said.channels and channel not in content["places"]
        }
        if said.stays == len(state.shown):
            return self._written(state, Aligned(None, state.shown), said, content)
        if (summary := summary_of_graph(self.session, state, said, self.serde)) is not None:
            with suppress(InvalidPlan):  # a pin, or no gap is left there
                return self._written(state, summary, said, content)
        begin = rewound(self.session, state, said, base and base.seq)
        return self._written(state, begin, said, content)

    def _base(self, state: KnownState, parent: str | None) -> Saved | None:
        if parent is None:
            return None
        if state.newest is not None and state.newest.id == parent:
            return state.newest
        found = self.find(parent)
        return None if found is None else self.original(found)

    def _places(
        self, base: Saved, checkpoint: Mapping[str, Any], new_versions: Mapping[str, Any]
    ) -> dict[str, str]:
        """The notes that hold the values which the checkpoint has in common with its parent."""
        content, versions = base.content, checkpoint["channel_versions"]
        before = self.read_plain(content["checkpoint"])["channel_versions"]
        return {
            channel: content["places"].get(channel, content["key"])
            for channel in content["channels"]
            if channel not in content["messages"]
            and channel not in new_versions
            and channel in versions
            and before.get(channel) == versions[channel]
        }

    def _written(
        self, state: KnownState, begin: Aligned, said: Said, content: dict[str, Any]
    ) -> KnownState:
        items: list[Item] = [] if begin.item is None else [begin.item]
        shown = [*begin.shown]
        counts = Counter(map(itemgetter(1), begin.shown))
        for channel, messages in said.channels.items():
            stays = counts[channel]
            for message, digest in zip(
                messages[stays:], said.digests[channel][stays:], strict=True
            ):
                items.append(to_new(to_content(message, channel, self.serde)))
                shown.append(ShownMessage(0, channel, digest, message.id))
        key = _key(self.epoch, content, {c: b"".join(d).hex() for c, d in said.digests.items()})
        content = {**content, "key": key}
        kind = self._kind(content["id"])
        items.append(NewNote(kind, content, client_id=key))
        try:
            *written, note = self.session.write_batch(items, expected_seq=state.head_seq)
        except DuplicateMessage:
            note = None
        if note is None or not note.new:
            newest = self.find(content["id"])
            if newest is not None and newest.content["key"] == key and not newest.is_hidden:
                return replace(state, newest=None)  # the call is repeated
            again = 0 if newest is None else newest.seq
            return self._written(state, begin, said, {**content, "again": again})
        # What was written in the order in which it is shown: a summary, then the new messages.
        seqs = (seq for one in written for seq in one.seqs)
        if isinstance(begin.item, Rewind):
            next(seqs)
        shown = [one if one.seq else one._replace(seq=next(seqs)) for one in shown]
        return KnownState(
            self.epoch, note.head_seq, shown, said._replace(channels={}), Saved(note.seq, content)
        )

    def _plain(self, value: Any) -> dict[str, Any]:
        """A value as JSON where that is exact, else as the serializer gives it."""
        bare = dict(value) if isinstance(value, Mapping) else value
        return {"json": bare} if is_exact(bare) else {"packed": packed(self.serde, value)}

    def read_plain(self, stored: Mapping[str, Any]) -> Any:
        """The value that was stored so."""
        return stored["json"] if "json" in stored else unpacked(self.serde, stored["packed"])


def _behind(kind: str) -> str:
    """The first kind behind a checkpoint and its writes: `"` follows `!`."""
    return f'{kind}"'


def _key(*parts: Any) -> str:
    return "langgraph:" + sha256(encode([*parts]).encode()).hexdigest()[:40]
