"""Claude Code's transcripts: ~/.claude/projects/FOLDER/SESSION.jsonl. docs/formats/claude-code.md.

The rows of a file are a tree. Its branches are distinguished in `claude_code_tree`; here every row
becomes an event.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from roocontext.formats.claude_code_resumed import with_rows_before
from roocontext.formats.claude_code_rows import Row, Rows
from roocontext.formats.claude_code_tree import Back, Step, in_tree_order
from roocontext.formats.events import (
    Added,
    Cleared,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    Titled,
    WentBack,
)
from roocontext.formats.lines import read_at
from roocontext.formats.times import iso_ms
from roocontext.log.entries import NewMessage

NAME = "claude-code"
FOLDERS = (
    *("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects"),
    *("$XDG_CONFIG_HOME/claude/projects", "~/.config/claude/projects"),
)
CLEARED = "[Old tool result content cleared]"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
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
    rows = Rows.read(path, problems)
    base, parent = _names(path, rows)
    shared = {"tool": NAME, "path": str(path)}
    is_agent_file = path.name.startswith("agent-")
    speaking = () if is_agent_file else [row.agent for row in rows.all if row.agent and row.speaks]
    agents = list(dict.fromkeys(speaking))
    main = [row for row in rows.all if row.agent not in agents]
    if not is_agent_file:
        main = with_rows_before(path, main, rows.facts)
    if agents or any(row.speaks for row in main):
        yield Source(
            base,
            path,
            {**shared, **rows.facts},
            partial(_events, path, main, rows.loose, problems, beside=True),
            problems,
            parent,
        )
    for agent in agents:
        found: list[Problem] = []
        facts = {**shared, **rows.facts, "agent": agent}
        of_agent = [row for row in rows.all if row.agent == agent]
        events = partial(_events, path, of_agent, [], found)
        yield Source(f"{base}/{agent}", path, facts, events, found, base)


def _names(path: Path, rows: Rows) -> tuple[str, str | None]:
    """The id of a file's session, and of its parent."""
    if not path.name.startswith("agent-"):
        return f"{NAME}:{path.stem}", None
    owner = path.parent.parent.name if path.parent.name == "subagents" else rows.facts["session"]
    parent = f"{NAME}:{owner or path.parent.name}"
    return f"{parent}/{path.stem.removeprefix('agent-')}", parent


def _events(
    path: Path,
    rows: list[Row],
    loose: list[Row],
    problems: list[Problem],
    *,
    beside: bool = False,
) -> Iterator[Event]:
    with ExitStack() as files:
        opened = {
            name: files.enter_context((name or path).open("rb"))
            for name in {None, *(row.path for row in rows)}
        }
        calls = Calls()
        for step in in_tree_order(rows, path, problems):
            if isinstance(step, Back):
                yield WentBack(None, step.to)
                continue
            try:
                row = step.row
                record = read_at(opened[row.path], row.start, row.end)
                yield from events_of(step, record, calls)
            except ValueError as error:
                problems.append(Problem(step.row.path or path, step.row.line, str(error)))
        known = {row.uuid for row in rows}
        yield from _loose_events(opened[None], loose, known, path, problems)
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
                words = file.read_bytes().decode("utf-8", "surrogateescape")
                yield Noted(None, "file", {"name": file.name, "text": words})
        except OSError as error:
            problems.append(Problem(file, None, error.strerror or "it cannot be read"))


class Calls:
    """Where the result of each call is, for the prunes that name calls."""

    def __init__(self) -> None:
        self.results: dict[str, tuple[str, int]] = {}

    def learn(self, uuid: str, content: Any) -> None:
        """Remember the results in a message."""
        for index, block in enumerate(content if isinstance(content, list) else []):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self.results[str(block.get("tool_use_id"))] = (uuid, index)


def events_of(step: Step, record: dict[str, Any], calls: Calls) -> Iterator[Event]:
    """The events of a row that has a place in the tree. Takes the content out of the record."""
    row = step.row
    ts = iso_ms(record.get("timestamp"))
    if not row.speaks:
        if row.subtype == "microcompact_boundary":
            yield _cleared(row, record, calls)
        yield Noted(row.uuid, row.type, record, ts, row.line)
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
        yield Added(row.uuid, message, row.line)


def _cleared(row: Row, record: dict[str, Any], calls: Calls) -> Cleared:
    metadata = record.get("microcompactMetadata")
    named = metadata.get("compactedToolIds") if isinstance(metadata, dict) else None
    given = map(str, named) if isinstance(named, list) else ()
    blocks = [calls.results[one] for one in given if one in calls.results]
    return Cleared(f"{row.uuid}:cleared", tuple(blocks), CLEARED, line=row.line)


def _loose_events(
    file: BinaryIO, loose: list[Row], known: set[str], path: Path, problems: list[Problem]
) -> Iterator[Event]:
    """The lines that stand in no chain; the best title among them."""
    titles: dict[str, Titled] = {}
    for row in loose:
        try:
            record = read_at(file, row.start, row.end)
        except ValueError as error:
            problems.append(Problem(path, row.line, str(error)))
            continue
        kind = row.type or "unknown"
        is_record = isinstance(record, dict)
        ts = iso_ms(record.get("timestamp")) if is_record else None
        yield Noted(None, kind, record, ts, row.line)
        name = _TITLES.get(kind)
        title = record.get(name) if is_record and name else None
        if isinstance(title, str) and title.strip():
            # A summary is often that of another session, whose last row it names.
            if kind == "summary" and str(record.get("leafUuid")) not in known:
                continue
            titles[kind] = Titled(title.strip()[:200], row.line)
    for kind in _TITLES:
        if kind in titles:
            yield titles[kind]
            return
