"""One run of the command line: the commands put together, and the process around a command."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from roocontext.cli import act, appending, demo, gauge, helping, keep, look, opening
from roocontext.cli.commands import DB_HELP, Debug, Json, Surroundings
from roocontext.cli.completing import answering
from roocontext.cli.failing import Code, PipeClosed, Refusal, end, tell_warnings
from roocontext.cli.interrupts import heard_anywhere
from roocontext.cli.terminal import drop_stdout, take_streams
from roocontext.store.sources import system_clock

if TYPE_CHECKING:
    from roocontext.store.sources import Clock, Ids

NAME = "roocontext"
HELP = (
    "Look at the sessions of coding agents, act on them, and keep their logs honest."
    " --db, --json and --debug may stand before the command or behind it."
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{NAME} {version(NAME)}")
        raise typer.Exit


@cache
def whole(*, panels: bool) -> Any:
    """All commands. Panels are drawn around their help where there is room for them."""
    app = typer.Typer(
        name=NAME,
        help=HELP,
        rich_markup_mode="rich" if panels else None,
        context_settings={"help_option_names": helping.HELP_OPTIONS},
    )
    for family in (look, appending, act, keep, demo):
        app.add_typer(family.app)
    app.callback()(_root)
    return helping.plainer(get_command(app))


def _root(
    *,
    db: Annotated[str | None, typer.Option("--db", metavar="URL", help=DB_HELP)] = None,
    as_json: Json = False,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass  # what it is given is read where it is needed


def _check(arguments: Sequence[str]) -> None:
    """Refuse what is no text: stored, it would be something else than was meant."""
    for number, argument in enumerate(arguments, 1):
        if not _is_text(argument):
            raise Refusal(f"Word {number} of what follows `{NAME}` is no UTF-8.", Code.USAGE)
    for name in (opening.VARIABLE, gauge.MODEL):
        if not _is_text(os.environ.get(name, "")):
            raise Refusal(f"{name} is no UTF-8.", Code.USAGE)


def _is_text(argument: str) -> bool:
    """Whether it is what was typed; Python hands on other bytes as halves of characters."""
    return not any("\ud800" <= one <= "\udfff" for one in argument)


def run(arguments: Sequence[str], *, clock: "Clock | None" = None, ids: "Ids | None" = None) -> int:
    """Run one command; its exit code."""
    take_streams()
    tell_warnings()
    try:
        with heard_anywhere():
            code = _run(arguments, Surroundings(clock or system_clock, ids))
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - each is told in one line, with its exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends already
        if isinstance(error, PipeClosed | OSError | KeyboardInterrupt):
            drop_stdout()
        code = end(error, debug=False)
    return code


def _run(arguments: Sequence[str], surroundings: Surroundings) -> int:
    _check(arguments)
    columns = get_terminal_size().columns
    with answering():
        code = whole(panels=columns >= helping.PANELS).main(
            list(arguments) or ["--help"],
            prog_name=NAME,
            standalone_mode=False,
            obj=surroundings,
            terminal_width=max(helping.LEAST, columns),
        )
    if code == Code.INTERRUPTED:  # which is all that typer leaves of the interrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
