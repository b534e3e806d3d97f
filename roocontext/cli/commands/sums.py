"""Commands that sum up: the tokens and costs of a session, and the sizes of one or of all."""

from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.options import ModelName, SessionName, SessionOrAll
from roocontext.cli.screens import tables

app = typer.Typer()
_read = partial(command, app, panel=INSPECT)


@_read(document="UsageReport")
def usage(
    context: CommandContext,
    session: SessionName,
    *,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Count every message ever written, not only the visible ones."),
    ] = False,
    family: Annotated[
        bool,
        typer.Option("--family", help="Count the model calls of all its descendants too."),
    ] = False,
    model: ModelName = None,
) -> None:
    """Show the tokens by role and by tool, and what the model calls have cost."""
    with context.session(session) as chat, context.progress("Counting tokens") as progress:
        answer = reports.usage.usage_of(
            chat, model, everything=everything, family=family, progress=progress
        )
    context.show(answer, tables.draw_usage)


@_read(document="StatsReport")
def stats(
    context: CommandContext,
    session: SessionOrAll = None,
) -> None:
    """Show how many messages are visible, hidden and taken back, and their sizes."""
    if session is None:
        with context.store() as store:
            answer = reports.sessions.total_stats(store)
    else:
        with context.session(session) as chat:
            answer = reports.sessions.summed([chat.stats()], chat.id)
    context.show(answer, tables.draw_stats)
