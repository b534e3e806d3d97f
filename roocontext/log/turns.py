"""Whose turn it is: the user's, the tools' or the model's, by the last messages of the log.

Messages are read from the end, no further than the last run of replies. Rows that a plan inserted
are skipped, because they say nothing about whose turn it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from roocontext.log.compactions import is_compaction_only
from roocontext.log.entries import BlockRef, Kind, Message
from roocontext.log.pairs import links_of, pairs, unpaired
from roocontext.log.readings import Block, calls, read_message, results
from roocontext.log.values import Value

WaitsFor: TypeAlias = Literal["user", "tools", "model"]
"""The parties that a session may wait for."""

_SILENT: Final = ("system", "developer")
"""The roles of instructions, which need no answer."""
PAUSED: Final = "pause_turn"
"""The stop reason of a reply that the provider wants to continue."""
TOO_LONG: Final = frozenset(
    {"max_tokens", "model_context_window_exceeded", "length", "max_output_tokens", "MAX_TOKENS"}
)
"""The stop reasons of replies that a limit cut off, in the words of each provider."""


@dataclass(frozen=True, slots=True)
class PendingCall(Value):
    """A tool call that waits for its answer: the entry that holds it, and its number there.

    `block` counts the calls of the entry from 0. `begun` is True if `begin` was called for it: the
    tool may have run, although no answer is recorded. `cut_off` is True if a limit cut the reply
    off after the call had begun: the end of its input may be missing, so answer it with an error.
    """

    seq: int
    block: int
    id: str
    name: str
    input: Any
    begun: bool = False
    cut_off: bool = False

    @property
    def place(self) -> BlockRef:
        """The entry and the number by which an answer refers to the call."""
        return self.seq, self.block


class _Spoken(NamedTuple):
    message: Message
    role: str
    blocks: Sequence[Block]

    @property
    def is_reply(self) -> bool:
        return self.role == "assistant"

    @property
    def is_result(self) -> bool:
        """True for results of tools and nothing else, so that the user has not spoken."""
        return not self.is_reply and 0 < len(results(self.blocks)) == len(self.blocks)


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The end of a session: the last run of replies, if only results follow it.

    `asked_by` is the last message of the user or of a tool before that run.
    """

    pending: tuple[PendingCall, ...] = ()
    reply: Message | None = None
    answered: bool = False
    asked_by: int = 0
    spoken: bool = False
    unfinished: bool = False

    @property
    def waits_for(self) -> WaitsFor:
        """The party that the session waits for, unless the reply's stop reason is PAUSED."""
        if self.pending:
            return "tools"
        if self.spoken or self.answered:
            return "model"
        if self.reply is None:
            return "user"
        # A message that came while the model was answering: it was not read yet.
        unread = self.reply.asked_at is not None and self.asked_by > self.reply.asked_at
        return "model" if unread or self.unfinished else "user"


def last_turn(newest_first: Iterable[Message]) -> LastTurn:
    """Read the end of a session, given its live messages from the last one backwards."""
    rows: list[_Spoken] = []
    before: _Spoken | None = None
    for row in _spoken(newest_first):
        if rows and rows[-1].is_reply and not row.is_reply:
            before = row
            break
        if not row.is_reply and not row.is_result:
            return LastTurn(spoken=True)
        rows.append(row)
    rows.reverse()
    replies = list(takewhile(attrgetter("is_reply"), rows))
    if not replies:
        return LastTurn(answered=bool(rows))
    return LastTurn(
        pending=tuple(_pending(rows)),
        reply=replies[-1].message,
        answered=len(replies) < len(rows),
        asked_by=before.message.seq if before else 0,
        unfinished=bool(unpaired(replies[-1].blocks)[0]),
    )


def calls_in(message: Message) -> list[PendingCall]:
    """Every call of a message that its agent has to answer."""
    role, blocks = read_message(message)
    if role != "assistant":
        return []
    asked = [blocks[index] for index, _ in calls(blocks)]
    return [
        PendingCall(message.seq, number, call["id"], call.get("name") or "", call.get("input"))
        for number, call in enumerate(asked)
    ]


def _spoken(newest_first: Iterable[Message]) -> Iterator[_Spoken]:
    for message in newest_first:
        speaks = message.kind is Kind.MESSAGE and message.role not in _SILENT
        # A compaction on demand says nothing, so it does not change whose turn it is.
        if speaks and not is_compaction_only(message.format, message.content):
            yield _Spoken(message, *read_message(message))


def _pending(rows: Sequence[_Spoken]) -> Iterator[PendingCall]:
    links = links_of((row.message.seq, row.message.answers) for row in rows)
    readings = [(row.role, list(row.blocks)) for row in rows]
    answered = {pair.call for pair in pairs(readings, links)}
    for index, row in enumerate(rows):
        waiting = calls_in(row.message)
        places = [(index, block) for block, _ in calls(row.blocks)] if waiting else []
        yield from (
            call for call, place in zip(waiting, places, strict=True) if place not in answered
        )
