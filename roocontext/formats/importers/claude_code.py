"""Claude Code's transcripts: ~/.claude/projects/FOLDER/SESSION.jsonl. docs/formats/claude-code.md.

`claude_code_tree` puts the rows of a file into an order; here each of them becomes an event.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from roocontext.formats.events import (
    Added,
    Cleared,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    TitleSet,
    WentBack,
    source_of,
    titled,
)
from roocontext.formats.files import (
    UNREADABLE,
    SourceLine,
    contents_of,
    iso_ms,
    list_at,
    non_empty,
    opened,
    read_at,
    read_bytes,
    report,
)
from roocontext.formats.importer import Importer
from roocontext.formats.importers.claude_code_rows import (
    SPEAKERS,
    TranscriptRow,
    TranscriptRows,
    sent_of,
)
from roocontext.formats.importers.claude_code_tree import Back, TranscriptStep, TranscriptTree
from roocontext.formats.typed import Insertions, typed, with_typed_text
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, dicts

NAME = "claude-code"

CLEARED = "[Old tool result content cleared]"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_BUFFER = 1 << 17
_OWN_AGENTS = ("agent-acompact-", "agent-aprompt_suggestion-")


def _looks_like(record: Any) -> bool:
    """True if a file with this first record is a transcript."""
    return isinstance(record, dict) and (
        isinstance(record.get("uuid"), str)
        or (str(record.get("type")) in _TITLES and ("leafUuid" in record or "sessionId" in record))
        or record.get("type") in ("file-history-snapshot", "queue-operation", "permission-mode")
    )


def sources(path: Path) -> Iterator[Source]:
    """The sessions of a file: the main one, and those of sub-agents in the same file."""
    if path.name.startswith(_OWN_AGENTS):
        return
    problems: list[Problem] = []
    transcript = TranscriptRows.read(path, problems)
    facts, name, parent = transcript.facts, path.stem, None
    agents: list[str] = []
    if path.name.startswith("agent-"):
        folder = path.parent
        in_folder = folder.name == "subagents"
        parent = (folder.parent.name if in_folder else facts["session"]) or folder.name
        name = f"{parent}/{path.stem.removeprefix('agent-')}"
    else:
        agents = list(
            dict.fromkeys(row.agent for row in transcript.all if row.agent and row.speaks)
        )
    main = [row for row in transcript.all if row.agent not in agents]
    speaks = bool(agents) or any(row.speaks for row in main)
    if speaks or problems:  # if nothing of it could be read, the import has failed
        events = partial(_events, path, main, transcript.loose) if speaks else lambda _: iter(())
        yield source_of(NAME, name, path, events, parent=parent, problems=problems, **facts)
    for agent in agents:
        rows = [row for row in transcript.all if row.agent == agent]
        events, child = partial(_events, path, rows, None), f"{name}/{agent}"
        yield source_of(NAME, child, path, events, parent=name, **facts, agent=agent)


def _events(
    path: Path,
    rows: list[TranscriptRow],
    loose: list[SourceLine] | None,
    problems: list[Problem],
) -> Iterator[Event]:
    """The events of a session; `loose` are the lines outside the tree of a main one."""
    calls = Calls()
    tree = TranscriptTree()
    tree.build(rows, path, problems)
    with opened(path, _BUFFER) as file:
        for step in tree.walk():
            if isinstance(step, Back):
                yield WentBack(None, step.to)
                continue
            try:
                record = read_at(file, step.row.start, step.row.end)
                yield from events_of(step, record, calls)
            except ValueError as error:
                report(problems, Problem(path, step.row.line, str(error)))
        if loose is not None:
            yield from _loose_events(file, loose, {row.uuid for row in rows}, path, problems)
            yield from _other_files(path, problems)


def _other_files(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The outputs that the tool moved out of a transcript, and its facts about a sub-agent.

    The messages hold a preview of such an output, and the tool sends that.
    """
    outputs = contents_of(path.with_suffix("") / "tool-results", problems)
    for file in (*outputs, path.with_suffix(".meta.json")):
        try:
            if file.is_file():
                words = read_bytes(file).decode("utf-8", "surrogateescape")
                yield Noted(None, "file", {"name": file.name, "text": words})
        except OSError as error:
            report(problems, Problem(file, None, error.strerror or UNREADABLE))


class Calls:
    """The places of the results of calls: clearings name the calls."""

    def __init__(self) -> None:
        self.results: dict[str, tuple[str, int]] = {}

    def learn(self, uuid: str, content: Any) -> None:
        """Remember the results in a message."""
        for index, block in enumerate(content if isinstance(content, list) else []):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self.results[str(block.get("tool_use_id"))] = (uuid, index)


def events_of(step: TranscriptStep, record: dict[str, Any], calls: Calls) -> Iterator[Event]:
    """The events of a row that has a place in the tree. Takes the content out of the record."""
    row = step.row
    ts = iso_ms(record.get("timestamp"))
    if not (row.speaks and step.is_sent):
        if row.subtype == "microcompact_boundary":
            yield _cleared(row, record, calls)
        yield Noted(row.uuid, row.type, record, ts, row.line)
        return
    if row.type not in SPEAKERS:
        words = NewMessage(
            "user", sent_of(record), ts=ts, message_id=row.uuid, extra={"record": record}
        )
        yield Added(row.uuid, with_typed(words, record), row.line)
        return
    rest = dict(record["message"])
    content = rest.pop("content", None)
    calls.learn(row.uuid, content)
    message = NewMessage(
        "assistant" if row.type == "assistant" else "user",
        content,
        ts=ts,
        message_id=row.uuid,
        model=non_empty(rest.get("model")),
        usage=rest.get("usage") if step.ends_answer else None,
        extra={"record": {**record, "message": rest}},
    )
    if row.is_summary:
        yield Hid(
            row.uuid,
            (message,),
            keeps=step.keeps,
            kept_after=step.kept_after,
            at_end=step.keeps_first,
            record=step.record,
            line=row.line,
        )
    else:
        yield Added(row.uuid, with_typed(message, record), row.line)


def _cleared(row: TranscriptRow, record: dict[str, Any], calls: Calls) -> Cleared:
    names = list_at(as_dict(record.get("microcompactMetadata")), "compactedToolIds")
    blocks = [calls.results[name] for name in map(str, names) if name in calls.results]
    ts = iso_ms(record.get("timestamp"))
    return Cleared(f"{row.uuid}:cleared", tuple(blocks), CLEARED, line=row.line, ts=ts)


def _loose_events(
    file: BinaryIO, loose: list[SourceLine], uuids: set[str], path: Path, problems: list[Problem]
) -> Iterator[Event]:
    """The lines outside the tree, and the best title among them."""
    titles: dict[str, TitleSet] = {}
    for line in loose:
        try:
            value = read_at(file, line.start, line.end)
        except ValueError as error:
            report(problems, Problem(path, line.number, str(error)))
            continue
        record = as_dict(value)
        kind = non_empty(record.get("type")) or "unknown"
        yield Noted(None, kind, value, iso_ms(record.get("timestamp")), line.number)
        # A summary is often that of another session, whose last row it names.
        if kind in _TITLES and (kind != "summary" or str(record.get("leafUuid")) in uuids):
            for title in titled(record.get(_TITLES[kind]), line.number):
                titles[kind] = title
    yield from [titles[kind] for kind in _TITLES if kind in titles][:1]


_INSERTIONS: Final = Insertions(
    openings=(
        "Caveat: The messages below were generated by the user while running local commands",
        "This session is being continued from a previous conversation",
        "[Request interrupted by user",
        "Unknown slash command:",
    ),
    tags=(
        *("system-reminder", "local-command-caveat", "local-command-stdout"),
        *("local-command-stderr", "command-name", "command-message", "command-args"),
        *("command-contents", "bash-input", "bash-stdout", "bash-stderr"),
        *("ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics"),
        *("user-prompt-submit-hook", "session-start-hook", "user-memory-input"),
        *("task-notification", "agent-notification", "teammate-message", "tool_use_error"),
        *("mcp-resource-update", "mcp-polling-update", "tick"),
    ),
)
_COMMAND: Final = re.compile(
    r"\s*<command-message>.*?</command-message>\s*<command-name>(.*?)</command-name>"
    r"(?:\s*<command-args>(.*?)</command-args>)?",
    re.DOTALL,
)


def with_typed(message: NewMessage, record: dict[str, Any]) -> NewMessage:
    """The message of a row, marked if a person did not type all of it."""
    attachment = record.get("attachment")
    if isinstance(attachment, dict):
        is_prompt = attachment.get("commandMode", "prompt") == "prompt"
        return with_typed_text(message, _words(attachment.get("prompt")) if is_prompt else "")
    if record.get("isMeta") is True and message.role == "user":
        return with_typed_text(message, "")
    return typed(message, _typed)


def _typed(text: str) -> str:
    command = _COMMAND.match(text)
    if command is None:
        return _INSERTIONS.typed(text)
    name, arguments = command.groups(default="")
    return f"/{name.strip().removeprefix('/')} {arguments.strip()}".strip()


def _words(prompt: Any) -> str:
    """The words that were typed while the agent worked."""
    blocks = dicts(prompt) if isinstance(prompt, list) else [{"text": prompt}]
    texts = [block.get("text") for block in blocks]
    return "\n".join(_typed(words) for words in texts if isinstance(words, str))


IMPORTER: Final = Importer(
    tool=NAME,
    sources=sources,
    places=(
        *("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects"),
        *("$XDG_CONFIG_HOME/claude/projects", "~/.config/claude/projects"),
    ),
    looks_like=_looks_like,
    marks=(b'"uuid"', b'"sessionId"'),
    lists=(frozenset({"display", "pastedContents"}),),
)
