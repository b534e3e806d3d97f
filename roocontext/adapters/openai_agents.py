"""The `Session` of the OpenAI Agents SDK, over a store.

Runs of items become messages in the format `openai-responses`: what the model gives in one step is
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
from roocontext.log.readings import REDACTED, reader
from roocontext.log.readings.openai_responses import OUTPUTS, type_of
from roocontext.store.aio import AsyncStore
from roocontext.store.session import Session
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
        self._found: Session | None = None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items that the model sees: all of them, or the latest."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await self._store.run(lambda store: _read(self._chat(store), wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items in one transaction."""
        given = cast("list[Any]", items)
        if given:
            await self._store.run(lambda store: _add(self._opened(store), given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Rewind to before the newest item, and return it.

        Summaries, markers and clearings that were written behind it are written again.
        """
        return await self._store.run(lambda store: _pop(self._chat(store)))

    async def clear_session(self) -> None:
        """Rewind to the start of the session."""
        await self._store.run(lambda store: _clear(self._chat(store)))

    def _chat(self, store: Store) -> Session | None:
        """The session if it exists. It is looked for until then, and never again."""
        if self._found is None:
            with suppress(SessionNotFound):
                self._found = store.session(self.session_id)
        return self._found

    def _opened(self, store: Store) -> Session:
        self._found = self._chat(store) or store.open_session(self.session_id)
        return self._found


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


def _read(chat: Session | None, limit: int | None) -> list[TResponseInputItem]:
    if chat is None or limit == 0:
        return []
    if limit is None or limit < 0:  # a negative one is no limit, as in the SDK's own sessions
        return _items(chat.view().messages)
    return _items(chat.view(last=limit).messages)[-limit:]


def _add(chat: Session, items: Sequence[Any]) -> None:
    new = _messages(map(_object, items))
    try:
        if len(new) == 1:  # in a single statement
            (one,) = new
            chat.append(one.role, one.content, format=one.format)
        else:
            chat.append_many(new)
    except InvalidMessage:  # rarely: so the items are checked by themselves only now
        chat.append_many(_messages(map(_storable, items)))


def _pop(chat: Session | None) -> TResponseInputItem | None:
    if chat is None:
        return None
    while True:
        view = chat.view(last=1)
        if not view.messages:
            return None
        *kept, popped = _items(view.messages)
        try:
            take_back(chat, view, instead=_messages(map(_storable, kept)), trigger="pop_item")
        except VersionConflict:  # somebody wrote in the meantime
            continue
        return popped


def _clear(chat: Session | None) -> None:
    if chat is not None:
        chat.rewind(0, trigger="clear_session")


def _messages(items: Iterable[dict[str, Any]]) -> list[NewMessage]:
    """Gather items: what the model gives in one step is a message, and so are the outputs."""
    messages: list[NewMessage] = []
    run: list[dict[str, Any]] = []
    for item in items:
        kind, role = type_of(item), _role(item)
        if kind == "message" and role != "assistant":
            messages.append(NewMessage(role, item, FORMAT))
            run = []
        elif run and messages[-1].role == role:
            run.append(item)
        else:
            run = [item]
            messages.append(NewMessage(role, run, FORMAT))
    return messages


def _role(item: dict[str, Any]) -> str:
    kind = type_of(item)
    if kind == "message":
        return str(item.get("role"))
    is_answer = kind in OUTPUTS or kind == "mcp_approval_response"
    return "user" if is_answer and item.get("execution") != "server" else "assistant"


def _object(item: Any) -> dict[str, Any]:
    """The item, or one that holds it if it is no object, or could be taken for such a one."""
    if isinstance(item, dict) and item.get("type") != RAW:
        return item
    return {"type": RAW, "item": item}


def _storable(item: Any) -> dict[str, Any]:
    """The item, or one that holds it if the format has no such items."""
    shown = _object(item)
    try:
        reader(FORMAT).check(_role(shown), shown)
    except InvalidMessage:
        return {"type": RAW, "item": item}
    return shown


def _items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    """The items of messages; those of other formats are converted."""
    items: list[Any] = []
    for own, run in groupby(messages, key=_is_own):
        if own:
            for message in run:
                content = message.content
                items += content if isinstance(content, list) else [content]
        else:
            items += forms[FORMAT].compose(list(run)).messages
    gone = {"role": "assistant", "content": REDACTED}  # where the item that is held was redacted
    return [item.get("item", gone) if item.get("type") == RAW else item for item in items]


def _is_own(message: Message) -> bool:
    return message.format == FORMAT
