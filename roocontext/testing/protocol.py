"""What the suite asks of a store: ten methods, and the plain values that go in and come out.

A driver is a thin class around a store that has these methods. It is one writer's access to one
session, so two drivers opened on the same place and session are two writers.

What a check comes to, and the exceptions by which it says so.

Messages that the checks write, and how two of them are compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

Version: TypeAlias = str | int
"""A store's own name for a state of a session. The suite only compares it and gives it back."""


class Capability(StrEnum):
    """What a store may not be able to do at all."""

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

    With `expected`, the message may only be stored if that is still the session's version. A
    `retry_key` names the request: a writer that got no answer sends the same message with the same
    key again. A driver ignores what its store has no argument for.
    """

    message: Message
    expected: Version | None = None
    retry_key: str | None = None


@dataclass(frozen=True, slots=True)
class Condense:
    """Put a summary in the place of the first `first` messages of the view."""

    first: int
    summary: str


@dataclass(frozen=True, slots=True)
class Fork:
    """Begin another session as a copy of this one as it was at a version."""

    at: Version
    session: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The version of the session after a write."""

    version: Version


@dataclass(frozen=True, slots=True)
class View:
    """The messages that count now, and the version that they were read at."""

    version: Version
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """The messages that a model would be sent now, after all repairs that the software makes.

    The `provider` decides which rules apply: "anthropic", "gemini", "openai", or "any" if the
    messages are translated for a provider later.
    """

    messages: tuple[Message, ...]
    provider: str = "any"


@dataclass(frozen=True, slots=True)
class History:
    """Every message that the store can still show, in the order in which they were written."""

    messages: tuple[Message, ...]


class SessionStore(Protocol):
    """One writer's access to one session of the store under test.

    The suite makes one by calling a factory with a place: the path or the URL of a database of its
    own. Any exception is a refusal, and a refusal must leave the session as it was. `lacks` names
    what the store cannot do, with the reason; those methods are not called.
    """

    lacks: Mapping[Capability, str]

    def open(self, session: str) -> Receipt:
        """Open the session with this id, or create it. This is called first, and once."""

    def append(self, new: Append) -> Receipt:
        """Store a message at the end of the session. It must be durable on return."""

    def view(self) -> View:
        """Read the messages that count now."""

    def sent(self) -> Sent:
        """Make the messages that a model would be sent now. Nothing is stored."""

    def history(self) -> History:
        """Read every message that can still be read, also those that no longer count."""

    def rewind(self, to: Version) -> Receipt:
        """Make the session what it was at a version.

        Unless the store lacks `redo`, the version may also be one that a rewind took back.
        """

    def condense(self, plan: Condense) -> Receipt:
        """Replace the oldest messages of the view by a summary, which is a user's message."""

    def fork(self, copy: Fork) -> None:
        """Begin another session as a copy of this one."""

    def delete(self) -> None:
        """Delete the session by the call that the store offers its users for that."""

    def close(self) -> None:
        """Give back all connections. This is called last."""


class Verdict(StrEnum):
    """What a check comes to.

    `refused` is no loss: the store raised an error and stayed as it was. `missing` means that the
    store has no such operation, and `failed` that it raised an error where it should not.
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


def first_difference(wanted: Sequence[Message], found: Sequence[Message]) -> str | None:
    """Where two lists of messages begin to differ, without their content; None if they do not."""
    if json_texts(wanted) == json_texts(found):
        return None
    for number, (one, other) in enumerate(
        zip(json_texts(wanted), json_texts(found), strict=False), 1
    ):
        if one != other:
            return f"message {number} of {len(wanted)} differs"
    return f"{len(found)} messages instead of {len(wanted)}"
