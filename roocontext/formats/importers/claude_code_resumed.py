"""What a resumed Claude Code transcript continues: rows of another file of its folder.

Until 2.0 the tool looked for a parent in all files of the folder, and a resumed session sometimes
began a new file. Later releases look in the session's own file only.
"""

from pathlib import Path
from typing import Any

from roocontext.formats.files import loads, opened
from roocontext.formats.importers.claude_code_releases import ONE_FILE, release_of
from roocontext.formats.importers.claude_code_tree import TranscriptRow, TranscriptRows


def looks_in_other_files(facts: dict[str, Any]) -> bool:
    """Whether the release that wrote a session follows a parent into another file."""
    return release_of(facts) < ONE_FILE


def with_rows_before(
    path: Path, rows: list[TranscriptRow], facts: dict[str, Any]
) -> list[TranscriptRow]:
    """The rows of a session, behind those of the files that it continues."""
    if not looks_in_other_files(facts):
        return rows
    seen = {path}
    while (parent := _missing_parent(rows)) and (found := _file_with(parent, path.parent, seen)):
        seen.add(found)
        before: list[TranscriptRow] = []
        for row in TranscriptRows.read(found, []).all:
            if not row.agent:
                row.path = row.path or found
                before.append(row)
            if row.uuid == parent:
                break
        known = {row.uuid for row in rows}
        rows = [*(row for row in before if row.uuid not in known), *rows]
    if len(seen) > 1:
        for index, row in enumerate(rows):
            row.index = index
    return rows


def _missing_parent(rows: list[TranscriptRow]) -> str | None:
    first = next((row for row in rows if row.speaks), None)
    if first is None or first.parent is None:
        return None
    return None if any(row.uuid == first.parent for row in rows) else first.parent


def _file_with(uuid: str, folder: Path, seen: set[Path]) -> Path | None:
    """The other transcript of a folder that has a row with this id."""
    needle = f'"{uuid}"'.encode()
    for path in sorted(folder.glob("*.jsonl")):
        if path in seen or path.name.startswith("agent-"):
            continue
        try:
            with opened(path) as file:
                if any(needle in line and _uuid(line) == uuid for line in file):
                    return path
        except OSError:
            continue  # it is reported when its own turn comes
    return None


def _uuid(line: bytes) -> Any:
    try:
        record = loads(line)
    except ValueError:
        return None
    return record.get("uuid") if isinstance(record, dict) else None
