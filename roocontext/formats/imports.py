"""Importing everything at some paths: which files are what, in which order, and what went wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Self, TypeAlias

from roocontext.errors import (
    RooContextError,
    SessionNotFound,
    SourceDiverged,
    StoreUnavailable,
)
from roocontext.formats import find, jsonl
from roocontext.formats.events import Problem, Source
from roocontext.formats.imported import storable
from roocontext.formats.importer import Importer
from roocontext.formats.player import OnConflict, WouldWriteError, play
from roocontext.formats.writing import SessionImport, exists
from roocontext.store.store import Store

Progress: TypeAlias = Callable[[int, int], None]
RESTORED: Final = "roocontext"
SUBAGENT: Final = "agent-"
_ROOM: Final = 64 << 20
"""How many bytes of sessions the store in memory holds before it is replaced by an empty one."""


class Rehearsal:
    """Plays sources as an import would, and leaves the store as it is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._copies: Store | None = None
        self._held: set[str] = set()
        self._dropped: set[str] = set()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._copies is not None:
            self._copies.close()
            self._copies = None

    def play(
        self,
        source: Source,
        *,
        on_conflict: OnConflict = "refuse",
        read: Callable[[int], None] | None = None,
    ) -> SessionImport:
        """What an import of this source would write."""
        problems = [*source.problems]
        with suppress(WouldWriteError):
            return play(self._store, source, only_look=True)
        source.problems[:] = problems  # the events come once more
        copies = self._with_copy(storable(source.session_id) or "-")
        done = play(copies, source, on_conflict=on_conflict, read=read)
        self._size += copies.session(done.session_id).info().bytes if done.new else 0
        return done

    def adds_messages(self, source: Source) -> bool:
        """Whether a source has messages beyond those of another one of its session.

        That one was imported, or has been played here. What this one adds is not kept.
        """
        session_id = storable(source.session_id) or "-"
        if session_id in self._dropped:
            return False  # what was played of it is known no more
        store = self._store
        if self._copies is not None and session_id in self._held:
            store = self._copies
        with Rehearsal(store) as other:
            return bool(other.play(source).messages)

    def _with_copy(self, session_id: str) -> Store:
        """The store in memory with this session, and with its forks that imports have made."""
        if self._size > _ROOM or session_id in self._held:
            self.__exit__()
            self._dropped |= self._held
            self._held, self._size = set(), 0
        self._held.add(session_id)
        self._dropped.discard(session_id)
        copies = self._copies = self._copies or Store.open(":memory:")
        for number in count(1):
            name = session_id if number == 1 else f"{session_id}~{number}"
            try:
                session = self._store.session(name)
            except SessionNotFound:
                return copies
            copies.restore(name, session.stored())
            self._size += session.info().bytes
        return copies


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A file that was not imported, and the reason."""

    path: Path
    why: str
    is_problem: bool = False


Outcome = SessionImport | SkippedSource


def import_paths(
    store: Store,
    paths: Sequence[str | Path],
    *,
    tool: str | None = None,
    on_conflict: OnConflict = "refuse",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Import every session at these paths, parents before their children.

    One that cannot be imported does not keep the others from it. Progress is in KiB.
    """
    problems: list[Problem] = []
    found: list[Path] = []
    for path in paths:
        found += find.possible_sources(Path(path), problems)
    for problem in problems:
        yield SkippedSource(problem.path, problem.what, is_problem=True)
    # A sub-agent's session names its parent, which must exist before it.
    ordered = sorted(dict.fromkeys(found), key=lambda path: path.name.startswith(SUBAGENT))
    sizes = [find.size_in_kib(path) for path in ordered]
    done, total = 0, sum(sizes)
    with Rehearsal(store) as rehearsal:
        importing = _Importing(store, tool, on_conflict, rehearsal, dry_run=dry_run)
        for path, size in zip(ordered, sizes, strict=True):
            if progress is not None:
                importing.read = partial(_progressed, progress, done, size, total)
            yield from importing.take(path)
            done += size
            if progress is not None:
                progress(done, total)
        yield from importing.take_children()


def _progressed(progress: Progress, done: int, size: int, total: int, read: int) -> None:
    progress(done + min(read >> 10, size), total)


@dataclass(slots=True)
class _Importing:
    """One run: what it has taken, and the children that wait for their parents."""

    store: Store
    tool: str | None
    on_conflict: OnConflict
    rehearsal: Rehearsal
    dry_run: bool
    read: Callable[[int], None] | None = None
    _taken: dict[str, Path] = field(default_factory=dict)
    _waiting: list[Source] = field(default_factory=list)
    _copies: list[tuple[Source, Path]] = field(default_factory=list)

    def take(self, path: Path) -> Iterator[Outcome]:
        """Import what a file or folder holds."""
        try:
            is_own = find.holds_logs(path)
            importer = None if is_own else find.importer_of(path)
            tools = (RESTORED,) if is_own else (importer.tool, *importer.also) if importer else ()
            if not tools:
                why = find.why_unknown(path)
                yield SkippedSource(path, why, is_problem=why not in find.NO_SESSION)
            elif self.tool not in (None, *tools):
                yield SkippedSource(path, f"it belongs to {tools[0]}", is_problem=False)
            elif importer is None:
                yield from self._restore(path)
            else:
                yield from self._take_sources(path, importer)
        except StoreUnavailable:
            raise  # it is not the source that is wrong
        except OSError as error:
            yield SkippedSource(path, error.strerror or type(error).__name__, is_problem=True)
        except Exception as error:  # noqa: BLE001 - no file may keep the others from it
            yield SkippedSource(
                path, f"its shape is unknown ({type(error).__name__})", is_problem=True
            )

    def take_children(self) -> Iterator[Outcome]:
        """Import the sessions whose parents came later, or do not come at all."""
        while self._waiting:
            waits = {source.session_id for source in self._waiting}
            ready = [one for one in self._waiting if one.parent not in waits] or self._waiting
            self._waiting = [one for one in self._waiting if one not in ready]
            for source in ready:
                yield self._import(source)
        for source, first in self._copies:
            try:
                yield self._compared(source, first)
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - no file may keep the others from it
                why = getattr(error, "strerror", None) or type(error).__name__
                yield SkippedSource(source.path, f"it cannot be read ({why})", is_problem=True)

    def _take_sources(self, path: Path, importer: Importer) -> Iterator[Outcome]:
        empty = True
        for source in importer.sources(path):
            empty = False
            first = self._taken.setdefault(source.session_id, path)
            if first != path and any(one.session_id == source.session_id for one in self._waiting):
                self._copies.append((source, first))
            elif first != path:
                yield self._compared(source, first)
            elif self._may_come_now(source):
                yield self._import(source)
            else:
                self._waiting.append(source)
        if empty:
            yield SkippedSource(path, "it holds no messages")

    def _may_come_now(self, source: Source) -> bool:
        """Whether its parent is there. A dry run creates no session, so none waits for another."""
        parent = storable(source.parent)
        return parent is None or self.dry_run or exists(self.store, parent)

    def _compared(self, source: Source, first: Path) -> Outcome:
        """A second file with the same session: a tool has moved it, or somebody has copied it."""
        try:
            other = self.rehearsal.adds_messages(source)
        except SourceDiverged:  # the session has entries of its own, and this file others
            other = True
        except StoreUnavailable:
            raise
        except RooContextError:  # which the first file was refused with too
            other = False
        what = "with other messages " if other else ""
        why = f"its session {source.session_id} was taken {what}from {first}"
        return SkippedSource(source.path, why, is_problem=other)

    def _import(self, source: Source) -> SessionImport:
        try:
            if self.dry_run:
                return self.rehearsal.play(source, on_conflict=self.on_conflict, read=self.read)
            return play(self.store, source, on_conflict=self.on_conflict, read=self.read)
        except StoreUnavailable:
            raise
        except (RooContextError, OSError) as error:
            what = error.fact if isinstance(error, RooContextError) else error.strerror
            problem = Problem(source.path, None, (what or type(error).__name__).rstrip("."))
        except Exception as error:  # noqa: BLE001 - no session may keep the others from it
            what = f"its shape is unknown ({type(error).__name__}): what is before was imported"
            problem = Problem(source.path, None, what)
        tool = str(source.metadata["tool"])
        problems = (*source.problems, problem)
        return SessionImport(source.session_id, tool, source.path, failed=True, problems=problems)

    def _restore(self, path: Path) -> Iterator[Outcome]:
        for done in jsonl.restore_file(self.store, path, dry_run=self.dry_run):
            found: tuple[Problem, ...] = ()
            if (problem := done.problem) is not None:  # the place is shown with it
                what = problem.fact.removeprefix(f"{path}:{problem.line}: ").rstrip(".")
                found = (Problem(path, problem.line, what),)
            yield SessionImport(
                done.session_id,
                RESTORED,
                path,
                messages=done.new,
                created=bool(done.new) and done.new == done.entries,
                redacted=len(done.redacted),
                failed=bool(found) and not done.entries,
                problems=found,
            )
