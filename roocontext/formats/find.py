"""Which sessions lie at a path, and in which format."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from roocontext.errors import InvalidOption
from roocontext.formats import (
    claude_code,
    codex,
    gemini_cli,
    opencode,
    opencode_records,
    roo,
)
from roocontext.formats.events import Problem, Source
from roocontext.formats.lines import loads

JSONL = "roocontext"
_EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")
_STORAGES = (
    *(f"~/.config/{editor}/User/globalStorage" for editor in _EDITORS),
    *(f"~/Library/Application Support/{editor}/User/globalStorage" for editor in _EDITORS),
    *(f"~/AppData/Roaming/{editor}/User/globalStorage" for editor in _EDITORS),
    "~/.vscode-server/data/User/globalStorage",
    "~/.cursor-server/data/User/globalStorage",
)
"""Where VS Code and what is made of it keep the files of their extensions."""
PLACES = {
    claude_code.NAME: claude_code.FOLDERS,
    codex.NAME: codex.FOLDERS,
    gemini_cli.NAME: gemini_cli.FOLDERS,
    opencode.NAME: opencode.FOLDERS,
    roo.ROO: tuple(f"{storage}/rooveterinaryinc.roo-cline/tasks" for storage in _STORAGES),
    roo.CLINE: (
        "~/.cline/data/tasks",
        *(f"{storage}/saoudrizwan.claude-dev/tasks" for storage in _STORAGES),
    ),
}
"""Where each tool keeps its sessions by default."""

_LINE_BY_LINE = (codex, gemini_cli, claude_code)
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{')
_HEAD = 1 << 16
_LINES = 20


def places(tool: str) -> list[Path]:
    """The default places of a tool that exist here."""
    if tool not in PLACES:
        known = ", ".join(PLACES)
        raise InvalidOption(f"{tool!r} is not a known tool. The tools are {known}.", name="from")
    return [found for place in PLACES[tool] if (found := Path(place).expanduser()).is_dir()]


def files(path: Path, problems: list[Problem]) -> Iterator[Path]:
    """The files and task folders at a path that may hold sessions, in the order of their names."""
    try:
        if not path.is_dir():
            if path.is_file():
                yield path
            else:  # reading a pipe would wait for a writer
                what = "it is not a regular file" if path.exists() else "there is no such file"
                problems.append(Problem(path, None, what))
            return
        if roo.is_task(path) or opencode_records.is_storage(path):
            yield path
            return
        # Links are not followed: one may lead back to a folder above.
        inside = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        problems.append(Problem(path, None, error.strerror or "it cannot be read"))
        return
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            yield from files(Path(entry), problems)
        elif _is_candidate(Path(entry)) and entry.is_file():
            yield Path(entry)


def size_of(path: Path) -> int:
    """How large a file or a task folder is, in KiB, for the progress."""
    try:
        files = [one for one in path.iterdir() if one.is_file()] if path.is_dir() else [path]
        return 1 + (sum(file.stat().st_size for file in files) >> 10)
    except OSError:
        return 1


def changed(paths: Sequence[Path], seen: dict[Path, int]) -> list[Path]:
    """The files and folders at these paths that are not as they were seen last."""
    found: list[Path] = []
    for path in paths:
        found += files(path, [])
    now = {path: _stamp(path) for path in found}
    news = [path for path, stamp in now.items() if seen.get(path) != stamp]
    seen.update(now)
    return news


def _stamp(path: Path) -> int:
    """A number that changes with a file, with a file in a folder, or with a database's log."""
    inside = path.rglob("*") if path.is_dir() else iter((path, Path(f"{path}-wal")))
    return hash(tuple(sorted(filter(None, map(_moment, inside)))))


def _moment(path: Path) -> tuple[str, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size


def _is_candidate(path: Path) -> bool:
    """Whether a file in a folder is looked into; a folder of a tool holds many others."""
    return (
        path.suffix == ".jsonl"
        or gemini_cli.is_name(path)
        or opencode_records.is_database(path)
        or (path.suffix == ".json" and _is_export(path))
    )


def _is_export(path: Path) -> bool:
    """Whether a document begins like an export of OpenCode; folders hold many other documents."""
    try:
        with path.open("rb") as file:
            return bool(_EXPORT.match(file.read(100)))
    except OSError:
        return False


def format_of(path: Path) -> str | None:
    """The format of a file or folder; None if it is none that is known."""
    named = (
        (roo.ROO, roo.is_task(path) or path.name in (roo.API, *roo.UI)),
        (opencode.NAME, opencode_records.is_storage(path) or opencode_records.is_database(path)),
        (gemini_cli.NAME, gemini_cli.is_name(path)),
    )
    found = next((name for name, matches in named if matches), None)
    if found is not None or path.is_dir():
        return found
    return _document_format(path) if path.suffix == ".json" else _format_of_lines(path)


def _format_of_lines(path: Path) -> str | None:
    """The format of the first line that has one."""
    with path.open("rb") as file:
        for number, text in enumerate(iter(lambda: file.readline(_HEAD), b"")):
            if text.startswith(b'{"roocontext":'):
                return JSONL
            found = _recognised(text)
            if found is not None or number == _LINES:
                return found
    return None


def _document_format(path: Path) -> str | None:
    """The format of a JSON document: an export of OpenCode, or a recording of Gemini CLI."""
    try:
        record = loads(path.read_bytes())
    except ValueError:
        return None
    known = (module for module in (opencode, gemini_cli) if module.looks_like(record))
    return next((module.NAME for module in known), None)


def _recognised(text: bytes) -> str | None:
    """The format of a line."""
    try:
        record = loads(text)
    except ValueError:
        # A long line was read in part, and its first fields are enough.
        if b'"uuid"' in text and b'"sessionId"' in text:
            return claude_code.NAME
        return codex.NAME if b'"payload"' in text else None
    known = (module for module in _LINE_BY_LINE if module.looks_like(record))
    return next((module.NAME for module in known), None)


def sources(path: Path, format_: str) -> Iterator[Source]:
    """The sessions of a file or folder in this format."""
    readers = {module.NAME: module.sources for module in (*_LINE_BY_LINE, opencode)}
    if format_ in readers:
        yield from readers[format_](path)
    else:
        yield from roo.sources(path if path.is_dir() else path.parent)


def is_of(format_: str, tool: str) -> bool:
    """Whether a format is a tool's: Roo Code and Cline share one."""
    return format_ == tool or {format_, tool} <= {roo.ROO, roo.CLINE}
