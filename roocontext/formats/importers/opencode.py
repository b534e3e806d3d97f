"""OpenCode's sessions as events. docs/formats/opencode.md.

`opencode_records` reads them, `opencode_parts` makes messages of their parts.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from roocontext.formats.databases import reporting
from roocontext.formats.events import (
    Added,
    Cleared,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    WentBack,
    source_of,
    titled,
)
from roocontext.formats.files import name as named
from roocontext.formats.files import non_empty, whole_ms
from roocontext.formats.importer import Importer
from roocontext.formats.importers.opencode_parts import OpenCodeTurn, second_events, turns_of
from roocontext.formats.importers.opencode_records import (
    OpenCodeMessage,
    OpenCodeRecords,
    is_candidate,
    is_database,
    is_storage,
)
from roocontext.formats.typed import with_typed_text
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, text
from roocontext.programs.opencode.policy import QUESTION
from roocontext.programs.opencode.prune import PLACEHOLDER

NAME = "opencode"


_NO_TITLE = re.compile(r"(New|Child) session - [0-9T:.Z-]+")
"""The program's name of a session without a title."""


def _looks_like(record: Any) -> bool:
    """True if a JSON document is an export."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("info"), dict)
        and isinstance(record.get("messages"), list)
    )


def sources(path: Path) -> Iterator[Source]:
    """The sessions of a file or a folder, parents before their children."""
    problems: list[Problem] = []
    infos: list[dict[str, Any]] = []
    with reporting(path, problems):
        infos = OpenCodeRecords(path, problems).sessions()
    # Ids of sessions descend with time.
    for info in sorted(infos, key=lambda info: str(info.get("id")), reverse=True):
        yield _source(path, info, problems)
        problems = []
    if problems:
        yield _source(path, {}, problems)


def _source(path: Path, info: dict[str, Any], problems: list[Problem]) -> Source:
    session = named(info.get("id")) or path.stem
    return source_of(
        NAME,
        session,
        path,
        partial(_events, path, info),
        parent=named(info.get("parentID")),
        problems=problems,
        session=session,
        folder=non_empty(info.get("directory")),
        version=non_empty(info.get("version")),
        project=non_empty(info.get("projectID")),
    )


def _events(path: Path, info: dict[str, Any], problems: list[Problem]) -> Iterator[Event]:
    if not info:
        return
    records, session = OpenCodeRecords(path, problems), str(info.get("id"))
    with reporting(path, problems):
        messages = records.messages(session)
        second = [] if messages else records.second(session)
        yield from second_events(second) if second else _played(info, messages)
        if not (messages or second):
            records.report_unread_events(session)
    yield Noted(None, "session", info, _time(info, "updated"))
    title = info.get("title")
    if not (isinstance(title, str) and _NO_TITLE.fullmatch(title)):
        yield from titled(title)


def _played(info: dict[str, Any], sent: list[OpenCodeMessage]) -> Iterator[Event]:
    turns = [turns_of(message.info, message.parts) for message in sent]
    summaries = _summaries(sent)
    asked = set(summaries.values())
    questions: dict[str, OpenCodeMessage] = {}
    last: dict[str, str | None] = {}
    at: str | None = None
    for message, rows in zip(sent, turns, strict=True):
        name, role = str(message.info["id"]), message.info.get("role")
        ts = _time(message.info, "created")
        last[name] = at
        if name in asked and role == "user":
            questions[name] = message
            continue
        if not rows:
            yield Noted(name, str(role), message.record, ts)
        if name in summaries:
            yield _hid(
                message, questions[summaries[name]], rows, ts, [*zip(sent, turns, strict=True)]
            )
            at = name
            continue
        replies = [row for row in rows if row.role == "assistant"]
        for number, row in enumerate(rows):
            extra = {"record": message.record} if number == 0 else None
            yield Added(row.id, _message(row, message, ts, extra, is_last=row in replies[-1:]))
            at = row.id
    yield from _reverted(info, sent, last)
    cleared = tuple(block for rows in turns for row in rows for block in row.cleared)
    if cleared:
        yield Cleared("cleared", cleared, PLACEHOLDER)


def _time(info: dict[str, Any], name: str) -> int | None:
    return whole_ms(as_dict(info.get("time")).get(name))


def _summaries(sent: list[OpenCodeMessage]) -> dict[str, str]:
    """The finished summaries, and the messages that asked for them."""
    asked = {
        message.info["id"]
        for message in sent
        if message.info.get("role") == "user"
        and any(part.get("type") == "compaction" for part in message.parts)
    }
    return {
        str(message.info["id"]): str(message.info["parentID"])
        for message in sent
        if message.info.get("summary") is True
        and message.info.get("finish")
        and not message.info.get("error")
        and str(message.info.get("parentID")) in asked
        and str(message.info.get("parentID")) < str(message.info["id"])
    }


def _hid(
    summary: OpenCodeMessage,
    asked: OpenCodeMessage,
    rows: list[OpenCodeTurn],
    ts: int | None,
    turns: list[tuple[OpenCodeMessage, list[OpenCodeTurn]]],
) -> Event:
    """A compaction: the question and the summary for what is before, except the tail it kept.

    What came while the summary was made stands between the two.
    """
    tails = [str(part["tail_start_id"]) for part in asked.parts if part.get("tail_start_id")]
    begins, ends = str(asked.info["id"]), str(summary.info["id"])
    kept_after = tuple(
        row.id
        for message, sent in turns
        for row in sent
        if tails and tails[0] <= message.info["id"] < begins
    )
    first = NewMessage("user", [text(QUESTION)], message_id=begins, extra={"record": asked.record})
    between = [
        _message(row, message, _time(message.info, "created"), None, is_last=False)
        for message, sent in turns
        for row in sent
        if begins < message.info["id"] < ends
    ]
    extra = {"record": summary.record}
    answer = [_message(row, summary, ts, extra, is_last=True) for row in rows[:1]]
    return Hid(
        ends,
        (*(with_typed_text(row, "") for row in (first, *between)), *answer),
        keeps=frozenset(kept_after),
        kept_after=kept_after,
        lead=len(between) + 1 if answer else 0,
    )


def _reverted(
    info: dict[str, Any], sent: list[OpenCodeMessage], last: dict[str, str | None]
) -> Iterator[Event]:
    """A session that continues after a revert continues before its message, or before its part."""
    revert = as_dict(info.get("revert"))
    name, part = named(revert.get("messageID")), revert.get("partID")
    # A program that was stopped while it deleted the messages may have left later ones.
    after = (message for message in sent if name and message.info["id"] >= name)
    if (message := next(after, None)) is None:
        return
    yield WentBack("reverted", last[str(message.info["id"])])
    if isinstance(part, str) and message.info["id"] == name:
        parts = [before for before in message.parts if str(before.get("id")) < part]
        ts = _time(message.info, "created")
        for row in turns_of(message.info, parts):
            yield Added(f"{row.id}:kept", _message(row, message, ts, None, is_last=False))


def _message(
    row: OpenCodeTurn, of: OpenCodeMessage, ts: int | None, extra: Any, *, is_last: bool
) -> NewMessage:
    message = NewMessage(
        row.role,
        row.content,
        ts=ts,
        message_id=row.id,
        model=non_empty(of.info.get("modelID")) if row.role == "assistant" else None,
        usage=_usage(of.info) if is_last else None,
        extra=extra,
    )
    texts = [block["text"] for block in row.content if block["type"] == "text"]
    is_typed = row.role != "user" or row.typed == "\n".join(texts)
    return message if is_typed else with_typed_text(message, row.typed)


def _usage(info: dict[str, Any]) -> dict[str, Any] | None:
    """The tokens of a message, in Anthropic's names: those of the cache are counted apart."""
    tokens = as_dict(info.get("tokens"))
    if not (tokens.get("input") or tokens.get("output")):
        return None
    cached = as_dict(tokens.get("cache"))
    return {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cached.get("read"),
        "cache_creation_input_tokens": cached.get("write"),
    }


IMPORTER: Final = Importer(
    tool=NAME,
    sources=sources,
    places=("$OPENCODE_DB", "$XDG_DATA_HOME/opencode", "~/.local/share/opencode"),
    is_folder=is_storage,
    is_file=is_database,
    is_candidate=is_candidate,
    looks_like_document=_looks_like,
)
