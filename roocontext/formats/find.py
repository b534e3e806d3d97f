"""The files with sessions at a path, and the importer of each."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from glob import glob
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from roocontext.errors import InvalidOption, UnreadableSource
from roocontext.formats import jsonl
from roocontext.formats.databases import SourceDatabase, Tables, is_sqlite
from roocontext.formats.events import Place, Problem, ServerUrl
from roocontext.formats.files import NO_FILE, SQLITE, UNREADABLE, loads, opened, read_bytes
from roocontext.formats.importer import IMPORTERS, Importer, importers
from roocontext.log.readings.blocks import as_dict

_PACKED: Final = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"BZh")
"""The first bytes of compressed files and archives."""
EMPTY: Final = "it is empty"
FOREIGN: Final = "it is another program's database"
LIST: Final = "it only lists prompts or sessions"
NO_SESSION: Final = (EMPTY, LIST, FOREIGN)
_LINES: Final = 20
"""The lines of a file that are searched for a record of a known format."""
_LONGEST: Final = 1 << 26
"""The bytes of a line that are looked at. A line that holds an image has millions."""


def tools() -> tuple[str, ...]:
    """The tools whose sessions can be imported."""
    importers()
    return tuple(sorted(IMPORTERS))


def places(tool: str) -> list[Path]:
    """The default places of a tool that exist here, and those that its variables name."""
    if tool not in tools():
        known = ", ".join(tools())
        raise InvalidOption(f"{tool!r} is not a known tool. The tools are {known}.", name="from")
    return list(dict.fromkeys(chain.from_iterable(map(_existing, IMPORTERS[tool].places))))


def _existing(place: str) -> Iterator[Path]:
    """The folders and files that a place names; none if its variable is not set."""
    home, _, inside = place.partition("/")
    base = Path(os.environ.get(home[1:]) or "." if home.startswith("$") else home).expanduser()
    if not base.is_absolute():
        return
    if "*" in inside:
        # Not Path.glob: it ends at the first link into a closed folder.
        names = glob(inside, root_dir=base, include_hidden=True)  # noqa: PTH207 - see above
        yield from sorted(base / name for name in names)
    elif not _is_missing(base / inside):
        yield base / inside


def _is_missing(path: Path) -> bool:
    """True if nothing exists there. A path in a closed folder is reported when it is read."""
    try:
        return not path.exists()
    except OSError:
        return False


def possible_sources(path: Path, problems: list[Problem]) -> Iterator[Path]:
    """The files and task folders at a path that may hold sessions, in the order of their names."""
    # A link may lead back to a folder above, or to one that was read already.
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
        if any(tool.is_folder(path) for tool in importers()):
            yield path
            return
        inside = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        problems.append(Problem(path, None, error.strerror or UNREADABLE))
        return
    for entry in inside:
        try:
            is_folder = entry.is_dir()
            is_candidate = not is_folder and entry.is_file() and _is_candidate(Path(entry))
        except OSError as error:  # such as a link to itself, or into a closed folder
            problems.append(Problem(Path(entry), None, error.strerror or UNREADABLE))
            continue
        if is_folder:
            yield from _inside(Path(entry), problems, seen)
        elif is_candidate:
            yield Path(entry)


def _why_not(path: Path) -> str:
    """The reason why a path is no file. `exists` takes a link to itself for a missing file."""
    try:
        path.stat()
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return error.strerror or UNREADABLE
    return NO_FILE


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def size_in_kib(path: Place) -> int:
    """The size of a file or a task folder in KiB, for the progress."""
    if isinstance(path, ServerUrl):
        return 1
    try:
        files = filter(Path.is_file, path.iterdir()) if path.is_dir() else [path]
        return 1 + (sum(file.stat().st_size for file in files) >> 10)
    except OSError:
        return 1


def changed_paths(paths: Sequence[Path], seen: dict[Path, int]) -> list[Path]:
    """The files and folders at these paths that are not as they were seen last."""
    sources = chain.from_iterable(possible_sources(path, []) for path in paths)
    now = {path: _stamp(path) for path in sources}
    changed = [path for path, stamp in now.items() if seen.get(path) != stamp]
    seen.update(now)
    return changed


def _stamp(path: Path) -> int:
    """A number that changes with a file, with a file in a folder, or with a database's log."""
    inside = path.rglob("*") if path.is_dir() else (path, Path(f"{path}-wal"))
    stats: list[tuple[str, int, int]] = []
    for file in inside:
        with suppress(OSError):
            now = file.stat()
            stats.append((str(file), now.st_mtime_ns, now.st_size))
    return hash(tuple(sorted(stats)))


def _is_candidate(path: Path) -> bool:
    """True if a file in a folder may hold a session. A tool's folder holds many other files."""
    if path.name.endswith((".jsonl.zst", ".jsonl.gz")):  # tools compress transcripts
        return not path.with_suffix("").exists()
    return path.suffix == ".jsonl" or any(tool.is_candidate(path) for tool in importers())


def why_unknown(path: Place) -> str:
    """The reason why a file or a database holds no session of a known format."""
    if isinstance(path, ServerUrl):
        return "none of its tables is one of a program that is known"
    with opened(path) as file:
        first = file.readline(_LONGEST)
    if first.startswith(_PACKED):
        return "it is compressed: unpack it first"
    if not first:
        return EMPTY
    if first.startswith(SQLITE):
        return FOREIGN
    names = as_dict(_record(first)).keys()
    is_list = any(fields <= names for tool in importers() for fields in tool.lists)
    return LIST if is_list else "its format is not known"


def holds_logs(path: Path) -> bool:
    """True if a file is in roocontext's own format."""
    if path.is_dir():
        return False
    with jsonl.open_unpacked(path) as file:
        return any(map(jsonl.is_ours, _first_lines(file)))


def importers_of(place: Place) -> list[Importer]:
    """The importers of a place: one for a file or folder, each that knows tables of a database."""
    if isinstance(place, ServerUrl):
        return _importers_of_tables(SourceDatabase(place).tables())
    claim = _importer_of(place)
    if claim is None and place.is_file() and is_sqlite(place):
        with suppress(UnreadableSource):  # a damaged one is nobody's
            return _importers_of_tables(SourceDatabase(place).tables())
    return [claim] if claim else []


def _importer_of(path: Path) -> Importer | None:
    is_folder = path.is_dir()
    claim = _first(lambda tool: tool.is_folder(path) if is_folder else tool.is_file(path))
    # The text in a database may look like the lines of some tool.
    if claim is not None or is_folder or is_sqlite(path):
        return claim
    if path.suffix == ".json":
        record = _record(read_bytes(path))
        return _first(lambda tool: tool.looks_like_document(record))
    with opened(path) as file:
        return next(filter(None, map(_importer_of_line, _first_lines(file))), None)


def _importers_of_tables(tables: Tables) -> list[Importer]:
    return [tool for tool in importers() if tool.is_database(tables)]


def _first_lines(file: BinaryIO) -> Iterator[bytes]:
    """The first lines, each up to the length that is looked at."""
    return islice(iter(lambda: file.readline(_LONGEST), b""), _LINES)


def _importer_of_line(text: bytes) -> Importer | None:
    record = _record(text)
    if record is None:  # a program may be writing it
        return _first(lambda tool: bool(tool.marks) and all(mark in text for mark in tool.marks))
    return _first(lambda tool: tool.looks_like(record))


def _first(claims: Callable[[Importer], bool]) -> Importer | None:
    return next(filter(claims, importers()), None)


def _record(text: bytes) -> Any:
    """The JSON value of a text; None if the text is not JSON."""
    try:
        return loads(text)
    except ValueError:
        return None
