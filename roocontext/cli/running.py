"""One run of the command line: the commands put together, and the process around a command."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from roocontext.cli import act, demo, keep, look
from roocontext.cli.commands import Surroundings
from roocontext.cli.failing import PipeClosed, end, tell_warnings
from roocontext.cli.showing import NARROW, drop_stdout, take_streams
from roocontext.store.sources import system_clock

if TYPE_CHECKING:
    from roocontext.store.sources import Clock, Ids

NAME = "roocontext"


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{NAME} {version(NAME)}")
        raise typer.Exit


@cache
def whole(*, panels: bool) -> Any:
    """All commands. Panels are drawn around their help where there is room for them."""
    app = typer.Typer(
        name=NAME,
        help="Look at the sessions of coding agents, act on them, and keep their logs honest.",
        rich_markup_mode="rich" if panels else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for family in (look, act, keep, demo):
        app.add_typer(family.app)
    app.callback()(_root)
    return get_command(app)


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str], *, clock: "Clock | None" = None, ids: "Ids | None" = None) -> int:
    """Run one command; its exit code."""
    take_streams()
    tell_warnings()
    surroundings = Surroundings(clock or system_clock, ids)
    try:
        panels = typer.get_terminal_size().columns >= NARROW
        code = whole(panels=panels).main(
            list(arguments) or ["--help"],
            prog_name=NAME,
            standalone_mode=False,
            obj=surroundings,
        )
        code = code if isinstance(code, int) else 0
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - each is told in one line, with its exit code
        if isinstance(error, PipeClosed | OSError):
            drop_stdout()
        code = end(error, debug=False)
    return code
