"""The events of a session of another tool: the words that every importer shares.

An importer yields them in the order of its source. `id` is the source's own id of the record:
later events refer to earlier ones by it. An event without a `ts` gets that of the event before it,
unless it adds a message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from roocontext.log.entries import NewMessage

LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A database on a PostgreSQL server. Its text has neither a password nor options."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        return f"postgresql://{user.partition(':')[0]}{at}{host}{parts.path}"


Place: TypeAlias = Path | ServerUrl
"""The file, the folder or the database that holds sessions of another tool."""


@dataclass(frozen=True, slots=True)
class Added:
    """A message. Its `extra` holds the rest of the record.

    `answers` is the message with the call that its only result answers, and the call's number in
    it, if their ids do not say so.
    """

    id: str | None
    message: NewMessage
    line: int | None = None
    answers: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A record that no model sees."""

    id: str | None
    kind: str
    record: Any
    ts: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Hid:
    """A condensation, or a truncation: messages gave way to the first or the `lead` of `rows`.

    `hides` are the ids of the messages that are hidden; None hides all that are visible. `keeps`
    stay visible in either case. The rows come right after the last message that they hide, or at
    the end. `kept_after` are the kept messages that the source sends after the rows, in its order.
    """

    id: str | None
    rows: tuple[NewMessage, ...]
    hides: frozenset[str] | None = None
    keeps: frozenset[str] = frozenset()
    kept_after: tuple[str, ...] = ()
    lead: int = 0
    at_end: bool = False
    truncates: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Covered:
    """A compaction by the provider: the last of the `rows` holds it, and replaces all visible ones.

    The rows before it are messages that the provider returned with it.
    """

    id: str | None
    rows: tuple[NewMessage, ...]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Cleared:
    """Outputs of tools that were replaced by a placeholder: ids of messages, with their blocks."""

    id: str | None
    blocks: tuple[tuple[str, int], ...]
    placeholder: str
    record: Mapping[str, Any] = field(default_factory=dict)
    line: int | None = None
    ts: int | None = None


@dataclass(frozen=True, slots=True)
class WentBack:
    """A rewind to right after the event with this id; None goes back to the start."""

    id: str | None
    to: str | None
    line: int | None = None
    ts: int | None = None


@dataclass(frozen=True, slots=True)
class TitleSet:
    """The session's title."""

    title: str
    line: int | None = None


Event: TypeAlias = Added | Noted | Hid | Covered | Cleared | WentBack | TitleSet


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a source that could not be imported.

    If it `cuts`, everything after it is missing too: a program may be writing the source anew.
    """

    path: Place
    line: int | None
    what: str
    cuts: bool = False

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.what}"


@dataclass(frozen=True, slots=True)
class Source:
    """One session of another tool: its path, its name and its events.

    `events` begins anew with each call. It adds to `problems` while it runs.
    """

    session_id: str
    path: Place
    metadata: Mapping[str, Any]
    events: Callable[[], Iterator[Event]]
    problems: list[Problem] = field(default_factory=list)
    parent: str | None = None


def source_of(
    tool: str,
    name: str,
    path: Place,
    read: Callable[[list[Problem]], Iterator[Event]],
    /,
    *,
    parent: str | None = None,
    problems: Iterable[Problem] = (),
    **facts: Any,
) -> Source:
    """A session of a tool; the tool's name begins the ids of its sessions.

    `read` yields its events, and adds problems to the list that it is given.
    """
    found = [*problems]
    return Source(
        f"{tool}:{name}",
        path,
        {"tool": tool, "path": str(path), **facts},
        partial(read, found),
        found,
        f"{tool}:{parent}" if parent else None,
    )


def titled(text: Any, line: int | None = None) -> Iterator[TitleSet]:
    """Set a title if the text is one. A long one is cut."""
    if isinstance(text, str) and text.strip():
        yield TitleSet(text.strip()[:LONGEST_TITLE], line)
