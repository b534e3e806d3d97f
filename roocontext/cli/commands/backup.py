"""`roocontext backup`: a copy of the database, made while it is used."""

from pathlib import Path
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import VERIFY
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.find_database import looked_for
from roocontext.cli.screens import results

app = typer.Typer()


@command(app, panel=VERIFY, document="Backup")
def backup(
    context: CommandContext,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The new file. It must not exist.")],
) -> bool:
    """Copy the database to a new file, while others use it.

    PostgreSQL is not copied. The command that does it is printed instead, and the exit code is 1.
    """
    if file.endswith("/"):
        raise Refusal(f"{file!r} is a folder: name a new file in it.", Code.USAGE)
    with looked_for(context.url), context.progress("Copying") as progress:
        answer = reports.results.backed_up(context.url, context.place, Path(file), progress)
    context.show(answer, results.draw_backup)
    return answer.command is None
