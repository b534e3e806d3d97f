"""The messages sent to a provider are of one moment, although most models need the view alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext import Plan
from roocontext.log.counting import is_bound_to_prefix
from roocontext.store.loop import request
from support.dialogue import fill

BINDING = "claude-fable-5-1"

WRITES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda _: None,
    "a message": lambda chat: chat.append("user", "meanwhile"),
    "a redaction": lambda chat: chat.redact(2),
    "a rewind": lambda chat: chat.rewind(3),
    "a summary": lambda chat: chat.commit(Plan.condense(chat.view(), [1, 2], "in short")),
}


@pytest.fixture
def room(engine: str, opened: Callable[..., Any]) -> Iterator[Any]:
    """A store that may be used during one of its own calls."""
    with opened(engine, "sync") as lab:
        yield lab


def test_messages_read_during_a_write_are_of_one_moment(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, write in WRITES.items():
        chat = room.store.create()
        fill(chat, 6)
        writes = iter([write])

        def meanwhile(model: str | None, chat: Any = chat, writes: Any = writes) -> bool:
            for write in writes:  # once, after the view that was read first
                write(chat)
            return is_bound_to_prefix(model)

        monkeypatch.setattr(request, "is_bound_to_prefix", meanwhile)
        sent = chat.messages(model=BINDING)
        assert sent == chat.messages(model=BINDING), name
        monkeypatch.undo()
