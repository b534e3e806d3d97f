"""The context of a command: the database, `--json`, and a way to show the answer.

A command is a function whose first argument is a `CommandContext`; typer reads the others as its
arguments and options. The command makes an answer, which is the document that `--json` prints, and
passes it to `show` with the function that draws it. A command that returns False ends with exit
code 1.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand

from roocontext import reports
from roocontext.cli import find_database, terminal
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.progress import Bars
from roocontext.cli.screens.screen import Screen
from roocontext.errors import StoreUnavailable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from roocontext import Session, Store
    from roocontext.store.engine.clock_and_ids import Clock, Ids
    from roocontext.store.proof.verify import Progress

AnswerT = TypeVar("AnswerT")

_UNKNOWN = (
    "The connection to the database broke, so the change may or may not have been made. Check"
    " before you repeat it. Repeating an append with the same --client-id is safe."
)


@dataclass
class Invocation:
    """One run of the program: its clock and ids, and the options that every command has.

    It is the `obj` of typer's contexts. Options may be given before the command or after it; each
    is stored here when it is read, so the one after the command wins.
    """

    clock: "Clock"
    ids: "Ids | None" = None
    db: str | None = field(default=None, repr=False)  # it may hold a password
    owner: str | None = None
    as_json: bool = False
    debug: bool = False
    bars: Bars = field(default_factory=Bars)
    has_written: bool = False
    """True if something was changed, or a file was written.

    If the answer cannot be printed then, the error says so.
    """


class CommandContext(typer.Context):
    """typer's context of a command, with the database that the command works on."""

    obj: Invocation
    _store: "Store | None" = None

    @property
    def url(self) -> str:
        """The database: a path, or a URL that may hold a password."""
        return find_database.lasting(find_database.chosen(self.obj.db))

    @property
    def whole(self) -> str:
        """The database, for a command that concerns the sessions of every owner."""
        if self.obj.owner is not None:
            raise Refusal("This command is about the whole database: leave out --owner.")
        return self.url

    @property
    def as_json(self) -> bool:
        """True if documents are printed instead of screens."""
        return self.obj.as_json

    @property
    def now(self) -> int:
        """The time now, in milliseconds since the epoch."""
        return self.obj.clock()

    @contextmanager
    def store(
        self,
        *,
        write: bool = False,
        create: bool = False,
        dry_run: bool = False,
        where: Mapping[str, str] | None = None,
    ) -> Iterator["Store"]:
        """Open the store, for reading or for writing."""
        run = self.obj
        options = {"clock": run.clock, "ids": run.ids, "owner": run.owner, "where": where}
        with find_database.open_store(self.url, write=write, create=create, **options) as store:
            run.has_written = write and not dry_run
            self._store = store
            try:
                yield store
            except StoreUnavailable as error:
                if write and error.outcome_unknown:
                    raise Refusal(_UNKNOWN, Code.UNCERTAIN) from error
                raise

    @contextmanager
    def session(self, name: str, *, write: bool = False) -> Iterator["Session"]:
        """Open the store, and find the session with this name."""
        with self.store(write=write) as store:
            yield store.session(reports.naming.session_named(store, name))

    def short_id(self, chat: "Session") -> str:
        """The shortest beginning of a session's id that names no other session of the store."""
        assert self._store is not None
        return reports.naming.short_id(self._store, chat.id)

    def progress(self, label: str) -> "AbstractContextManager[Progress]":
        """A progress bar."""
        return self.obj.bars.bar(label)

    def show(
        self,
        answer: AnswerT,
        draw: Callable[[Screen, AnswerT], object],
        *,
        pager: bool = False,
        at_end: bool = False,
        has_followers: bool = False,
    ) -> None:
        """Print the answer, as a document or drawn. A pager opens at the start, or at the end.

        If other documents may follow, the document is one line.
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
        """Print each row of an answer as soon as it is read: a document on a line, or drawn."""
        if not self.as_json:
            self.show(rows, draw, pager=pager, at_end=at_end)
            return
        with self._printing():
            for row in rows:
                terminal.write_json(row)

    def confirm(
        self, plan: AnswerT, draw: Callable[[Screen, AnswerT], object], question: str
    ) -> None:
        """Show a plan, and continue only if the person at the terminal answers yes."""
        if not terminal.is_terminal(sys.stdin):
            line = "Cannot ask for confirmation: standard input is not a terminal."
            raise Refusal(f"{line} Use --yes or --dry-run.")
        # typer's `confirm` asks again after any other answer, and writes a space to stdout.
        self.obj.bars.hide()
        draw(Screen(sys.stderr), plan)
        sys.stderr.write(f"{question} [y/N]: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:  # the end of input is not a yes, and does not end the line
            sys.stderr.write("\n")
        if answer.strip().lower() not in ("y", "yes"):
            raise Refusal("Nothing was changed.", Code.NO)

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """If only the printing fails after a change, report that the change was made."""
        self.obj.bars.hide()
        try:
            yield
            sys.stdout.flush()
        except OSError as error:
            if isinstance(error, BrokenPipeError) or not self.obj.has_written:
                raise
            line = f"The change was made, but the output could not be written: {error.strerror}."
            raise Refusal(line, Code.UNCERTAIN) from None


class Command(TyperCommand):
    """A command whose function takes a `CommandContext`."""

    context_class = CommandContext


@dataclass(frozen=True)
class Described:
    """A command as the reference describes it: its name and the document that `--json` prints.

    With the argument `narrowed`, it prints `narrow_document` instead.
    """

    name: str
    document: str
    is_stream: bool
    narrowed: str = ""
    narrow_document: str = ""


described: list[Described] = []


def command(
    app: typer.Typer,
    *,
    panel: str,
    document: str,
    stream: bool = False,
    narrowed: tuple[str, str] = ("", ""),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a command of the app.

    `document` names what `--json` prints, and is empty if it prints nothing. `narrowed` is an
    argument with which `--json` prints another document, and the name of that document.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        about = (function.__doc__ or "").partition("\n\n")[0]
        name = function.__name__.removesuffix("_")  # `import` is a keyword of Python
        app.command(name, cls=Command, rich_help_panel=panel, short_help=about)(function)
        if document:
            described.append(Described(name, document, stream, *narrowed))
        return function

    return register
