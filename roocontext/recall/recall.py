"""Answers the calls of the recall tools: for Session, and for AsyncSession."""

from collections.abc import Mapping
from typing import Any

from roocontext.context.steps import drive, drive_async
from roocontext.errors import InvalidOption
from roocontext.log.counting import Counter
from roocontext.log.turns import PendingCall
from roocontext.recall.answers import Recalled
from roocontext.recall.runs import RecallRuns
from roocontext.store.aio import AsyncSession, AsyncStore
from roocontext.store.append import Receipt
from roocontext.store.session import Session
from roocontext.store.store import Store


class Recall(RecallRuns):
    """The recall tools of one session. `budget` is the most tokens that an answer quotes."""

    def __init__(
        self,
        store: Store,
        chat: Session,
        *,
        budget: int = 2_000,
        counter: Counter | str | None = None,
    ) -> None:
        if not isinstance(store, Store) or not isinstance(chat, Session):
            raise InvalidOption("Recall takes a Store and a Session.", name="chat")
        super().__init__(store, chat, budget=budget, counter=counter)

    def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """The answer to a call, for a loop that stores it itself, with its `extra`."""
        return drive(self._handled(name, given))

    def answer(self, call: PendingCall) -> Receipt | None:
        """Answer one of `pending()` and return the receipt; None if it is of another tool."""
        return drive(self._answered(call))


class AsyncRecall(RecallRuns):
    """The same for AsyncSession."""

    def __init__(
        self,
        store: AsyncStore,
        chat: AsyncSession,
        *,
        budget: int = 2_000,
        counter: Counter | str | None = None,
    ) -> None:
        if not isinstance(store, AsyncStore) or not isinstance(chat, AsyncSession):
            raise InvalidOption("AsyncRecall takes an AsyncStore and an AsyncSession.", name="chat")
        super().__init__(store, chat, budget=budget, counter=counter)

    async def handle(self, name: str, given: Mapping[str, Any]) -> Recalled:
        """See Recall.handle."""
        return await drive_async(self._handled(name, given))

    async def answer(self, call: PendingCall) -> Receipt | None:
        """See Recall.answer."""
        return await drive_async(self._answered(call))
