"""Small words for what tests say again and again."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from roocontext import NewMessage
from roocontext.log.counting import Counter, counter_named
from roocontext.log.moments import EPOCH
from roocontext.store.counting.snapshot import SnapshotRows, Wanted
from roocontext.store.proof.log_lines import read_entry, read_header
from roocontext.store.writing.kept_counts import Counted

WORDS = "a word or two that take some room " * 4


def by_turns(count: int) -> list[NewMessage]:
    """Messages, user and assistant by turns."""
    return [NewMessage(("user", "assistant")[n % 2], f"message {n} {WORDS}") for n in range(count)]


def fill(chat: Any, count: int) -> list[int]:
    """Append such messages; their seqs."""
    return [receipt.seq for receipt in chat.append_many(by_turns(count))]


def counts_of(chat: Any, counter: Counter | str, *, hidden: bool = False) -> dict[int, int]:
    """The tokens of each message of the view, by seq, which are kept; or of each live message."""
    rows = SnapshotRows.LIVE if hidden else SnapshotRows.VISIBLE
    taken = chat.internals.snapshot(Wanted(counter=counter_named(counter), rows=rows))
    chat.internals.keep_counts(taken.counted)
    return {row.message.seq: row.tokens for row in taken.rows}


def keep_estimate(chat: Any, seq: int, counter: Counter, estimate: int) -> bool:
    """Keep the estimate of the request that a message answers; whether it is new."""
    return chat.internals.keep_counts(Counted().with_estimates(counter, {seq: estimate}))


def seqs(source: Any) -> list[int]:
    """The seqs of a view or of a list of messages or entries."""
    return [item.seq for item in getattr(source, "messages", source)]


def shown(chat: Any) -> list[int]:
    return seqs(chat.view())


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(tool_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": "run", "input": {"command": "ls"}}


def result(tool_id: str, output: Any = WORDS) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": output}


def exchange(tool_ids: Sequence[str], output: Any) -> list[NewMessage]:
    """A message that calls tools, and one with the results."""
    return [
        NewMessage("assistant", [text("let me see"), *map(call, tool_ids)]),
        NewMessage("user", [result(tool_id, output) for tool_id in tool_ids]),
    ]


def work(chat: Any, tool_ids: Sequence[str] = ("t1",), output: Any = WORDS) -> tuple[int, int]:
    """Append such an exchange; the seqs of both messages."""
    asked, told = chat.append_many(exchange(tool_ids, output))
    return asked.seq, told.seq


def state(chat: Any) -> tuple[Any, ...]:
    """Everything that a refused operation must leave as it was."""
    return chat.head(), chat.head_seq(), chat.view(), chat.info(), chat.stats(), chat.pins()


def everything(chat: Any) -> tuple[Any, ...]:
    """All that a session shows, at every past seq, except when it was written last."""
    views = [chat.view(as_of=seq) for seq in range(chat.head().seq + 1)]
    info = replace(chat.info(), updated_at=0)
    return chat.head(), views, list(chat.audit()), list(chat.internals.stored()), info, chat.stats()


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def restored(store: Any, file: Any) -> Any:
    """The session of an archived file, by what both interfaces have."""
    with gzip.open(file) as lines:
        header = read_header(lines.readline())
        entries = [read_entry(line) for line in lines]
    store.restore(header.session_id, entries, parent=header.parent, created_at=header.created_at)
    return store.session(header.session_id)
