"""Whose turn it is: the user's, the tools' or the model's, by the last messages of the log.

Rows that a plan inserted do not count: they say nothing about whose turn it is.
They are read from the end, and no further than the last run of replies.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from roocontext.log.compactions import is_compaction_only
from roocontext.log.entries import BlockRef, Kind, Message
from roocontext.log.pairs import links_of, pairs
from roocontext.log.readings import Block, calls, reader, results
from roocontext.log.values import Value

WaitsFor: TypeAlias = Literal["user", "tools", "model"]
"""Whom a session waits for."""

_SILENT: Final = ("system", "developer")
"""The roles of instructions, which nobody has to answer."""
_SERVER_CALLS: Final = ("server_tool_use", "mcp_tool_use")
PAUSED: Final = "pause_turn"
"""The stop reason of a reply that the provider wants to continue."""
TOO_LONG: Final = frozenset(
    {"max_tokens", "model_context_window_exceeded", "length", "max_output_tokens", "MAX_TOKENS"}
)
"""The stop reasons of replies that a limit cut off, as Anthropic, OpenAI and Gemini name them."""


@dataclass(frozen=True, slots=True)
class PendingCall(Value):
    """A tool call that waits for its answer: the entry that holds it, and its number there.

    `block` counts the calls of the entry from 0. `begun` says whether `begin` was called for it:
    the tool may have run, although no answer is recorded. `cut_off` says that a limit cut the reply
    off after the call had begun: its input may lack the end, so answer it with an error.
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
        """What an answer refers to."""
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
        """Whether it is tools' results and nothing else, so that the user has not spoken."""
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
        """Whom the session waits for, unless the reply's stop reason is PAUSED."""
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
    for one in _spoken(newest_first):
        if rows and rows[-1].is_reply and not one.is_reply:
            before = one
            break
        if not one.is_reply and not one.is_result:
            return LastTurn(spoken=True)
        rows.append(one)
    rows.reverse()
    replies = list(takewhile(_is_reply, rows))
    if not replies:
        return LastTurn(answered=bool(rows))
    return LastTurn(
        pending=tuple(_pending(rows)),
        reply=replies[-1].message,
        answered=len(replies) < len(rows),
        asked_by=before.message.seq if before else 0,
        unfinished=_is_unfinished(replies[-1].blocks),
    )


def calls_in(message: Message) -> list[PendingCall]:
    """Every call of a message that its agent has to answer."""
    one = _read(message)
    if not one.is_reply:
        return []
    found = [one.blocks[index] for index, _ in calls(one.blocks)]
    return [
        PendingCall(message.seq, number, call["id"], call.get("name") or "", call.get("input"))
        for number, call in enumerate(found)
    ]


def _spoken(newest_first: Iterable[Message]) -> Iterator[_Spoken]:
    for message in newest_first:
        speaks = message.kind is Kind.MESSAGE and message.role not in _SILENT
        # A pause, or a compaction on demand, says nothing: the turn is whose it was before.
        if speaks and not is_compaction_only(message.format, message.content):
            yield _read(message)


def _read(message: Message) -> _Spoken:
    return _Spoken(message, *reader(message.format).blocks(message.role, message.content))


def _is_reply(row: _Spoken) -> bool:
    return row.is_reply


def _pending(rows: Sequence[_Spoken]) -> Iterator[PendingCall]:
    links = links_of((row.message.seq, row.message.answers) for row in rows)
    found = pairs([(row.role, list(row.blocks)) for row in rows], links)
    answered = {pair.call for pair in found}
    for index, row in enumerate(rows):
        waiting = calls_in(row.message)
        places = [(index, block) for block, _ in calls(row.blocks)] if waiting else []
        yield from (
            call for call, place in zip(waiting, places, strict=True) if place not in answered
        )


def _is_unfinished(blocks: Sequence[Block]) -> bool:
    """Whether a tool that the provider runs has no result yet."""
    done = {block.get("tool_use_id") for block in blocks}
    return any(
        block.get("type") in _SERVER_CALLS and block.get("id") not in done for block in blocks
    )
