"""The rows of a Claude Code transcript: what is kept in memory of each line.

A line is decoded into the few fields that its place in the tree needs, because the whole record is
only read when its turn comes. What does not have the usual types is read field by field.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, TypeAlias, TypeGuard

import msgspec

from roocontext.formats.events import Problem
from roocontext.formats.files import (
    SourceLine,
    is_removed,
    name,
    non_empty,
    opened,
    read_at,
    read_lines,
)

Content: TypeAlias = str | list[Any]

_SPEAKERS = ("user", "assistant")
_FACTS = {"session": "sessionId", "folder": "cwd", "branch": "gitBranch", "version": "version"}
_WORDS = "queued_command"
_FILES = ("file", "directory", "pdf_reference", "mcp_resource", "selected_lines_in_ide")


class TranscriptRow(msgspec.Struct, gc=False):
    """The place of a row in the tree and in the file. Without cycles, so no collector looks at it.

    `kept` are the rows that a compaction has kept: named one by one, or from `segment` to its end.
    `keeps_first` says that they come ahead of its summary.
    """

    index: int
    line: int
    start: int
    end: int
    type: str
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


@dataclass(slots=True)
class TranscriptRows:
    """The rows of a file, the lines without a place in the tree, and the facts of the session."""

    all: list[TranscriptRow] = field(default_factory=list)
    loose: list[SourceLine] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_FACTS))
    _by_uuid: dict[str, TranscriptRow] = field(default_factory=dict)
    _last: dict[str | None, str] = field(default_factory=dict)
    _boundary: TranscriptRow | None = None
    _summary: str = ""

    @classmethod
    def read(cls, path: Path, problems: list[Problem]) -> "TranscriptRows":
        """Read a file once; of rows with the same uuid the first one counts."""
        found = cls()
        with opened(path) as file:
            for index, (line, head) in enumerate(_heads(path, problems)):
                if head is None or not found._take(index, line, head, file):
                    found.loose.append(line)
        for row in found.all:
            if row.agent == "?":  # a sub-agent is named by the first row of its chain
                above = found._by_uuid.get(row.parent or "")
                row.agent = above.agent if above and above.agent else row.uuid
        return found

    def _take(self, index: int, line: SourceLine, head: "_Head", file: BinaryIO) -> bool:
        """Take a line; whether it has a place in the tree, or is a copy of one that has."""
        self._learn(head)
        row = _row_of_line(index, line, head)
        if not row.uuid:
            return False
        if is_removed(row.uuid):
            row.uuid = f"line {row.line}"
            row.parent = self._last.get(row.agent)
        elif is_removed(row.parent):
            row.parent = self._last.get(row.agent)
        if row.parent is not None and (above := self._by_uuid.get(row.parent)):
            row.parent = above.uuid  # one text in memory, not two that are equal
        first = self._by_uuid.get(row.uuid)
        if first is not None:
            self._keep(row, first)
            return _is_copy(file, first, row)
        self.all.append(row)
        self._by_uuid[row.uuid] = row
        self._last[row.agent] = row.uuid
        if row.subtype == "compact_boundary":
            self._boundary, self._summary = row, ""
        elif row.is_summary:
            self._summary = row.uuid
        return True

    def _keep(self, row: TranscriptRow, first: TranscriptRow) -> None:
        """A row that is written again after a summary is one that the compaction has kept."""
        boundary = self._boundary
        if boundary is None or not self._summary or first.index > boundary.index:
            return
        is_kept = row.parent == self._summary or row.parent in boundary.kept
        if is_kept and row.uuid not in boundary.kept:
            boundary.kept = [*boundary.kept, row.uuid]

    def _learn(self, head: "_Head") -> None:
        """Learn the facts from the first lines that have them, the release from the last.

        The release that wrote last is the one that would continue the session.
        """
        if self.facts["branch"] is None:
            given = (head.session_id, head.cwd, head.git_branch, head.version)
            for fact, value in zip(_FACTS, given, strict=True):
                if self.facts[fact] is None and value is not None:
                    self.facts[fact] = value
        if head.version is not None:
            self.facts["version"] = head.version


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    tool_use_id: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    stop_reason: str | None = None
    content: str | list[_Block] | None = None


class _Head(msgspec.Struct, gc=False, rename="camel"):
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


_decode_head = msgspec.json.Decoder(_Head).decode
_NAMES = {one.name: one.encode_name for one in msgspec.structs.fields(_Head)}


def _is_copy(file: BinaryIO, first: TranscriptRow, row: TranscriptRow) -> bool:
    try:
        return bool(read_at(file, first.start, first.end) == read_at(file, row.start, row.end))
    except ValueError:
        return False


def _heads(path: Path, problems: list[Problem]) -> Iterator[tuple[SourceLine, _Head | None]]:
    """Each line with the fields of its record; None for a line that holds no object."""
    for line in read_lines(path, problems, _decode_head):
        record = line.record
        if isinstance(record, _Head):
            yield line, record
        elif isinstance(record, dict):
            yield line, _lenient(record)
        else:
            problems.append(Problem(path, line.number, "the line holds no object"))
            yield line, None


def _lenient(record: dict[str, Any]) -> _Head:
    """The fields that have the types that they should have."""
    head = _Head()
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
    head = _lenient(record) if isinstance(record, dict) else _Head()
    return _row_of_line(0, SourceLine(0, record, 0, 0), head)


def _row_of_line(index: int, line: SourceLine, head: _Head) -> TranscriptRow:
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


def sent_of(attachment: Any, rendered: Any) -> Content | None:
    """The content of the message that is sent; None if it is not the user's, or not known."""
    kind = attachment.get("type") if isinstance(attachment, dict) else None
    if kind != _WORDS and kind not in _FILES:
        return None
    messages = rendered if isinstance(rendered, list) else []
    given = [one.get("content") for one in messages if isinstance(one, dict)]
    contents = [one for one in given if _is_content(one)]
    if not contents and kind == _WORDS and _is_content(words := attachment.get("prompt")):
        return words if isinstance(words, str) else sorted(words, key=_is_no_text)
    if len(contents) < 2:
        return contents[0] if contents else None
    return [block for content in contents for block in _blocks(content)]


def _is_content(value: Any) -> TypeGuard[Content]:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) for one in value)
    return isinstance(value, str) and bool(value)


def _is_no_text(block: dict[str, Any]) -> bool:
    return block.get("type") != "text"


def _blocks(content: Content) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
