"""The public types, as a type checker sees them. Never run; `make check` reads it."""

from typing import Any, assert_type

from roocontext import (
    AsyncContextManager,
    AsyncStore,
    ContextManager,
    Head,
    LiveMessage,
    Message,
    Outcome,
    Plan,
    Store,
    View,
)
from roocontext.context import Status
from roocontext.store.append import Receipt
from roocontext.store.commit import Committed
from roocontext.store.rewind import Rewound


def sync() -> None:
    with Store.open(":memory:") as store:
        chat = store.create(title="typed")
        assert_type(chat.append("user", "hello"), Receipt)
        assert_type(chat.view(), View)
        assert_type(chat.view().messages, tuple[Message, ...])
        assert_type(chat.messages(), list[dict[str, Any]])
        assert_type(chat.commit(Plan.condense(chat.view(), [1], "summary")), Committed)
        assert_type(chat.rewind(to=1), Rewound)
        assert_type(chat.head(), Head)


async def with_asyncio() -> None:
    async with await AsyncStore.open(":memory:") as store:
        chat = await store.create()
        assert_type(await chat.append("user", "hello"), Receipt)
        assert_type(await chat.view(), View)
        async for page in chat.pages():
            assert_type(page, View)


def managed() -> None:
    with Store.open(":memory:") as store:
        chat = store.create()
        context = ContextManager("gpt-4o", policy="hybrid", limit=1_000, protected_tools=["run"])
        assert_type(context.manage(chat, system="Be brief."), Outcome)
        assert_type(context.will_manage(chat), bool)
        assert_type(context.preview(chat, "condense").status, Status)
        assert_type(chat.live(), list[LiveMessage])
        assert_type(chat.counts(context.settings.counter), dict[int, int])


async def managed_with_asyncio() -> None:
    async with await AsyncStore.open(":memory:") as store:
        context = AsyncContextManager("gpt-4o")
        assert_type(await context.manage(await store.create()), Outcome)
