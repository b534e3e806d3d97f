"""What every command has: the database, `--json`, `--debug`, and an exit code.

A command is a function whose first argument is a `CommandContext`; typer reads the others as its
arguments and options. It makes an answer, which is the document that `--json` prints, and passes
it to `show` with the function that draws it. A command that returns False ends with exit code 1.

Progress bars for long operations, on stderr and in a terminal only.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from roocontext.cli.terminal import is_terminal

if TYPE_CHECKING:
    from roocontext.store.proof.verify import Progress

import inspect
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from roocontext import reports
from roocontext.cli import find_database, options, terminal
from roocontext.cli.completion import NEW
from roocontext.cli.exit_codes import Code, Refusal, end
from roocontext.cli.options import DatabaseOption, Debug, Json, Utc
from roocontext.cli.screens.screen import Screen
from roocontext.errors import StoreUnavailable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from roocontext import Session, Store
    from roocontext.store.engine.clock_and_ids import Clock, Ids
    from roocontext.store.proof.verify import Progress


PATIENCE = 0.7
"""A bar is shown after this many seconds."""

_LONG = 2_000
"""With this total or more, a bar is shown at once."""


class Bars:
    """The bars of a command. They are nested, and only the innermost is shown."""

    def __init__(self) -> None:
        self._bars: list[_Bar] = []

    @contextmanager
    def bar(self, label: str) -> Iterator["Progress"]:
        """Show a bar for as long as the block runs; the function reports the progress."""
        if not is_terminal(sys.stderr):
            yield lambda _done, _total: None
            return
        with self.hidden():
            bar = _Bar(label)
            self._bars.append(bar)
            try:
                bar.wait()
                yield bar.report
            finally:
                bar.stop()
                self._bars.remove(bar)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar while something else is written to the terminal."""
        outer = self._bars[-1] if self._bars else None
        if outer:
            outer.stop()
        try:
            yield
        finally:
            if outer:
                outer.wait()


class _Bar:
    """A bar that appears after a while."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._done, self._total = 0, 0
        self._lock = Lock()  # the timer shows it in a thread of its own
        self._timer: Timer | None = None
        self._drawn: Callable[[], None] | None = None
        self._hide: Callable[[], None] | None = None

    def report(self, done: int, total: int) -> None:
        """Redraw the bar with this progress."""
        self._done, self._total = done, total
        if self._drawn:
            self._drawn()
        elif total >= _LONG:
            self.show()

    def wait(self) -> None:
        """Show it after a while."""
        self._timer = Timer(PATIENCE, self.show)
        self._timer.daemon = True
        self._timer.start()

    def show(self) -> None:
        """Show it, unless it is shown or stopped already."""
        from rich.progress import Progress  # noqa: PLC0415 - rarely needed

        with self._lock:
            if self._timer is None or self._hide is not None:
                return
            bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False)
            task = bar.add_task(escape(self._label), total=None)
            self._drawn = lambda: bar.update(task, completed=self._done, total=self._total or None)
            self._drawn()
            bar.start()
            self._hide = bar.stop

    def stop(self) -> None:
        """Remove it from the terminal."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            hide, self._timer, self._drawn, self._hide = self._hide, None, None, None
        if hide:
            hide()


AnswerT = TypeVar("AnswerT")

_UNKNOWN = (
    "The connection to the database broke, so the change may or may not have been made. Check"
    " before you repeat it. Repeating an append with the same --client-id is safe."
)


@dataclass(frozen=True)
class ClockAndIds:
    """Where the times and ids of the process come from."""

    clock: "Clock"
    ids: "Ids | None" = None


@dataclass(frozen=True)
class Described:
    """A command as the reference describes it: its name and the document that `--json` prints.

    With the argument `narrowed` names, it prints `narrow_document` instead.
    """

    name: str
    document: str
    is_stream: bool
    narrowed: str = ""
    narrow_document: str = ""


described: list[Described] = []


@dataclass
class CommandContext:
    """What a command works with."""

    url: str = field(repr=False)  # it may hold a password
    as_json: bool
    clock_and_ids: ClockAndIds
    bars: Bars = field(default_factory=Bars)
    has_written: bool = False
    _store: "Store | None" = None

    @contextmanager
    def store(
        self, *, write: bool = False, create: bool = False, dry_run: bool = False
    ) -> Iterator["Store"]:
        """The store, for reading or for writing."""
        given = self.clock_and_ids
        with find_database.open_store(
            self.url, clock=given.clock, ids=given.ids, write=write, create=create
        ) as store:
            # From here on, a failure to print is not a failure to write.
            self.has_written = write and not dry_run
            self._store = store
            try:
                yield store
            except StoreUnavailable as error:
                if write and error.outcome_unknown:
                    raise Refusal(_UNKNOWN, Code.UNCERTAIN) from error
                raise

    @contextmanager
    def session(self, name: str, *, write: bool = False) -> Iterator["Session"]:
        """The session with this name."""
        with self.store(write=write) as store:
            yield store.session(reports.naming.session_named(store, name))

    def short_id(self, chat: "Session") -> str:
        """The id of a session of the open store, as short as it names no other."""
        assert self._store is not None
        return reports.naming.short_id(self._store, chat.id)

    @contextmanager
    def session_or_new(
        self, name: str, *, session_id: str | None, title: str | None
    ) -> Iterator["Session"]:
        """The session with this name, for writing; `new` creates one."""
        is_new = name == NEW
        create = is_new and find_database.is_first_use(self.url)
        with self.store(write=True, create=create) as store:
            if is_new:
                yield store.create(session_id, title=title)
            else:
                yield store.session(reports.naming.session_named(store, name))

    @property
    def place(self) -> str:
        """The database without its password."""
        return find_database.without_password(self.url)

    @property
    def now(self) -> int:
        """The time now, in milliseconds since the epoch."""
        return self.clock_and_ids.clock()

    def progress(self, label: str) -> "AbstractContextManager[Progress]":
        """A progress bar."""
        return self.bars.bar(label)

    def show(
        self,
        answer: AnswerT,
        draw: Callable[[Screen, AnswerT], None],
        *,
        pager: bool = False,
        at_end: bool = False,
        has_followers: bool = False,
    ) -> None:
        """Print the answer, as a document or drawn; a pager opens at the start, or at the end.

        A document that others may follow is one line.
        """
        with self._printing():
            if self.as_json:
                terminal.write_json(answer, indent=None if has_followers else 2)
                return
            with terminal.paged(wanted=pager, at_end=at_end) as screen:
                draw(screen, answer)

    def stream(
        self,
        rows: Iterable[AnswerT],
        draw: Callable[[Screen, Iterable[AnswerT]], object],
        *,
        pager: bool,
        at_end: bool = False,
    ) -> None:
        """Print an answer row by row as it comes: a document on each line, or drawn."""
        with self._printing():
            if self.as_json:
                for row in rows:
                    terminal.write_json(row)
                return
            with terminal.paged(wanted=pager, at_end=at_end) as screen:
                draw(screen, rows)

    def confirm(self, question: str) -> None:
        """Continue only if the person at the terminal answers yes."""
        if not terminal.is_terminal(sys.stdin):
            line = "Not a terminal, cannot ask: use --yes or --dry-run."
            raise Refusal(line, Code.USAGE)
        try:
            with self.bars.hidden():
                wanted = typer.confirm(question, err=True)
        except typer.Abort:  # the end of input is no consent
            wanted = False
            sys.stderr.write("\n")
        if not wanted:
            raise Refusal("Nothing was changed.", Code.NO)

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """Distinguish a command that failed from one that only could not print its answer."""
        try:
            with self.bars.hidden():
                yield
                sys.stdout.flush()
        except OSError as error:
            terminal.drop_stdout()
            if not self.has_written:
                raise
            raise Refusal(
                f"It was done, but the output could not be written: {error.strerror}.",
                Code.UNCERTAIN,
            ) from None


def command(
    app: typer.Typer,
    *,
    panel: str,
    document: str,
    stream: bool = False,
    database: bool = True,
    narrowed: tuple[str, str] = ("", ""),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a command of the app. Without `database`, it creates one of its own.

    `document` names what `--json` prints, and is empty if it prints none. `narrowed` is an argument
    with which `--json` prints another document, and that document.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        about = (function.__doc__ or "").partition("\n\n")[0]
        name = function.__name__.removesuffix("_")  # `import` is a word of Python's own
        app.command(name, rich_help_panel=panel, short_help=about)(
            _runnable(function, database=database)
        )
        if document:
            described.append(Described(name, document, stream, *narrowed))
        return function

    return register


def _runnable(function: Callable[..., Any], *, database: bool) -> Callable[..., None]:
    """Wrap the function for typer, with the options that every command has."""

    def run(ctx: typer.Context, *, as_json: bool, debug: bool, utc: bool, **given: Any) -> None:
        before = ctx.find_root().params
        if utc or before["utc"]:
            options.use_utc()
        given.pop("db", None)
        context = CommandContext(find_database.chosen(ctx), as_json or before["as_json"], ctx.obj)
        if before["db"] is not None and not database:
            raise Refusal(
                f"`{ctx.info_name}` creates its own database and takes no --db.", Code.USAGE
            )
        try:
            with context.progress("Working") if database else nullcontext():
                answer = function(context, **given)
        except Exception as error:  # noqa: BLE001 - each becomes one line and an exit code
            raise typer.Exit(end(error, debug=debug or before["debug"])) from None
        if answer is False:
            raise typer.Exit(Code.NO)

    # typer reads the signature, so the common options are added there, after the command's own.
    hints = get_type_hints(function, include_extras=True)
    given = [*inspect.signature(function).parameters.values()][1:]
    own = {"db": DatabaseOption} if database else {}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            _parameter("ctx", typer.Context, inspect.Parameter.empty),
            *(_parameter(one.name, hints[one.name], one.default) for one in given),
            *(_parameter(name, kind, None) for name, kind in own.items()),
            _parameter("as_json", Json, False),  # noqa: FBT003 - a default
            _parameter("utc", Utc, False),  # noqa: FBT003 - likewise
            _parameter("debug", Debug, False),  # noqa: FBT003 - likewise
        ]
    )
    run.__annotations__ = {}
    return run


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=kind, default=default)
