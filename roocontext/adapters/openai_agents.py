"""The `Session` of the OpenAI Agents SDK, over a store.

Runs of items become messages in the format `openai-responses`: what the model said in one step is
one message, and so are the outputs that answer it. The items come back as they were given.

`pop_item` and `clear_session` are rewinds: what they take away stays in the log.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, cast

from roocontext.adapters.frameworks import framework
from roocontext.adapters.replay import take_back
from roocontext.context.manager import AsyncContextManager, ContextManager
from roocontext.errors import InvalidMessage, SessionNotFound, VersionConflict
from roocontext.log.entries import Message, NewMessage
from roocontext.log.forms import forms
from roocontext.log.readings import reader
from roocontext.log.readings.openai_responses import OUTPUTS, items_of, type_of
from roocontext.store.aio import AsyncStore
from roocontext.store.store import Store

with framework("openai-agents", works=">=0.24,<0.25", extra="openai-agents"):
    from agents import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

FORMAT: Final = "openai-responses"
RAW: Final = "roocontext.item"
"""The type of an item that holds what the format cannot hold, as it was given."""


class RooContextSession:
    """A conversation of the Agents SDK in the session of this id.

    The session is created with the first items.
    """

    def __init__(
        self,
        session_id: str,
        store: AsyncStore,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or SessionSettings()
        )
        self._store = store

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items that the model sees: all of them, or the latest."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await self._store.run(lambda store: _read(store, self.session_id, wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items in one transaction."""
        given = cast("list[Any]", items)
        if given:
            new = _messages(given)
            await self._store.run(
                lambda store: store.open_session(self.session_id).append_many(new)
            )

    async def pop_item(self) -> TResponseInputItem | None:
        """Rewind to before the newest item, and return it.

        Summaries, markers and clearings that were written behind it are written again.
        """
        return await self._store.run(lambda store: _pop(store, self.session_id))

    async def clear_session(self) -> None:
        """Rewind to the start of the session."""
        await self._store.run(lambda store: _clear(store, self.session_id))


class CompactingSession(RooContextSession):
    """A conversation that a context manager keeps within what the model holds.

    The SDK asks for it behind each step of the model. `get_items` then gives the condensed view,
    and the full history stays in the log.
    """

    def __init__(
        self,
        session_id: str,
        store: AsyncStore,
        manager: ContextManager | AsyncContextManager,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, store, session_settings=session_settings)
        self._manager = manager

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Let the manager condense what it must, or with `force` condense now."""
        force = bool(args and args.get("force"))
        try:
            if isinstance(self._manager, ContextManager):
                plain = self._manager.condense if force else self._manager.manage
                await self._store.run(lambda store: plain(store.session(self.session_id)))
            else:
                run = self._manager.condense if force else self._manager.manage
                await run(await self._store.session(self.session_id))
        except SessionNotFound:
            return


def _read(store: Store, session_id: str, limit: int | None) -> list[TResponseInputItem]:
    try:
        session = store.session(session_id)
    except SessionNotFound:
        return []
    if limit == 0:
        return []
    if limit is None or limit < 0:  # a negative one is no limit, as in the SDK's own sessions
        return _items(session.view().messages)
    return _items(session.view(last=limit).messages)[-limit:]


def _pop(store: Store, session_id: str) -> TResponseInputItem | None:
    try:
        session = store.session(session_id)
    except SessionNotFound:
        return None
    while True:
        view = session.view(last=1)
        if not view.messages:
            return None
        *kept, popped = _items(view.messages)
        try:
            take_back(session, view, instead=_messages(kept), trigger="pop_item")
        except VersionConflict:  # somebody wrote in the meantime
            continue
        return popped


def _clear(store: Store, session_id: str) -> None:
    with suppress(SessionNotFound):
        store.session(session_id).rewind(0, trigger="clear_session")


def _messages(items: Iterable[Any]) -> list[NewMessage]:
    """Gather items: what the model said in one step is a message, and so are the outputs."""
    messages = []
    gathered = groupby(enumerate(map(_stored, items)), key=lambda one: _place(*one))
    for (role, alone), run in gathered:
        content = [item for _, item in run]
        messages.append(NewMessage(role, content[0] if alone else content, FORMAT))
    return messages


def _place(number: int, item: dict[str, Any]) -> tuple[str, int]:
    """The role of an item, and its number from 1 if it is a message of its own."""
    role = _role(item)
    alone = type_of(item) == "message" and role != "assistant"
    return role, number + 1 if alone else 0


def _role(item: dict[str, Any]) -> str:
    kind = type_of(item)
    if kind == "message":
        return str(item.get("role"))
    is_answer = kind in OUTPUTS or kind == "mcp_approval_response"
    return "user" if is_answer and item.get("execution") != "server" else "assistant"


def _stored(item: Any) -> dict[str, Any]:
    """The item, or one that holds it if the format has no such items."""
    if isinstance(item, dict) and type_of(item) != RAW:
        with suppress(InvalidMessage):
            reader(FORMAT).check(_role(item), item)
            return item
    return {"type": RAW, "item": item}


def _items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    """The items of messages; those of other formats are converted."""
    items: list[Any] = []
    for is_own, run in groupby(messages, key=lambda message: message.format == FORMAT):
        if is_own:
            items += [item for message in run for item in items_of(message.content)]
        else:
            items += forms[FORMAT].compose(list(run)).messages
    return [item["item"] if item.get("type") == RAW else item for item in items]
