"""Commands about one entry of a session."""

from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli import options
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.options import Recorded, SessionName
from roocontext.cli.screens import entry

app = typer.Typer()


@command(app, panel=INSPECT, document="Why")
def why(
    context: CommandContext,
    session: SessionName,
    seq: Annotated[str, typer.Argument(metavar="SEQ", help=f"The entry: {options.WAYS}.")],
    *,
    recorded: Recorded = False,
) -> None:
    """Show whether the model sees an entry, and if not, what hides it and how to bring it back."""
    with context.session(session) as chat:
        answer = reports.why.why(chat, options.entry_number(chat, "SEQ", seq, context.now))
        draw = partial(entry.draw_why, name=context.short_id(chat), recorded=recorded)
    context.show(answer, draw)
