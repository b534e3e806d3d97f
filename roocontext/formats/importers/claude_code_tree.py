"""The rows of a Claude Code transcript as a tree of answers, their results, and what is written.

A single walk from the last row to the first loses rows: one answer is split over several rows, and
each result of a tool hangs on its own. So the rows of one answer and their results are one *unit*,
and the units are the tree.
"""

from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeGuard

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
from roocontext.formats.importers.claude_code_ancestors import Ancestors, Tops
from roocontext.formats.importers.claude_code_releases import (
    BRIDGES,
    NEWEST,
    RESULTS_FIRST,
    SENDS_BESIDE,
    Release,
)

Content: TypeAlias = str | list[Any]

_WORDS = "queued_command"
_FILES = ("file", "directory", "pdf_reference", "mcp_resource", "selected_lines_in_ide")


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


class TranscriptStep(NamedTuple):
    """The next row. The last row of an answer has its usage; a summary says what it keeps.

    What a summary keeps is `behind` it, unless it `keeps_first`.
    """

    row: TranscriptRow
    ends_answer: bool = False
    keeps: frozenset[str] = frozenset()
    behind: tuple[str, ...] = ()
    keeps_first: bool = False
    record: Mapping[str, Any] = MappingProxyType({})


class TreeUnit(msgspec.Struct, gc=False, eq=False):
    """A row, or the rows of one answer with the results of its calls, and the notes among them.

    There are almost as many as rows, so a list is only made for what there is. `newest` is the
    index of the newest row here or below, `own` that of the newest one that hangs here itself. It
    `is_attached` if here and below there are only attachments, and it `is_work` if it has calls or
    results, or attachments that hang on such a unit.
    """

    rows: tuple[TranscriptRow, ...] | list[TranscriptRow] = ()
    noted: list[TranscriptRow] | None = None
    below: list["TreeUnit"] | None = None
    newest: int = -1
    own: int = -1
    begins: bool = False
    is_attached: bool = False
    is_work: bool = False

    @property
    def has_attachments(self) -> bool:
        """Whether all of its rows are attachments."""
        return all(row.type == "attachment" for row in self.rows)

    @property
    def notes(self) -> Sequence[TranscriptRow]:
        """The notes among its rows."""
        return self.noted or ()

    @property
    def children(self) -> Sequence["TreeUnit"]:
        """The units that follow, each in a branch of its own."""
        return self.below or ()

    def add_row(self, row: TranscriptRow) -> None:
        """A row that belongs here. Most units have one only."""
        if not self.rows:
            self.rows = (row,)
        elif isinstance(self.rows, tuple):
            self.rows = [*self.rows, row]
        else:
            self.rows.append(row)

    def add_note(self, row: TranscriptRow) -> None:
        """A note that was written here."""
        if self.noted is None:
            self.noted = []
        self.noted.append(row)

    def add_child(self, unit: "TreeUnit") -> None:
        """A unit that follows."""
        if self.below is None:
            self.below = []
        self.below.append(unit)

    def end(self) -> TranscriptRow | None:
        """The last row of an answer, if nothing more of the answer can come."""
        replies = [row for row in self.rows if row.type == "assistant"]
        if not replies:
            return None
        last = replies[-1]
        goes_on = bool(self.children) or len(self.rows) > len(replies)
        return last if goes_on or last.stopped or not last.answer else None

    def ordered(self) -> Sequence[TranscriptRow]:
        """The answer first, and then the results, each in the order of the file."""
        if len(self.rows) == 1:
            return self.rows
        return sorted(self.rows, key=lambda row: (row.type != "assistant", row.index))


class TranscriptTree:
    """The units of a transcript: of parts of it (`build`), or of one that grows (`add`)."""

    def __init__(self, release: Release = NEWEST) -> None:
        self.root = TreeUnit()
        self._release = release
        self._by_uuid: dict[str, TranscriptRow] = {}
        self._unit_of: dict[str, TreeUnit] = {}
        self._parent_of: dict[TreeUnit, TreeUnit] = {}
        # What was walked already: a chain may be as long as the file, and have a row at each place.
        self._nearest: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._ancestors = Ancestors(self._above_named)
        self._tops: dict[TreeUnit, Tops] = {}
        self._answers: dict[str, TreeUnit] = {}
        self._callers: dict[str, TreeUnit] = {}
        self._summarised: set[str] = set()
        self._boundaries: dict[str, TranscriptRow] = {}
        self._boundary: TranscriptRow | None = None
        self._anchor: TranscriptRow | None = None
        self._kept_now: frozenset[str] = frozenset()
        # Those that the file holds only after the compaction, each with the one before it.
        self._late: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        # The parents that rows have in the file, if they were given another one.
        self._written: dict[str, str | None] = {}
        self._speaker = self._summary = self._last = ""
        self._count = 0

    def build(self, rows: list[TranscriptRow], path: Path, problems: list[Problem]) -> TreeUnit:
        """The units as a tree; those that hang on nothing hang on the root."""
        self._by_uuid.update((row.uuid, row) for row in rows)
        for row in rows:
            self._reattach(row)
        units = [self._unit_of[row.uuid] for row in rows if row.speaks and self._take(row)]
        parents = [self._hang(unit) for unit in units]
        last = self._anchor
        for row in rows:
            if row.speaks:
                last = row
            else:
                self._note(row, last)
        self._break_cycles(units, parents, path, problems)
        self._date()
        return self.root

    def go_on_below(self, anchor: TranscriptRow) -> None:
        """Forget all rows except this message of the user, which is the root of what follows."""
        self.root = TreeUnit(is_work=self._unit_of[anchor.uuid].is_work)
        self._anchor = anchor
        self._by_uuid, self._unit_of = {anchor.uuid: anchor}, {anchor.uuid: self.root}
        self._nearest, self._ancestors = ({}, {}), Ancestors(self._above_named)
        self._tops = {}
        self._answers, self._callers, self._boundaries, self._summarised = {}, {}, {}, set()
        self._named, self._written = {}, {}

    def add(self, row: TranscriptRow) -> TreeUnit | None:
        """Add the next row of a transcript that grows; the unit of a message."""
        self._by_uuid[row.uuid] = row
        self._reattach(row)
        if not row.speaks:
            return None
        is_new = self._take(row)
        unit = self._unit_of[row.uuid]
        if is_new:
            self._parent_of[unit] = self._hang(unit)
        self._count = row.place = self._count + 1
        return unit

    def beside(self, unit: TreeUnit) -> list[TreeUnit]:
        """The attachments that are sent although they are beside the branch that goes on.

        They hang on a call or on a result.
        """
        if self._release < SENDS_BESIDE or not unit.is_work:
            return []
        found = [one for one in unit.children if one.is_attached and one.newest < unit.newest]
        for one in found:
            found += one.children
        return sorted(found, key=lambda one: one.rows[0].index)

    def parent_of(self, unit: TreeUnit) -> TreeUnit | None:
        """The unit that one of a growing transcript hangs on."""
        return self._parent_of.get(unit)

    def step(self, row: TranscriptRow, end: TranscriptRow | None) -> TranscriptStep:
        """A row of a unit that has this end."""
        if row.is_summary:
            return self._summary_step(row)
        self._count = row.place = self._count + 1
        return TranscriptStep(row, ends_answer=row is end)

    def _summary_step(self, row: TranscriptRow) -> TranscriptStep:
        boundary = self._boundaries.get(row.uuid)
        if boundary is None:
            return TranscriptStep(row)
        kept = self._kept(boundary)
        rows = [self._by_uuid[one] for one in kept if one in self._by_uuid]
        behind = sorted((one for one in rows if one.place), key=lambda one: one.place)
        return TranscriptStep(
            row,
            keeps=kept,
            behind=() if boundary.keeps_first else tuple(one.uuid for one in behind),
            keeps_first=boundary.keeps_first,
            record=boundary.metadata or {},
        )

    def _take(self, row: TranscriptRow) -> bool:
        """Put a message into its unit, and return whether the unit is new."""
        unit = self._joined(row)
        is_new = unit is None
        if unit is None:
            unit = TreeUnit()
        if row.type == "assistant":
            if row.answer:
                self._answers.setdefault(row.answer, unit)
            self._callers.update(dict.fromkeys(row.calls, unit))
        on = unit if is_new else self._between(row, unit) or unit
        if not is_new and on is unit and self._unit_of.get(self._above(row)) is not unit:
            self._tops_of(unit).add(row.uuid)
        unit.add_row(row)
        self._unit_of[row.uuid] = on
        return is_new

    def _joined(self, row: TranscriptRow) -> TreeUnit | None:
        """The unit that a row belongs to, if it exists already."""
        if row.type == "assistant":
            return self._answers.get(row.answer) if row.answer else None
        unit = self._called_by(row) if row.results else None
        in_order = unit is not None and self._release < RESULTS_FIRST
        return None if unit is not None and in_order and self._between(row, unit) else unit

    def _called_by(self, row: TranscriptRow) -> TreeUnit | None:
        """The unit with the call that a result answers."""
        for uuid in (row.source, self._above(row)):
            if uuid in self._by_uuid and self._by_uuid[uuid].type == "assistant":
                return self._unit_of.get(uuid)
        return next((self._callers[one] for one in row.results if one in self._callers), None)

    def _between(self, row: TranscriptRow, unit: TreeUnit) -> TreeUnit | None:
        """What a late result hangs on, if that is below the unit with its call.

        The tool sends it too, and what follows the result follows it.
        """
        at = self._above(row) if row.results else ""
        above = self._unit_of.get(at)
        if above is None or above is unit:
            return None
        return above if self._tops_of(unit).has_above(at) else None

    def _tops_of(self, unit: TreeUnit) -> Tops:
        """The rows of a unit that hang on none of its other rows."""
        if unit not in self._tops:
            self._tops[unit] = Tops(self._ancestors, unit.rows[0].uuid)
        return self._tops[unit]

    def _above_named(self, uuid: str) -> str:
        return self._above(self._by_uuid[uuid])

    def _above(self, row: TranscriptRow, *, stop_at_boundary: bool = False) -> str:
        """The nearest message above a row, or the nearest compaction if it is nearer."""
        nearest = self._nearest[stop_at_boundary]
        parent, passed = row.parent, set[str]()
        while parent and parent in self._by_uuid and parent not in passed and parent != row.uuid:
            above = self._by_uuid[parent]
            if above.speaks or (stop_at_boundary and above.subtype == "compact_boundary"):
                nearest.update(dict.fromkeys(passed, parent))
                return parent
            passed.add(parent)
            parent = nearest.get(parent) or above.parent
        return ""

    def _reattach(self, row: TranscriptRow) -> None:
        """Give a row its place, and remember the parent that it has in the file."""
        written = row.parent
        self._place(row)
        if row.parent != written:
            self._written[row.uuid] = written
        if row.speaks:
            self._speaker = row.uuid
        self._last = row.uuid

    def _place(self, row: TranscriptRow) -> None:
        """Give compactions their place: behind what they cut off, and ahead of what follows."""
        if row.subtype == "compact_boundary":
            self._boundary, self._summary = row, ""
            named = self._named[row.uuid] = self._named_by(row)
            self._kept_now = self._kept(row)
            late = [one for one in named if self._by_uuid[one].index > row.index]
            self._late = dict(zip(late, ["", *late], strict=False))
            above = self._by_uuid.get(row.parent or "")
            # The rows that it keeps may come behind its logical parent, and this one behind itself.
            if above is None or above.index > row.index or self._kept_now:
                row.parent = self._speaker or None
        elif row.is_summary:
            if self._boundary is not None:
                self._boundaries[row.uuid], self._summary = self._boundary, row.uuid
                self._summarised.add(self._boundary.uuid)
            elif row.parent not in self._by_uuid:
                row.parent = self._speaker or None
        elif self._summary and row.uuid in self._late:
            # The rows that are kept follow the summary, in their order, although some come later.
            row.parent = self._late[row.uuid] or self._summary
        elif self._summary and (row.parent in self._kept_now or row.parent == self._summary):
            # What follows hangs on a row that was kept, although it comes after the summary.
            row.parent = next(reversed(self._late), self._summary)
        elif row.parent and row.parent not in self._by_uuid and self._release >= BRIDGES:
            row.parent = self._last or row.parent

    def _kept(self, boundary: TranscriptRow) -> frozenset[str]:
        """The rows that a compaction has kept as they are."""
        kept = set(self._named.get(boundary.uuid, ()))
        units = [self._unit_of[one] for one in kept if one in self._unit_of]
        calls = {
            call for unit in units for row in unit.rows if row.uuid in kept for call in row.calls
        }
        # The walk sees one of several results that were asked for together.
        kept |= {
            row.uuid
            for unit in units
            for row in unit.rows
            if row.results and (boundary.segment or not calls.isdisjoint(row.results))
        }
        return frozenset(kept)

    def _named_by(self, boundary: TranscriptRow) -> list[str]:
        """The rows that a compaction says it has kept, in their order."""
        # If one of the rows is missing, the tool keeps none of them.
        if any(one not in self._by_uuid for one in boundary.kept):
            return []
        head, at = boundary.segment or ("", "")
        segment: dict[str, None] = {}
        while at in self._by_uuid and at not in segment:
            segment[at] = None
            # Nothing is above a compaction for the tool.
            is_end = at == head or self._by_uuid[at].subtype == "compact_boundary"
            at = "" if is_end else self._written.get(at, self._by_uuid[at].parent) or ""
        whole = reversed(segment) if head in segment else ()
        return list(dict.fromkeys([*boundary.kept, *whole]))

    def _hang(self, unit: TreeUnit) -> TreeUnit:
        first = unit.rows[0]
        # A compaction without a summary: the model sees only what follows it.
        above = self._above(first, stop_at_boundary=True)
        unit.begins = (
            above in self._by_uuid
            and self._by_uuid[above].subtype == "compact_boundary"
            and above not in self._summarised
        )
        parent = self._unit_of.get(self._above(first))
        parent = self.root if parent is None or parent is unit else parent
        parent.add_child(unit)
        return parent

    def _note(self, row: TranscriptRow, last: TranscriptRow | None) -> None:
        above = self._above(row) or (last.uuid if last else "")
        self._unit_of.get(above, self.root).add_note(row)

    def _break_cycles(
        self, units: list[TreeUnit], parents: list[TreeUnit], path: Path, problems: list[Problem]
    ) -> None:
        """Hang units that only hang on each other on the root."""
        seen: set[int] = set()
        _mark(self.root, seen)
        for unit, parent in zip(units, parents, strict=True):
            if id(unit) not in seen:
                row = unit.rows[0]
                problems.append(Problem(path, row.line, "its parents form a cycle"))
                if parent.below:
                    parent.below.remove(unit)
                self.root.add_child(unit)
                _mark(unit, seen)

    def _date(self) -> None:
        """Find the newest row below each unit: the branch that holds it is the live one."""
        for row in self._by_uuid.values():
            above = row.uuid if row.speaks else "" if row.type == "progress" else self._above(row)
            if (unit := self._unit_of.get(above)) is not None:
                unit.own = max(unit.own, row.index)
        order = [self.root]
        for unit in order:
            unit.is_work |= any(row.calls or row.results for row in unit.rows)
            for child in unit.children:
                child.is_work = unit.is_work and child.has_attachments
            order += unit.children
        for unit in reversed(order):
            unit.newest = max([unit.own, *(child.newest for child in unit.children)])
            attached = all(child.is_attached for child in unit.children)
            unit.is_attached = attached and unit.has_attachments


def _mark(root: TreeUnit, seen: set[int]) -> None:
    todo = [root]
    while todo:
        unit = todo.pop()
        if id(unit) not in seen:
            seen.add(id(unit))
            todo += unit.children


@dataclass(frozen=True, slots=True)
class Back:
    """A branch ends: the session goes back to right after this row."""

    to: str | None


Steps: TypeAlias = Iterator[TranscriptStep | Back]


def in_tree_order(
    parts: Iterable[list[TranscriptRow]],
    path: Path,
    problems: list[Problem],
    release: Release = NEWEST,
) -> Steps:
    """All rows: a branch that was left comes first, and then a rewind, and then the next one.

    Each part begins below the last row of the one before.
    """
    tree = TranscriptTree(release)
    anchor: TranscriptRow | None = None
    at: str | None = None
    for rows in parts:
        if anchor is not None:
            tree.go_on_below(anchor)
        at = yield from _walk(tree, tree.build(rows, path, problems), at)
        anchor = rows[-1] if rows else None


def _walk(
    tree: TranscriptTree, root: TreeUnit, at: str | None
) -> Generator[TranscriptStep | Back, None, str | None]:
    """The rows below a unit, and the notes at it. Returns where the session is then."""
    # Not by recursion: a chain may be longer than Python's stack.
    todo: list[tuple[TreeUnit, str | None] | Back] = [(root, at)]
    while todo:
        item = todo.pop()
        if isinstance(item, Back):
            yield item
            continue
        unit, at = item
        beside = tree.beside(unit)
        for one in (unit, *beside):
            end = one.end()
            if one.begins:
                yield Back(None)
            for row in one.ordered():
                yield tree.step(row, end)
                at = row.uuid
            for row in one.notes:
                yield TranscriptStep(row)
                if row.subtype == "microcompact_boundary":
                    at = f"{row.uuid}:cleared"
        todo += reversed(_branches(unit, at, beside))
    return at


def _branches(
    unit: TreeUnit, at: str | None, beside: list[TreeUnit]
) -> Sequence[tuple[TreeUnit, str | None] | Back]:
    """The units below, the branch with the newest row last, with a rewind between them.

    If a row of this unit itself is newer than all of them, they are left too.
    """
    following: list[tuple[TreeUnit, str | None] | Back] = []
    sent = set(beside)
    children = [child for child in unit.children if child not in sent]
    for number, child in enumerate(sorted(children, key=lambda child: child.newest)):
        if number:
            following.append(Back(at))
        following.append((child, at))
    if children and unit.own == unit.newest:
        following.append(Back(at))
    return following
