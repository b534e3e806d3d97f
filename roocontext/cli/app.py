"""Collects the commands, runs one of them, and turns an error into a line and an exit code."""

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
    read,
    search,
    serve,
    sums,
    transfers,
)
from roocontext.cli.commands import sessions as listing
from roocontext.cli.exit_codes import Code, Refusal, end, write_error
from roocontext.cli.options import PROGRAM, Database, Debug, Json, Owner, Utc
from roocontext.cli.screens.safe_text import safe
from roocontext.cli.terminal import flush_or_drop, open_streams
from roocontext.reports.naming import quantity
from roocontext.store.engine.clock_and_ids import system_clock

if TYPE_CHECKING:
    from roocontext.store.engine.clock_and_ids import Clock, Ids


class _Collector(logging.Handler):
    """Collects log records as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(safe(" ".join(record.getMessage().split())))


@contextmanager
def keep_warnings() -> Iterator[None]:
    """Write the first warning of the library when the command ends, and how many others came.

    A warning in the middle of an answer would break it up. If the reader of stderr went away,
    writing a warning would end the command before it has done anything.
    """
    log, collector = logging.getLogger("roocontext"), _Collector()
    before = log.handlers, log.propagate
    log.handlers = [collector]
    log.propagate = False  # otherwise they would be written a second time, in another form
    try:
        yield
    finally:
        log.handlers, log.propagate = before  # of a program that calls a command
    # Only here: an interrupted command writes a line of its own.
    if lines := collector.lines:
        more = f" ({quantity(len(lines) - 1, 'more warning')})" if lines[1:] else ""
        write_error(f"roocontext: warning: {lines[0]}{more}\n")


HELP = (
    "Read the sessions of coding agents, change what the model sees, and verify their logs."
    " `roocontext demo` shows what it does; it needs no key and no network."
    " --db, --owner, --json, --utc and --debug may be given before the command or after it."
)
_READING = (listing, read, search, sums)
_OTHERS = (append, change, transfers, erase, maintain, serve, demo)
_EVERYWHERE = ("db", "owner", "as_json", "utc", "debug")
_LEAST = 20
"""The least number of columns for which help is laid out."""


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


def _root(
    *,
    db: Database = None,
    owner: Owner = None,
    as_json: Json = False,
    utc: Utc = False,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """The options before the command. Each has a callback that stores its value."""


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
    for family in (*_READING, *_OTHERS):
        app.add_typer(family.app)
    app.callback()(_root)
    group: Any = get_command(app)
    everywhere = [param for param in group.params if param.name in _EVERYWHERE]
    for command in every_command(group):
        has_own_database = command.name == demo.demo.__name__
        command.params += everywhere[2:] if has_own_database else everywhere
    return group


def _check(arguments: Sequence[str]) -> None:
    """Refuse input that is not UTF-8. Python decodes it to lone surrogates."""
    inputs = {f"Argument {n} of `{PROGRAM}`": text for n, text in enumerate(arguments, 1)}
    inputs |= {name: os.environ.get(name, "") for name in (find_database.VARIABLE, options.MODEL)}
    for name, text in inputs.items():
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise Refusal(f"{name} is not UTF-8.")


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
    # typer's own `main` would turn an interrupt and a closed pipe into exit codes of its own.
    with (
        group.make_context(PROGRAM, arguments, obj=invocation, terminal_width=width) as context,
        invocation.bars.bar("Working"),
    ):
        return Code.NO if group.invoke(context) is False else Code.DONE
