"""Task folders of Roo Code and Cline. docs/formats/roo-code.md.

The API file is the list of messages as it is now: it is played in its order, and a summary or
marker comes right after the last message that it hides.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from roocontext.formats.events import (
    Added,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    WentBack,
    source_of,
    titled,
)
from roocontext.formats.files import (
    list_at,
    loads,
    non_empty,
    read_bytes,
    read_document,
    read_object,
    report,
    whole_ms,
)
from roocontext.formats.importer import Importer
from roocontext.formats.typed import Insertions, typed
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, dicts
from roocontext.programs.roo.history import CONDENSED, TAGS, TRUNCATED

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
_ITEM, _METADATA = "history_item.json", "task_metadata.json"
_EDITS = "context_history.json"
_KEPT = 2
"""The first messages, which Cline always sends."""
_JSON = json.JSONDecoder()


def _is_task(folder: Path) -> bool:
    """True if a folder is a task's."""
    return any((folder / name).is_file() for name in (API, *UI))


def _is_task_file(path: Path) -> bool:
    return path.name in (API, *UI)


def extension_places(*extensions: str) -> tuple[str, ...]:
    """The folders in which VS Code and its derivatives keep the tasks of these extensions."""
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
    name = folder.name
    # What is wrong with the files is reported when the events are read.
    item = read_object(folder / _ITEM, []) or _listed_item(folder)
    yield source_of(
        _tool(folder, _screen(folder, [])),
        name,
        folder,
        partial(_events, folder),
        parent=non_empty(item.get("parentTaskId")),
        session=name,
        folder=non_empty(item.get("workspace")) or non_empty(item.get("cwdOnTaskInitialization")),
        version=_version(folder),
        mode=non_empty(item.get("mode")),
    )


def _events(folder: Path, problems: list[Problem]) -> Iterator[Event]:
    rows, screen = _list(folder / API, problems), _screen(folder, problems)
    facts = {name: read_document(folder / name, problems) for name in (_ITEM, _METADATA, _EDITS)}
    listed, item = _listed_item(folder), as_dict(facts[_ITEM])
    deleted = _deleted_range(listed or item, screen)
    sent = {**_without_orphans(rows), **_changed_contents(rows, deleted, facts[_EDITS])}
    yield from _history(rows, deleted, sent)
    for number, record in enumerate(screen):
        at = as_dict(record).get("ts")
        yield Noted(f"ui:{at}:{number}", "ui", record, whole_ms(at))
    for name, record in (*facts.items(), ("task_history", listed)):
        if record:
            yield Noted(None, name.removesuffix(".json"), record)
    first = as_dict(screen[0]) if screen else {}
    texts = ((item or listed).get("task"), first.get("text"))
    yield from islice(chain.from_iterable(map(titled, texts)), 1)


def _history(
    rows: list[Any], deleted: _DeletedRange | None, sent: dict[int, list[Any]]
) -> Iterator[Event]:
    """The messages in their order; each summary or marker after the last one that it hides.

    `sent` has the contents of the messages that the tool changes when it sends them.
    """
    ids, tagged = list(_named(rows)), _tagged(rows)
    due: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        if (hider := _hider_id(row)) is not None:
            due.setdefault(max([index, *tagged.get(hider, ())]), []).append(index)
    at: str | None = None
    before: list[str | None] = []
    for index, row in enumerate(rows):
        before.append(at)
        if not isinstance(row, dict):
            yield Noted(None, "unknown", row)
        elif _hider_id(row) is None:
            events = _said(row, ids[index], sent.get(index), at)
            yield from events
            match events[-1]:
                case Added(id=str(name)):
                    ids[index] = at = name
        for hides in due.get(index, ()):
            yield _hid(rows, hides, ids, tagged.get(_hider_id(rows[hides]) or "", []))
            at = ids[hides]
        start, end = deleted or (len(rows), 0)
        if start <= index == min(end, len(rows) - 1):
            # The tool leaves these out and puts nothing in their place.
            at = before[start]
            yield WentBack(f"deleted:{end}", at)


def _without_orphans(rows: list[Any]) -> dict[int, list[Any]]:
    """The contents of messages after a summary without results of calls before it.

    The tool leaves such results out, and a message that held nothing else.
    """
    ends = [index for index, row in enumerate(rows) if as_dict(row).get(CONDENSED.flag) is True]
    if not ends:
        return {}
    later = [(index, as_dict(row)) for index, row in enumerate(rows) if index >= ends[-1]]
    calls = {
        str(block.get("id"))
        for _, row in later
        if row.get("role") == "assistant"
        for block in _blocks(row, "tool_use")
    }
    sent: dict[int, list[Any]] = {}
    for index, row in later[1:]:
        if row.get("role") == "user" and _hider_id(row) is None:
            results = _blocks(row, "tool_result")
            orphans = [block for block in results if str(block.get("tool_use_id")) not in calls]
            if orphans or row.get("content") == []:
                sent[index] = [block for block in row["content"] if block not in orphans]
    return sent


def _blocks(row: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in dicts(row.get("content")) if block.get("type") == kind]


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


def _tagged(rows: list[Any]) -> dict[str, list[int]]:
    """By the id of a summary or marker: the rows that it hides.

    The tool sends what follows the last summary, where the tags of what is before it do not count.
    """
    hiders = {_hider_id(row): index for index, row in enumerate(rows)}
    last = max(
        (n for n, row in enumerate(rows) if as_dict(row).get(CONDENSED.flag) is True), default=-1
    )
    tagged: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        for tag in TAGS:
            parent = non_empty(as_dict(row).get(tag.key))
            if parent and (index <= last or hiders.get(parent, -1) > last):
                tagged.setdefault(parent, []).append(index)
    return tagged


def _hid(rows: list[Any], index: int, ids: list[str], tagged: list[int]) -> Hid:
    row, hidden = rows[index], frozenset(ids[at] for at in tagged)
    record = {tag.id: row[tag.id] for tag in TAGS if tag.id in row}
    message = _message(row, ids[index])
    if row.get(TRUNCATED.flag):
        # Messages that stay may be between those that it hides and the marker.
        is_late = index > max(tagged, default=index)
        return Hid(
            ids[index], (message,), hides=hidden, at_end=is_late, truncates=True, record=record
        )
    return Hid(ids[index], (message,), record=record)


def _hider_id(row: Any) -> str | None:
    """The id of a summary or marker; "" for one that has none."""
    if not isinstance(row, dict):
        return None
    for tag in TAGS:
        if row.get(tag.flag) is True:
            id_ = row.get(tag.id)
            return id_ if isinstance(id_, str) else ""
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
    match read_object(folder / _METADATA, []):
        case {"environment_history": [*_, {"cline_version": str(version)}]} if version:
            return version
    return None


def _tool(folder: Path, screen: list[Any]) -> str:
    where = str(folder)
    if "claude-dev" in where or "/.cline/" in folder.as_posix():
        return CLINE
    if "roo-cline" in where or "zoo-code" in where.lower():
        return ROO
    is_cline = any(name in record for record in dicts(screen) for name in _CLINE_FIELDS)
    return CLINE if is_cline else ROO


def _screen(folder: Path, problems: list[Problem]) -> list[Any]:
    name = next((name for name in UI if (folder / name).is_file()), None)
    return _list(folder / name, problems) if name else []


def _list(path: Path, problems: list[Problem]) -> list[Any]:
    """The records of a list; those before the damage if it is damaged."""
    if not path.is_file():
        report(problems, Problem(path, None, "the file is missing", cuts=True))
        return []
    value = read_document(path, problems, cuts=True)
    if value is not None and not isinstance(value, list):
        report(problems, Problem(path, None, "it holds no list"))
    if value is None:
        with suppress(OSError):
            return _beginning(read_bytes(path).decode("utf-8", "replace"))
    return value if isinstance(value, list) else []


def _beginning(text: str) -> list[Any]:
    """The whole records of a list that is cut off."""
    records: list[Any] = []
    place = text.find("[") + 1
    while place:
        place += len(text[place:]) - len(text[place:].lstrip(" \n\r\t,"))
        try:
            record, place = _JSON.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        records.append(record)
    return records


def _listed_item(folder: Path) -> dict[str, Any]:
    """The item of this task in the list of tasks, a file next to the tasks' folder."""
    file = folder.parent.parent / "state" / "taskHistory.json"
    try:
        now = file.stat()
        return dict(_items(file, now.st_mtime_ns, now.st_size).get(folder.name, {}))
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=4)
def _items(file: Path, *_version: int) -> Mapping[str, dict[str, Any]]:
    return {str(item.get("id")): item for item in dicts(loads(read_bytes(file)))}


def _deleted_range(item: dict[str, Any], screen: list[Any]) -> _DeletedRange | None:
    """The messages that are left out: the list of tasks counts, else the newest in the interface.

    A resumed task takes the range from the list.
    """
    name = "conversationHistoryDeletedRange"
    newest = (record[name] for record in reversed(dicts(screen)) if record.get(name))
    match item.get(name) if item else next(newest, None):
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
    sent: dict[int, list[Any]] = {}
    if _KEPT < first < len(rows) and as_dict(rows[first]).get("role") == "user":
        content = _content(rows[first])
        sent[first] = [block for block in content if as_dict(block).get("type") != "tool_result"]
    for index, texts in _texts(edits).items():
        if 0 <= index < len(rows) and not _KEPT <= index < first:
            blocks = sent.get(index) or _content(rows[index])
            sent[index] = _edited(deepcopy(blocks), texts)
    return {index: content for index, content in sent.items() if content != _content(rows[index])}


def _content(row: Any) -> list[Any]:
    return list_at(as_dict(row), "content")


def _texts(edits: Any) -> dict[int, dict[int, str]]:
    """By message and block: the newest text that replaces its own."""
    texts: dict[int, dict[int, str]] = {}
    for edit in edits if isinstance(edits, list) else []:
        match edit:
            case [int(index), [_, list(blocks)]]:
                for block in blocks:
                    match block:
                        case [int(number), [*_, [_, "text", [str(text), *_], *_]]]:
                            texts.setdefault(index, {})[number] = text
    return texts


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
