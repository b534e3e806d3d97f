"""The `Session` of the OpenAI Agents SDK, over a store.

`pop_item` and `clear_session` are rewinds: the items that they remove stay in the log.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from roocontext.adapters.openai_agents_items import (
    ShownItems,
    to_items,
    to_messages,
)
from roocontext.adapters.serializing import framework
from roocontext.adapters.take_back import take_back
from roocontext.context.manager import AsyncContextManager, ContextManager
from roocontext.errors import InvalidMessage, SessionNotFound, VersionConflict
from roocontext.formats.response_items import as_object, storable_item
from roocontext.store.given import AnyStore, GivenStore, OverStore
from roocontext.store.session import Session
from roocontext.store.store import Store

with framework("openai-agents", works=">=0.24,<0.25", extra="openai-agents"):
    from agents import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.memory.session import _CompactionSnapshot
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit


class RooContextSession(OverStore):
    """A conversation of the Agents SDK in the session of this id.

    The session is created with the first items. Pass an open store, or a URL or path, which is
    opened by the first call and closed by `close`.
    """

    def __init__(
        self,
        session_id: str,
        store: AnyStore,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or SessionSettings()
        )
        self._given = GivenStore(store)
        self._session: Session | None = None

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> "RooContextSession":
        """A conversation in the database of a URL, like `SQLAlchemySession.from_url`."""
        return RooContextSession(session_id, url, session_settings=session_settings)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items that the model sees: all of them, or the latest."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await self._given.run(lambda store: _read(self._chat(store), wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items in one transaction."""
        given = cast("list[Any]", items)
        if given:
            await self._given.run(lambda store: _add(self._opened(store), given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Rewind to before the newest item, and return it.

        Summaries, markers and clearings that were written after it are written again.
        """
        return await self._given.run(lambda store: _pop(self._chat(store)))

    async def clear_session(self) -> None:
        """Rewind to the start of the session."""
        await self._given.run(lambda store: _clear(self._chat(store)))

    # The SDK's OpenAIResponsesCompactionSession looks for these two.

    async def _get_compaction_snapshot(
        self,
        limit: int,
        *,
        prune_prefix: Callable[[TResponseInputItem], bool] | None = None,
    ) -> _CompactionSnapshot | None:
        """The latest items, and a function that replaces the last of them."""
        if type(self) is not RooContextSession:  # a subclass may give the SDK other items
            return None
        shown = await self._given.run(self._shown)
        items = shown.items if shown else []
        begin = max(len(items) - limit, 0)

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            return await self._given.run(
                lambda store: self._replace(store, shown, begin + start, output, prune_prefix)
            )

        return _CompactionSnapshot(items[begin:], begin == 0, replace_suffix)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace all items that are shown by these; False if nothing was changed."""
        if type(self) is not RooContextSession:
            return False
        return await self._given.run(
            lambda store: self._replace(store, self._shown(store), 0, items)
        )

    def _shown(self, store: Store) -> ShownItems | None:
        chat = self._chat(store)
        return None if chat is None else ShownItems.of(chat)

    def _replace(
        self,
        store: Store,
        shown: ShownItems | None,
        start: int,
        items: Sequence[Any],
        prune: Callable[[Any], bool] | None = None,
    ) -> bool:
        chat = self._chat(store)
        if chat is None or shown is None:
            return False
        return shown.replace(chat, start, items, prune=prune, trigger="run_compaction")

    def _chat(self, store: Store) -> Session | None:
        """The session if it exists. Once it was found, it is not looked up again."""
        if self._session is None:
            with suppress(SessionNotFound):
                self._session = store.session(self.session_id)
        return self._session

    def _opened(self, store: Store) -> Session:
        self._session = self._chat(store) or store.open_session(self.session_id)
        return self._session


class CompactingSession(RooContextSession):
    """A conversation that a context manager keeps within what the model holds.

    The SDK runs the compaction after each step of the model. `get_items` then returns the condensed
    view, and the full history stays in the log.
    """

    def __init__(
        self,
        session_id: str,
        store: AnyStore,
        manager: ContextManager | AsyncContextManager,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, store, session_settings=session_settings)
        self._manager = manager

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Let the manager condense if it has to, or always with `force`."""
        force = bool(args and args.get("force"))
        try:
            if isinstance(self._manager, ContextManager):
                plain = self._manager.condense if force else self._manager.manage
                await self._given.run(lambda store: plain(store.session(self.session_id)))
            else:
                run = self._manager.condense if force else self._manager.manage
                await run(await self._given.session(self.session_id))
        except SessionNotFound:
            return


def _read(chat: Session | None, limit: int | None) -> list[TResponseInputItem]:
    if chat is None or limit == 0:
        return []
    if limit is None or limit < 0:  # a negative limit is none, as in the SDK's own sessions
        return to_items(chat.view().messages)
    return to_items(chat.view(last=limit).messages)[-limit:]


def _add(chat: Session, items: Sequence[Any]) -> None:
    new = to_messages(map(as_object, items))
    try:
        if len(new) == 1:  # in a single statement
            (message,) = new
            chat.append(message.role, message.content, format=message.format)
        else:
            chat.append_many(new)
    except InvalidMessage:  # this is rare, so each item is only checked now
        chat.append_many(to_messages(map(storable_item, items)))


def _pop(chat: Session | None) -> TResponseInputItem | None:
    if chat is None:
        return None
    while True:
        view = chat.view(last=1)
        if not view.messages:
            return None
        *kept, popped = cast("list[TResponseInputItem]", to_items(view.messages))
        try:
            take_back(chat, view, instead=to_messages(map(storable_item, kept)), trigger="pop_item")
        except VersionConflict:  # another writer was first
            continue
        return popped


def _clear(chat: Session | None) -> None:
    if chat is not None:
        chat.rewind(0, trigger="clear_session")
