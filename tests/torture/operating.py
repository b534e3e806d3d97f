"""One operation on a session that has everything: the same rows each time it is carried out."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from roocontext import NewMessage, Plan, Session, Store
from support.dialogue import WORDS, call, fill, text, work
from support.steady_sources import CountedIds, SetClock

LATER = 2_000_000_000_000
MAIN = "main"
CALL = (14, 0)
"""The call that waits in the session, which is answered once however often it is tried."""
REPLY = {
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "done"}],
    "id": "msg_1",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 2},
}


def prepare(url: str) -> None:
    """Make the session that the operations find, with a fork and a sub-agent's session."""
    with Store.open(url) as store:
        chat = store.create(MAIN)
        fill(chat, 8)
        work(chat)
        chat.commit(Plan.condense(chat.view(), range(3, 7), "what was said before"))
        chat.append("user", "and then?")
        chat.rewind(chat.head_seq() - 1)
        chat.fork(8, session_id="copy")
        store.create("sub", parent=MAIN).append("user", "look it up")
        chat.append("assistant", [text("let me see"), call("open")])


def _condense(_: Store, chat: Session) -> object:
    view = chat.view()
    companion = NewMessage("assistant", "noted")
    hidden = [message.seq for message in view.messages[1:4]]
    return chat.commit(Plan.condense(view, hidden, "a summary", companions=[companion]))


def _append_many(_: Store, chat: Session) -> object:
    said = [NewMessage("user", f"{number} {WORDS}", client_id=f"{number}") for number in range(20)]
    return chat.append_many(said)


OPERATIONS: dict[str, Callable[[Store, Session], object]] = {
    "nothing": lambda _, chat: chat,
    "append": lambda _, chat: chat.append("user", "late", client_id="late"),
    "append_many": _append_many,
    "record": lambda _, chat: chat.record(REPLY),
    "begin": lambda _, chat: chat.begin(chat.pending()[0]),
    "answer": lambda _, chat: chat.answer(CALL, "three files"),
    "condense": _condense,
    "truncate": lambda _, chat: chat.commit(Plan.truncate(chat.view(), [1, 2], "[left out]")),
    "clear": lambda _, chat: chat.commit(Plan.clear(chat.view(), [(10, 0)])),
    "rewind": lambda _, chat: chat.rewind(5),
    "undo": lambda _, chat: chat.undo(force=True),
    "uncover": lambda _, chat: chat.uncover(11),
    "note": lambda _, chat: chat.note("remark", {"by": "hand"}, client_id="remark"),
    "title": lambda _, chat: chat.set_title("renamed", client_id="title"),
    "metadata": lambda _, chat: chat.set_metadata({"branch": "main"}, client_id="metadata"),
    "pin": lambda _, chat: chat.pin(2, client_id="pin"),
    "create": lambda store, _: store.create("new", title="new", metadata={"branch": "main"}),
    "fork": lambda _, chat: chat.fork(9, session_id="new"),
    "redact": lambda _, chat: chat.redact(2),
    "archive": lambda store, _: store.archive(session=MAIN, put=lambda *_: None),
    "purge": lambda store, _: store.purge(MAIN),
    "rebuild": lambda _, chat: chat.rebuild(),
    "index": lambda store, _: store.index(anew=True),
}
REPEATABLE = ("append", "append_many", "answer", "note", "title", "metadata", "pin", "redact")
"""Operations that are harmless when they are repeated, whether they had happened or not."""


def operate(child: Any, url: str, operation: str, statement: int | None = None) -> None:
    """Carry out an operation; on SQLite, die right before its statement of that number."""
    watch = _Watch()
    sys.addaudithook(watch.hear)
    child.start()
    with Store.open(url, clock=SetClock(LATER), ids=CountedIds()) as store:
        chat = store.session(MAIN)
        if statement is not None:
            watch.arm(statement)
        OPERATIONS[operation](store, chat)
        child.tell(op=operation)


class _Watch:
    """Hears of each SQLite connection of the process, and ends the process at one statement."""

    def __init__(self) -> None:
        self._connections: list[Any] = []
        self._last = 0
        self._numbers = count(1)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect/handle":
            self._connections.append(arguments[0])
            self._trace()

    def arm(self, last: int) -> None:
        self._last = last
        self._trace()

    def _trace(self) -> None:
        if self._last:
            for connection in self._connections:
                connection.set_trace_callback(self._count)

    def _count(self, _: str) -> None:
        if next(self._numbers) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
