"""What Cline does to a task's messages before it sends them. docs/formats/roo-code.md.

The API file is never changed by a compaction. Which messages are left out is in the list of tasks
and in the interface's messages, and which texts are replaced is in `context_history.json`.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from roocontext.formats.lines import loads
from roocontext.formats.source_files import read_bytes

Range: TypeAlias = tuple[int, int]
_KEPT = 2
"""The first messages, which are always sent."""


def task_item(folder: Path) -> dict[str, Any]:
    """What the list of tasks, which lies beside their folders, says of this one."""
    file = folder.parent.parent / "state" / "taskHistory.json"
    try:
        found = file.stat()
        return dict(_items(file, found.st_mtime_ns, found.st_size).get(folder.name, {}))
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=4)
def _items(file: Path, *_version: int) -> Mapping[str, dict[str, Any]]:
    found = loads(read_bytes(file))
    items = found if isinstance(found, list) else []
    return {str(one.get("id")): one for one in items if isinstance(one, dict)}


def deleted_range(item: dict[str, Any], screen: list[Any]) -> Range | None:
    """The messages that are left out: the list of tasks counts, else the newest in the interface.

    A resumed task takes the range from the list.
    """
    name = "conversationHistoryDeletedRange"
    found = item.get(name)
    if not item:
        found = next(
            (one[name] for one in reversed(screen) if isinstance(one, dict) and one.get(name)), None
        )
    match found:
        case [int(start), int(end)] if 0 <= start <= end:
            return start, end
    return None


def changed_contents(rows: list[Any], deleted: Range | None, edits: Any) -> dict[int, list[Any]]:
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
