"""Task folders for Roo Code. docs/formats/roo-code.md.

Roo keeps one list. A hidden message stays in it and names the summary or marker that hides it. The
program of 2026 sends nothing before the last summary, and that of 2025 puts a message before an
assistant's summary. So only a summary of the user's that comes first in the view, or is hidden
before that one, is a summary for Roo. Any other is a marker: both programs send those in place.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from roocontext.formats.exporter import Exporter, NewFile
from roocontext.formats.exporters.anthropic_rows import AnthropicRows, foreign_id, types_left_out
from roocontext.formats.importers.roo import API, CLINE, ROO, UI
from roocontext.log.compactions import Compaction, as_summary, compactions_in, without_compactions
from roocontext.log.entries import Kind, Message
from roocontext.log.readings import read_message, words_of
from roocontext.log.readings.blocks import as_dict
from roocontext.programs.roo.history import CONDENSED, TAGS, TRUNCATED, Tag
from roocontext.store.reading.live import LiveMessage
from roocontext.store.session import Session


def export_folder(sessions: Sequence[Session], folder: Path) -> Iterator[NewFile]:
    """The task folder of each session, named by the task's id."""
    for session in sessions:
        live = _live(session)
        tags = _tags(live)
        files = {
            API: _rows(live, tags, _kept(session)),
            UI[0]: list(_screen(live, tags)),
            "history_item.json": _item(session, sessions, live),
            "task_metadata.json": {"files_in_context": []},
        }
        for name, content in files.items():
            text = json.dumps(content, separators=(",", ":")).encode()
            yield NewFile(folder / foreign_id(session.id) / name, iter([text]))


def _live(session: Session) -> list[LiveMessage]:
    """The live messages, with a provider's compaction as a summary of its own.

    What a sealed one hides is shown, as nobody but its model can read it.
    """
    live = session.internals.live()
    if not any(_compactions(row.message) for row in live):
        return live
    coverings = {
        row.entry.details["source"][0]: row.entry
        for row in session.audit()
        if row.kind is Kind.COVERING and row.rewound_by is None and row.uncovered_by is None
    }
    sealed: dict[str | None, str | None] = {}
    rows: list[LiveMessage] = []
    for one in live:
        message = one.message
        compactions = _compactions(message)
        if not compactions:
            rows.append(one)
            continue
        if (covering := coverings.get(message.seq)) is not None:
            text = {compaction.block: compaction.text for compaction in compactions}.get(
                covering.details["source"][1]
            )
            if text is None:
                sealed[covering.compaction_id] = one.condense_parent
            else:
                summary = replace(as_summary(message, text), compaction_id=covering.compaction_id)
                rows.append(one._replace(message=summary))
        if rest := without_compactions(message.format, message.content):
            rows.append(one._replace(message=replace(message, content=rest)))
    return [row._replace(condense_parent=_hider(row.condense_parent, sealed)) for row in rows]


def _compactions(message: Message) -> list[Compaction]:
    return compactions_in(message.format, message.content) if message.kind is Kind.MESSAGE else []


def _hider(parent: str | None, sealed: Mapping[str | None, str | None]) -> str | None:
    """The summary that hides a message, if sealed compactions do not count."""
    while parent in sealed:
        parent = sealed[parent]
    return parent


def _tags(live: Sequence[LiveMessage]) -> dict[str, Tag]:
    """By the id of each summary and marker: which of Roo's two kinds it is."""
    first = next((index for index, row in enumerate(live) if not any(row[1:])), 0)
    begins = bool(live) and _is_users_summary(live[first].message)
    tags: dict[str, Tag] = {}
    for index, (message, _, _) in enumerate(live):
        if message.compaction_id and message.kind in (Kind.SUMMARY, Kind.MARKER):
            is_summary = begins and index <= first and _is_users_summary(message)
            tags[message.compaction_id] = CONDENSED if is_summary else TRUNCATED
    return tags


def _is_users_summary(message: Message) -> bool:
    return message.kind is Kind.SUMMARY and _role(message) == "user"


def _role(message: Message) -> str:
    return read_message(message)[0]


def _kept(session: Session) -> dict[int, dict[str, Any]]:
    """By seq: Roo's own fields of imported messages, such as `reasoning_details`."""
    if as_dict(session.info().metadata).get("tool") not in (ROO, CLINE):
        return {}
    marks = {name for tag in TAGS for name in (tag.key, tag.flag, tag.id)}
    kept: dict[int, dict[str, Any]] = {}
    for entry in session.audit():
        match entry.entry.extra:
            case {"record": dict(record)}:
                kept[entry.seq] = {name: record[name] for name in record.keys() - marks}
    return kept


def _rows(
    live: Sequence[LiveMessage], tags: dict[str, Tag], kept: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The API messages with their marks, without those that have nothing Roo could send."""
    read = AnthropicRows()
    rows = [
        {**kept.get(row.message.seq, {}), **_row(row.message, read), **_marks(row, tags)}
        for row in live
    ]
    return [row for row in rows if row.get("content") != [] or TRUNCATED.flag in row]


def _row(message: Message, read: AnthropicRows) -> dict[str, Any]:
    match message:
        case Message(format="openai-responses", content={"type": "reasoning"} as item):
            # Roo keeps such an item as a whole message.
            return {**item, "role": message.role, "ts": message.happened_at}
    role, content = read.read(message)
    return {"role": role, "content": content, "ts": message.happened_at}


def _marks(one: LiveMessage, tags: dict[str, Tag]) -> dict[str, Any]:
    """Roo's fields that say by which summary or marker the message is hidden, or which it is."""
    hiders = [hider for hider in one[1:] if hider in tags]
    marks: dict[str, Any] = {tags[hider].key: hider for hider in hiders}
    own = _own_tag(one.message, tags)
    if own:
        marks |= {own.flag: True, own.id: one.message.compaction_id}
    return marks


def _own_tag(message: Message, tags: dict[str, Tag]) -> Tag | None:
    if message.kind not in (Kind.SUMMARY, Kind.MARKER):
        return None
    return tags.get(message.compaction_id or "")


def _screen(live: Sequence[LiveMessage], tags: dict[str, Tag]) -> Iterator[dict[str, Any]]:
    """The interface's list: the words, the requests, and each summary and marker."""
    hidden = Counter(hider for row in live for hider in row[1:])
    say = "text"
    for message, _, _ in live:
        _, blocks = read_message(message)
        words, about = words_of(blocks), {"ts": message.happened_at, "type": "say"}
        if own := _own_tag(message, tags):
            facts = {own.id: message.compaction_id, "prevContextTokens": 0, "newContextTokens": 0}
            if own is CONDENSED:
                facts |= {"summary": words, "cost": 0}
            else:
                facts |= {"messagesRemoved": hidden[message.compaction_id]}
            yield {**about, "say": own.event, own.facts: facts}
        elif _role(message) == "user":
            if words or say == "text":
                yield {**about, "say": say, "text": words}
                say = "user_feedback"
        else:
            yield {**about, "say": "api_req_started", "text": "{}"}
            if words:
                yield {**about, "say": "text", "text": words}


def _item(
    session: Session, sessions: Sequence[Session], live: Sequence[LiveMessage]
) -> dict[str, Any]:
    """The task as Roo lists it."""
    info = session.info()
    ids = [member.id for member in sessions]
    item = {
        "id": foreign_id(session.id),
        "number": 1,
        "ts": live[-1].message.happened_at if live else info.created_at,
        "task": info.title or info.first_prompt or "",
        "tokensIn": 0,
        "tokensOut": 0,
        "totalCost": 0,
        "workspace": as_dict(info.metadata).get("folder"),
        "parentTaskId": foreign_id(info.parent) if info.parent and info.parent in ids else None,
        "childIds": [foreign_id(member.id) for member in sessions if member.parent == session.id],
    }
    return {name: value for name, value in item.items() if value not in (None, [])}


EXPORTER: Final = Exporter("roo", folder=export_folder, left_out=types_left_out)
