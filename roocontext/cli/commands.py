"""What every command has: the database, the screen, `--json`, `--debug`, and an exit code.

A command is a function whose first argument is a `Desk`; the others are what typer reads as its
arguments and options. It computes an answer, which is the document that `--json` prints, and hands
it to `tell` together with the function that draws it. So a person never sees what a program cannot
have. A command that answers False ends with exit code 1.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from roocontext.cli import completing, opening, terminal, waiting
from roocontext.cli.failing import Code, Refusal, end
from roocontext.cli.screens.screen import Screen
from roocontext.errors import StoreUnavailable

if TYPE_CHECKING:
    from roocontext import Session, Store
    from roocontext.store.sources import Clock, Ids

Answer = TypeVar("Answer")

_UNKNOWN = (
    "The connection to the database broke, and nobody knows whether it was done: look before you"
    " repeat it. An append that is repeated with its --client-id is stored once."
)
DB_HELP = (
    f"The database: a path or a URL. Default: {opening.VARIABLE}, else"
    " roocontext/roocontext.db in ~/.local/share."
)


@dataclass(frozen=True)
class Surroundings:
    """What the process was started with: where times and ids come from."""

    clock: "Clock"
    ids: "Ids | None" = None


@dataclass(frozen=True)
class Described:
    """A command as the reference describes it: its name and the shape of what `--json` prints."""

    name: str
    shape: Any
    is_stream: bool


described: list[Described] = []


@dataclass
class Desk:
    """What a command works with. It knows whether the command has opened a store to write to."""

    url: str
    as_json: bool
    surroundings: Surroundings
    has_written: bool = False

    @contextmanager
    def store(self, *, write: bool = False, create: bool = False) -> Iterator["Store"]:
        """The store, to look at or to write to."""
        given = self.surroundings
        with opening.opened(
            self.url, clock=given.clock, ids=given.ids, write=write, create=create
        ) as store:
            self.has_written = write
            try:
                yield store
            except StoreUnavailable as error:
                if write and error.outcome_unknown:
                    raise Refusal(_UNKNOWN, Code.UNTOLD) from error
                raise

    @contextmanager
    def session(self, name: str, *, write: bool = False) -> Iterator["Session"]:
        """The session that a person has named."""
        with self.store(write=write) as store:
            yield store.session(opening.find(store, name))

    @contextmanager
    def session_or_new(
        self, name: str, *, session_id: str | None, title: str | None
    ) -> Iterator["Session"]:
        """The session that a person has named, to write to; `new` begins one."""
        is_new = name == opening.NEW
        with self.store(write=True, create=is_new) as store:
            if is_new:
                yield store.create(session_id, title=title)
            else:
                yield store.session(opening.find(store, name))

    @property
    def place(self) -> str:
        """The database as it may be shown: without its password."""
        return opening.shown(self.url)

    @property
    def now(self) -> int:
        """The time."""
        return self.surroundings.clock()

    def tell(
        self, answer: Answer, draw: Callable[[Screen, Answer], None], *, pager: bool = False
    ) -> None:
        """Print the answer, as a document or drawn."""
        with self._telling():
            if self.as_json:
                terminal.write_json(answer)
                return
            with terminal.paged(wanted=pager) as screen:
                draw(screen, answer)

    def stream(
        self,
        rows: Iterable[Answer],
        draw: Callable[[Screen, Iterable[Answer]], None],
        *,
        pager: bool,
    ) -> None:
        """Print an answer row by row as it comes: a document on each line, or drawn."""
        with self._telling():
            if self.as_json:
                for row in rows:
                    terminal.write_json_line(row)
                return
            with terminal.paged(wanted=pager) as screen:
                draw(screen, rows)

    def confirm(self, question: str) -> None:
        """Go on only if that is wanted; nobody is asked where nobody sits."""
        if not terminal.is_terminal(sys.stdin):
            raise Refusal("Nobody is there to ask: give --yes, or look with --dry-run.", Code.USAGE)
        with waiting.quiet():
            wanted = terminal.asked(f"{question} [y/N]: ")
        if not wanted:
            raise Refusal("Nothing was changed.", Code.NO)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell apart what could not be done from what could only not be told."""
        try:
            with waiting.quiet():
                yield
                sys.stdout.flush()
        except OSError as error:
            terminal.drop_stdout()
            if not self.has_written:
                raise
            raise Refusal(
                f"It was done, but the answer could not be written: {error.strerror}.", Code.UNTOLD
            ) from None


Expected = Annotated[
    int | None,
    typer.Option(
        "--expected-seq",
        metavar="SEQ",
        min=0,
        help="Only if this is still the session's `head_seq`, as `show --json` has it.",
    ),
]

SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's id or the beginning of it, `last`, or `=` and the whole id.",
        autocompletion=completing.sessions,
        show_default=False,
    ),
]


_DB = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", envvar=opening.VARIABLE, show_envvar=False, help=DB_HELP),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a screen.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]


def command(
    app: typer.Typer,
    *,
    panel: str,
    shape: Any,
    stream: bool = False,
    database: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a command of the app; without `database` it has one of its own."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        app.command(function.__name__, rich_help_panel=panel)(
            _runnable(function, database=database)
        )
        described.append(Described(function.__name__, shape, stream))
        return function

    return register


def _runnable(function: Callable[..., Any], *, database: bool) -> Callable[..., None]:
    """The function as typer calls it: with the options that every command has."""

    def run(ctx: typer.Context, *, as_json: bool, debug: bool, **given: Any) -> None:
        before = ctx.find_root().params
        given.pop("db", None)
        desk = Desk(opening.chosen(ctx), as_json or before["as_json"], ctx.obj)
        if before["db"] is not None and not database:
            raise Refusal(f"`{ctx.info_name}` makes its own database: no --db.", Code.USAGE)
        try:
            with waiting.progress("Working", None) if database else nullcontext():
                answer = function(desk, **given)
        except Exception as error:  # noqa: BLE001 - each is told in one line, with its exit code
            raise typer.Exit(end(error, debug=debug or before["debug"])) from None
        if answer is False:
            raise typer.Exit(Code.NO)

    hints = get_type_hints(function, include_extras=True)
    given = [*inspect.signature(function).parameters.values()][1:]
    own = {"db": _DB} if database else {}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            _parameter("ctx", typer.Context, inspect.Parameter.empty),
            *(_parameter(one.name, hints[one.name], one.default) for one in given),
            *(_parameter(name, kind, None) for name, kind in own.items()),
            _parameter("as_json", Json, False),  # noqa: FBT003 - a default
            _parameter("debug", Debug, False),  # noqa: FBT003 - likewise
        ]
    )
    run.__annotations__ = {}
    return run


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=kind, default=default)
