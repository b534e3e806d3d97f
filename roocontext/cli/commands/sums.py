"""Commands that sum up tokens, costs and sizes, of one session or of all."""

from datetime import datetime
from functools import partial
from typing import Annotated, Literal

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.options import ModelName, Recorded, SessionOrAll, Where, flag, option
from roocontext.cli.points import time_option
from roocontext.cli.screens import tables

app = typer.Typer()
_read = partial(command, app, panel=INSPECT)


@_read(document="UsageReport", narrowed=("no SESSION", "Spending"))
def usage(
    context: CommandContext,
    session: SessionOrAll = None,
    *,
    everything: Annotated[
        bool, flag("--all", "Count every message ever written, not only the visible ones.")
    ] = False,
    family: Annotated[
        bool, flag("--family", "Count the model calls of all its descendants too.")
    ] = False,
    by: Annotated[
        Literal["day", "model", "session"] | None,
        option("WHAT", "For all sessions: sum up by `day`, `model` or `session`. Default: day."),
    ] = None,
    since: Annotated[
        datetime | None, time_option("For all sessions: only calls since then, such as `7d`.")
    ] = None,
    until: Annotated[
        datetime | None, time_option("For all sessions: only calls before then.")
    ] = None,
    where: Where = None,
    recorded: Recorded = False,
    model: ModelName = None,
) -> None:
    """Show the tokens by role and by tool, and what the model calls have cost."""
    if session is None:
        if everything or family:
            raise Refusal("--all and --family are about one session: name it.")
        with context.store() as store:
            spent = reports.usage.spending_of(
                store,
                by or "day",
                since=since,
                until=until,
                where=reports.naming.conditions(where),
                recorded=recorded,
            )
        context.show(spent, tables.draw_spending, pager=True)
        return
    if by or since or until or where or recorded:
        line = "--by, --since, --until, --where and --recorded are about all sessions: name none."
        raise Refusal(line)
    with context.session(session) as chat, context.progress("Counting tokens"):
        answer = reports.usage.usage_of(chat, model, everything=everything, family=family)
    context.show(answer, tables.draw_usage)


@_read(document="StatsReport")
def stats(context: CommandContext, session: SessionOrAll = None) -> None:
    """Show how many messages are visible, hidden and taken back, and their sizes."""
    if session is None:
        with context.store() as store:
            answer = reports.sessions.total_stats(store)
    else:
        with context.session(session) as chat:
            answer = reports.sessions.summed([chat.stats()], chat.id)
    context.show(answer, tables.draw_stats)
