"""How people name a session: by its id, by the beginning of its id, or by a word.

`last` is the session with the newest entry. Text after `=` is taken as the whole id.
"""

from typing import TYPE_CHECKING

from roocontext.errors import SessionNotFound, SessionPurged

if TYPE_CHECKING:
    from roocontext import SessionInfo, Store

LAST = "last"
LITERAL = "="

_SHOWN = 5
ALL = (1 << 31) - 1
"""A limit that no number of sessions reaches."""


def find(store: "Store", name: str) -> str:
    """The id of the session with this name; SessionNotFound if there is none or more than one."""
    if name == LAST:
        newest = store.sessions(limit=1)
        if not newest:
            raise SessionNotFound("The store is empty: there is no last session.", advice="")
        return newest[0].session_id
    literal = name.removeprefix(LITERAL)
    try:
        return store.session(literal).id
    except SessionPurged:
        raise  # its id is still the name of this session, not the beginning of another
    except SessionNotFound:
        found = [] if name != literal else store.find(name, limit=_SHOWN + 1)
        if not found:
            raise
    if len(found) == 1:
        return found[0].session_id
    shown = ", ".join(repr(info.session_id) for info in found[:_SHOWN])
    more = " and more" if len(found) > _SHOWN else ""
    line = f"Several sessions begin with {name!r}: {shown}{more}."
    raise SessionNotFound(line, advice="", session_id=name)


def every_session(store: "Store") -> "list[SessionInfo]":
    """All sessions, the newest first."""
    return store.sessions(limit=ALL)
