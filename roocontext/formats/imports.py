"""Importing the sessions at some paths: which files are read, in which order, and what failed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, get_args

from roocontext.errors import InvalidMessage, InvalidOption, RooContextError, StoreUnavailable
from roocontext.formats import find, jsonl
from roocontext.formats.databases import place_of
from roocontext.formats.events import Added, Covered, Place, Problem, ServerUrl, Source
from roocontext.formats.imported import Keys, storable
from roocontext.formats.importer import Importer
from roocontext.formats.player import OnConflict, forks_of, is_missing, play
from roocontext.formats.writing import SessionImport
from roocontext.store.store import Store

Progress: TypeAlias = Callable[[int, int], None]
RESTORED: Final = "roocontext"
SUBAGENT: Final = "agent-"
_ROOM: Final = 64 << 20
"""The bytes of sessions that a rehearsal holds before it starts with an empty store."""


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A file that was not imported, and the reason."""

    path: Place
    why: str
    is_problem: bool = False


Outcome = SessionImport | SkippedSource


def import_paths(
    store: Store,
    paths: Sequence[str | Place],
    *,
    tool: str | None = None,
    on_conflict: OnConflict = "refuse",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Import every session at these paths, parents before their children.

    A path may be the URL of a PostgreSQL server. If a session cannot be imported, the others still
    are. Progress is in KiB.
    """
    # A text is a sequence too, of letters, and one of them may be the root of all files.
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise InvalidOption("paths must be a list of paths.", name="paths")
    if on_conflict not in get_args(OnConflict):
        known = " or ".join(get_args(OnConflict))
        raise InvalidOption(f"on_conflict must be {known}.", name="on_conflict")
    problems: list[Problem] = []
    sources: list[Place] = []
    for path in paths:
        place = path if isinstance(path, ServerUrl) else place_of(path)
        if isinstance(place, ServerUrl):
            sources.append(place)
        else:
            sources += find.possible_sources(place, problems)
    for problem in problems:
        yield SkippedSource(problem.path, problem.what, is_problem=True)
    # A sub-agent's session names its parent, which must exist before it.
    ordered = sorted(
        dict.fromkeys(sources),
        key=lambda place: isinstance(place, Path) and place.name.startswith(SUBAGENT),
    )
    sizes = [find.size_in_kib(path) for path in ordered]
    done, total = 0, sum(sizes)
    with closing(Rehearsal(store)) as rehearsal:
        importing = _Importing(store, tool, on_conflict, rehearsal, dry_run)
        for path, size in zip(ordered, sizes, strict=True):
            if progress is not None:
                importing.read = partial(_progressed, progress, done, size, total)
            yield from importing.take(path)
            done += size
            if progress is not None:
                progress(done, total)
        yield from importing.finish()


def _progressed(progress: Progress, done: int, size: int, total: int, read: int) -> None:
    progress(done + min(read >> 10, size), total)


class Rehearsal:
    """Plays sources into copies of their sessions in memory, as an import would."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._copies: Store | None = None
        self._bytes = 0

    def play(
        self, source: Source, *, on_conflict: OnConflict, read: Callable[[int], None] | None
    ) -> SessionImport:
        """Report what a source would add to the store."""
        copies = self._with_copy(storable(source.session_id) or "-")
        done = play(copies, source, on_conflict=on_conflict, read=read)
        self._bytes += copies.session(done.session_id).info().bytes if done.new else 0
        return done

    def close(self) -> None:
        """Drop the copies."""
        if self._copies is not None:
            self._copies.close()
        self._copies, self._bytes = None, 0

    def _with_copy(self, session_id: str) -> Store:
        """A store in memory that holds this session and the forks that imports made of it."""
        if self._copies and (self._bytes > _ROOM or forks_of(self._copies, session_id)):
            self.close()
        self._copies = self._copies or Store.open(":memory:")
        for session in forks_of(self._store, session_id):
            self._copies.restore(session.id, [*session.internals.stored()])
            self._bytes += session.info().bytes
        return self._copies


@dataclass(slots=True)
class _Importing:
    """One run: the sessions it has taken, and the children that wait for their parents."""

    store: Store
    tool: str | None
    on_conflict: OnConflict
    rehearsal: Rehearsal
    dry_run: bool
    read: Callable[[int], None] | None = None
    _taken: dict[str, tuple[Place, Importer]] = field(default_factory=dict)
    _waiting: list[Source] = field(default_factory=list)
    _copies: list[Source] = field(default_factory=list)

    def take(self, path: Place) -> Iterator[Outcome]:
        """Import the sessions of a file, a folder or a database."""
        yield from self._reported(path, self._take(path))

    def _take(self, path: Place) -> Iterator[Outcome]:
        own = path if isinstance(path, Path) and find.holds_logs(path) else None
        importers = [] if own else find.importers_of(path)
        tools = (
            [RESTORED]
            if own
            else [tool for importer in importers for tool in (importer.tool, *importer.also)]
        )
        if not tools:
            why = find.why_unknown(path)
            yield SkippedSource(path, why, is_problem=why not in find.NO_SESSION)
        elif self.tool not in (None, *tools):
            yield SkippedSource(path, f"it belongs to {tools[0]}")
        elif own:
            yield from self._restore(own)
        for importer in importers:
            if self.tool in (None, importer.tool, *importer.also):
                yield from self._reported(path, self._take_sources(path, importer))

    def _reported(self, path: Place, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """The outcomes before a failure, and the failure."""
        try:
            yield from outcomes
        except StoreUnavailable:
            raise  # the fault is not in the source
        except Exception as error:  # noqa: BLE001 - the other files must still be imported
            yield SkippedSource(path, _why(error), is_problem=True)

    def finish(self) -> Iterator[Outcome]:
        """Import the sessions whose parents came later or are missing, and compare the copies."""
        while self._waiting:
            waits = {source.session_id for source in self._waiting}
            ready = [other for other in self._waiting if other.parent not in waits] or self._waiting
            self._waiting = [other for other in self._waiting if other not in ready]
            yield from map(self._import, ready)
        for source in self._copies:
            yield from self._reported(source.path, map(self._compared, [source]))

    def _take_sources(self, path: Place, importer: Importer) -> Iterator[Outcome]:
        seen: set[str] = set()
        for source in importer.read(path):
            is_second = source.session_id in seen
            seen.add(source.session_id)
            if self.tool not in (None, tool := str(source.metadata["tool"])):
                yield SkippedSource(source.path, f"it belongs to {tool}")
                continue
            first, _ = self._taken.setdefault(source.session_id, (path, importer))
            if first != path or is_second:
                self._copies.append(source)
            elif self._has_to_wait(source):
                self._waiting.append(source)
            else:
                yield self._import(source)
        if not seen:
            yield SkippedSource(path, "it holds no messages")

    def _has_to_wait(self, source: Source) -> bool:
        """True if its parent must be imported first. A dry run creates no session."""
        parent = storable(source.parent)
        return parent is not None and not self.dry_run and is_missing(self.store, parent)

    def _compared(self, source: Source) -> Outcome:
        """Compare a second source of a session: a tool has moved it, or a user has copied it."""
        path, importer = self._taken[source.session_id]
        named = (other for other in importer.read(path) if other.session_id == source.session_id)
        first = next(named, None)  # its file may have changed
        has_more = not _messages_of(source) <= (_messages_of(first) if first else set())
        what = "with other messages " if has_more else ""
        why = f"its session {source.session_id} was taken {what}from {path}"
        return SkippedSource(source.path, why, is_problem=has_more)

    def _import(self, source: Source) -> SessionImport:
        try:
            if self.dry_run:
                return self.rehearsal.play(source, on_conflict=self.on_conflict, read=self.read)
            return play(self.store, source, on_conflict=self.on_conflict, read=self.read)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the other sessions must still be imported
            what = _why(error)
            if not isinstance(error, RooContextError | OSError):
                what += ": the records before it were imported"
            problems = (*source.problems, Problem(source.path, None, what))
        tool = str(source.metadata["tool"])
        return SessionImport(source.session_id, tool, source.path, failed=True, problems=problems)

    def _restore(self, path: Path) -> Iterator[Outcome]:
        for done in jsonl.restore_file(self.store, path, dry_run=self.dry_run):
            problems: tuple[Problem, ...] = ()
            if (error := done.problem) is not None:  # the place is shown with it
                what = error.fact.removeprefix(f"{path}:{error.line}: ").rstrip(".")
                problems = (Problem(path, error.line, what),)
            yield SessionImport(
                done.session_id,
                RESTORED,
                path,
                messages=done.messages,
                notes=done.notes,
                controls=done.new - done.messages - done.notes,
                created=bool(done.new) and done.new == done.entries,
                redacted=len(done.redacted),
                failed=bool(problems) and not done.entries,
                problems=problems,
            )


def _messages_of(source: Source) -> set[str]:
    """The names of the messages of a source."""
    keys, names = Keys(), set[str]()
    for event in source.events():
        if isinstance(event, Added | Covered):
            with suppress(InvalidMessage):  # it is nested too deeply, so no import takes it
                names.add(keys.key(event)[0])
    return names


def _why(error: Exception) -> str:
    """The reason of a failure, without any content of the source."""
    match error:
        case RooContextError():
            return error.fact.rstrip(".")
        case OSError():
            return error.strerror or type(error).__name__
    return f"its shape is unknown ({type(error).__name__})"
