"""Shows the conversations of a checkpoint in a session, with each message stored once.

The conversations usually begin as the session's view does: then only the rest is appended. If not,
the session is rewound to where they differ. If a graph removes messages from the start or the
middle, a summary or a marker hides them.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from roocontext.adapters.langgraph_messages import WORKS, to_content
from roocontext.adapters.serializing import framework
from roocontext.formats.langchain_conversations import (
    FORMAT,
    MARKER,
    channel_of,
    digest_of,
    kept_count,
    new_marker,
    replaced,
    to_new,
)
from roocontext.log.entries import View
from roocontext.log.plan import Action, Plan
from roocontext.store.session import Session
from roocontext.store.writing.items import Rewind

with framework("langgraph-checkpoint", works=WORKS, extra="langgraph"):
    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.serde.base import SerializerProtocol


class ShownMessage(NamedTuple):
    """A message that a session shows. One that is not written yet has the seq 0."""

    seq: int
    channel: str | None
    digest: bytes
    id: str | None = None


class Conversations(NamedTuple):
    """The conversations of a checkpoint: by channel the messages and their digests."""

    messages: Mapping[str, Sequence[BaseMessage]]
    digests: Mapping[str, Sequence[bytes]]


class SessionShown(NamedTuple):
    """The messages that a session shows at its head, and how many of them may stay."""

    session: Session
    head_seq: int
    messages: Sequence[ShownMessage]
    stays: int


class Beginning(NamedTuple):
    """The writes before the new messages, if any, and the messages shown then."""

    item: Rewind | Plan | None
    shown: Sequence[ShownMessage]


def read_shown(view: View) -> list[ShownMessage]:
    """The messages of a view."""
    return [
        ShownMessage(
            *(row.seq, channel_of(row.content)),
            *(digest_of(row.content), row.content["data"].get("id")),
        )
        if row.format == FORMAT
        else ShownMessage(row.seq, None, b"")  # not written by the adapter
        for row in view.messages
    ]


def digests_by_channel(shown: Sequence[ShownMessage]) -> dict[str, list[bytes]]:
    """The digests of the messages shown, by channel."""
    digests: dict[str, list[bytes]] = {}
    for message in shown:
        digests.setdefault(message.channel or "", []).append(message.digest)
    return digests


def rewound(
    shown: SessionShown, wanted: Mapping[str, Sequence[bytes]], parent: int | None
) -> Beginning:
    """A rewind to what the session has in common with these conversations."""
    best = Beginning(Rewind(0, shown.head_seq, "langgraph"), ())
    # Right before the first message that goes; or the parent, if its messages were hidden since.
    for to in (shown.messages[shown.stays].seq - 1, parent):
        if to:
            then = read_shown(shown.session.view(as_of=to))
            if len(best.shown) < len(then) == kept_count(then, wanted):
                best = Beginning(Rewind(to, shown.head_seq, "langgraph"), then)
    return best


def summary_of_graph(
    shown: SessionShown, conversations: Conversations, serde: SerializerProtocol
) -> Beginning | None:
    """A summary of the graph's own, or a marker, in the place of the messages that it removed."""
    cut = replaced(shown.messages, conversations.digests, conversations.messages, shown.stays)
    if cut is None:
        return None
    channel, gone, new = cut
    inserted, digests = conversations.messages[channel][new], conversations.digests[channel][new]
    hidden = {message.seq for message in shown.messages[gone]}
    runs = groupby(sorted(message.seq for message in shown.messages), key=hidden.__contains__)
    ranges = [[*run] for is_hidden, run in runs if is_hidden]
    rows = tuple(to_new(to_content(message, serde), channel) for message in inserted)
    plan = Plan(
        head_seq=shown.head_seq,
        action=Action.CONDENSE if rows else Action.TRUNCATE,
        hides=tuple((run[0], run[-1]) for run in ranges),
        rows=rows or (new_marker(),),
        # The graph has decided, so the only thing that is refused is hiding a pin.
        compat=True,
        policy="langgraph",
        trigger="langgraph",
        session_id=shown.session.id,
    )
    written = [
        ShownMessage(0, channel, digest, message.id)
        for message, digest in zip(inserted, digests, strict=True)
    ] or [ShownMessage(0, MARKER, b"")]
    return Beginning(plan, [*shown.messages[: gone.start], *written, *shown.messages[gone.stop :]])
