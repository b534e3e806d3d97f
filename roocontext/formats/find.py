"""Which sessions lie at a path, and who reads them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from roocontext.errors import InvalidOption
from roocontext.formats import jsonl
from roocontext.formats.events import Problem
from roocontext.formats.files import NO_FILE, SQLITE, loads, opened, read_bytes
from roocontext.formats.importer import IMPORTERS, Importer, importers

_PACKED: Final = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"BZh")
"""How compressed files and archives begin."""
EMPTY: Final = "it is empty"
FOREIGN: Final = "it is another program's database"
LIST: Final = "it only lists prompts or sessions"
NO_SESSION: Final = (EMPTY, LIST, FOREIGN)
_HEAD: Final = 1 << 16
_LINES: Final = 20


def tools() -> tuple[str, ...]:
    """The tools whose sessions can be imported."""
    return IMPORTERS.known()


def places(tool: str) -> list[Path]:
    """The default places of a tool that exist here, and those that its variables name."""
    if tool not in tools():
        known = ", ".join(tools())
        raise InvalidOption(f"{tool!r} is not a known tool. The tools are {known}.", name="from")
    named = IMPORTERS[tool].places
    return list(dict.fromkeys(one for place in named for one in _existing(place)))


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
        if any(one.is_folder(path) for one in importers()):
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
        or any(one.is_candidate(path) for one in importers())
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
    if first.startswith(SQLITE):
        return FOREIGN
    record = _record(first)
    lists = (fields for one in importers() for fields in one.lists)
    is_list = isinstance(record, dict) and any(fields <= record.keys() for fields in lists)
    return LIST if is_list else "its format is not known"


def holds_logs(path: Path) -> bool:
    """Whether a file is in the format of our own."""
    if path.is_dir():
        return False
    with opened(path) as file:
        return any(map(jsonl.is_ours, _first_lines(file)))


def importer_of(path: Path) -> Importer | None:
    """Who reads a file or folder; None if nobody does."""
    is_folder = path.is_dir()
    claim = _first(lambda one: one.is_folder(path) if is_folder else one.is_file(path))
    if claim is not None or is_folder:
        return claim
    if path.suffix == ".json":
        record = _record(read_bytes(path))
        return _first(lambda one: one.looks_like_document(record))
    with opened(path) as file:
        found = (_reader_of_line(text) for text in _first_lines(file))
        return next(filter(None, found), None)


def _first_lines(file: BinaryIO) -> Iterator[bytes]:
    """The first lines, each of them as far as it is looked at."""
    return islice(iter(lambda: file.readline(_HEAD), b""), _LINES)


def _reader_of_line(text: bytes) -> Importer | None:
    record = _record(text)
    if record is None:  # a long line was read in part, and its first fields are enough
        return _first(lambda one: bool(one.marks) and all(mark in text for mark in one.marks))
    return _first(lambda one: one.looks_like(record))


def _first(claims: Callable[[Importer], bool]) -> Importer | None:
    return next((one for one in importers() if claims(one)), None)


def _record(text: bytes) -> Any:
    """The JSON value of a text; None if it is none."""
    try:
        return loads(text)
    except ValueError:
        return None
