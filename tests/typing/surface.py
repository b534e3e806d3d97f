"""The public types, as a type checker sees them. Never run; `make check` reads it."""

from typing import Any, assert_type

from roocontext import AsyncStore, Head, Message, Plan, Store, View
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
