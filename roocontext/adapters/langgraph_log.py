"""The checkpoints of one thread and namespace in a session's log.

A checkpoint is a note whose kind names it. So the newest note of a kind is the checkpoint as it was
put last, and the kinds have the order of the checkpoints. The note holds the values that are new in
the checkpoint, and names the notes that hold the others. Messages are messages of the session: the
conversations of a checkpoint are the session's view as of its note.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from roocontext.adapters.adapter_notes import Shape, fits, hide, newest_own_notes
from roocontext.adapters.langgraph_conversations import (
    Beginning,
    Conversations,
    SessionShown,
    ShownMessage,
    digests_by_channel,
    read_shown,
    rewound,
    summary_of_graph,
)
from roocontext.adapters.langgraph_messages import (
    WORKS,
    Digests,
    LeftMessages,
    completed,
    holds_messages,
    packed,
    shortened,
    to_content,
    to_message,
    unpacked,
)
from roocontext.adapters.serializing import framework
from roocontext.errors import DuplicateMessage, InvalidPlan, VersionConflict
from roocontext.formats.langchain_conversations import (
    MARKER,
    channel_of,
    is_exact,
    kept_count,
    to_new,
)
from roocontext.log.encoding import encode
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.writing.items import Item, NewNote, Rewind

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.types import TASKS

_KIND = "langgraph/"
"""The start of the kinds of all notes: the epoch and the checkpoint follow, and `!` for writes."""
_LOST_PARENT = "!parent"
"""The end of the kind of the note that says that a checkpoint's parent was hidden.

It is read with the checkpoint's writes, so that a load needs no other read.
"""
_SHAPES: tuple[Shape, ...] = (
    {"id": str, "key": str, "checkpoint": dict, "metadata": dict, "channels": dict},
    {"id": str, "key": str, "hidden": str},
    {"begun": str},
)
_WRITES: Shape = {"task_id": str, "task_path": str, "writes": list}

Shorten: TypeAlias = Callable[[Sequence[Any]], tuple[Sequence[Any], Sequence[LeftMessages]]]
"""Leave the messages out of sends that the session shows, and say where they were."""

_ODD = re.compile("[\0-\x1f%/\x7f\ud800-\udfff]")


def encoded(name: str) -> str:
    """A name as a part of a session's id. `urllib.parse.unquote` gives it back."""
    return _ODD.sub(lambda odd: quote(odd[0], safe="", errors="surrogatepass"), name)


def _is_own(note: Note) -> bool:
    if not note.note.split("/", 2)[1].isdecimal():
        return False
    if "!" in note.note:
        return fits(note.content, _WRITES)
    return any(fits(note.content, shape) for shape in _SHAPES)


def _newest_note(session: Session) -> Note | None:
    """The note with the greatest kind, which is one of the current epoch."""
    return next(newest_own_notes(session, _KIND, _is_own), None)


def _epoch_of(newest: Note | None) -> int:
    return 0 if newest is None else int(newest.note.split("/")[1])


def begin_epoch(session: Session, by: str) -> None:
    """Hide all checkpoints, and show an empty conversation."""
    after = _epoch_of(_newest_note(session)) + 1
    hide(session, by=by, also=[NewNote(f"{_KIND}{after:06}/", {"begun": by})])


class Saved(NamedTuple):
    """A stored checkpoint: its entry, its content, and the notes with the writes of its tasks."""

    seq: int
    content: dict[str, Any]
    writes: Sequence[Note] = ()

    @property
    def id(self) -> str:
        """The checkpoint's id."""
        stored: str = self.content["id"]
        return stored

    @property
    def is_hidden(self) -> bool:
        """True if it was deleted, which hides it."""
        return "hidden" in self.content


@dataclass(frozen=True, slots=True)
class KnownState:
    """A session at one of its heads, remembered so that the next checkpoint reads nothing.

    A write on another head is refused, so an outdated state does no harm.
    """

    epoch: int
    head_seq: int
    shown: Sequence[ShownMessage]
    digests: Digests
    newest: Saved | None = None


def read_state(session: Session, serde: SerializerProtocol) -> KnownState:
    """The state of a session now."""
    view = session.view()
    # Read after the view: an epoch that begins in between moves the expected head.
    epoch = _epoch_of(_newest_note(session))
    return KnownState(epoch, view.head_seq, read_shown(view), Digests(serde))


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The checkpoints of a session in one epoch, whose `newest_note` may be known already."""

    session: Session
    serde: SerializerProtocol
    epoch: int
    newest_note: Note | None = None

    @classmethod
    def opened(cls, session: Session, serde: SerializerProtocol) -> "CheckpointLog":
        """The current epoch of a session."""
        newest = _newest_note(session)
        return cls(session, serde, _epoch_of(newest), newest)

    def _kind(self, checkpoint_id: str = "") -> str:
        # So that between a checkpoint and its writes, in the order of the kinds, is no other.
        name = encoded(checkpoint_id).replace(" ", "%20").replace("!", "%21")
        return f"{_KIND}{self.epoch:06}/{name}"

    # Reads

    def find(self, checkpoint_id: str) -> Saved | None:
        """A checkpoint by its id, hidden or not."""
        kind = self._kind(checkpoint_id)
        # `"` follows `!`, so that this is the first kind after the checkpoint and its writes.
        return next(self._grouped(self._notes(kind, f'{kind}"')), None)

    def visible(self, before: str | None = None) -> Iterator[Saved]:
        """The visible checkpoints, those with the greatest ids first."""
        if before is not None:
            notes = self._notes(self._kind(), self._kind(before))
        elif (newest := self.newest_note) is not None:
            notes = chain([newest], self._notes(self._kind(), newest.note, page=4))
        else:
            notes = self._notes(self._kind())
        return (saved for saved in self._grouped(notes) if not saved.is_hidden)

    def _notes(self, beginning: str, end: str | None = None, *, page: int = 1) -> Iterator[Note]:
        return newest_own_notes(self.session, beginning, _is_own, before=end, page=page)

    def _grouped(self, notes: Iterator[Note]) -> Iterator[Saved]:
        """Checkpoints, each with its writes, which come first in this order of the kinds."""
        writes: list[Note] = []
        for note in notes:
            if "!" in note.note:
                writes.append(note)
            elif note.note != self._kind():
                own = [write for write in writes if write.note.startswith(f"{note.note}!")]
                yield Saved(note.seq, note.content, own)
                writes = []

    def original(self, saved: Saved) -> Saved:
        """A hidden checkpoint as it was."""
        if not saved.is_hidden:
            return saved
        (note,) = self.session.internals.noted([saved.content["key"]]).values()
        return Saved(note.seq, note.content, saved.writes)

    def parent(self, saved: Saved) -> str | None:
        """The checkpoint that this one follows, unless that was hidden."""
        parent: str | None = saved.content["parent"]
        if parent is not None and any(write.note.endswith(_LOST_PARENT) for write in saved.writes):
            saved_parent = self.find(parent)
            return None if saved_parent is None or saved_parent.is_hidden else parent
        return parent

    def values(self, saved: Saved, wanted: Sequence[str] | None = None) -> dict[str, Any]:
        """The values of the channels at a checkpoint, in their order; or only some of them."""
        channels: dict[str, dict[str, Any]] = {
            channel: stored
            for channel, stored in saved.content["channels"].items()
            if wanted is None or channel in wanted
        }
        keys = {stored["in"] for stored in channels.values() if "in" in stored}
        notes = self.session.internals.noted([*keys]) if keys else {}
        conversations = self._conversations(saved.seq) if {} in channels.values() else {}

        def read(channel: str, stored: dict[str, Any]) -> Any:
            if not stored:
                return conversations[channel]
            note = notes[stored["in"]] if "in" in stored else saved
            return self._unpacked(note.content["channels"][channel]["value"], note.seq)

        return {channel: read(channel, stored) for channel, stored in channels.items()}

    def _conversations(self, seq: int) -> dict[str, list[BaseMessage]]:
        """The conversations as of an entry, by channel."""
        conversations: dict[str, list[BaseMessage]] = {}
        view = self.session.view()
        if view.head_seq > seq:  # the session has changed since
            view = self.session.view(as_of=seq)
        for row in view.messages:
            if (channel := channel_of(row.content)) != MARKER:
                conversations.setdefault(channel, []).append(to_message(row.content, self.serde))
        return conversations

    def writes(self, saved: Saved) -> list[tuple[str, str, Any]]:
        """The writes of tasks towards the next checkpoint, in the order of a run."""
        writes: dict[tuple[str, int], tuple[str, tuple[str, str, list[Any], int]]] = {}
        for note in sorted(saved.writes, key=attrgetter("seq")):
            task_id, path = note.content["task_id"], note.content["task_path"]
            for index, channel, *stored in note.content["writes"]:
                # Of the writes with an index the first counts, of the others the newest.
                if index < 0 or (task_id, index) not in writes:
                    writes[task_id, index] = (path, (task_id, channel, stored, note.seq))
        order = sorted(writes, key=lambda key: writes_sort_key(writes[key][0], *key))
        return [
            (task_id, channel, self._unpacked(stored, seq))
            for task_id, channel, stored, seq in (writes[key][1] for key in order)
        ]

    def read_plain(self, stored: Mapping[str, Any]) -> Any:
        """The checkpoint or the metadata of a note."""
        return stored["json"] if "json" in stored else unpacked(self.serde, stored["packed"])

    def _unpacked(self, stored: Sequence[Any], seq: int) -> Any:
        """A value in the note at `seq`, with the messages that were left out of it."""
        value = unpacked(self.serde, stored[:2])
        completed(
            value if type(value) is list else [value],
            [LeftMessages(*left) for left in stored[2:]],
            lambda shown: self._conversations(shown or seq),
        )
        return value

    # Writes

    def put_writes(
        self,
        state: KnownState | None,
        checkpoint_id: str,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> int | None:
        """Store the writes of a task towards the next checkpoint; the session's head then.

        None if all were stored before, or there were none. The state may be outdated.
        """

        def shorten(sent: Sequence[Any]) -> tuple[Sequence[Any], Sequence[LeftMessages]]:
            # Only here, because few writes are sends, and a session may show many messages.
            if state is None or state.newest is None:
                return sent, []
            shown = digests_by_channel(state.shown)
            return shortened(sent, shown, state.digests, state.newest.seq)

        indexed: list[list[Any]] = []
        special: list[list[Any]] = []
        for index, (channel, value) in enumerate(writes):
            place = WRITES_IDX_MAP.get(channel, index)
            stored = self._packed(channel, value, f"writes[{index}]", shorten)
            (special if place < 0 else indexed).append([place, channel, *stored])
        notes: list[Item] = []
        for some in (indexed, special):
            if some:
                content = {"task_id": task_id, "task_path": task_path, "writes": some}
                key = _key(self.epoch, checkpoint_id, content)
                # Of the special writes the newest counts, which may equal one that was replaced. So
                # they are written each time.
                kind = f"{self._kind(checkpoint_id)}!{key[-16:]}"
                notes.append(NewNote(kind, content, client_id=None if some is special else key))
        if not notes:
            return None
        written = self.session.write_batch(notes, skip_stored=True)[-1]
        return written.head_seq if written.new else None

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
        """Store a checkpoint in one transaction; VersionConflict if the session has moved.

        If it is not `readable`, conversations are stored like other values, as the serializer's
        output.
        """
        state = replace(state, digests=state.digests.renewed())
        values = checkpoint["channel_values"]
        messages = {c: v for c, v in values.items() if readable and holds_messages(v)}
        digests = {c: [*map(state.digests.of, some)] for c, some in messages.items()}
        conversations = Conversations(messages, digests)
        base = self._base(state, parent)
        unchanged = {} if base is None else self._unchanged(base, checkpoint, new_versions)
        shorten = partial(shortened, shown=digests, digests=state.digests, seq=0)
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        content = {
            "id": checkpoint["id"],
            "parent": parent,
            "checkpoint": self._plain(rest),
            "metadata": self._plain(metadata),
            "channels": self._channels(values, messages, unchanged, shorten),
        }
        stays = kept_count(state.shown, digests)
        if stays == len(state.shown):
            return self._written(state, Beginning(None, state.shown), conversations, content)
        shown = SessionShown(self.session, state.head_seq, state.shown, stays)
        summary = summary_of_graph(shown, conversations, self.serde)
        if summary is not None:
            with suppress(InvalidPlan):  # it would hide a pin, or there is no gap for it
                return self._written(state, summary, conversations, content)
        begin = rewound(shown, digests, base and base.seq)
        return self._written(state, begin, conversations, content)

    def _base(self, state: KnownState, parent: str | None) -> Saved | None:
        if parent is None:
            return None
        if state.newest is not None and state.newest.id == parent:
            return state.newest
        base = self.find(parent)
        return None if base is None else self.original(base)

    def _unchanged(
        self, base: Saved, checkpoint: Mapping[str, Any], new_versions: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Where the values are that a checkpoint has in common with the one that it follows."""
        versions = checkpoint["channel_versions"]
        before = self.read_plain(base.content["checkpoint"])["channel_versions"]
        return {
            channel: stored if "in" in stored else {"in": base.content["key"]}
            for channel, stored in base.content["channels"].items()
            if stored
            and channel not in new_versions
            and channel in versions
            and before.get(channel) == versions[channel]
        }

    def _channels(
        self,
        values: Mapping[str, Any],
        messages: Mapping[str, Any],
        unchanged: Mapping[str, dict[str, Any]],
        shorten: Shorten,
    ) -> dict[str, dict[str, Any]]:
        """For each channel its value, or the key of the note that has it.

        Nothing for a conversation: that is in the session's view.
        """
        channels: dict[str, dict[str, Any]] = {}
        for channel, value in values.items():
            if channel in messages:
                channels[channel] = {}
            elif channel in unchanged:
                channels[channel] = unchanged[channel]
            else:
                path = f"channel_values.{channel}"
                channels[channel] = {"value": self._packed(channel, value, path, shorten)}
        # A delta channel that the step did not write is not in the values. It keeps its value.
        return channels | {c: stored for c, stored in unchanged.items() if c not in channels}

    def _packed(self, channel: str, value: Any, path: str, shorten: Shorten) -> list[Any]:
        """A value, and where messages were left out of it."""
        if channel != TASKS:
            return packed(self.serde, value, path)
        is_list = type(value) is list
        sent, left = shorten(value if is_list else [value])
        return [*packed(self.serde, sent if is_list else sent[0], path), *map(list, left)]

    def _plain(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A value as JSON where that is exact, else as the serializer gives it."""
        return {"json": value} if is_exact(value) else {"packed": packed(self.serde, value)}

    def _written(
        self,
        state: KnownState,
        begin: Beginning,
        conversations: Conversations,
        content: dict[str, Any],
    ) -> KnownState:
        items: list[Item] = [] if begin.item is None else [begin.item]
        shown = [*begin.shown]
        for channel, messages in conversations.messages.items():
            digests = conversations.digests[channel]
            stays = sum(message.channel == channel for message in begin.shown)
            for message, digest in zip(messages[stays:], digests[stays:], strict=True):
                items.append(to_new(to_content(message, self.serde), channel))
                shown.append(ShownMessage(0, channel, digest, message.id))
        seen = {c: b"".join(some).hex() for c, some in conversations.digests.items()}
        key = _key(self.epoch, content, seen)
        content = {**content, "key": key}
        items.append(NewNote(self._kind(content["id"]), content, client_id=key))
        try:
            *written, note = self.session.write_batch(items, expected_seq=state.head_seq)
        except DuplicateMessage:
            note = None
        if note is None or not note.new:
            newest = self.find(content["id"])
            if newest is not None and newest.content["key"] == key and not newest.is_hidden:
                # The call is repeated, but perhaps in an epoch that another process has ended.
                if (head_seq := self.session.head_seq()) != state.head_seq:
                    raise VersionConflict(expected=state.head_seq, actual=head_seq)
                return replace(state, newest=None)
            again = 0 if newest is None else newest.seq
            return self._written(state, begin, conversations, {**content, "again": again})
        if isinstance(begin.item, Rewind):
            del written[0]
        # They were written in the order in which they are shown: a summary, then new messages.
        seqs = (seq for receipt in written for seq in receipt.seqs)
        shown = [message if message.seq else message._replace(seq=next(seqs)) for message in shown]
        saved = Saved(note.seq, content)
        return KnownState(self.epoch, note.head_seq, shown, state.digests, saved)

    def hide(self, gone: Sequence[Saved], by: str, *, left: Sequence[Saved]) -> None:
        """Hide checkpoints, the newest first; show the conversation of the newest that is left."""
        if not gone:
            return
        ids = {saved.id for saved in gone}
        items: list[Item] = [
            NewNote(self._kind(one.id), {"id": one.id, "hidden": by, "key": one.content["key"]})
            for one in gone
        ]
        lost = {"task_id": "", "task_path": "", "writes": [], "by": by}
        items += [
            NewNote(f"{self._kind(one.id)}{_LOST_PARENT}", lost)
            for one in left
            if one.content["parent"] in ids
        ]
        self.session.write_batch(items)
        if left and self._kind(gone[0].id) > self._kind(left[0].id):
            self.session.rewind(left[0].seq, trigger=by)


def _key(*parts: Any) -> str:
    return "langgraph:" + sha256(encode([*parts]).encode()).hexdigest()[:40]
