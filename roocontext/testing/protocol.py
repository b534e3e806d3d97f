"""The ten methods that the suite needs of a store, and their arguments and results.

A driver is a thin class around a store that has these methods. It is one writer's access to one
session, so two drivers opened on the same place and session are two writers. Here are also the
verdicts of checks, and the messages that they write and compare.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

Version: TypeAlias = str | int
"""A store's own name for a state of a session. The suite only compares it and passes it back."""


class Capability(StrEnum):
    """An operation that a store may lack."""

    REWIND = "rewind"
    REDO = "redo"
    CONDENSE = "condense"
    FORK = "fork"
    DELETE = "delete"
    SEND = "send"
    DURABLE = "durable"


@dataclass(frozen=True, slots=True)
class Message:
    """A message in the shape of Anthropic's Messages API: a role, and a list of content blocks.

    A driver whose store has messages of its own translates them in both directions.
    """

    role: str
    content: list[Any]


@dataclass(frozen=True, slots=True)
class Append:
    """A message to append.

    With `expected`, the message may only be stored if this is still the session's version. A
    `retry_key` names the request: a writer that got no answer sends the same message with the same
    key again. A driver ignores a field if its store has no argument for it.
    """

    message: Message
    expected: Version | None = None
    retry_key: str | None = None


@dataclass(frozen=True, slots=True)
class Condense:
    """Replace the first `first` messages of the view with a summary."""

    first: int
    summary: str


@dataclass(frozen=True, slots=True)
class Fork:
    """Begin another session as a copy of this session at a version."""

    at: Version
    session: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The version of the session after a write."""

    version: Version


@dataclass(frozen=True, slots=True)
class View:
    """The messages that count now, and their version."""

    version: Version
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """The messages that a model would be sent now, after all repairs of the software.

    The `provider` decides which rules apply: "anthropic", "gemini", "openai", or "any" if the
    messages are translated for a provider later.
    """

    messages: tuple[Message, ...]
    provider: str = "any"


@dataclass(frozen=True, slots=True)
class History:
    """Every message that the store can still show, in the order of writing."""

    messages: tuple[Message, ...]


class SessionStore(Protocol):
    """One writer's access to one session of the store under test.

    The suite makes a driver by calling a factory with a place: the path or the URL of a database of
    its own. Any exception is a refusal, and a refusal must leave the session as it was. `lacks`
    names operations that the store lacks, with the reason; those methods are not called.
    """

    lacks: Mapping[Capability, str]

    def open(self, session: str) -> Receipt:
        """Open the session with this id, or create it. It is called once, before the others."""

    def append(self, new: Append) -> Receipt:
        """Store a message at the end of the session. It must be durable on return."""

    def view(self) -> View:
        """Read the messages that count now."""

    def sent(self) -> Sent:
        """Make the messages that a model would be sent now, without storing anything."""

    def history(self) -> History:
        """Read every message that can still be read, including those that no longer count."""

    def rewind(self, to: Version) -> Receipt:
        """Return the session to a version.

        Unless the store lacks `redo`, this may also be a version that a rewind took back.
        """

    def condense(self, plan: Condense) -> Receipt:
        """Replace the oldest messages of the view with a summary, which is a user's message."""

    def fork(self, copy: Fork) -> None:
        """Begin another session as a copy of this session."""

    def delete(self) -> None:
        """Delete the session by the call that the store offers its users."""

    def close(self) -> None:
        """Release all connections. It is called last."""


class Verdict(StrEnum):
    """The verdict of a check.

    `refused` is not a loss: the store raised an error and stayed as it was. `missing` means that
    the store lacks the operation, and `failed` that it raised an unexpected error.
    """

    KEPT = "kept"
    REFUSED = "refused"
    LOST = "lost"
    MISSING = "missing"
    FAILED = "failed"
    NOT_RUN = "not run"


class Lost(AssertionError):
    """The store lost or changed something that it had accepted."""


class StoreRefused(Exception):
    """The store refused part of a check with an error, and lost nothing."""


class NotRun(Exception):
    """The check cannot be run here."""


def says(text: str, role: str = "user") -> Message:
    """A message of one text."""
    return Message(role, [{"type": "text", "text": text}])


def tool_call(call: str, value: Any = None) -> Message:
    """The assistant calls a tool with a value."""
    block = {"type": "tool_use", "id": call, "name": "probe", "input": {"value": value}}
    return Message("assistant", [block])


def answers(call: str, text: str = "done") -> Message:
    """The result of a call."""
    return Message("user", [{"type": "tool_result", "tool_use_id": call, "content": text}])


def dialogue(turns: int) -> list[Message]:
    """Turns of a user and an assistant, each text different."""
    return [
        says(f"{role} {number}: " + "a sentence about the work. " * 8, role)
        for number in range(turns)
        for role in ("user", "assistant")
    ]


def json_texts(messages: Sequence[Message]) -> list[str]:
    """Messages as JSON texts, which differ if a number's type or an order of keys does."""
    return [json.dumps([message.role, message.content]) for message in messages]


def first_difference(wanted: Sequence[Message], actual: Sequence[Message]) -> str | None:
    """The first difference of two lists of messages, without content; None if they are equal."""
    pairs = zip(json_texts(wanted), json_texts(actual), strict=False)
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            return f"message {number} of {len(wanted)} differs"
    if len(actual) == len(wanted):
        return None
    return f"{len(actual)} messages instead of {len(wanted)}"
