"""The names of sessions and entries that people type, and numbers as they read them.

A session is named by its id or the beginning of it, or else by the part of its id after the colon
or the beginning of that part. `last` is the session with the newest entry, and `last~1` the session
before it. Text after `=` is the whole id. An entry is named by its number, a time, or a message's
id; `last` is the newest entry that is not a note.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from roocontext.errors import (
    InvalidOption,
    MessageNotFound,
    SessionArchived,
    SessionNotFound,
    SessionPurged,
)

if TYPE_CHECKING:
    from roocontext import Session, SessionInfo, Store

_UNITS = ("B", "kB", "MB", "GB")


def quantity(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """A number of bytes: `1.77 kB`."""
    amount, unit = float(count), 0
    # 999.5 and more would be rounded to 1,000 of the unit.
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    digits = f"{amount:.3g}" if unit and amount < 99.95 else f"{amount:.0f}"
    return f"{digits} {_UNITS[unit]}"


def tool_named(metadata: Any) -> str | None:
    """The tool whose session this was, if the metadata name one."""
    tool = metadata.get("tool") if isinstance(metadata, dict) else None
    return tool if isinstance(tool, str) else None


def ranges_in_words(pairs: Sequence[Sequence[int]], most: int | None = None) -> str:
    """Ranges of seq, all of them or the first ones: `2-4, 7 and 12 more`."""
    ranges = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs[:most]]
    left = len(pairs) - len(ranges)
    return ", ".join(ranges) + (f" and {left:,} more" if left else "")


def conditions(pairs: Iterable[str] | None) -> dict[str, str]:
    """The strings that metadata has to have, by key: `["user=ann"]` gives `{"user": "ann"}`."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or key in values:
            line = f"`where` takes KEY=VALUE, each key once; this was {pair!r}."
            raise InvalidOption(line, name="where")
        values[key] = value
    return values


LAST = "last"
LITERAL = "="
_BACK = re.compile(rf"{LAST}(?:~([0-9]{{1,6}}))?")

_SHORT, _LEAST = 16, 6
"""Ids up to the first length are shown whole, others with at least the second after a colon."""

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
        raise  # the id still names this session, and is not the beginning of another
    except SessionNotFound:
        if name != literal:
            raise
        matches: list[SessionInfo] = [*store.find(name, limit=_SHOWN + 1)]
        where = ""
        if not matches:
            matches, where = after_colon(store, name), " after the colon"
        if not matches:
            raise
    whole = [info for info in matches if part_after_colon(info.session_id) == name]
    if len(matches) == 1 or len(whole) == 1:
        return (whole or matches)[0].session_id
    names = ", ".join(repr(info.session_id) for info in matches[:_SHOWN])
    more = " and more" if len(matches) > _SHOWN else ""
    line = f"Several sessions begin with {name!r}{where}: {names}{more}."
    raise SessionNotFound(line, advice="", session_id=name)


def parent_named(store: "Store", name: str) -> str:
    """The id of the session with this name, which may be purged or archived."""
    try:
        return session_named(store, name)
    except (SessionPurged, SessionArchived) as error:
        return str(error.facts["session_id"])


def after_colon(store: "Store", beginning: str) -> "list[SessionInfo]":
    """The sessions whose part of the id after the colon begins like this, as in `codex:019d`."""
    if not beginning:
        return []
    matches = [
        info for info in list_all(store) if part_after_colon(info.session_id).startswith(beginning)
    ]
    return sorted(matches, key=lambda info: info.session_id)


def part_after_colon(session_id: str) -> str:
    """The part after the first colon, such as the id that the tool itself gave a session."""
    return session_id.partition(":")[2]


def short_id(store: "Store", session_id: str) -> str:
    """The shortest beginning of an id that is shown and names no other session."""
    length = _LEAST
    while shortest_id(session_id, length) != session_id:
        if len(store.find(session_id[:length], limit=2)) == 1:
            break
        length += 1
    return shortest_id(session_id, length)


def shortest_id(session_id: str, unique: int) -> str:
    """The beginning of an id that is shown, if so many of its characters are unique.

    It includes some characters after a colon: the name of a tool alone says too little.
    """
    if len(session_id) <= _SHORT:
        return session_id
    return session_id[: max(session_id.find(":") + 1 + _LEAST, unique)]


def _newest(store: "Store", back: int) -> str:
    """The id of the session that lists show first, or of one so many places later."""
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

    A time names the last entry before it. A number is not checked.
    """
    if isinstance(name, int):
        return name
    if isinstance(name, datetime):
        return chat.view(as_of=name, last=1).seq
    if name != LAST:
        return chat.message(name).seq
    last = chat.head_seq()
    if not last:
        raise MessageNotFound("The session has no entries: there is no last one.", candidates=())
    return last


def list_all(store: "Store") -> "list[SessionInfo]":
    """All sessions, the newest first."""
    return store.sessions(limit=ALL)
