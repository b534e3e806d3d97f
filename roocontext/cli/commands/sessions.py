"""`roocontext sessions`: finds sessions by their text, age, parent or metadata."""

import shutil
import sys
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli import terminal
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.options import (
    After,
    ModelName,
    Recorded,
    Where,
    argument,
    flag,
    option,
    session_option,
)
from roocontext.cli.points import time_option
from roocontext.cli.screens import session_list

app = typer.Typer()

_USUAL = 20
"""How many sessions are listed if there is no screen to fill."""
_OTHER_LINES = 5
"""The lines of a screen for the headings, two notes at the end and the next prompt."""


@command(app, panel=INSPECT, document="Sessions")
def sessions(
    context: CommandContext,
    text: Annotated[
        str,
        argument(
            "TEXT",
            "Only sessions with this text in their id, title or first prompt.",
            show_default=False,
        ),
    ] = "",
    *,
    since: Annotated[
        datetime | None,
        time_option("Only sessions with a message since then: `yesterday`, `2026-01-31` or `30d`."),
    ] = None,
    older_than: Annotated[
        datetime | None, time_option("Only sessions without a message since then.")
    ] = None,
    parent: Annotated[
        str | None, session_option("Only the children of this session.", metavar="ID")
    ] = None,
    where: Where = None,
    purged: Annotated[
        bool, flag("--purged", "List purged sessions by their receipts instead.")
    ] = False,
    limit: Annotated[
        int | None,
        option(
            "NUMBER",
            "List no more sessions than this. Default: as many as the screen holds, or"
            f" {_USUAL} if the output is not a terminal.",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    after: After = None,
    recorded: Recorded = False,
    model: ModelName = None,
) -> None:
    """List the sessions, newest first, and how full their context windows are."""
    if purged and (parent or where):
        raise Refusal("Purged sessions have no metadata, and are not listed by parent.")
    page = limit or _room(context)
    with context.store() as store:
        if purged:
            answer = reports.sessions.purged(
                store, text, since=since, until=older_than, limit=page, after=after
            )
        else:
            answer = reports.sessions.matching_sessions(
                store,
                text,
                parent=None if parent is None else reports.naming.parent_named(store, parent),
                where=reports.naming.conditions(where),
                since=since,
                until=older_than,
                recorded=recorded,
                limit=page,
                after=after,
                model=model,
            )
    if purged:
        draw = partial(session_list.draw_purged_list, now=context.now)
    else:
        has_filter = bool(parent or where or since or older_than)
        draw = partial(
            session_list.draw_sessions,
            now=context.now,
            text=text,
            has_filter=has_filter,
            recorded=recorded,
        )
    context.show(answer, draw, pager=True)


def _room(context: CommandContext) -> int:
    """The number of rows that the screen holds."""
    if context.as_json or not terminal.is_terminal(sys.stdout):
        return _USUAL
    return max(1, shutil.get_terminal_size().lines - _OTHER_LINES)
