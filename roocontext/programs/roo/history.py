"""A task's history as Roo Code keeps it: one list, in which hidden messages stay and get a tag.

The tag names the summary or marker that replaces the message. Everything here takes such a list
and returns another; a message that does not change is the same object in both.

How Roo Code truncates: which messages it treats as visible, and which of those it tags.

It looks only at truncation tags. Messages hidden by a condensation count as visible and are hidden
a second time. So a truncation after a condensation may remove nothing from the view, or it may
remove the summary while the messages that it hides stay hidden. Both defects are reproduced.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Final, NamedTuple, TypeAlias

from roocontext.log.readings import Block

RooMessage: TypeAlias = Mapping[str, Any]
"""Roo's message: role, content, `ts` and the fields that mark or name a summary or marker."""

CONTINUE: Final = "Please continue from the following summary:"
"""The user message that goes before an assistant's summary when that would come first."""


class Tag(NamedTuple):
    """A tag, the fields of the row that it names, and the event that reports that row."""

    key: str
    flag: str
    id: str
    event: str
    facts: str


CONDENSED: Final = Tag(
    "condenseParent", "isSummary", "condenseId", "condense_context", "contextCondense"
)
TRUNCATED: Final = Tag(
    "truncationParent",
    "isTruncationMarker",
    "truncationId",
    "sliding_window_truncation",
    "contextTruncation",
)
TAGS: Final = (CONDENSED, TRUNCATED)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit by a condensation or truncation: it tags messages and inserts one at `at`."""

    tag: Tag
    tagged: tuple[int, ...]
    row: RooMessage
    at: int

    def applied(self, messages: Sequence[RooMessage]) -> list[RooMessage]:
        """The list with the tags and the new row."""
        tagged = set(self.tagged)
        edited = [
            {**message, self.tag.key: self.row[self.tag.id]} if index in tagged else message
            for index, message in enumerate(messages)
        ]
        return [*edited[: self.at], self.row, *edited[self.at :]]


def message_blocks(message: RooMessage) -> list[Block]:
    """A message's blocks; a text is one block."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def since_summary_2025(messages: Sequence[RooMessage], *, now: int) -> list[RooMessage]:
    """The last summary and everything after it, preceded by a user message."""
    start = _last_summary(messages)
    if start is None or messages[start]["role"] == "user":
        return list(messages[start or 0 :])
    first = messages[0]
    if first["role"] != "user":
        ts = first.get("ts")
        first = {"role": "user", "content": CONTINUE, "ts": ts - 1 if ts else now}
    return [first, *messages[start:]]


def since_summary_2026(messages: Sequence[RooMessage]) -> list[RooMessage]:
    """The last summary and everything after it; the whole list if there is no summary."""
    return list(messages[_last_summary(messages) or 0 :])


def last_index(messages: Sequence[RooMessage], wanted: Callable[[RooMessage], bool]) -> int | None:
    """The index of the last message that matches."""
    return next((i for i in reversed(range(len(messages))) if wanted(messages[i])), None)


def _last_summary(messages: Sequence[RooMessage]) -> int | None:
    return last_index(messages, lambda one: bool(one.get(CONDENSED.flag)))


FRACTION: Final = 0.5

MARKER: Final = "[Sliding window truncation: {} messages hidden to reduce context]"


def truncation(
    messages: Sequence[RooMessage],
    fraction: float,
    *,
    truncation_id: str,
    now: int,
    held: Collection[int] = (),
) -> Edit | None:
    """Hide this fraction of what counts as visible, except the first; None if that is nothing.

    The number is even, so that user and assistant still alternate. Messages in `held` get no tag:
    they are pinned, and the program has no pins.
    """
    visible = visible_to_roo(messages)
    # The first message is the task, and is never hidden.
    most = floor((len(visible) - 1) * fraction)
    end = 1 + most - most % 2
    tagged = tuple(index for index in visible[1:end] if index not in held)
    if not tagged:
        return None
    at = visible[end] if end < len(visible) else len(messages)
    ts = messages[at].get("ts") if at < len(messages) else None
    # A millisecond before the first message that stays, so that it sorts before that.
    marker = _marker(len(tagged), (now if ts is None else ts) - 1, truncation_id)
    return Edit(TRUNCATED, tagged, marker, at)


def visible_to_roo(messages: Sequence[RooMessage]) -> list[int]:
    """The indices of the messages that Roo treats as visible."""
    return [
        index
        for index, message in enumerate(messages)
        if not message.get(TRUNCATED.key) and not message.get(TRUNCATED.flag)
    ]


def _marker(hidden: int, ts: int, truncation_id: str) -> dict[str, Any]:
    return {
        "role": "user",
        "content": MARKER.format(hidden),
        "ts": ts,
        TRUNCATED.flag: True,
        TRUNCATED.id: truncation_id,
    }
