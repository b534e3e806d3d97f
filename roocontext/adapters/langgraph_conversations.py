"""How a session comes to show the conversations of a checkpoint, each message once.

What the session shows and the conversations begin alike, as a rule: then the rest is appended. If
not, the session is rewound to where they do. What a graph removes from the start or the middle, and
puts a summary there or nothing, is hidden by a summary or a marker.

The notes that hold the checkpoints of a LangGraph thread, and none that somebody else wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.adapters.adapter_notes import newest_own_notes
from roocontext.adapters.langgraph_messages import (
    FORMAT,
    MARKER,
    WORKS,
    channel_of,
    digest_of,
    live_hashes,
    new_marker,
    to_content,
    to_new,
)
from roocontext.adapters.serializing import framework
from roocontext.log.entries import View
from roocontext.log.plan import Action, Plan
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.writing.items import Rewind

KIND = "langgraph/"
"""What the kinds of all notes begin with: the epoch follows, the checkpoint, and `!` for writes."""

LOST_PARENT = "!parent"
"""How the kind of the note ends that says that a checkpoint's parent was hidden."""
NO_WRITES: Mapping[str, Any] = {"task_id": "", "task_path": "", "writes": []}
"""What such a note holds: it is read with the checkpoint's writes, and is none."""

_WRITES = frozenset(NO_WRITES)
_HIDDEN = frozenset({"id", "hidden", "key"})
_CHECKPOINT = frozenset(
    {"id", "key", "checkpoint", "metadata", "channels", "messages", "places", "values"}
)


def own_notes(
    session: Session, beginning: str = KIND, *, before: str | None = None, limit: int
) -> list[Note]:
    """The newest note of each kind, the greatest kind first (SessionInternals.newest_notes)."""
    return newest_own_notes(session, beginning, _is_own, before=before, limit=limit)


def _is_own(note: Note) -> bool:
    # By the names of the fields alone: each load of a thread does this.
    kind, content = note.note, note.content
    if not isinstance(content, dict) or not kind.split("/", 2)[1].isdecimal():
        return False
    names = content.keys()
    if "!" in kind:
        return names >= _WRITES
    return names >= _CHECKPOINT or (kind.endswith("/") and "begun" in names) or names >= _HIDDEN


with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.serde.base import SerializerProtocol


class ShownMessage(NamedTuple):
    """A message that a session shows: where it is, whose channel it is, its digest and its id."""

    seq: int
    channel: str | None
    digest: bytes
    id: str | None = None


class Saved(NamedTuple):
    """A checkpoint that is stored: where, its content, and the notes of what tasks wrote to it."""

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
        """Whether it was deleted, which hides it."""
        return "hidden" in self.content


@dataclass(frozen=True, slots=True)
class KnownState:
    """What is known of a session at one of its heads, so that the next checkpoint reads nothing.

    A write on another head is refused, so that a state that is out of date does no harm.
    """

    epoch: int
    head_seq: int
    shown: Sequence[ShownMessage]
    said: "Said"
    newest: Saved | None = None


class Said(NamedTuple):
    """The conversations of a checkpoint: by channel the messages, a digest of each, and its hash.

    `stays` is how many of the messages shown may stay.
    """

    channels: Mapping[str, Sequence[BaseMessage]]
    digests: Mapping[str, Sequence[bytes]]
    hashes: Mapping[str, Sequence[object]]
    stays: int = 0


def read_state(session: Session) -> KnownState:
    """The state of a session now."""
    view = session.view()
    # Read behind the view: what begins an epoch in between moves the head that is expected.
    now = read_epoch(own_notes(session, limit=1))
    return KnownState(now, view.head_seq, _shown(view), Said({}, {}, {}))


def read_epoch(notes: Sequence[Note]) -> int:
    """The epoch of the notes with the greatest kinds."""
    return int(notes[0].note.split("/")[1]) if notes else 0


def _shown(view: View) -> list[ShownMessage]:
    return [to_shown(one.seq, one.format, one.content) for one in view.messages]


class Aligned(NamedTuple):
    """What is written before the new messages, if anything, and what the session shows then.

    A row that it inserts has no seq yet.
    """

    item: Rewind | Plan | None
    shown: Sequence[ShownMessage]


def read_said(
    channels: Mapping[str, Sequence[BaseMessage]], state: KnownState, serde: SerializerProtocol
) -> Said:
    """What is said in these conversations, and how much of that the session shows already."""
    hashes = {channel: live_hashes(messages) for channel, messages in channels.items()}
    digests: dict[str, list[bytes]] = {}
    grown = bool(channels) and channels.keys() == state.said.hashes.keys()
    for channel, messages in channels.items():
        before = state.said.hashes.get(channel, ())
        known = [*state.said.digests.get(channel, ())]
        if hashes[channel][: len(before)] == before:
            rest = messages[len(before) :]
            digests[channel] = known + [digest_of(to_content(m, channel, serde)) for m in rest]
            continue
        grown = False
        found = dict(zip(before, known, strict=True))
        digests[channel] = [
            found.get(one) or digest_of(to_content(message, channel, serde))
            for one, message in zip(hashes[channel], messages, strict=True)
        ]
    # As a rule a conversation has grown: then nothing is compared.
    stays = len(state.shown) if grown else kept_count(state.shown, digests)
    return Said(channels, digests, hashes, stays)


def rewound(session: Session, state: KnownState, said: Said, base: int | None) -> Aligned:
    """A rewind to what the session has in common with these conversations."""
    # Right before the first message that goes; or the parent, if what it had was hidden since.
    found = Aligned(Rewind(0, state.head_seq, "langgraph"), ())
    for to in (state.shown[said.stays].seq - 1, base):
        if to:
            shown = _shown(session.view(as_of=to))
            if len(found.shown) < len(shown) == kept_count(shown, said.digests):
                found = Aligned(Rewind(to, state.head_seq, "langgraph"), shown)
    return found


def summary_of_graph(
    session: Session, state: KnownState, said: Said, serde: SerializerProtocol
) -> Aligned | None:
    """A summary of the graph's own, or a marker, in the place of what it has removed."""
    if len(said.channels) != 1:
        return None
    ((channel, messages),) = said.channels.items()
    if not {channel, MARKER} >= {one.channel for one in state.shown}:
        return None
    digests = said.digests[channel]
    cut = replaced_messages(state.shown, digests, said.stays)
    if cut is None:
        return None
    gone, came = state.shown[cut[0]], messages[cut[1]]
    if {one.id for one in gone} & {one.id for one in came if one.id}:
        return None  # a message was changed, which is no summary
    rows = tuple(to_new(to_content(one, channel, serde)) for one in came)
    plan = Plan(
        head_seq=state.head_seq,
        action=Action.CONDENSE if rows else Action.TRUNCATE,
        hides=shown_ranges(gone, state.shown),
        rows=rows or (new_marker(),),
        # The graph has decided: nothing of it is refused but hiding a pin.
        compat=True,
        policy="langgraph",
        trigger="langgraph",
        session_id=session.id,
    )
    inserted = [
        ShownMessage(0, channel, digest, one.id)
        for one, digest in zip(came, digests[cut[1]], strict=True)
    ] or [ShownMessage(0, MARKER, b"")]
    shown = [*state.shown[: cut[0].start], *inserted, *state.shown[cut[0].stop :]]
    return Aligned(plan, shown)


def kept_count(shown: Sequence[ShownMessage], wanted: Mapping[str, Sequence[bytes]]) -> int:
    """How many of the messages shown may stay: all before the first that is not wanted there."""
    places = dict.fromkeys(wanted, 0)
    for index, (_, channel, digest, _) in enumerate(shown):
        if channel == MARKER:
            continue
        if channel not in places:
            return index
        place, digests = places[channel], wanted[channel]
        if place == len(digests) or digests[place] != digest:
            return index
        places[channel] = place + 1
    return len(shown)


def replaced_messages(
    shown: Sequence[ShownMessage], wanted: Sequence[bytes], stays: int
) -> tuple[slice, slice] | None:
    """Which of the messages shown went from between those that stay, and what came in their place.

    None if that is not what makes the one from the other.
    """
    while stays and shown[stays - 1].channel == MARKER:
        stays -= 1  # one marker is enough
    begin = sum(one.channel != MARKER for one in shown[:stays])
    places = {digest: place for place, digest in reversed([*enumerate(wanted)]) if place >= begin}
    for index in range(stays, len(shown)):
        place = places.get(shown[index].digest)
        if place is None:
            continue
        rest = [one.digest for one in shown[index:] if one.channel != MARKER]
        if index > stays and wanted[place : place + len(rest)] == rest:
            return slice(stays, index), slice(begin, place)
        return None
    return None


def shown_ranges(
    gone: Sequence[ShownMessage], shown: Sequence[ShownMessage]
) -> tuple[tuple[int, int], ...]:
    """The ranges of seq that hold these of the messages shown, and no others of them."""
    seqs = {one.seq for one in gone}
    found: list[tuple[int, int]] = []
    is_open = False
    for seq in sorted(one.seq for one in shown):
        if seq not in seqs:
            is_open = False
        elif is_open:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
            is_open = True
    return tuple(found)


def to_shown(seq: int, format_: str, content: Any) -> ShownMessage:
    """A message of a view."""
    if format_ != FORMAT:  # somebody else has written it to the session
        return ShownMessage(seq, None, b"")
    return ShownMessage(seq, channel_of(content), digest_of(content), content["data"].get("id"))
