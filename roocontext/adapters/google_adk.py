"""The session service of Google ADK, over a store.

Events come back as from ADK's own database service. In the store, a conversation is a session whose
messages are the contents of the events. A compaction is a summary, and a rewind is a rewind.
"""

import asyncio
import time
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec.structs import replace as with_fields

from roocontext.adapters import google_adk_log as log
from roocontext.adapters.google_adk_state import (
    APP,
    USER,
    ConversationKey,
    ConversationVersion,
    shared_state,
)
from roocontext.adapters.serializing import check_json, framework, serializing
from roocontext.errors import DuplicateMessage, InvalidOption, SessionNotFound
from roocontext.formats.imported import storable, storable_model
from roocontext.formats.importers.google_adk import content_message
from roocontext.log.entries import NewMessage
from roocontext.log.readings import read_message, text_of
from roocontext.store.given import AnyStore, GivenStore, OverStore

with framework("google-adk", works=">=2.13,<3", extra="google-adk"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event, EventActions
    from google.adk.sessions import BaseSessionService, Session, State
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from google.genai.types import Content


class RooContextSessionService(OverStore, BaseSessionService):
    """ADK's sessions in a store.

    Pass an open store, which the caller closes, or a `db_url`, which is opened by the first call or
    by `prepare_tables`.
    """

    def __init__(self, store: AnyStore | None = None, *, db_url: str | None = None) -> None:
        place = db_url if store is None else store
        if place is None or (store is not None and db_url is not None):
            raise InvalidOption("Give either a store or a db_url.", name="store")
        self._given = GivenStore(place)
        # Parallel branches append to one Session object, one after the other. Other threads, such
        # as those of `Runner.run`, have event loops and objects of their own.
        self._locks: WeakValueDictionary[tuple[Any, ...], asyncio.Lock] = WeakValueDictionary()

    async def prepare_tables(self) -> None:
        """Open the store now, and create or upgrade its schema, as the first call does."""
        await self._given.run(lambda _: None)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Begin a session. Raises AlreadyExistsError if there is one."""
        key = ConversationKey(app_name, user_id, (session_id or "").strip() or uuid4().hex)
        # As an event, so that it is serialized as ADK serializes the later changes.
        lasting = {k: v for k, v in (state or {}).items() if not k.startswith(State.TEMP_PREFIX)}
        begun = _dumped(Event(author="user", actions=EventActions(state_delta=lasting)))
        delta = begun["actions"]["state_delta"]
        try:
            conversation = await self._given.run(
                lambda store: log.create_conversation(store, key, delta, at=time.time())
            )
        except DuplicateMessage:
            raise AlreadyExistsError(f"Session with id {key.name} already exists.") from None
        return _session(conversation)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Read a session with its events, including rewound and compacted ones, as ADK expects."""
        key = ConversationKey(app_name, user_id, (session_id or "").strip())
        last = config.num_recent_events if config else None
        since = config.after_timestamp if config else None
        conversation = await self._given.run(
            lambda store: log.read_conversation(
                store, key, Event.model_validate, last=last, since=since
            )
        )
        return None if conversation is None else _session(conversation)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """List the sessions of an app, or of one of its users, the oldest update first."""
        conversations = await self._given.run(
            lambda store: log.list_conversations(store, app_name, user_id)
        )
        sessions = sorted(
            map(_session, conversations),
            key=lambda one: (one.last_update_time, one.user_id, one.id),
        )
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Hide a session. Its id can be used again, and `Store.purge` destroys it."""
        key = ConversationKey(app_name, user_id, (session_id or "").strip())
        await self._given.run(lambda store: log.delete(store, key))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Read the state of a user, by keys without `user:`."""
        key = ConversationKey(app_name, user_id, "")
        return await self._given.run(lambda store: shared_state(store, key.scope_id(USER)))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event in one transaction.

        An event that already is the last one is not appended again. Raises StaleSessionError if
        another writer has appended since the session was read.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        key = ConversationKey(session.app_name, session.user_id, session.id)
        lock = self._locks.setdefault((key, asyncio.get_running_loop()), asyncio.Lock())
        async with lock:
            new = _new_event(session, event)
            appended: list[tuple[ConversationVersion, bool]] = []
            try:
                await self._given.run(
                    lambda store: appended.append(log.append_event(store, key, new))
                )
            except SessionNotFound as error:
                if error.session_id != key.session_id:  # the shared state, which was purged
                    raise
                raise SessionNotFoundError(f"Session {session.id} not found.") from None
            except log.Stale:
                raise StaleSessionError(
                    f"Session {session.id} has events that were appended since it was read."
                    " Read it again before you append more."
                ) from None
            finally:
                # A cancellation is raised after the event was stored, and ADK then appends others.
                for revision, is_new in appended:
                    session.last_update_time = event.timestamp
                    session._storage_update_marker = _marker(revision)  # noqa: SLF001 - where ADK keeps it
                    if is_new or event not in session.events:
                        self._commit_event_to_session(session, event)
            return event


def _session(conversation: log.StoredConversation) -> Session:
    key, state = conversation.key, dict(conversation.state[""])
    for scope in (APP, USER):
        state |= {f"{scope}{name}": value for name, value in conversation.state[scope].items()}
    session = Session(
        id=key.name,
        app_name=key.app,
        user_id=key.user,
        state=state,
        events=conversation.events,
        last_update_time=conversation.updated,
    )
    session._storage_update_marker = _marker(conversation.revision)  # noqa: SLF001 - where ADK keeps it
    return session


def _marker(revision: ConversationVersion) -> str:
    return f"{revision.epoch}.{revision.events}"


def _revision(session: Session) -> ConversationVersion | None:
    """The version that was read; None of a session that another service or the caller made."""
    marker = session._storage_update_marker  # noqa: SLF001 - where ADK keeps it
    epoch, _, events = (marker or "").partition(".")
    if not (epoch.isdecimal() and events.isdecimal()):
        return None
    return ConversationVersion(int(epoch), int(events))


def _new_event(session: Session, event: Event) -> log.NewEvent:
    compaction = event.actions.compaction
    raw = _dumped(event)
    message = _message(event.content, event)
    if message is not None:
        del raw["content"]
    return log.NewEvent(
        raw,
        message,
        read=_revision(session),
        after=session.events[-1].id if session.events else None,
        covers=(compaction.start_timestamp, compaction.end_timestamp) if compaction else None,
        summary=_summary(compaction.compacted_content) if compaction else None,
        rewinds=event.actions.rewind_before_invocation_id,
    )


def _summary(content: Content | None) -> NewMessage | None:
    """The content as a summary; None if it has no text."""
    message = _message(content, None)
    if message is None:
        return None
    _, blocks = read_message(message)
    return message if text_of(blocks).strip() else None


def _message(content: Content | None, event: Event | None) -> NewMessage | None:
    """The content as a message, with what the event says of it; None if it is no message."""
    if content is None:
        return None
    dumped = content.model_dump(mode="json", exclude_none=True, by_alias=True)
    message = content_message(dumped, "user" if event and event.author == "user" else "model")
    if message is None or event is None:
        return message
    usage = event.usage_metadata
    return with_fields(
        message,
        ts=round(event.timestamp * 1000),
        message_id=storable(event.id),
        model=storable_model(event.model_version),
        usage=usage and usage.model_dump(mode="json", exclude_none=True, by_alias=True),
    )


def _dumped(event: Event) -> dict[str, Any]:
    """The event as ADK's own services store it, if that keeps its numbers and keys."""
    with serializing(event, "event"):
        check_json(event.model_dump(exclude_none=True), "event")
        return event.model_dump(mode="json", exclude_none=True)
