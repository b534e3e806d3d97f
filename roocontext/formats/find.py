"""Which sessions lie at a path, and in which format."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path

from roocontext.errors import InvalidOption
from roocontext.formats import (
    claude_code,
    cline_sessions,
    codex,
    gemini_cli,
    opencode,
    opencode_records,
    roo,
)
from roocontext.formats.events import Problem, Source
from roocontext.formats.lines import loads
from roocontext.formats.source_files import NO_FILE, opened, read_bytes

JSONL = "roocontext"
_STORAGES = tuple(
    f"{editor}/{storage}"
    for editor in (
        *("$XDG_CONFIG_HOME/*/User", "~/.config/*/User", "~/.var/app/*/config/*/User"),
        *("~/Library/Application Support/*/User", "~/AppData/Roaming/*/User"),
        *("~/.*-server*/data/User", "~/.local/share/code-server/User"),
    )
    for storage in ("globalStorage", "profiles/*/globalStorage")
)

"""Where VS Code and what is made of it keep the files of their extensions."""
_ROO_IDS = ("rooveterinaryinc.roo-*", "zoocodeorganization.zoo-code*")
_CLINE_IDS = ("saoudrizwan.claude-dev", "saoudrizwan.cline-nightly")
PLACES = {
    claude_code.NAME: claude_code.FOLDERS,
    codex.NAME: codex.FOLDERS,
    gemini_cli.NAME: gemini_cli.FOLDERS,
    opencode.NAME: opencode.FOLDERS,
    roo.ROO: tuple(f"{one}/{extension}/tasks" for one in _STORAGES for extension in _ROO_IDS),
    roo.CLINE: (
        *(
            f"{data}/{folder}"
            for data in ("$CLINE_DATA_DIR", "$CLINE_DIR/data", "~/.cline/data")
            for folder in ("tasks", "sessions")
        ),
        *(f"{one}/{extension}/tasks" for one in _STORAGES for extension in _CLINE_IDS),
    ),
}
"""Where each tool keeps its sessions by default, and where its variables say that it does."""

_LINE_BY_LINE = (codex, gemini_cli, claude_code)
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{')
_PACKED = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"BZh")
"""How compressed files and archives begin."""
EMPTY = "it is empty"
FOREIGN = "it is another program's database"
LIST = "it only lists prompts or sessions"
NO_SESSION = (EMPTY, LIST, FOREIGN)
_LISTS = (
    *({"session_id", "ts", "text"}, {"id", "thread_name", "updated_at"}),  # Codex CLI's
    {"display", "pastedContents"},  # Claude Code's
)
"""The fields of the records in the files that tools keep beside their sessions."""
_HEAD = 1 << 16
_LINES = 20


def places(tool: str) -> list[Path]:
    """The default places of a tool that exist here, and those that its variables name."""
    if tool not in PLACES:
        known = ", ".join(PLACES)
        raise InvalidOption(f"{tool!r} is not a known tool. The tools are {known}.", name="from")
    return list(dict.fromkeys(one for place in PLACES[tool] for one in _existing(place)))


def _existing(place: str) -> Iterator[Path]:
    """The folders and files that a place names; none if its variable is not set."""
    home, _, inside = place.partition("/")
    base = Path(os.environ.get(home[1:]) or "." if home.startswith("$") else home).expanduser()
    if not base.is_absolute():
        return
    if "*" in inside:
        # Not Path.glob: it ends at the first link into a folder that is closed.
        found = glob(inside, root_dir=base, include_hidden=True)  # noqa: PTH207 - see above
        yield from sorted(base / one for one in found)
    elif not _is_missing(base / inside):
        yield base / inside


def _is_missing(path: Path) -> bool:
    """Whether there is nothing; what cannot be looked at is reported when it is read."""
    try:
        return not path.exists()
    except OSError:
        return False


def possible_sources(path: Path, problems: list[Problem]) -> Iterator[Path]:
    """The files and task folders at a path that may hold sessions, in the order of their names."""
    # A link may lead back to a folder above, or to one that comes again.
    seen: set[tuple[int, int]] = set()
    with suppress(OSError, RuntimeError):  # RuntimeError: Python's own for links that form a loop
        for above in path.resolve().parents:
            seen.add(_identity(above))
    yield from _inside(path, problems, seen)


def _inside(path: Path, problems: list[Problem], seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        if not path.is_dir():
            if path.is_file():
                yield path
            else:  # reading a pipe would wait for a writer
                problems.append(Problem(path, None, _why_not(path)))
            return
        if (folder := _identity(path)) in seen:
            return
        seen.add(folder)
        if roo.is_task(path) or opencode_records.is_storage(path):
            yield path
            return
        inside = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        problems.append(Problem(path, None, error.strerror or "it cannot be read"))
        return
    for entry in inside:
        try:
            is_folder = entry.is_dir()
            is_candidate = not is_folder and entry.is_file() and _is_candidate(Path(entry))
        except OSError as error:  # such as a link to itself, or into a folder that is closed
            problems.append(Problem(Path(entry), None, error.strerror or "it cannot be read"))
            continue
        if is_folder:
            yield from _inside(Path(entry), problems, seen)
        elif is_candidate:
            yield Path(entry)


def _why_not(path: Path) -> str:
    """Why a path is no file: `is_file` and `exists` do not tell a link to itself from nothing."""
    try:
        path.stat()
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return error.strerror or "it cannot be read"
    return NO_FILE


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def size_in_kib(path: Path) -> int:
    """How large a file or a task folder is, in KiB, for the progress."""
    try:
        files = [one for one in path.iterdir() if one.is_file()] if path.is_dir() else [path]
        return 1 + (sum(file.stat().st_size for file in files) >> 10)
    except OSError:
        return 1


def changed_paths(paths: Sequence[Path], seen: dict[Path, int]) -> list[Path]:
    """The files and folders at these paths that are not as they were seen last."""
    found: list[Path] = []
    for path in paths:
        found += possible_sources(path, [])
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
        or _is_packed_name(path)
        or cline_sessions.is_cline_name(path)
        or gemini_cli.is_name(path)
        or opencode_records.is_database_name(path)
        or (path.suffix == ".json" and _is_export(path))
    )


def _is_packed_name(path: Path) -> bool:
    """Whether it is named like a transcript that the tool, such as Codex CLI, has compressed."""
    return path.name.endswith((".jsonl.zst", ".jsonl.gz")) and not path.with_suffix("").exists()


def why_unknown(path: Path) -> str:
    """Why a file holds no session of a known format."""
    with opened(path) as file:
        first = file.readline(_HEAD)
    if first.startswith(_PACKED):
        return "it is compressed: unpack it first"
    if not first:
        return EMPTY
    if first.startswith(opencode_records.SQLITE):
        return FOREIGN
    return LIST if _is_in_a_list(first) else "its format is not known"


def _is_in_a_list(line: bytes) -> bool:
    try:
        record = loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and any(fields <= record.keys() for fields in _LISTS)


def _is_export(path: Path) -> bool:
    """Whether a document begins like an export of OpenCode; folders hold many other documents."""
    try:
        with opened(path) as file:
            return bool(_EXPORT.match(file.read(100)))
    except OSError:
        return False


def format_of(path: Path) -> str | None:
    """The format of a file or folder; None if it is none that is known."""
    named = (
        (roo.ROO, roo.is_task(path) or path.name in (roo.API, *roo.UI)),
        (opencode.NAME, opencode_records.is_storage(path) or opencode_records.is_database(path)),
        (cline_sessions.NAME, cline_sessions.is_cline_name(path)),
        (gemini_cli.NAME, gemini_cli.is_name(path)),
    )
    found = next((name for name, matches in named if matches), None)
    if found is not None or path.is_dir():
        return found
    return _document_format(path) if path.suffix == ".json" else _format_of_lines(path)


def _format_of_lines(path: Path) -> str | None:
    """The format of the first line that has one."""
    with opened(path) as file:
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
        record = loads(read_bytes(path))
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
    readers = {module.NAME: module.sources for module in (*_LINE_BY_LINE, opencode, cline_sessions)}
    if format_ in readers:
        yield from readers[format_](path)
    else:
        yield from roo.sources(path if path.is_dir() else path.parent)


def is_of(format_: str, tool: str) -> bool:
    """Whether a format is a tool's: Roo Code and Cline share one."""
    return format_ == tool or {format_, tool} <= {roo.ROO, roo.CLINE}
