"""Transcripts that Claude Code resumes. docs/formats/claude-code.md.

Claude Code goes from the newest row back to one without a parent, such as the boundary of a
compaction. So what the model sees is the end of a transcript, in its order and without branches. If
it begins with a summary, a boundary and what the model saw before come first, and so on. Rows that
no compaction of this kind hides are left out: Claude Code would put the results among them back.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption
from roocontext.formats.exporter import Exporter, NewFile, one_by_one
from roocontext.formats.exporters.anthropic_rows import AnthropicRows, foreign_id, types_left_out
from roocontext.formats.files import non_empty
from roocontext.log.entries import Kind, Message
from roocontext.log.forms.block_rules import THINKING
from roocontext.log.forms.compacted import readable_by
from roocontext.log.forms.parts import no_result, orphan, trimmed
from roocontext.log.readings import Block, reader
from roocontext.log.readings.blocks import as_dict, text
from roocontext.store.session import Session

_VERSION: Final = "2.1.330"
_FORM: Final = "claude-code"
"""Not the form of any provider: a provider's compaction is written as the text of a summary."""
_LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last that a date can have."""


class PairedRow(NamedTuple):
    """A message with Anthropic's role and blocks."""

    message: Message
    role: str
    blocks: list[Block]

    @property
    def calls(self) -> list[str]:
        """The ids of its calls."""
        return _ids(self.blocks, "tool_use", "id") if self.role == "assistant" else []

    @property
    def results(self) -> list[str]:
        """The ids of the calls that it answers."""
        return _ids(self.blocks, "tool_result", "tool_use_id") if self.role == "user" else []


def paired_rows(messages: Iterable[Message]) -> Iterator[PairedRow]:
    """The rows in the order in which they can be sent, without those that have nothing to send."""
    read = AnthropicRows()
    waiting: list[str] = []
    held: list[PairedRow] = []
    last: PairedRow | None = None
    for message in messages:
        role, content = read.read(message)
        blocks = [text(content)] if isinstance(content, str) else content
        # Without the fields that other agents add and the provider refuses; thinking as it is.
        sent = [block if block.get("type") in THINKING else trimmed(block) for block in blocks]
        row = PairedRow(message, role, sent)
        if not row.blocks:
            continue
        if role == "assistant":
            if last is not None and last.role != role:
                yield from _closed(last, waiting, held)
                waiting, held = [], []
            waiting += row.calls
            yield row
        else:
            row = _answering(row, waiting)
            if row.results:
                yield row
            else:
                held.append(row)
            if not waiting:
                yield from held
                held = []
        last = row
    if last is not None:
        yield from _closed(last, waiting, held)


def _closed(last: PairedRow, waiting: list[str], held: list[PairedRow]) -> Iterator[PairedRow]:
    """Results for the calls that nothing has answered, and what the user has written meanwhile."""
    if waiting:
        yield PairedRow(last.message, "user", [no_result({"id": tool_id}) for tool_id in waiting])
    yield from held


def _answering(row: PairedRow, waiting: list[str]) -> PairedRow:
    """The row with the results of other calls as texts; the calls that it answers wait no more."""
    blocks: list[Block] = []
    for block in row.blocks:
        tool_id = block.get("tool_use_id") if block.get("type") == "tool_result" else None
        if not isinstance(tool_id, str):
            blocks.append(block)
        elif tool_id in waiting:
            waiting.remove(tool_id)
            blocks.append(block)
        else:
            blocks += orphan(block)
    return row._replace(blocks=blocks)


def _ids(blocks: Iterable[Block], kind: str, key: str) -> list[str]:
    ids = (block.get(key) for block in blocks if block.get("type") == kind)
    return [id_ for id_ in ids if isinstance(id_, str)]


def export_session(session: Session) -> Iterator[bytes]:
    """The transcript of a session. Its name has to be the session id in it, with `.jsonl`."""
    return _Transcript(session, foreign_id(session.id)).lines()


def export_folder(sessions: Sequence[Session], folder: Path) -> Iterator[NewFile]:
    """The transcript of the first session, and those of its sub-agents in a folder next to it."""
    name = foreign_id(sessions[0].id)
    yield NewFile(folder / f"{name}.jsonl", _Transcript(sessions[0], name).lines())
    for session in sessions[1:]:
        if session.view(limit=1).messages:
            agent = f"a{foreign_id(session.id).replace('-', '')[:16]}"
            file = folder / name / "subagents" / f"agent-{agent}.jsonl"
            yield NewFile(file, _Transcript(session, name, agent).lines())


class _Transcript:
    """Writes a transcript row by row."""

    def __init__(self, session: Session, name: str, agent: str | None = None) -> None:
        info = session.info()
        metadata = as_dict(info.metadata)
        self._session, self._name, self._title = session, name, info.title
        self._side = {"isSidechain": agent is not None, **({"agentId": agent} if agent else {})}
        self._about = {
            "userType": "external",
            "cwd": non_empty(metadata.get("folder")) or "/",
            "sessionId": name,
            "version": non_empty(metadata.get("version")) or _VERSION,
            "gitBranch": non_empty(metadata.get("branch")) or "",
        }
        self._usages = {call.seq: call.usage for call in session.internals.calls()}
        self._number, self._time = 0, 0
        self._parent: str | None = None
        self._answer: str | None = None
        self._calls: dict[str, str | None] = {}

    def lines(self) -> Iterator[bytes]:
        """The lines, oldest first."""
        for number, moment in enumerate(_moments(self._session)):
            self._calls.clear()
            for index, row in enumerate(paired_rows(_view(self._session, moment))):
                begins = bool(number) and not index
                if begins:
                    yield self._boundary(row.message)
                yield self._row(row, is_summary=begins)
        if self._parent is None:
            line = f"Session {self._session.id!r} has no visible message that can be resumed."
            raise InvalidOption(line, name="to")
        if self._title:
            title = {"type": "custom-title", "customTitle": self._title, "sessionId": self._name}
            yield _line(title)

    def _boundary(self, message: Message) -> bytes:
        above, self._parent = self._parent, None
        return self._record(
            message,
            {"logicalParentUuid": above},
            {
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "isMeta": False,
                "level": "info",
                "compactMetadata": {"trigger": "auto", "preTokens": 0},
            },
        )

    def _row(self, row: PairedRow, *, is_summary: bool) -> bytes:
        if row.role == "assistant":
            line = self._record(row.message, {}, {"type": row.role, "message": self._reply(row)})
            self._calls |= dict.fromkeys(row.calls, self._parent)
            return line
        self._answer = None
        message = {"role": row.role, "content": _plainest(row.blocks)}
        record: dict[str, Any] = {"type": row.role, "message": message}
        if row.results:
            record["sourceToolAssistantUUID"] = self._calls[row.results[-1]]
        if is_summary:
            record |= {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        return self._record(row.message, {}, record)

    def _reply(self, row: PairedRow) -> dict[str, Any]:
        # Rows of one id are one answer. Those that follow each other are one for the provider too.
        self._answer = self._answer or f"msg_{self._next_uuid().replace('-', '')[:24]}"
        reply: dict[str, Any] = {
            "id": self._answer,
            "type": "message",
            "role": row.role,
            "model": row.message.model or "unknown",
            "content": row.blocks,
            "stop_reason": "tool_use" if row.calls else "end_turn",
            "stop_sequence": None,
        }
        usage = self._usages.pop(row.message.seq, None)
        if isinstance(usage, dict) and "input_tokens" in usage:
            reply["usage"] = usage
        return reply

    def _record(self, message: Message, links: dict[str, Any], row: dict[str, Any]) -> bytes:
        """A line. Claude Code finds these fields of long files by their order, without parsing."""
        parent, self._parent = self._parent, self._next_uuid()
        self._number += 1
        ids = {"uuid": self._parent, "timestamp": self._timestamp(message)}
        return _line({"parentUuid": parent, **links, **self._side, **row, **ids, **self._about})

    def _next_uuid(self) -> str:
        return foreign_id(self._session.id, str(self._number))

    def _timestamp(self, message: Message) -> str:
        """The message's time, but later than the row above: the newest row is the live one."""
        self._time = min(max(message.happened_at, self._time + 1), _LATEST)
        when = datetime.fromtimestamp(self._time / 1000, UTC)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moments(session: Session) -> list[int]:
    """The entries right before each compaction, and the last one."""
    moments = [session.head().seq]
    while (first := session.view(as_of=moments[-1], limit=1).messages) and _begins(first):
        moments.append(first[0].seq - 1)
    return moments[::-1]


def _begins(first: Sequence[Message]) -> bool:
    """True if a compaction has left the view that begins with this message."""
    readable, _ = readable_by(first, _FORM, None)
    if not readable:
        return False
    message = readable[0]
    reading = reader(message.format)
    role, _ = reading.blocks(message.role, message.content)
    return message.kind is not Kind.MESSAGE and role == "user"


def _view(session: Session, seq: int) -> Iterator[Message]:
    for page in session.internals.pages(as_of=seq):
        yield from readable_by(page.messages, _FORM, None)[0]


def _plainest(blocks: list[Block]) -> list[Block] | str:
    """A single text as a string, as Claude Code writes prompts and summaries."""
    match blocks:
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
    return blocks


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


EXPORTER: Final = Exporter(
    "claude-code", one_by_one(export_session), export_folder, left_out=types_left_out
)
