"""Entries as people name them on the command line: by number, `last`, a time, or a message's id."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from roocontext import reports
from roocontext.cli.parse_time import EXAMPLES, target
from roocontext.errors import MessageNotFound

if TYPE_CHECKING:
    from roocontext import Session

WAYS = "its number, `last`, a message's id, or a time such as `09:30` or `2h ago`"
"""How an entry is named, for the help of a command."""


def entry(chat: "Session", name: str, text: str, now: int) -> int:
    """The number of the entry that an argument names."""
    with naming(name, text):
        return reports.naming.entry(chat, target(name, text, now))


def point(chat: "Session", name: str, text: str, now: int) -> int | datetime:
    """The point of a session that an argument names: right after an entry, or a time."""
    found = target(name, text, now)
    return found if isinstance(found, datetime) else entry(chat, name, text, now)


def place(chat: "Session", name: str, text: str, now: int) -> int | datetime | str:
    """Where a rewind goes: only `last` is looked up here, because a rewind has its own rules."""
    found = target(name, text, now)
    return reports.naming.entry(chat, found) if found == reports.naming.LAST else found


@contextmanager
def naming(name: str, text: str | None) -> Iterator[None]:
    """Add to the error about a message's id that the text is nothing else that names an entry."""
    try:
        yield
    except MessageNotFound as error:
        if text is None or "message_id" not in error.facts:
            raise
        line = f"{name} is neither an entry's number, `last` nor a time, such as {EXAMPLES}."
        raise MessageNotFound(f"{line} {error.fact}", **error.facts) from None
