"""The `Session` of the OpenAI Agents SDK, over a store.

`pop_item` and `clear_session` are rewinds: the items that they remove stay in the log.

Runs of items become messages in the format `openai-responses`: the items that the model returns in
one step are one message, and so are the outputs that answer it. The items come back unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import dropwhile, groupby
from typing import Any, Final, NamedTuple, Self, cast

from roocontext.adapters.serializing import framework
from roocontext.adapters.take_back import take_back
from roocontext.context.manager import AsyncContextManager, ContextManager
from roocontext.errors import InvalidMessage, SessionNotFound, VersionConflict
from roocontext.formats.response_items import RAW, as_object, role_of_item, storable_item
from roocontext.log.compactions import newest_compaction
from roocontext.log.entries import Kind, Message, NewMessage, View
from roocontext.log.forms import forms
from roocontext.log.readings import REDACTED
from roocontext.log.readings.openai_responses import type_of
from roocontext.store.given import AnyStore, GivenStore, OverStore
from roocontext.store.session import Session
from roocontext.store.store import Store
from roocontext.store.writing.items import CompactedReply, Item, Rewind

with framework("openai-agents", works=">=0.24,<0.25", extra="openai-agents"):
    from agents import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.memory.session import _CompactionSnapshot
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

FORMAT: Final = "openai-responses"
_TRIGGER: Final = "run_compaction"


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
        **options: Any,
    ) -> Self:
        """A conversation in the database of a URL, like `SQLAlchemySession.from_url`.

        The `options` are the arguments that a subclass adds.
        """
        return cls(session_id, url, session_settings=session_settings, **options)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items that the model sees: all of them, or the latest."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await self._given.run(lambda store: _read(self._chat(store), wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items in one transaction."""
        if new := [*items]:  # some callers pass an iterator
            await self._given.run(lambda store: _add(self._opened(store), new))

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
            if shown is None:
                return False
            replace = partial(shown.replace, begin + start, output, prune_prefix)
            return await self._given.run(lambda _: replace())

        return _CompactionSnapshot(items[begin:], begin == 0, replace_suffix)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace all items that are shown by these; False if nothing was changed."""
        if type(self) is not RooContextSession:
            return False

        def replaced(store: Store) -> bool:
            shown = self._shown(store)
            return shown is not None and shown.replace(0, items)

        return await self._given.run(replaced)

    def _shown(self, store: Store) -> "ShownItems | None":
        chat = self._chat(store)
        return None if chat is None else ShownItems.of(chat)

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
    messages = chat.view(last=limit).messages
    if not all(map(_has_items, messages)):
        messages = chat.view().messages
    return to_items(messages)[-limit:]


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
        view, count = chat.view(last=1), 1
        items = to_items(view.messages)
        if not all(map(_has_items, view.messages)):
            view = chat.view()
            count, items = _newest_items(view.messages)
        if not items:
            return None
        *kept, popped = cast("list[TResponseInputItem]", items)
        instead = to_messages(map(storable_item, kept))
        try:
            take_back(chat, view, count=count, instead=instead, trigger="pop_item")
        except VersionConflict:  # another writer was first
            continue
        return popped


def _has_items(message: Message) -> bool:
    """True if the message holds items itself. Those of others depend on the messages around it."""
    return message.format == FORMAT and message.content != []


def _newest_items(messages: Sequence[Message]) -> tuple[int, list[Any]]:
    """The fewest of the newest messages that hold items, how many they are, and their items."""
    items = to_items(messages)
    for count in range(1, len(messages) + 1):
        before = to_items(messages[:-count])
        if len(before) < len(items) and before == items[: len(before)]:
            return count, items[len(before) :]
    return 0, []


def _clear(chat: Session | None) -> None:
    if chat is not None:
        chat.rewind(0, trigger="clear_session")


def to_messages(items: Iterable[dict[str, Any]]) -> list[NewMessage]:
    """Group items: those of one step of the model are a message, and so are the outputs."""
    messages: list[NewMessage] = []
    run: list[dict[str, Any]] = []
    for item in items:
        kind, role = type_of(item), role_of_item(item)
        if kind == "message" and role != "assistant":
            messages.append(NewMessage(role, item, FORMAT))
            run = []
        elif run and messages[-1].role == role:
            run.append(item)
        else:
            run = [item]
            messages.append(NewMessage(role, run, FORMAT))
    return messages


def to_items(messages: Sequence[Message]) -> list[Any]:
    """The items of messages; those of other formats are converted."""
    return [item for block in _blocks(messages) for item in block.items]


class _Block(NamedTuple):
    """Items, and the number of messages that they come from."""

    messages: int
    items: list[Any]


def _blocks(messages: Sequence[Message]) -> Iterator[_Block]:
    for own, run in groupby(messages, key=lambda message: message.format == FORMAT):
        if own:
            for message in run:
                content = message.content
                items = content if isinstance(content, list) else [content]
                yield _Block(1, [*map(_given, items)])
        else:
            others = list(run)
            composed = forms[FORMAT].compose(others).messages
            yield _Block(len(others), [*map(_given, composed)])


def _given(item: Any) -> Any:
    """The item without its wrapping; a fixed one if the wrapped item was redacted."""
    if item.get("type") != RAW:
        return item
    return item.get("item", {"role": "assistant", "content": REDACTED})


class ShownItems(NamedTuple):
    """All items that a session shows, and the view that holds them."""

    chat: Session
    view: View
    items: list[Any]

    @classmethod
    def of(cls, chat: Session) -> "ShownItems":
        """The items of a session now."""
        view = chat.view()
        return cls(chat, view, to_items(view.messages))

    def replace(
        self, start: int, output: Sequence[Any], prune: Callable[[Any], bool] | None = None
    ) -> bool:
        """Replace the items from `start` on by others.

        If these hold a compaction, it covers the messages. Otherwise, or if a message is only
        replaced in part, the session is rewound. The oldest items before them are removed as long
        as `prune` accepts them, and the rest is written again. False if nothing was written: the
        session has changed since, there is no such item, or one of them is a summary or a
        compaction that also stands for other items.
        """
        if start >= len(self.items):
            return False
        before = self.items[:start]
        stays = [*dropwhile(prune, before)] if prune else before
        count, together = self._from(start)
        head, shown = self.view.head_seq, self.view.messages
        compaction = newest_compaction(FORMAT, list(output))
        try:
            if compaction is not None and not together and len(stays) == start:
                hides = tuple(message.seq for message in shown[-count:])
                items = _covering(output, compaction.block, hides)
                self.chat.write_batch(items, expected_seq=head)
            elif count == len(shown) or len(stays) < start:
                new = to_messages(map(storable_item, [*stays, *output]))
                self.chat.write_batch([Rewind(0, head, _TRIGGER), *new], expected_seq=head)
            elif all(
                message.kind is Kind.MESSAGE and message.compacted is None
                for message in shown[-count:]
            ):
                new = to_messages(map(storable_item, [*together, *output]))
                take_back(self.chat, self.view, count=count, instead=new, trigger=_TRIGGER)
            else:
                return False
        except VersionConflict:
            return False
        return True

    def _from(self, start: int) -> tuple[int, list[Any]]:
        """The number of messages that hold the items from `start` on, and of items before it."""
        blocks = [*_blocks(self.view.messages)]
        while start >= len(blocks[0].items):
            start -= len(blocks.pop(0).items)
        return sum(block.messages for block in blocks), blocks[0].items[:start]


def _covering(output: Sequence[Any], at: int, hides: tuple[int, ...]) -> list[Item]:
    """The compaction among these items with what the provider kept, and the messages after it."""
    compaction = NewMessage("assistant", [output[at]], FORMAT)
    kept = to_messages(map(storable_item, output[:at]))
    reply = CompactedReply(compaction, tuple(kept), hides, _TRIGGER)
    return [reply, *to_messages(map(storable_item, output[at + 1 :]))]
