"""Runs one command: collects the commands, and turns errors into exit codes.

The library's warnings: at most one line on stderr, after the answer.

They are kept until then. A line in the middle of a command would drown its answer, and where the
reader of stderr has gone, it would end the command before it has done anything.
"""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from roocontext.cli import completion, find_database, options
from roocontext.cli.command_context import Invocation
from roocontext.cli.command_group import CommandGroup, every_command
from roocontext.cli.commands import (
    append,
    change,
    demo,
    erase,
    maintain,
    mcp,
    read,
    search,
    sums,
    transfers,
)
from roocontext.cli.commands import sessions as listing
from roocontext.cli.exit_codes import Code, Refusal, end, write_error
from roocontext.cli.options import PROGRAM, Database, Debug, Json, Utc
from roocontext.cli.screens.safe_text import safe
from roocontext.cli.terminal import flush_or_drop, open_streams
from roocontext.reports.naming import quantity
from roocontext.store.engine.clock_and_ids import system_clock

if TYPE_CHECKING:
    from roocontext.store.engine.clock_and_ids import Clock, Ids


class Warnings(logging.Handler):
    """Keeps the library's warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self.lines.append(safe(" ".join(record.getMessage().split())))


@contextmanager
def keep_warnings() -> Iterator[None]:
    """Keep the library's warnings until the end; write the first one, and how many others came."""
    log, kept = logging.getLogger("roocontext"), Warnings()
    before = log.handlers, log.propagate
    log.handlers = [kept]
    log.propagate = False  # else they would come a second time, in another form
    try:
        yield
    finally:
        log.handlers, log.propagate = before  # of a program that calls a command
    if kept.lines:  # but not after an interrupt, which has one line of its own
        others = len(kept.lines) - 1
        more = f" ({quantity(others, 'more warning')})" if others else ""
        write_error(f"roocontext: warning: {kept.lines[0]}{more}\n")


HELP = (
    "Read the sessions of coding agents, change what the model sees, and verify their logs."
    " `roocontext demo` shows what it does; it needs no key and no network."
    " --db, --json, --utc and --debug may be given before the command or after it."
)
_FAMILIES = (listing, read, search, sums, append, change, transfers, erase, maintain, mcp, demo)
_EVERYWHERE = ("db", "as_json", "utc", "debug")
_LEAST = 20
"""Help is laid out for at least this many columns."""


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


def _root(
    *,
    db: Database = None,
    as_json: Json = False,
    utc: Utc = False,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Each option has a callback that keeps its value."""


@cache
def commands() -> Any:
    """All commands."""
    app = typer.Typer(
        name=PROGRAM,
        cls=CommandGroup,
        help=HELP,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for family in _FAMILIES:
        app.add_typer(family.app)
    app.callback()(_root)
    group: Any = get_command(app)
    everywhere = [one for one in group.params if one.name in _EVERYWHERE]
    for one in every_command(group):
        has_own = one.name == demo.demo.__name__  # it makes a database of its own
        one.params += everywhere[1:] if has_own else everywhere
    return group


def _check(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8, which Python passes on as lone surrogates."""
    for number, argument in enumerate(arguments, 1):
        if not _is_text(argument):
            raise Refusal(f"Argument {number} of `{PROGRAM}` is not UTF-8.", Code.USAGE)
    for name in (find_database.VARIABLE, options.MODEL):
        if not _is_text(os.environ.get(name, "")):
            raise Refusal(f"{name} is not UTF-8.", Code.USAGE)


def _is_text(argument: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in argument)


def run(arguments: Sequence[str], *, clock: "Clock | None" = None, ids: "Ids | None" = None) -> int:
    """Run one command and return its exit code."""
    open_streams()
    invocation = Invocation(clock or system_clock, ids)
    with keep_warnings():
        try:
            _check(arguments)
            code = _run([*arguments], invocation)
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - each becomes one line and an exit code
            flush_or_drop()
            return end(error, debug=invocation.debug)
    return code


def _run(arguments: list[str], invocation: Invocation) -> int:
    group = commands()
    if completion.is_wanted(os.environ):
        group.main(prog_name=PROGRAM, obj=invocation)  # ends the process
    if arguments[:1] == ["help"]:  # `help show` means `show --help`
        arguments = [*arguments[1:], "--help"]
    width = max(_LEAST, get_terminal_size().columns)
    # Not `main` of typer, which takes an interrupt and a closed pipe for an exit code of its own.
    with (
        group.make_context(PROGRAM, arguments, obj=invocation, terminal_width=width) as context,
        invocation.bars.bar("Working"),
    ):
        return Code.NO if group.invoke(context) is False else Code.DONE
