"""The public types, as a type checker sees them. Never run; `make check` reads it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, assert_type

from roocontext import (
    AsyncContextManager,
    AsyncSession,
    AsyncStore,
    ContextManager,
    Head,
    Message,
    NewMessage,
    Note,
    Outcome,
    Page,
    PendingCall,
    Plan,
    Rewind,
    Session,
    SessionInfo,
    SetTitle,
    Store,
    View,
)
from roocontext.context import Status
from roocontext.log.counting import ReportedUsage, UsageGroup
from roocontext.log.plan import Committed
from roocontext.recall import AsyncRecall, Recall, Recalled
from roocontext.store.reading.live import LiveMessage
from roocontext.store.search.hits import HitPage
from roocontext.store.writing.append import Receipt
from roocontext.store.writing.batch import Written
from roocontext.store.writing.rewind import Rewound
from roocontext.testing import Report, SessionStore, examine


def sync() -> None:
    with Store.open(":memory:") as store:
        chat = store.create(title="typed")
        assert_type(chat.append("user", "hello"), Receipt)
        assert_type(chat.waits_for(), Literal["user", "tools", "model"])
        assert_type(chat.pending(), list[PendingCall])
        assert_type(chat.answer(chat.pending()[0], "done", is_error=True), Receipt)
        assert_type(chat.view(), View)
        assert_type(chat.view().messages, tuple[Message, ...])
        assert_type(chat.messages(), list[dict[str, Any]])
        assert_type(chat.commit(Plan.condense(chat.view(), [1], "summary")), Committed)
        assert_type(chat.rewind(to=1), Rewound)
        assert_type(chat.head(), Head)
        assert_type(chat.write_batch([SetTitle("typed"), Rewind(1)], expected_seq=1), list[Written])
        assert_type(chat.newest_note("remark"), Note | None)
        assert_type(store.open_session("typed", parent=chat.id), Session)
        assert_type(chat.parent, str | None)
        assert_type(store.search("typed", role="tool", among="hidden"), HitPage)
        assert_type(store.index(), int)
        assert_type(store.usage(limit=3), Page[ReportedUsage])
        assert_type(store.usage(by="day", zone=None), list[UsageGroup])
        assert_type(chat.children(), Page[SessionInfo])


async def with_asyncio() -> None:
    async with await AsyncStore.open(":memory:") as store:
        assert_type(await store.sessions(limit=3), Page[SessionInfo])
        assert_type(await store.search("typed", order="newest"), HitPage)
        chat = await store.create()
        assert_type(chat, AsyncSession)
        assert_type(await chat.fork(), AsyncSession)
        assert_type(await store.open_session("typed", parent=chat.id), AsyncSession)
        assert_type(chat.parent, str | None)
        assert_type(await chat.children(), Page[SessionInfo])
        assert_type(await chat.append("user", "hello", client_id="one"), Receipt)
        assert_type(await chat.waits_for(), Literal["user", "tools", "model"])
        assert_type(await chat.begin((await chat.pending())[0]), Receipt)
        assert_type(await chat.view(as_of=1), View)
        assert_type(await chat.rewind(to=1), Rewound)
        assert_type(await chat.rebuild(), int)
        async for page in chat.internals.pages():
            assert_type(page, View)


class AsAnnounced(Protocol):
    """Some of AsyncSession, written out: the wrapper must keep parameters and results."""

    async def append_many(
        self,
        messages: Iterable[NewMessage | Mapping[str, Any]],
        *,
        expected_seq: int | None = None,
    ) -> list[Receipt]: ...

    async def commit(self, plan: Plan, *, dry_run: bool = False) -> Committed: ...

    async def head_seq(self) -> int: ...


async def wrong_calls_are_refused(chat: AsyncSession) -> None:
    """Each `type: ignore` is an error of its own if the checker finds nothing to ignore."""
    announced: AsAnnounced = chat
    await announced.head_seq()
    await chat.append("user")  # type: ignore[call-arg] # no content
    await chat.append("user", "hello", clientid="one")  # type: ignore[call-arg] # unknown name
    await chat.append(1, "hello")  # type: ignore[arg-type] # a role is a string
    await chat.commit("plan")  # type: ignore[arg-type] # no plan
    await chat.view(5)  # type: ignore[call-arg] # by name only
    _ = chat.view().messages  # type: ignore[attr-defined] # not awaited


def managed() -> None:
    with Store.open(":memory:") as store:
        chat = store.create()
        context = ContextManager("gpt-4o", policy="hybrid", limit=1_000, protected_tools=["run"])
        assert_type(context.manage(chat, system="Be brief."), Outcome)
        assert_type(context.will_manage(chat), bool)
        assert_type(context.preview(chat, "condense").status, Status)
        assert_type(chat.internals.live(), list[LiveMessage])


async def managed_with_asyncio() -> None:
    async with await AsyncStore.open(":memory:") as store:
        context = AsyncContextManager("gpt-4o")
        assert_type(await context.manage(await store.create()), Outcome)


def recalled() -> None:
    with Store.open(":memory:") as store:
        chat = store.create()
        recall = Recall(store, chat)
        assert_type(recall.handle("search_history", {"query": "port"}), Recalled)
        assert_type(recall.answer(chat.pending()[0]), Receipt | None)


async def recalled_with_asyncio() -> None:
    async with await AsyncStore.open(":memory:") as store:
        recall = AsyncRecall(store, await store.create())
        assert_type(await recall.handle("read_history", {"first": 1}), Recalled)


def examined(driver: SessionStore) -> None:
    assert_type(examine(lambda _: driver, ":memory:"), Report)
    assert_type(examine("my_package.my_driver:MyStore"), Report)
