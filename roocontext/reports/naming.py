"""How people name a session and an entry.

A session is named by its id or the beginning of it, or else by the part of its id after the colon
or the beginning of that; `last` is the one with the newest entry, and `last~1` the one before it.
Text after `=` is taken as the whole id. An entry is named by its
number, a time, or a message's id; `last` is the newest one that is no note.

Numbers and sizes as people read them.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from roocontext.errors import MessageNotFound, SessionNotFound, SessionPurged

if TYPE_CHECKING:
    from roocontext import Session, SessionInfo, Store


_UNITS = ("B", "kB", "MB", "GB")


def quantity(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """A number of bytes: `1.77 kB`."""
    amount, unit = float(count), 0
    # From 999.5 on, a number would be rounded to 1,000 of its unit.
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    digits = f"{amount:.3g}" if unit and amount < 99.95 else f"{amount:.0f}"
    return f"{digits} {_UNITS[unit]}"


def ranges_in_words(pairs: Sequence[Sequence[int]], most: int | None = None) -> str:
    """Ranges of seq, all of them or the first ones: `2-4, 7 and 12 more`."""
    shown = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs[:most]]
    left = len(pairs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


LAST = "last"
LITERAL = "="
_BACK = re.compile(rf"{LAST}(?:~([0-9]{{1,6}}))?")

_SHORT, _LEAST = 16, 6
"""Ids up to this length are shown whole; of others no less is shown than this, after a colon."""

_SHOWN = 5
ALL = (1 << 31) - 1
"""A limit that no number of sessions reaches."""


def session_named(store: "Store", name: str) -> str:
    """The id of the session with this name; SessionNotFound if there is none or more than one."""
    if back := _BACK.fullmatch(name):
        return _newest(store, int(back[1] or 0))
    literal = name.removeprefix(LITERAL)
    try:
        return store.session(literal).id
    except SessionPurged:
        raise  # its id is still the name of this session, not the beginning of another
    except SessionNotFound:
        found, where = [] if name != literal else store.find(name, limit=_SHOWN + 1), ""
        if not found and name == literal:
            found, where = after_colon(store, name), " after the colon"
        if not found:
            raise
    whole = [one for one in found if part_after_colon(one.session_id) == name]
    if len(found) == 1 or len(whole) == 1:
        return (whole or found)[0].session_id
    shown = ", ".join(repr(info.session_id) for info in found[:_SHOWN])
    more = " and more" if len(found) > _SHOWN else ""
    line = f"Several sessions begin with {name!r}{where}: {shown}{more}."
    raise SessionNotFound(line, advice="", session_id=name)


def after_colon(store: "Store", beginning: str) -> "list[SessionInfo]":
    """The sessions with an id like `codex:019d` whose part after the colon begins like this."""
    found = [
        one
        for one in every_session(store)
        if part_after_colon(one.session_id).startswith(beginning)
    ]
    return sorted(found, key=lambda one: one.session_id) if beginning else []


def part_after_colon(session_id: str) -> str:
    """What follows the first colon, such as the id that the tool itself gave a session."""
    return session_id.partition(":")[2]


def short_id(store: "Store", session_id: str) -> str:
    """The id as it is shown: as short as it names no other session."""
    length = _LEAST
    while shortest_id(session_id, length) != session_id:
        if len(store.find(session_id[:length], limit=2)) == 1:
            break
        length += 1
    return shortest_id(session_id, length)


def shortest_id(session_id: str, unique: int) -> str:
    """The beginning of an id that is shown, of which so many characters make it unique.

    What is ahead of a colon, such as the name of a tool, says too little.
    """
    if len(session_id) <= _SHORT:
        return session_id
    return session_id[: max(session_id.find(":") + 1 + _LEAST, unique)]


def _newest(store: "Store", back: int) -> str:
    """The id of the session with the newest entry, or of one so many places behind it."""
    newest = store.sessions(limit=back + 1)
    if not newest:
        raise SessionNotFound("The store is empty: there is no last session.", advice="")
    if len(newest) <= back:
        oldest = len(newest) - 1
        line = f"The oldest of {quantity(len(newest), 'session')} is last~{oldest}."
        raise SessionNotFound(line, advice="")
    return newest[back].session_id


def entry_named(chat: "Session", name: int | datetime | str) -> int:
    """The number of the entry with this name; MessageNotFound if there is none.

    A time names the last entry that was recorded up to then. A number is not checked.
    """
    if isinstance(name, int):
        return name
    if isinstance(name, datetime):
        return chat.view(as_of=name, last=1).seq
    if name != LAST:
        return chat.find_message(name)
    last = chat.head_seq()
    if not last:
        raise MessageNotFound("The session has no entries: there is no last one.", candidates=())
    return last


def every_session(store: "Store") -> "list[SessionInfo]":
    """All sessions, the newest first."""
    return store.sessions(limit=ALL)
