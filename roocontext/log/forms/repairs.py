"""The protocol of a form, its result, and the repairs that it reports."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from roocontext.log.entries import Kind, Message
from roocontext.log.readings.blocks import side_of
from roocontext.log.values import Value


class Rule(StrEnum):
    """The reason for a repair, and its effect."""

    OPENING = "opening"  # the assistant came first: a user message was put before it
    CLOSING = "closing"  # the assistant came last in a request: a user message was put after it
    APART = "apart"  # the row may not follow the one before: a fixed message was put between
    MERGED = "merged"  # the row has the role of the one before: both are one message
    EMPTY = "empty"  # no block of the row could be sent
    BLANK = "blank"  # a text without a visible character was left out
    MALFORMED = "malformed"  # a block lacks what its type needs and was left out
    MISPLACED = "misplaced"  # a block that only the other role may send was left out
    UNCOMPACTED = "uncompacted"  # a compaction that hides nothing here was left out
    UNKNOWN = "unknown"  # a block of a type that this provider does not know was left out
    FIELD = "field"  # refused fields were left out, or a cache mark before one of an hour grew
    THINKING = "thinking"  # thinking of another model, or not byte-exact, was left out
    UNREASONED = "unreasoned"  # a reply lacks reasoning that its server requires: a line says so
    UNTHINKING = "unthinking"  # the running tool loop lost its thinking: send with thinking off
    TRAILING = "trailing"  # thinking at the end of its message was left out
    STRIPPED = "stripped"  # white space at the end, where the assistant spoke last, was left out
    SURROGATE = "surrogate"  # a lone surrogate, which is not Unicode, was replaced
    INPUT = "input"  # a call's input was not an object and was sent as an empty one
    OUTPUT = "output"  # blank or invalid parts of a result's content were left out
    MEDIA = "media"  # an image or file that this provider refuses became a line that names it
    CITATIONS = "citations"  # the sources of a text, which only their provider knows, were left out
    MOVED = "moved"  # an image or file in a result was moved after the results
    REDACTED = "redacted"  # the rest of a redacted block was replaced by a line that says so
    RENAMED = "renamed"  # a call's id was already used, or is not valid, and was replaced
    NAME = "name"  # a tool's name is not valid for this provider and was replaced
    RETYPED = "retyped"  # the types of a call and its result differed: one was changed to match
    HOISTED = "hoisted"  # a late result was moved up to its call
    UNANSWERED = "unanswered"  # a call without a result got one that says so
    ORPHAN = "orphan"  # a result without an earlier call was sent as a text that quotes it
    SEPARATED = "separated"  # a call or result of a provider's tool had no partner: left out
    DUPLICATE = "duplicate"  # a second result of an answered call was left out


CONVERSIONS = frozenset({Rule.MERGED, Rule.RENAMED, Rule.THINKING, Rule.FIELD, Rule.MOVED})
"""Rules that count as a conversion, not a repair, if the row is in another format."""


@dataclass(frozen=True, slots=True)
class Repair(Value):
    """One repair: the row, the rule and, if there is one, the block of the row's reading.

    If the row is stored in the form's own format, the block is the index of the stored part. A seq
    of 0 stands for the tools of the request, and the block for one of them.
    """

    seq: int
    rule: Rule
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages that a provider accepts, in its own shape, and the repairs made, by seq."""

    messages: list[dict[str, Any]]
    repairs: tuple[Repair, ...]


def model_of(messages: Sequence[Message]) -> str | None:
    """The model of the newest assistant message; the next request is assumed to go to it."""
    newest = newest_reply(messages)
    return None if newest is None else newest.model


def newest_reply(messages: Sequence[Message]) -> Message | None:
    """The newest assistant message. The messages may be in any order."""
    replies = (
        message
        for message in messages
        if message.kind is Kind.MESSAGE and side_of(message.role) != "user"
    )
    return max(replies, key=lambda reply: reply.seq, default=None)


class Form(Protocol):
    """Turns rows into messages that one provider accepts. It is pure and never changes a row."""

    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        """Compose the messages of a view for a model, by default that of its newest reply.

        Thinking is sent only to the model that wrote it, and not from the rows in `drop_thinking`.
        A view may end with unanswered calls or with the assistant. With `complete`, those calls get
        answers and a user message comes last, as every request for the model's turn needs it.
        """

    def body(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        system: Any = None,
        tools: Sequence[Any] = (),
        cache: bool = False,
    ) -> dict[str, Any]:
        """Make the keyword arguments for the SDK from composed messages.

        The system prompt goes where the provider expects it, and tool definitions of any provider
        are converted. With `cache`, cache breakpoints are set if the provider has them.
        """
