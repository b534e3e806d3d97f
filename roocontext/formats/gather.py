"""Importing everything at some paths: which files are what, in which order, and what went wrong."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roocontext.errors import RooContextError, UnreadableSource
from roocontext.formats import find, jsonl
from roocontext.formats.events import Problem, Source
from roocontext.formats.play import OnConflict, play
from roocontext.formats.played import Played
from roocontext.store.store import Store

Progress = Callable[[int, int], None]
RESTORED = "roocontext"
SUBAGENT = "agent-"

_UNEXPECTED = (TypeError, AttributeError, LookupError, ValueError, RecursionError)
"""What a reader raises for a record that no release of a tool has written so far. One such file
must not keep the others from being imported."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A session that was found, and what became of it. A `failed` one was left as it was."""

    session_id: str
    tool: str
    path: Path
    messages: int = 0
    notes: int = 0
    controls: int = 0
    created: bool = False
    rewound: bool = False
    forked_from: str | None = None
    failed: bool = False
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not imported, and the reason."""

    path: Path
    why: str
    is_problem: bool = False


def import_paths(
    store: Store,
    paths: Sequence[Path],
    *,
    tool: str | None = None,
    on_conflict: OnConflict = "refuse",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Iterator[Taken | Skipped]:
    """Import every session at these paths, parents before their children.

    One that cannot be imported does not keep the others from it.
    """
    problems: list[Problem] = []
    found: list[Path] = []
    for path in paths:
        try:
            found += find.files(path, problems)
        except UnreadableSource as error:
            problems.append(Problem(path, None, error.fact))
    for problem in problems:
        yield Skipped(problem.path, problem.what, is_problem=True)
    # A sub-agent's session names its parent, which must exist before it.
    ordered = sorted(dict.fromkeys(found), key=lambda path: path.name.startswith(SUBAGENT))
    for number, path in enumerate(ordered):
        yield from _import_file(store, path, tool, on_conflict, dry_run=dry_run)
        if progress is not None:
            progress(number + 1, len(ordered))


def _import_file(
    store: Store, path: Path, tool: str | None, on_conflict: OnConflict, *, dry_run: bool
) -> Iterator[Taken | Skipped]:
    try:
        format_ = find.format_of(path)
        if format_ is None or (tool is not None and not find.is_of(format_, tool)):
            why = "it is in no format that is known" if format_ is None else f"it is {format_}'s"
            yield Skipped(path, why, is_problem=format_ is None and path.stat().st_size > 0)
        elif format_ == find.JSONL:
            yield from _restore(store, path, dry_run=dry_run)
        else:
            empty = True
            for source in find.sources(path, format_):
                empty = False
                yield _import_source(store, source, on_conflict, dry_run=dry_run)
            if empty:
                yield Skipped(path, "it holds no messages")
    except OSError as error:
        yield Skipped(path, error.strerror or type(error).__name__, is_problem=True)
    except _UNEXPECTED as error:
        yield Skipped(path, f"its shape is unknown ({type(error).__name__})", is_problem=True)


def _import_source(
    store: Store, source: Source, on_conflict: OnConflict, *, dry_run: bool
) -> Taken:
    tool = str(source.metadata["tool"])
    try:
        done = play(store, source, on_conflict=on_conflict, dry_run=dry_run)
    except (RooContextError, OSError) as error:
        what = error.fact if isinstance(error, RooContextError) else error.strerror
        problem = Problem(source.path, None, (what or type(error).__name__).rstrip("."))
    except _UNEXPECTED as error:
        what = f"its shape is unknown ({type(error).__name__}): what is before was imported"
        problem = Problem(source.path, None, what)
    else:
        return _taken(done, tool)
    problems = (*source.problems, problem)
    return Taken(source.session_id, tool, source.path, failed=True, problems=problems)


def _taken(done: Played, tool: str) -> Taken:
    return Taken(
        done.session_id,
        tool,
        done.source.path,
        done.messages,
        done.notes,
        done.controls,
        done.created,
        done.rewound,
        done.forked_from,
        problems=tuple(done.problems),
    )


def _restore(store: Store, path: Path, *, dry_run: bool) -> Iterator[Taken | Skipped]:
    if dry_run:
        yield Skipped(path, "a file of roocontext's own is only read when it is restored")
        return
    for done in jsonl.restore_file(store, path):
        problem = done.problem
        found = () if problem is None else (Problem(path, problem.line, _bare(problem, path)),)
        yield Taken(
            done.session_id,
            RESTORED,
            path,
            messages=done.new,
            created=bool(done.new) and done.new == done.entries,
            failed=bool(found) and not done.entries,
            problems=found,
        )


def _bare(problem: UnreadableSource, path: Path) -> str:
    """What is wrong, without the place, which is shown with it."""
    return problem.fact.removeprefix(f"{path}:{problem.line}: ").rstrip(".")
