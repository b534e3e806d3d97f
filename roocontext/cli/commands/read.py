"""Commands that read one session. None of them writes, and none creates a database."""

from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli import parse_time
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.options import ModelName, SessionName
from roocontext.cli.screens import timeline
from roocontext.cli.screens import tree as picture

app = typer.Typer()
_read = partial(command, app, panel=INSPECT)

Full = Annotated[bool, typer.Option("--full", help="Show long contents whole.")]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="WHEN",
        help="An entry's number, or a time such as `2026-01-31 09:30` or `2h ago`. Shows"
        " what the model saw with everything recorded up to then; the agent's own times are"
        " ignored.",
    ),
]
Pager = Annotated[bool, typer.Option("--pager/--no-pager", help="Show a long output in a pager.")]


@_read(document="Shown")
def show(
    context: CommandContext,
    session: SessionName,
    *,
    as_of: AsOf = None,
    full: Full = False,
    model: ModelName = None,
    pager: Pager = True,
) -> None:
    """Show the messages that the model sees, or saw at an earlier point."""
    when = None if as_of is None else parse_time.seq_or_time("--as-of", as_of, context.now)
    with context.session(session) as chat, context.progress("Counting tokens") as progress:
        answer = reports.history.effective_history(chat, model, as_of=when, progress=progress)
    context.show(answer, partial(timeline.draw_view, full=full), pager=pager)


@_read(document="EntryRow", stream=True)
def audit(
    context: CommandContext,
    session: SessionName,
    *,
    after: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Start after this entry.")] = 0,
    full: Full = False,
    pager: Pager = True,
) -> None:
    """Show every entry ever written, and why the model does or does not see it."""
    with context.session(session) as chat:
        info = chat.info()
        log = timeline.Log(chat.id, info.title, info.last_seq, after)
        rows = reports.history.audit_rows(chat, after=after)
        context.stream(rows, partial(timeline.draw_audit, log=log, full=full), pager=pager)


@_read(document="Tree")
def tree(
    context: CommandContext, session: SessionName, *, full: Full = False, pager: Pager = True
) -> None:
    """Show which entries hide which, and the branches that rewinds made."""
    with context.session(session) as chat:
        answer = reports.tree.tree_of(chat)
    context.show(answer, partial(picture.draw_tree, full=full), pager=pager)


@_read(document="Difference")
def diff(
    context: CommandContext,
    session: SessionName,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The earlier point: an entry's number, or a time such as `2026-01-31 09:30`"
            " or `2h ago`, which means right after the last entry recorded up to then.",
        ),
    ],
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="The later point. Default: now.")
    ] = None,
) -> None:
    """Show which messages left the view and which came into it between two points."""
    before = parse_time.seq_or_time("OLD", old, context.now)
    after = None if new is None else parse_time.seq_or_time("NEW", new, context.now)
    with context.session(session) as chat:
        answer = reports.history.difference(chat, before, after)
    context.show(answer, timeline.draw_difference)
