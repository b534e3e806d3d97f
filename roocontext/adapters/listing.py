"""The sessions of a framework, which are found by their metadata."""

from collections.abc import Iterator, Mapping
from typing import Any

from roocontext.store.sessions import SessionInfo
from roocontext.store.store import Store


def pages(
    store: Store, where: Mapping[str, str], *, size: int = 1000, parent: str | None = None
) -> Iterator[list[SessionInfo]]:
    """All sessions whose metadata has these values, the one updated last first, page by page.

    A fork of such a session has its metadata too: compare the ids if that matters.
    """
    last: SessionInfo | None = None
    asked: dict[str, Any] = {"parent": parent, "where": where, "recorded": True}
    while page := store.sessions(limit=size, before=last, **asked):
        yield page
        last = page[-1]
