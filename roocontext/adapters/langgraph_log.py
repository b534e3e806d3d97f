"""How a session's log holds the checkpoints of one thread and namespace.

A checkpoint is a note whose kind names it, so that the newest note of a kind is the checkpoint as
it was put last, and a page of kinds is a page of checkpoints in their order. It holds the values
of the channels that are new in it, and names the notes that hold the others. Messages are messages
of the session: a conversation, as a checkpoint has it, is the session's view as of its note.
"""

import marshal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from roocontext.adapters.frameworks import framework
from roocontext.adapters.langgraph_conversations import (
    Aligned,
    Said,
    Saved,
    Shown,
    State,
    aligned,
    read_said,
    summarised,
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
from roocontext.errors import DuplicateMessage, InvalidPlan
from roocontext.store.items import Item, NewNote, Rewind
from roocontext.store.notes import Note
from roocontext.store.session import Session

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key
    from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKPOINT, WRITES = "langgraph.checkpoint", "langgraph.writes"


def short(name: str) -> str:
    """A name as a part of our ids: itself, or a digest if it is long or odd. Injective."""
    try:
        plain = 0 < len(name.encode()) <= 300 and name.isprintable()
    except UnicodeEncodeError:
        plain = False
    if plain and "/" not in name and not name.startswith("~"):
        return name
    return "~" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Log:
    """The checkpoints of a session, in one epoch of it."""

    session: Session
    serde: SerializerProtocol
    epoch: int

    def find(self, checkpoint_id: str) -> Saved | None:
        """A checkpoint by its id, hidden or not."""
        return _saved(self.session.newest_note(self._kind(CHECKPOINT, checkpoint_id)))

    def newest(self) -> Saved | None:
        """The visible checkpoint with the greatest id."""
        return next(self.pages(), None)

    def pages(self, before: str | None = None, *, hidden: bool = False) -> Iterator[Saved]:
        """The checkpoints, those with the greatest ids first."""
        end = None if before is None else self._kind(CHECKPOINT, before)
        limit = 1
        while True:
            page = self.session.newest_notes(f"{CHECKPOINT}/{self.epoch}/", before=end, limit=limit)
            for note in page:
                saved = Saved(note.seq, note.content)
                if hidden or not saved.is_hidden:
                    yield saved
            if len(page) < limit:
                return
            end, limit = page[-1].note, min(limit * 4, 64)

    def original(self, saved: Saved) -> Saved:
        """A hidden checkpoint as it was."""
        if not saved.is_hidden:
            return saved
        (note,) = self.session.noted([saved.content["key"]]).values()
        return Saved(note.seq, note.content)

    def values(self, saved: Saved, wanted: Sequence[str] | None = None) -> dict[str, Any]:
        """The values of the channels at a checkpoint, in their order; or only some of them."""
        content = saved.content
        channels = [
            channel for channel in content["channels"] if wanted is None or channel in wanted
        ]
        places = content["places"]
        elsewhere = {places[channel] for channel in channels if channel in places}
        notes = self.session.noted([*elsewhere]) if elsewhere else {}
        conversations = {channel for channel in channels if channel in content["messages"]}
        said = self._said(saved.seq) if conversations else {}
        return {
            channel: said[channel]
            if channel in conversations
            else unpacked(
                self.serde,
                (notes[places[channel]].content if channel in places else content)["values"][
                    channel
                ],
            )
            for channel in channels
        }

    def _said(self, seq: int) -> dict[str, list[BaseMessage]]:
        said: dict[str, list[BaseMessage]] = {}
        for one in self.session.view(as_of=seq).messages:
            if (channel := channel_of(one.content)) != MARKER:
                said.setdefault(channel, []).append(to_message(one.content, self.serde))
        return said

    def put_writes(
        self, checkpoint_id: str, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Keep what a task has written towards the next checkpoint."""
        content = {
            "task_id": task_id,
            "task_path": task_path,
            "writes": [
                [WRITES_IDX_MAP.get(channel, index), channel, *packed(self.serde, value)]
                for index, (channel, value) in enumerate(writes)
            ],
        }
        # Of writes with an index the first counts, so that a repeated one is not needed. Of the
        # others the newest does: it may be the same as one that was replaced in between.
        again = any(channel in WRITES_IDX_MAP for channel, _ in writes)
        client_id = None if again else _key("writes", self.epoch, checkpoint_id, content)
        self.session.note(self._kind(WRITES, checkpoint_id), content, client_id=client_id)

    def writes(self, checkpoint_id: str) -> list[tuple[str, str, Any]]:
        """What tasks have written towards the next checkpoint, in the order of a run."""
        found: dict[tuple[str, int], tuple[str, tuple[str, str, list[str]]]] = {}
        for note in self.session.notes(self._kind(WRITES, checkpoint_id)):
            task_id, path = note.content["task_id"], note.content["task_path"]
            for index, channel, *stored in note.content["writes"]:
                if index < 0 or (task_id, index) not in found:
                    found[task_id, index] = (path, (task_id, channel, stored))
        order = sorted(found, key=lambda key: writes_sort_key(found[key][0], *key))
        return [
            (task_id, channel, unpacked(self.serde, stored))
            for task_id, channel, stored in (found[key][1] for key in order)
        ]

    def hide(self, hidden: Sequence[Saved], by: str, *, shows: Saved | None = None) -> None:
        """Hide checkpoints, and show the conversation of the one that is the newest now."""
        kinds = (self._kind(CHECKPOINT, saved.id) for saved in hidden)
        notes: list[Item] = [
            NewNote(kind, {"id": saved.id, "hidden": by, "key": saved.content["key"]})
            for kind, saved in zip(kinds, hidden, strict=True)
        ]
        if not notes:
            return
        self.session.write_batch(notes)
        if shows is not None:
            self.session.rewind(shows.seq, trigger=by)

    def _kind(self, what: str, checkpoint_id: str) -> str:
        return f"{what}/{self.epoch}/{short(checkpoint_id)}"

    def put(
        self,
        state: State,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        parent: str | None,
        new_versions: Mapping[str, Any],
        *,
        readable: bool,
    ) -> State:
        """Store a checkpoint in one transaction; VersionConflict if the session has moved."""
        values = checkpoint["channel_values"]
        said = read_said(
            {c: v for c, v in values.items() if readable and holds_messages(v)},
            state.known,
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
            "channels": [*values],
            "messages": [*said.channels],
            "places": {c: places[c] for c in values if c in places and c not in said.channels},
        }
        content["values"] = {
            channel: packed(self.serde, value)
            for channel, value in values.items()
            if channel not in said.channels and channel not in content["places"]
        }
        if (summary := summarised(self.session, state, said, self.serde)) is not None:
            with suppress(InvalidPlan):  # a pin, or no gap is left there
                return self._written(state, summary, said, content)
        shows = aligned(self.session, state, said, base and base.seq)
        return self._written(state, shows, said, content)

    def _base(self, state: State, parent: str | None) -> Saved | None:
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

    def _written(self, state: State, begin: Aligned, said: Said, content: dict[str, Any]) -> State:
        items: list[Item] = [] if begin.item is None else [begin.item]
        shown = [*begin.shown]
        for channel, messages in said.channels.items():
            stays = sum(one.channel == channel for one in begin.shown)
            for message, digest in zip(
                messages[stays:], said.digests[channel][stays:], strict=True
            ):
                items.append(to_new(to_content(message, channel, self.serde)))
                shown.append(Shown(0, channel, digest, message.id))
        key = _key(self.epoch, content, {c: b"".join(d) for c, d in said.digests.items()})
        content = {**content, "key": key}
        kind = self._kind(CHECKPOINT, content["id"])
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
        return State(self.epoch, note.head_seq, shown, said.known, Saved(note.seq, content))

    def _plain(self, value: Any) -> dict[str, Any]:
        """A value as JSON where that is exact, else as the serializer gives it."""
        bare = dict(value) if isinstance(value, Mapping) else value
        return {"json": bare} if is_exact(bare) else {"packed": packed(self.serde, value)}

    def read_plain(self, stored: Mapping[str, Any]) -> Any:
        """The value that was stored so."""
        return stored["json"] if "json" in stored else unpacked(self.serde, stored["packed"])


def _saved(note: Note | None) -> Saved | None:
    return None if note is None else Saved(note.seq, note.content)


def _key(*parts: Any) -> str:
    return "langgraph:" + sha256(marshal.dumps(parts, 0)).hexdigest()[:40]
