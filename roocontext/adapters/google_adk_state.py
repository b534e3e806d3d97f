"""The state of Google ADK's conversations, and of the apps and users that they share.

State is one note for each key, and the newest counts, so two writers never overwrite each other's
keys. The states of an app and of a user are in sessions of their own, which are written after the
event. If the process ends in between, the next read of the conversation writes them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from roocontext.adapters.adapter_notes import Shape, fits, newest_own_notes
from roocontext.errors import SessionNotFound
from roocontext.store.reading.notes import Note
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import NewNote

APP: Final = "app:"
USER: Final = "user:"
"""The beginnings of the keys that conversations share."""

_STATE: Final = "adk.state."
_VALUE: Final[Shape] = {"key": str, "value": object}
_PAGE: Final = 16


class ConversationVersion(NamedTuple):
    """The version of a conversation: its epoch, and how many events it has."""

    epoch: int
    events: int


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """The names that ADK finds a conversation by."""

    app: str
    user: str
    name: str

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return _session_id(self.app, self.user, self.name)

    def scope_id(self, scope: str) -> str:
        """The id of the session with the state of the app or of the user."""
        # Shorter than the id of any conversation.
        return _session_id(*((self.app,) if scope == APP else (self.app, self.user)))

    def metadata(self, status: str) -> dict[str, str]:
        """The metadata that the session is listed by."""
        return {"adk": status, "app": self.app, "user": self.user, "session": self.name}


def shared_state(store: Store, scope_id: str) -> dict[str, Any]:
    """The state of an app or of a user, by keys without their beginning."""
    try:
        return values(store.session(scope_id), 0)
    except SessionNotFound:
        return {}


def own(delta: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a change that is the session's."""
    return {key: value for key, value in delta.items() if not key.startswith((APP, USER))}


def write_shared(
    store: Store,
    key: ConversationKey,
    revision: ConversationVersion,
    delta: Mapping[str, Any],
    *,
    recorded_at: int | None = None,
) -> None:
    """Write the part of a change that other conversations see.

    With the time at which its event was recorded, it is only written if it was not before, and only
    the keys that no other conversation has written since.
    """
    for scope in (APP, USER):
        part = {
            name[len(scope) :]: value for name, value in delta.items() if name.startswith(scope)
        }
        if not part:
            continue
        metadata = {"adk": scope, "app": key.app, **({"user": key.user} if scope == USER else {})}
        chat = store.open_session(key.scope_id(scope), metadata=metadata)
        notes = changes(part, by=f"{key.session_id}.{revision.epoch}.{revision.events}")
        if recorded_at is not None:
            if chat.internals.noted([str(note.client_id) for note in notes]):
                continue
            known = [(note, chat.newest_note(note.note)) for note in notes]
            notes = [
                it for it, newest in known if not (newest and newest.recorded_at > recorded_at)
            ]
        if notes:
            chat.write_batch(notes)


def changes(delta: Mapping[str, Any], *, by: str | None = None) -> list[NewNote]:
    """A note for each key, with a client id that names the event `by` which it was written."""
    return [
        NewNote(
            _kind(key),
            {"key": key, "value": value},
            client_id=None if by is None else _digest(f"{by}.{key}"),
        )
        for key, value in delta.items()
    ]


def values(chat: Session, begun: int) -> dict[str, Any]:
    """The newest value of each key since the epoch began, in the order of their writing."""
    newest = newest_own_notes(chat, _STATE, _is_own, page=_PAGE)
    current = sorted((note for note in newest if note.seq > begun), key=lambda note: note.seq)
    return {note.content["key"]: note.content["value"] for note in current}


def _is_own(note: Note) -> bool:
    return fits(note.content, _VALUE) and note.note == _kind(note.content["key"])


def _kind(key: str) -> str:
    """The kind of the notes of a key: a digest of a key that is too long for a kind."""
    named = json.dumps(key)[1:-1]
    return f"{_STATE}{named}" if len(named) <= 200 else f"{_STATE}#{_digest(named)}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _session_id(*names: str) -> str:
    quoted = (quote(name, safe=" @:+", errors="surrogatepass") or "%" for name in names)
    return "google-adk:" + "/".join(quoted)
