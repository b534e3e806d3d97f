"""Task folders of Roo Code and Cline. docs/formats/roo-code.md.

The API file is the list of messages as it is now: it is played in its order, and a summary or
marker comes right after the last message that it hides.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from roocontext.formats.events import Added, Event, Hid, Noted, Problem, Source, TitleSet, WentBack
from roocontext.formats.files import (
    loads,
    non_empty,
    read_bytes,
    read_document,
    read_object,
    whole_ms,
)
from roocontext.formats.importer import Importer
from roocontext.formats.typed import Insertions, typed
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, dicts

ROO, CLINE = "roo-code", "cline"
_DeletedRange: TypeAlias = tuple[int, int]
API = "api_conversation_history.json"
UI = ("ui_messages.json", "claude_messages.json")
_CLINE_FIELDS = ("conversationHistoryDeletedRange", "modelInfo", "lastCheckpointHash")
INSERTIONS = Insertions(
    openings=("[ERROR]", "[TASK RESUMPTION]", "# task_progress", "# Todo List"),
    tags=(
        *("environment_details", "file_content", "folder_content", "url_content", "command"),
        *("explicit_instructions", "workspace_diagnostics", "git_commit", "git_working_state"),
        *("terminal_output", "system-reminder"),
    ),
    wrappers=("task", "feedback", "user_message", "answer"),
)
"""The tools' own texts in the user's messages, and the elements around what a person typed."""
_FACTS = ("history_item.json", "task_metadata.json", "context_history.json")
_KEPT = 2
"""The first messages, which Cline always sends."""
_JSON = json.JSONDecoder()


def _is_task(folder: Path) -> bool:
    """Whether a folder is a task's."""
    return any((folder / name).is_file() for name in (API, *UI))


def _is_task_file(path: Path) -> bool:
    return path.name in (API, *UI)


def extension_places(*extensions: str) -> tuple[str, ...]:
    """Where VS Code and what is made of it keep the tasks of these extensions."""
    editors = (
        *("$XDG_CONFIG_HOME/*/User", "~/.config/*/User", "~/.var/app/*/config/*/User"),
        *("~/Library/Application Support/*/User", "~/AppData/Roaming/*/User"),
        *("~/.*-server*/data/User", "~/.local/share/code-server/User"),
    )
    return tuple(
        f"{editor}/{storage}/{extension}/tasks"
        for editor in editors
        for storage in ("globalStorage", "profiles/*/globalStorage")
        for extension in extensions
    )


def sources(path: Path) -> Iterator[Source]:
    """The session of a task folder, or of the one that a file lies in."""
    folder = path if path.is_dir() else path.parent
    problems: list[Problem] = []
    screen = _screen(folder, problems)
    tool = _tool(folder, screen)
    item = read_object(folder / _FACTS[0], problems) or _task_item(folder)
    parent = item.get("parentTaskId")
    facts = {
        "tool": tool,
        "path": str(folder),
        "session": folder.name,
        "folder": item.get("workspace") or item.get("cwdOnTaskInitialization"),
        "version": _version(folder),
        "mode": item.get("mode"),
    }
    yield Source(
        f"{tool}:{folder.name}",
        folder,
        facts,
        partial(_events, folder, problems),
        problems,
        f"{tool}:{parent}" if isinstance(parent, str) and parent else None,
    )


def _events(folder: Path, problems: list[Problem]) -> Iterator[Event]:
    problems.clear()
    rows = _list(folder / API, problems)
    screen = _screen(folder, problems)
    item = _task_item(folder)
    deleted = _deleted_range(item or read_object(folder / _FACTS[0], []), screen)
    edits = read_document(folder / _FACTS[2], [])
    sent = {**_without_orphans(rows), **_changed_contents(rows, deleted, edits)}
    yield from _history(rows, deleted, sent)
    for number, record in enumerate(screen):
        at = as_dict(record).get("ts")
        yield Noted(f"ui:{at}:{number}", "ui", record, whole_ms(at))
    for name in _FACTS:
        if found := read_document(folder / name, problems):
            yield Noted(None, name.removesuffix(".json"), found)
    if item:
        yield Noted(None, "task_history", item)
    title = _title(read_object(folder / _FACTS[0], []) or item, screen)
    if title:
        yield TitleSet(title)


def _history(
    rows: list[Any], deleted: _DeletedRange | None, sent: dict[int, list[Any]]
) -> Iterator[Event]:
    """The messages in their order; each summary or marker after the last one that it hides.

    `sent` has the contents of the messages that the tool changes when it sends them.
    """
    ids = list(_named(rows))
    hidden = _hidden_by(rows, ids)
    at: str | None = None
    before: list[str | None] = []
    due: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        if _hider_id(row) is not None:
            last = hidden.get(_hider_id(row) or "", (index, frozenset()))[0]
            due.setdefault(max(index, last), []).append(index)
    for index, row in enumerate(rows):
        before.append(at)
        if not isinstance(row, dict):
            yield Noted(None, "unknown", row)
        elif _hider_id(row) is None:
            events = _said(row, ids[index], sent.get(index), at)
            yield from events
            if isinstance(events[-1], Added):
                at = events[-1].id
        for hider in due.get(index, ()):
            yield _hid(rows, hider, ids, hidden)
            at = ids[hider]
        start, end = deleted or (len(rows), 0)
        if start <= index == min(end, len(rows) - 1):
            # The tool leaves these out and puts nothing in their place.
            at = before[start]
            yield WentBack(f"deleted:{end}", at)


def _without_orphans(rows: list[Any]) -> dict[int, list[Any]]:
    """What is left of the messages after a summary that answer calls before it.

    The tool leaves such results out, and a message that held nothing else.
    """
    # Summaries in the user's name, which the tools write since 2026.
    ends = [
        index
        for index, row in enumerate(rows)
        if as_dict(row).get("isSummary") is True and row.get("role") == "user"
    ]
    if not ends:
        return {}
    behind = [(index, row) for index, row in enumerate(rows) if index >= ends[-1]]
    calls = {
        str(block.get("id"))
        for _, row in behind
        if isinstance(row, dict) and row.get("role") == "assistant"
        for block in _blocks(row, "tool_use")
    }
    found: dict[int, list[Any]] = {}
    for index, row in behind[1:]:
        if isinstance(row, dict) and row.get("role") == "user" and _hider_id(row) is None:
            orphans = [
                one
                for one in _blocks(row, "tool_result")
                if str(one.get("tool_use_id")) not in calls
            ]
            if orphans or row.get("content") == []:
                found[index] = [one for one in row["content"] if one not in orphans]
    return found


def _blocks(row: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in dicts(row.get("content")) if one.get("type") == kind]


def _said(row: dict[str, Any], name: str, sent: list[Any] | None, at: str | None) -> list[Event]:
    """A message, and then in its place as it is `sent`, if that is not what the file has."""
    if row.get("role") not in ("user", "assistant"):
        return [Noted(name, "unknown", row, whole_ms(row.get("ts")))]
    events: list[Event] = [Added(name, _message(row, name))]
    if sent is not None:
        events.append(WentBack(f"{name}:left", at))
    if sent:
        events.append(Added(f"{name}:sent", _message({**row, "content": sent}, f"{name}:sent")))
    return events


def _hidden_by(rows: list[Any], ids: list[str]) -> dict[str, tuple[int, frozenset[str]]]:
    """For each id of a summary or marker: the last row with this tag, and all of them."""
    found: dict[str, tuple[int, frozenset[str]]] = {}
    for index, row in enumerate(rows):
        for tag in ("condenseParent", "truncationParent"):
            parent = as_dict(row).get(tag)
            if isinstance(parent, str) and parent:
                found[parent] = (index, found.get(parent, (0, frozenset[str]()))[1] | {ids[index]})
    return found


def _hid(
    rows: list[Any], index: int, ids: list[str], hidden: dict[str, tuple[int, frozenset[str]]]
) -> Hid:
    row = rows[index]
    record = {name: row[name] for name in ("condenseId", "truncationId") if name in row}
    message = _message(row, ids[index])
    if row.get("isTruncationMarker"):
        tagged = hidden.get(_hider_id(row) or "", (0, frozenset[str]()))[1]
        # Messages that stay may be between those that it hides and the marker.
        late = index > hidden.get(_hider_id(row) or "", (index, frozenset()))[0]
        return Hid(ids[index], (message,), hides=tagged, at_end=late, truncates=True, record=record)
    # The tool sends what follows its last summary, and one of the assistant's after the first row.
    first = isinstance(rows[0], dict) and rows[0].get("role") == "user"
    keeps = {ids[0]} if first and row.get("role") != "user" else set[str]()
    tagged = hidden.get(_hider_id(row) or "", (0, frozenset[str]()))[1]
    return Hid(ids[index], (message,), keeps=frozenset(keeps) - tagged, record=record)


def _hider_id(row: Any) -> str | None:
    """The id of a summary or marker; "" for one that has none."""
    if not isinstance(row, dict):
        return None
    for flag, name in (("isSummary", "condenseId"), ("isTruncationMarker", "truncationId")):
        if row.get(flag) is True:
            found = row.get(name)
            return found if isinstance(found, str) else ""
    return None


def _named(rows: list[Any]) -> Iterator[str]:
    """Rows have no ids: their times serve, numbered where they recur."""
    seen: Counter[str] = Counter()
    for row in rows:
        ts = as_dict(row).get("ts")
        mark = "-" if ts is None else str(ts)
        seen[mark] += 1
        yield f"{mark}:{seen[mark]}"


def _message(row: dict[str, Any], name: str) -> NewMessage:
    rest = {key: value for key, value in row.items() if key not in ("role", "content")}
    content, format_ = row.get("content"), "anthropic"
    if row.get("type") == "reasoning" and content is None:
        # A whole message may be an item of the Responses API.
        content, format_ = {k: v for k, v in rest.items() if k != "ts"}, "openai-responses"
    message = NewMessage(
        str(row.get("role")),
        content,
        format_,
        ts=whole_ms(row.get("ts")),
        message_id=name,
        model=non_empty(as_dict(row.get("modelInfo")).get("modelId")),
        extra={"record": rest},
    )
    return typed(message, INSERTIONS.typed)


def _version(folder: Path) -> str | None:
    """The release of Cline that a task was worked on with last."""
    match read_object(folder / _FACTS[1], []):
        case {"environment_history": [*_, {"cline_version": str(version)}]} if version:
            return version
    return None


def _tool(folder: Path, screen: list[Any]) -> str:
    where = str(folder)
    if "claude-dev" in where or "/.cline/" in folder.as_posix():
        return CLINE
    if "roo-cline" in where or "zoo-code" in where.lower():
        return ROO
    is_cline = any(name in one for one in dicts(screen) for name in _CLINE_FIELDS)
    return CLINE if is_cline else ROO


def _title(item: dict[str, Any], screen: list[Any]) -> str | None:
    first = as_dict(screen[0]) if screen else {}
    for text in (item.get("task"), first.get("text")):
        if isinstance(text, str) and text.strip():
            return text.strip().replace("\0", "")[:200]
    return None


def _screen(folder: Path, problems: list[Problem]) -> list[Any]:
    name = next((name for name in UI if (folder / name).is_file()), None)
    return _list(folder / name, problems) if name else []


def _list(path: Path, problems: list[Problem]) -> list[Any]:
    """The records of a list; those before the damage if it is damaged."""
    if not path.is_file():
        problems.append(Problem(path, None, "the file is missing", cuts=True))
        return []
    found = read_document(path, problems, cuts=True)
    if isinstance(found, list):
        return found
    if found is not None:
        problems.append(Problem(path, None, "it holds no list"))
        return []
    return _beginning(read_bytes(path).decode("utf-8", "replace"))


def _beginning(text: str) -> list[Any]:
    """The whole records of a list that is cut off."""
    found: list[Any] = []
    place = text.find("[") + 1
    while place:
        place += len(text[place:]) - len(text[place:].lstrip(" \n\r\t,"))
        try:
            record, place = _JSON.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found.append(record)
    return found


def _task_item(folder: Path) -> dict[str, Any]:
    """What the list of tasks, which lies next to their folders, says of this one."""
    file = folder.parent.parent / "state" / "taskHistory.json"
    try:
        found = file.stat()
        return dict(_items(file, found.st_mtime_ns, found.st_size).get(folder.name, {}))
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=4)
def _items(file: Path, *_version: int) -> Mapping[str, dict[str, Any]]:
    found = loads(read_bytes(file))
    return {str(one.get("id")): one for one in dicts(found)}


def _deleted_range(item: dict[str, Any], screen: list[Any]) -> _DeletedRange | None:
    """The messages that are left out: the list of tasks counts, else the newest in the interface.

    A resumed task takes the range from the list.
    """
    name = "conversationHistoryDeletedRange"
    found = item.get(name)
    if not item:
        found = next((one[name] for one in reversed(dicts(screen)) if one.get(name)), None)
    match found:
        case [int(start), int(end)] if 0 <= start <= end:
            return start, end
    return None


def _changed_contents(
    rows: list[Any], deleted: _DeletedRange | None, edits: Any
) -> dict[int, list[Any]]:
    """By the number of a message: its content as it is sent, if it is another than in the file.

    The results at the beginning of what follows the range answer calls that are left out.
    """
    first = deleted[1] + 1 if deleted else _KEPT
    found: dict[int, list[Any]] = {}
    if first > _KEPT and first < len(rows):
        content = _content(rows[first])
        kept = [one for one in content if not _is_result(one)]
        if len(kept) < len(content) and rows[first].get("role") == "user":
            found[first] = kept
    for index, texts in _texts(edits).items():
        if 0 <= index < len(rows) and not _KEPT <= index < first:
            blocks = found.get(index) or _content(rows[index])
            found[index] = _edited(deepcopy(blocks), texts)
    return {index: content for index, content in found.items() if content != _content(rows[index])}


def _content(row: Any) -> list[Any]:
    content = row.get("content") if isinstance(row, dict) else None
    return content if isinstance(content, list) else []


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _texts(edits: Any) -> dict[int, dict[int, str]]:
    """By message and block: the newest text that replaces its own."""
    found: dict[int, dict[int, str]] = {}
    for one in edits if isinstance(edits, list) else []:
        match one:
            case [int(index), [_, list(blocks)]]:
                for block in blocks:
                    match block:
                        case [int(number), [*_, [_, "text", [str(text), *_], *_]]]:
                            found.setdefault(index, {})[number] = text
    return found


def _edited(blocks: list[Any], texts: Mapping[int, str]) -> list[Any]:
    for number, text in texts.items():
        match blocks[number : number + 1]:
            case [{"type": "text"} as block]:
                block["text"] = text
            case [{"type": "tool_result", "content": [{"type": "text"} as block, *_]}]:
                block["text"] = text
    return blocks


IMPORTER: Final = Importer(
    tool=ROO,
    sources=sources,
    places=extension_places("rooveterinaryinc.roo-*", "zoocodeorganization.zoo-code*"),
    also=(CLINE,),
    is_folder=_is_task,
    is_file=_is_task_file,
)
