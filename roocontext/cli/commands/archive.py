"""`roocontext archive`: moves old sessions into files."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli import completion
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import VERIFY
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import DryRunOption
from roocontext.cli.points import time_option
from roocontext.cli.screens import archiving

app = typer.Typer()


@command(app, panel=VERIFY, document="ArchivingReport")
def archive(
    context: CommandContext,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="One session, instead of all old ones.",
            autocompletion=completion.complete_sessions,
        ),
    ] = None,
    *,
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FOLDER", help="The folder, which is created if necessary."),
    ],
    older_than: Annotated[
        datetime | None,
        time_option(
            "Archive all sessions in which nothing has happened and nothing was recorded since"
            " then: `90d` or `2026-01-31`."
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> bool:
    """Move old sessions into compressed files, which `import` brings back.

    A session is deleted from the database when its file is on the disk and was checked. Lists still
    show it. The command can be repeated after a failure. The exit code is 1 if a session was left.
    """
    from roocontext import ArchiveFolder  # noqa: PLC0415 - heavy

    if (session is None) == (older_than is None):
        raise Refusal("Name one session, or give --older-than.", Code.USAGE)
    with context.store(write=not dry_run) as store, context.progress("Archiving") as progress:
        name = None if session is None else reports.naming.session_named(store, session)
        done = store.archive(
            put=ArchiveFolder(to),
            older_than=older_than,
            session=name,
            dry_run=dry_run,
            progress=progress,
        )
    for left in done.left:
        if left.file is not None:  # it holds an older state of the session, and nothing names it
            Path(left.file).unlink(missing_ok=True)
    answer = reports.archiving.archiving(done)
    context.show(answer, partial(archiving.draw_archiving, now=context.now))
    return not done.left
