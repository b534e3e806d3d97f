"""The rows of a Claude Code transcript: what is kept in memory of each line.

A line is decoded into the few fields that its place in the tree needs, because the whole record is
only read when its turn comes. What does not have the usual types is read field by field.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO

import msgspec

from roocontext.formats.claude_code_attachments import sent_of
from roocontext.formats.events import Problem
from roocontext.formats.lines import SourceLine, read_at, read_lines
from roocontext.formats.names import is_removed, name, non_empty
from roocontext.formats.source_files import opened

_SPEAKERS = ("user", "assistant")
_FACTS = {"session": "sessionId", "folder": "cwd", "branch": "gitBranch", "version": "version"}


class TranscriptRow(msgspec.Struct, gc=False):
    """The place of a row in the tree and in the file. Without cycles, so no collector looks at it.

    `kept` are the rows that a compaction has kept: named one by one, or from `segment` to its end.
    `keeps_first` says that they come ahead of its summary. `place` is when a row was played.
    `path` is the row's file if it is another one than the session's.
    """

    index: int
    line: int
    start: int
    end: int
    type: str
    place: int = 0
    uuid: str = ""
    parent: str | None = None
    subtype: str | None = None
    answer: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    source: str | None = None
    agent: str | None = None
    speaks: bool = False
    is_summary: bool = False
    stopped: bool = False
    kept: list[str] | tuple[()] = ()
    segment: tuple[str, str] | None = None
    keeps_first: bool = False
    metadata: dict[str, Any] | None = None
    path: Path | None = None


class Loose:
    """The lines without a place in the tree: where they are. There may be very many."""

    def __init__(self) -> None:
        self._places = array("Q")

    def add(self, line: SourceLine) -> None:
        """The next line."""
        self._places.extend((line.number, line.start, line.end))

    def __iter__(self) -> Iterator[SourceLine]:
        places = iter(self._places)
        return (
            SourceLine(number, None, start, end)
            for number, start, end in zip(places, places, places, strict=True)
        )


@dataclass(slots=True)
class TranscriptRows:
    """The rows of a file, those without a place in the tree, and the facts of the session."""

    all: list[TranscriptRow] = field(default_factory=list)
    loose: Loose = field(default_factory=Loose)
    facts: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_FACTS))

    @classmethod
    def read(cls, path: Path, problems: list[Problem]) -> "TranscriptRows":
        """Read a file once; of rows with the same uuid the first one counts."""
        reading = RowReader()
        found = cls()
        with opened(path) as file:
            for index, (line, head) in enumerate(heads(path, problems)):
                if head is None:
                    found.loose.add(line)
                    continue
                learn(found.facts, head)
                if (row := reading.take(index, line, head, file)) is None:
                    found.loose.add(line)
                elif row.uuid:
                    found.all.append(row)
        _name_agents(found.all)
        return found


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    tool_use_id: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    stop_reason: str | None = None
    content: str | list[_Block] | None = None


class RowFields(msgspec.Struct, gc=False, rename="camel"):
    """The fields of a line that its row needs."""

    type: str = "unknown"
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    source_tool_assistant_uuid: str | None = msgspec.field(
        default=None, name="sourceToolAssistantUUID"
    )
    subtype: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    is_api_error_message: bool | None = None
    is_compact_summary: bool | None = None
    message: _Message | None = None
    attachment: dict[str, Any] | None = None
    rendered: list[Any] | None = None
    compact_metadata: dict[str, Any] | None = None
    microcompact_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    leaf_uuid: str | None = None


_decode_head = msgspec.json.Decoder(RowFields).decode
_NAMES = {one.name: one.encode_name for one in msgspec.structs.fields(RowFields)}


def learn(facts: dict[str, Any], head: RowFields) -> None:
    """Learn the facts of a session from the first lines that have them, the release from the last.

    The release that wrote last is the one that would continue the session.
    """
    if facts["branch"] is None:
        given = (head.session_id, head.cwd, head.git_branch, head.version)
        for fact, value in zip(_FACTS, given, strict=True):
            if facts[fact] is None and value is not None:
                facts[fact] = value
    if head.version is not None:
        facts["version"] = head.version


def name_removed(row: TranscriptRow, head: RowFields, last: dict[str | None, str]) -> None:
    """Let rows whose ids were removed follow each other as they do in the file."""
    is_own = is_removed(head.uuid)
    if is_own:
        row.uuid = f"line {row.line}"
    if row.uuid and (is_own or is_removed(head.parent_uuid)):
        row.parent = last.get(row.agent)


class RowReader:
    """The rows of a file, one after the other, among them those that come twice."""

    def __init__(self) -> None:
        self._first: dict[str, TranscriptRow] = {}
        self._last: dict[str | None, str] = {}
        self._boundary: TranscriptRow | None = None
        self._summary = ""
        self._kept: set[str] = set()

    def take(
        self, index: int, line: SourceLine, head: RowFields, file: BinaryIO
    ) -> TranscriptRow | None:
        """The row of a line, without a uuid if it is a copy; None if it is in no tree."""
        row = row_of_line(index, line, head)
        name_removed(row, head, self._last)
        if row.parent is not None and (above := self._first.get(row.parent)):
            row.parent = above.uuid  # one text in memory, not two that are equal
        first = self._first.get(row.uuid)
        if not row.uuid:
            return None
        if first is None:
            self._first[row.uuid] = row
            self._last[row.agent] = row.uuid
            self._note_compaction(row)
            return row
        self._keep(row, first)
        row.uuid = ""
        return row if _is_copy(file, first, row) else None

    def forget(self) -> None:
        """Forget the rows so far: none of those that follow comes twice."""
        self._first.clear()

    def _note_compaction(self, row: TranscriptRow) -> None:
        if row.subtype == "compact_boundary":
            self._boundary, self._summary, self._kept = row, "", set(row.kept)
        elif row.is_summary:
            self._summary = row.uuid

    def _keep(self, row: TranscriptRow, first: TranscriptRow) -> None:
        """A row that is written again behind a summary is one that the compaction has kept."""
        boundary = self._boundary
        if boundary is None or not self._summary or first.index > boundary.index:
            return
        is_kept = row.parent == self._summary or row.parent in self._kept
        if is_kept and row.uuid not in self._kept:
            self._kept.add(row.uuid)
            boundary.kept = boundary.kept or []
            boundary.kept.append(row.uuid)


def _is_copy(file: BinaryIO, first: TranscriptRow, row: TranscriptRow) -> bool:
    try:
        return bool(read_at(file, first.start, first.end) == read_at(file, row.start, row.end))
    except ValueError:
        return False


def heads(
    path: Path, problems: list[Problem] | None, *, start: int = 0, first: int = 1
) -> Iterator[tuple[SourceLine, RowFields | None]]:
    """Each line with the fields of its record; None for a line that holds no object."""
    for line in read_lines(path, problems, _decode_head, start=start, first=first):
        record = line.record
        if isinstance(record, RowFields):
            yield line, record
        elif isinstance(record, dict):
            yield line, _lenient(record)
        else:
            if problems is not None:
                problems.append(Problem(path, line.number, "the line holds no object"))
            yield line, None


def _lenient(record: dict[str, Any]) -> RowFields:
    """The fields that have the types that they should have."""
    head = RowFields()
    for field_, given in _NAMES.items():
        value = record.get(given)
        if field_ == "message":
            head.message = _lenient_message(value) if isinstance(value, dict) else None
        elif field_ in ("attachment", "compact_metadata", "microcompact_metadata"):
            setattr(head, field_, value if isinstance(value, dict) else None)
        elif field_ == "rendered":
            head.rendered = value if isinstance(value, list) else None
        elif field_.startswith("is_"):
            setattr(head, field_, value if isinstance(value, bool) else bool(value) or None)
        else:
            setattr(head, field_, non_empty(value))
    head.type = head.type or "unknown"
    return head


def _lenient_message(message: dict[str, Any]) -> _Message:
    content = message.get("content")
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    kinds = [
        _Block(str(one.get("type")), non_empty(one.get("id")), non_empty(one.get("tool_use_id")))
        for one in blocks
    ]
    stop = message.get("stop_reason")
    return _Message(non_empty(message.get("id")), None if stop is None else str(stop), kinds)


def row_of(record: Any) -> TranscriptRow:
    """The row of a record that is in no file."""
    head = _lenient(record) if isinstance(record, dict) else RowFields()
    return row_of_line(0, SourceLine(0, record, 0, 0), head)


def row_of_line(index: int, line: SourceLine, head: RowFields) -> TranscriptRow:
    """The row of a line, from the fields of its record."""
    row = TranscriptRow(index, line.number, line.start, line.end, intern(head.type or "unknown"))
    row.uuid = head.uuid or ""
    if not row.uuid:
        return row
    row.subtype = head.subtype
    row.parent = head.parent_uuid or None
    row.source = name(head.source_tool_assistant_uuid)
    if head.is_sidechain is True:
        row.agent = head.agent_id or "?"
    message = head.message
    if row.type in _SPEAKERS and message is not None and not head.is_api_error_message:
        row.speaks = True
        row.answer = name(message.id) if row.type == "assistant" else None
        row.stopped = message.stop_reason is not None
        row.is_summary = head.is_compact_summary is True
        if isinstance(message.content, list):
            _read_blocks(row, message.content)
    elif head.attachment is not None and row.type == "attachment":
        row.speaks = sent_of(head.attachment, head.rendered) is not None
    if row.subtype == "compact_boundary":
        row.parent = row.parent or head.logical_parent_uuid or None
        row.metadata = head.compact_metadata or {}
        _read_kept(row, row.metadata)
    elif row.subtype == "microcompact_boundary":
        row.metadata = head.microcompact_metadata
    return row


def compacted_calls(metadata: Any) -> list[str]:
    """The calls whose results a micro-compaction has cleared."""
    named = metadata.get("compactedToolIds") if isinstance(metadata, dict) else None
    return [*map(str, named)] if isinstance(named, list) else []


def _read_blocks(row: TranscriptRow, blocks: list[_Block]) -> None:
    calls = [name(block.id) for block in blocks if block.type == "tool_use"]
    row.calls = tuple(filter(None, calls))
    # A result whose call cannot be named is a result all the same.
    results = [name(block.tool_use_id) for block in blocks if block.type == "tool_result"]
    row.results = tuple(one or "" for one in results)


def _read_kept(row: TranscriptRow, metadata: dict[str, Any]) -> None:
    segment, kept = metadata.get("preservedSegment"), metadata.get("preservedMessages")
    anchors: list[Any] = []
    if isinstance(segment, dict):
        row.segment = (str(segment.get("headUuid")), str(segment.get("tailUuid")))
        anchors.append(segment.get("anchorUuid"))
    if isinstance(kept, dict):
        anchors.append(kept.get("anchorUuid"))
        if isinstance(uuids := kept.get("uuids"), list):
            row.kept = [one for one in uuids if isinstance(one, str)]
    row.keeps_first = row.uuid in anchors


def _name_agents(rows: list[TranscriptRow]) -> None:
    """Name the sub-agents of rows that have none: by the first row of their chain."""
    by_uuid = {row.uuid: row for row in rows}
    for row in rows:
        if row.agent == "?":
            above = by_uuid.get(row.parent or "")
            row.agent = above.agent if above and above.agent else row.uuid
