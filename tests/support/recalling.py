"""The recall tools of a session on both interfaces, and the calls of a model."""

from typing import Any

from roocontext import PendingCall
from roocontext.recall import AsyncRecall, Recall, Recalled
from support.async_driver import Driven


def recall_for(store: Any, chat: Any, **options: Any) -> Any:
    """The tools of a session, driven like synchronous ones."""
    if isinstance(store, Driven):
        return Driven(AsyncRecall(store.target, chat.target, **options), store._runner)
    return Recall(store, chat, **options)


def asks(chat: Any, name: str, **given: Any) -> PendingCall:
    """The model calls a tool; the call that waits."""
    call = {"type": "tool_use", "id": f"c{chat.head_seq()}", "name": name, "input": given}
    chat.append("assistant", [call])
    waiting: PendingCall = chat.pending()[-1]
    return waiting


def search(recall: Any, query: str, **given: Any) -> Recalled:
    """The answer to a search."""
    answer: Recalled = recall.handle("search_history", {"query": query, **given})
    return answer


def read(recall: Any, first: int, **given: Any) -> Recalled:
    """The answer to a read."""
    answer: Recalled = recall.handle("read_history", {"first": first, **given})
    return answer
