"""Claude Code's transcripts: ~/.claude/projects/FOLDER/SESSION.jsonl. docs/formats/claude-code.md.

The rows of a file are a tree (`claude_code_tree`) and have an order (`claude_code_walk`); here
every row becomes an event.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
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
)
from roocontext.formats.files import iso_ms, non_empty, opened, read_at, read_bytes
from roocontext.formats.importer import Importer
from roocontext.formats.importers.claude_code_parts import Parts, Whole
from roocontext.formats.importers.claude_code_releases import Release, release_of
from roocontext.formats.importers.claude_code_resumed import looks_in_other_files, with_rows_before
from roocontext.formats.importers.claude_code_tree import (
    Back,
    Loose,
    TranscriptRow,
    TranscriptRows,
    TranscriptStep,
    compacted_calls,
    in_tree_order,
    sent_of,
)
from roocontext.formats.typed import Insertions, typed, with_typed_text
from roocontext.log.entries import NewMessage

NAME = "claude-code"

CLEARED = "[Old tool result content cleared]"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_BUFFER = 1 << 17
_OWN_AGENTS = ("agent-acompact-", "agent-aprompt_suggestion-")


def looks_like(record: Any) -> bool:
    """Whether a file whose first record is this is a transcript."""
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
    parts = Parts.read(path, problems, of_agent=_is_agent_file(path))
    if parts is None or (parts.begins_elsewhere and looks_in_other_files(parts.facts)):
        yield from _whole_sources(path)
    elif parts.speaks:
        base, parent = _names(path, parts.facts)
        facts = {"tool": NAME, "path": str(path), **parts.facts}
        events = partial(_events, path, parts, problems, release_of(parts.facts), beside=True)
        yield Source(base, path, facts, events, problems, parent)


def _whole_sources(path: Path) -> Iterator[Source]:
    """The sessions of a file whose rows cannot be read in parts."""
    problems: list[Problem] = []
    rows = TranscriptRows.read(path, problems)
    base, parent = _names(path, rows.facts)
    release = release_of(rows.facts)
    shared = {"tool": NAME, "path": str(path)}
    is_agent_file = _is_agent_file(path)
    speaking = () if is_agent_file else [row.agent for row in rows.all if row.agent and row.speaks]
    agents = list(dict.fromkeys(speaking))
    main = [row for row in rows.all if row.agent not in agents]
    if not is_agent_file:
        main = with_rows_before(path, main, rows.facts)
    if agents or any(row.speaks for row in main):
        whole = Whole(main, rows.loose)
        events = partial(_events, path, whole, problems, release, beside=True)
        yield Source(base, path, {**shared, **rows.facts}, events, problems, parent)
    for agent in agents:
        found: list[Problem] = []
        facts = {**shared, **rows.facts, "agent": agent}
        of_agent = [row for row in rows.all if row.agent == agent]
        events = partial(_events, path, Whole(of_agent, Loose()), found, release)
        yield Source(f"{base}/{agent}", path, facts, events, found, base)


def _is_agent_file(path: Path) -> bool:
    return path.name.startswith("agent-")


def _names(path: Path, facts: dict[str, Any]) -> tuple[str, str | None]:
    """The id of a file's session, and of its parent."""
    if not _is_agent_file(path):
        return f"{NAME}:{path.stem}", None
    owner = path.parent.parent.name if path.parent.name == "subagents" else facts["session"]
    parent = f"{NAME}:{owner or path.parent.name}"
    return f"{parent}/{path.stem.removeprefix('agent-')}", parent


def _events(
    path: Path,
    parts: Parts | Whole,
    problems: list[Problem],
    release: Release,
    *,
    beside: bool = False,
) -> Iterator[Event]:
    calls = Calls(parts.cleared)
    with ExitStack() as files:
        own = files.enter_context(opened(path, _BUFFER))
        handles: dict[Path | None, BinaryIO] = {None: own}
        for step in in_tree_order(parts, path, problems, release):
            if isinstance(step, Back):
                yield WentBack(None, step.to)
                continue
            try:
                row = step.row
                if row.path not in handles:
                    handles[row.path] = files.enter_context(opened(row.path or path))
                record = read_at(handles[row.path], row.start, row.end)
                yield from events_of(step, record, calls)
            except ValueError as error:
                problems.append(Problem(step.row.path or path, step.row.line, str(error)))
        yield from _loose_events(own, parts, path, problems)
    if beside:
        yield from _files_beside(path, problems)


def _files_beside(path: Path, problems: list[Problem]) -> Iterator[Event]:
    """The outputs that the tool moved out of a transcript, and what it knows of a sub-agent.

    The messages hold a preview of such an output, and that is what the tool sends.
    """
    outputs = sorted((path.with_suffix("") / "tool-results").glob("*"))
    for file in (*outputs, path.with_suffix(".meta.json")):
        try:
            if file.is_file():
                words = read_bytes(file).decode("utf-8", "surrogateescape")
                yield Noted(None, "file", {"name": file.name, "text": words})
        except OSError as error:
            problems.append(Problem(file, None, error.strerror or "it cannot be read"))


class Calls:
    """Where the results of calls are, for the prunes that name calls: all, or only the `wanted`."""

    def __init__(self, wanted: set[str] | None = None) -> None:
        self._wanted = wanted
        self.results: dict[str, tuple[str, int]] = {}

    def learn(self, uuid: str, content: Any) -> None:
        """Remember the results in a message."""
        if self._wanted is not None and not self._wanted:
            return
        for index, block in enumerate(content if isinstance(content, list) else []):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = str(block.get("tool_use_id"))
                if self._wanted is None or call in self._wanted:
                    self.results[call] = (uuid, index)


def events_of(step: TranscriptStep, record: dict[str, Any], calls: Calls) -> Iterator[Event]:
    """The events of a row that has a place in the tree. Takes the content out of the record."""
    row = step.row
    ts = iso_ms(record.get("timestamp"))
    if not row.speaks:
        if row.subtype == "microcompact_boundary":
            yield _cleared(row, record, calls)
        yield Noted(row.uuid, row.type, record, ts, row.line)
        return
    if row.type == "attachment":
        content = sent_of(record["attachment"], record.get("rendered"))
        words = NewMessage("user", content, ts=ts, message_id=row.uuid, extra={"record": record})
        yield Added(row.uuid, with_typed(words, record), row.line)
        return
    rest = dict(record["message"])
    content = rest.pop("content", None)
    calls.learn(row.uuid, content)
    model = rest.get("model")
    message = NewMessage(
        "assistant" if row.type == "assistant" else "user",
        content,
        ts=ts,
        message_id=row.uuid,
        model=model if isinstance(model, str) and model else None,
        usage=rest.get("usage") if step.ends_answer else None,
        extra={"record": {**record, "message": rest}},
    )
    if row.is_summary:
        yield Hid(
            row.uuid,
            (message,),
            keeps=step.keeps,
            behind=step.behind,
            at_end=step.keeps_first,
            record=step.record,
            line=row.line,
        )
    else:
        yield Added(row.uuid, with_typed(message, record), row.line)


def _cleared(row: TranscriptRow, record: dict[str, Any], calls: Calls) -> Cleared:
    given = compacted_calls(record.get("microcompactMetadata"))
    blocks = [calls.results[one] for one in given if one in calls.results]
    ts = iso_ms(record.get("timestamp"))
    return Cleared(f"{row.uuid}:cleared", tuple(blocks), CLEARED, line=row.line, ts=ts)


def _loose_events(
    file: BinaryIO, parts: Parts | Whole, path: Path, problems: list[Problem]
) -> Iterator[Event]:
    """The lines that stand in no chain; the best title among them."""
    titles: dict[str, TitleSet] = {}
    for row in parts.loose:
        try:
            record = read_at(file, row.start, row.end)
        except ValueError as error:
            problems.append(Problem(path, row.number, str(error)))
            continue
        is_record = isinstance(record, dict)
        kind = (non_empty(record.get("type")) if is_record else None) or "unknown"
        ts = iso_ms(record.get("timestamp")) if is_record else None
        yield Noted(None, kind, record, ts, row.number)
        name = _TITLES.get(kind)
        title = record.get(name) if is_record and name else None
        if isinstance(title, str) and title.strip():
            # A summary is often that of another session, whose last row it names.
            if kind == "summary" and str(record.get("leafUuid")) not in parts:
                continue
            titles[kind] = TitleSet(title.strip()[:200], row.number)
    for kind in _TITLES:
        if kind in titles:
            yield titles[kind]
            return


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
    blocks = prompt if isinstance(prompt, list) else [{"text": prompt}]
    texts = [one.get("text") for one in blocks if isinstance(one, dict)]
    return "\n".join(_typed(one) for one in texts if isinstance(one, str))


IMPORTER: Final = Importer(
    tool=NAME,
    sources=sources,
    places=(
        *("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects"),
        *("$XDG_CONFIG_HOME/claude/projects", "~/.config/claude/projects"),
    ),
    looks_like=looks_like,
    marks=(b'"uuid"', b'"sessionId"'),
    lists=(frozenset({"display", "pastedContents"}),),
)
