"""The rows of a Claude Code transcript, of which the memory holds only their places in the tree.

The whole record is read again when its event is made.
"""

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, TypeAlias, TypeGuard

import msgspec

from roocontext.formats.events import Problem
from roocontext.formats.files import (
    SourceLine,
    is_removed,
    list_at,
    name,
    non_empty,
    opened,
    read_at,
    read_lines,
)
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.readings.blocks import as_dict, dicts, text

Content: TypeAlias = str | list[Any]

SPEAKERS = ("user", "assistant")
_FACTS = {"session": "sessionId", "folder": "cwd", "branch": "gitBranch", "version": "version"}
_WORDS = "queued_command"
_FILES = ("file", "directory", "pdf_reference", "mcp_resource", "selected_lines_in_ide")


class TranscriptRow(msgspec.Struct, gc=False):
    """The place of a row in the tree and in the file.

    Of a compaction, `kept` are the rows that it names as kept, `segment` the first and the last
    one of a chain of kept rows, and `keeps_first` says that they precede the summary. A reply
    `says` something, or it has the tool's own text in place of none (False), or thinking (None).
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
    says: bool | None = True
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
        rows = cls()
        with opened(path) as file:
            for index, line in enumerate(read_lines(path, problems)):
                if not isinstance(line.record, dict):
                    problems.append(Problem(path, line.number, "the line holds no object"))
                elif rows._take(index, line, file):
                    continue
                rows.loose.append(line._replace(record=None))
        for row in rows.all:
            if row.agent == "?":  # a sub-agent is named by the first row of its chain
                above = rows._by_uuid.get(row.parent or "")
                row.agent = above.agent if above and above.agent else row.uuid
        return rows

    def _take(self, index: int, line: SourceLine, file: BinaryIO) -> bool:
        """Take a line; return True if it has a place in the tree, or copies a row that has."""
        self._learn(line.record)
        row = row_of(line, index)
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
        """Note that the compaction has kept a row that is written again after its summary."""
        boundary = self._boundary
        if boundary is None or not self._summary or first.index > boundary.index:
            return
        is_kept = row.parent == self._summary or row.parent in boundary.kept
        if is_kept and row.uuid not in boundary.kept:
            boundary.kept = [*boundary.kept, row.uuid]

    def _learn(self, record: dict[str, Any]) -> None:
        """Learn the facts from the first lines that have them, and the release from the last."""
        for fact, field_name in _FACTS.items():
            if self.facts[fact] is None or fact == "version":
                self.facts[fact] = non_empty(record.get(field_name)) or self.facts[fact]


def _is_copy(file: BinaryIO, first: TranscriptRow, row: TranscriptRow) -> bool:
    try:
        return bool(read_at(file, first.start, first.end) == read_at(file, row.start, row.end))
    except ValueError:
        return False


def row_of(line: SourceLine, index: int = 0) -> TranscriptRow:
    """The row of a line. A field that does not have its usual type counts as none."""
    number, record, start, end = line
    record = record if isinstance(record, dict) else {}
    kind = intern(non_empty(record.get("type")) or "unknown")
    row = TranscriptRow(index, number, start, end, kind, non_empty(record.get("uuid")) or "")
    if not row.uuid:
        return row
    row.subtype = non_empty(record.get("subtype"))
    row.parent = non_empty(record.get("parentUuid"))
    row.source = name(record.get("sourceToolAssistantUUID"))
    if record.get("isSidechain") is True:
        row.agent = non_empty(record.get("agentId")) or "?"
    message = record.get("message")
    is_shown_only = bool(record.get("isApiErrorMessage")) or record.get("isVirtual") is True
    if row.type in SPEAKERS and isinstance(message, dict) and not is_shown_only:
        row.speaks = True
        row.answer = name(message.get("id")) if row.type == "assistant" else None
        row.stopped = message.get("stop_reason") is not None
        row.is_summary = record.get("isCompactSummary") is True
        blocks = dicts(message.get("content"))
        calls = (name(block.get("id")) for block in blocks if block.get("type") == "tool_use")
        row.calls = tuple(filter(None, calls))
        row.says = row.type == "user" or _says(message.get("content"))
        # A result counts even if the id of its call was removed.
        results = (block for block in blocks if block.get("type") == "tool_result")
        row.results = tuple(name(block.get("tool_use_id")) or "" for block in results)
    else:
        row.speaks = sent_of(record) is not None
    if row.subtype == "compact_boundary":
        row.parent = row.parent or non_empty(record.get("logicalParentUuid"))
        _read_kept(row, record.get("compactMetadata"))
    return row


def _says(content: Any) -> bool | None:
    """False for the tool's own text in place of none, None for thinking."""
    if isinstance(content, list) and all(
        as_dict(block).get("type") in THINKING for block in content
    ):
        return None
    match content:
        case [{"type": "text", "text": str(words)}]:
            return words.strip() != "(no content)"
    return True


def _read_kept(row: TranscriptRow, metadata: Any) -> None:
    row.metadata = as_dict(metadata)
    preserved = as_dict(row.metadata.get("preservedMessages"))
    segment = row.metadata.get("preservedSegment")
    if isinstance(segment, dict):
        row.segment = (str(segment.get("headUuid")), str(segment.get("tailUuid")))
    row.kept = [uuid for uuid in list_at(preserved, "uuids") if isinstance(uuid, str)]
    row.keeps_first = row.uuid in (as_dict(segment).get("anchorUuid"), preserved.get("anchorUuid"))


def sent_of(record: dict[str, Any]) -> Content | None:
    """The content of a row that is sent as a message of the user; None if none is, or not known.

    That is what an attachment holds, or what a command of the program's own has printed.
    """
    if record.get("subtype") == "local_command":
        return non_empty(record.get("content"))
    attachment, rendered = as_dict(record.get("attachment")), record.get("rendered")
    kind = attachment.get("type")
    if kind != _WORDS and kind not in _FILES:
        return None
    contents = [part for row in dicts(rendered) if _is_content(part := row.get("content"))]
    if not contents and kind == _WORDS and _is_content(words := attachment.get("prompt")):
        if isinstance(words, str):
            return words
        return sorted(words, key=lambda block: bool(block.get("type") != "text"))  # texts first
    if len(contents) < 2:
        return contents[0] if contents else None
    lists = ([text(part)] if isinstance(part, str) else part for part in contents)
    return list(chain.from_iterable(lists))


def _is_content(value: Any) -> TypeGuard[Content]:
    if isinstance(value, list):
        return bool(value) and len(dicts(value)) == len(value)
    return isinstance(value, str) and bool(value)
