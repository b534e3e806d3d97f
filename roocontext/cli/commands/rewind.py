"""Commands that take back what changed the view: rewind, undo, uncover."""

from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli import options
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import DryRunOption, Expected, Recorded, SessionName
from roocontext.cli.screens import view_changes

app = typer.Typer()
_view = partial(command, app, panel=CHANGE)


@_view(document="ViewChange")
def rewind(
    context: CommandContext,
    session: SessionName,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="An entry's number, `last`, a time such as `2026-01-31 09:30` or `2h ago`, or a"
            " message's id. A time is right before the first live entry that happened later.",
        ),
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="ID",
            help="The agent's id of a message, even if it looks like a number or a time.",
        ),
    ] = None,
    ts: Annotated[
        int | None,
        typer.Option(
            "--ts",
            metavar="MS",
            help="The agent's own time of a message, exactly, in ms since 1970.",
        ),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="Go to right before it instead of right after it.")
    ] = False,
    recorded: Recorded = False,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Return the session to an earlier state. Nothing is deleted, and `undo` reverses it.

    For example, `roocontext rewind last --to 40` makes it what it was right after entry 40.
    """
    if sum(one is not None for one in (to, message_id, ts)) != 1:
        line = "Where to? Give one of --to, --message-id and --ts: `--to 40` or `--to '2h ago'`."
        raise Refusal(line, Code.USAGE)
    with context.session(session, write=not dry_run) as chat, options.naming("--to", to):
        where = message_id if to is None else options.rewind_place(chat, "--to", to, context.now)
        done = chat.rewind(
            where,
            ts=ts,
            recorded=recorded,
            keep_target=not before,
            expected_seq=expected_seq,
            dry_run=dry_run,
        )
        answer = reports.undo.rewound_report(chat, done)
        draw = partial(view_changes.draw_view_change, short=context.short_id(chat))
    context.show(answer, draw)


@_view(document="ViewChange")
def undo(
    context: CommandContext,
    session: SessionName,
    *,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="SEQ", help="Refuse unless this entry is the last change."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Undo even if that hides newer messages.")
    ] = False,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Undo the last change of the view: a rewind, summary, marker, clearing or uncovering.

    Messages that came after a summary, marker or clearing are kept. An undo is a change of the view
    too, so a second one is a redo. `tree` lists earlier changes, and `uncover` takes back one of
    them.
    """
    with context.session(session, write=not dry_run) as chat:
        change = None if of is None else options.entry_number(chat, "--of", of, context.now)
        answer = reports.undo.undo(
            chat, of=change, force=force, expected_seq=expected_seq, dry_run=dry_run
        )
        draw = partial(view_changes.draw_view_change, short=context.short_id(chat))
    context.show(answer, draw)


@_view(document="ViewChange")
def uncover(
    context: CommandContext,
    session: SessionName,
    seq: Annotated[
        str, typer.Argument(metavar="SEQ", help="The summary, marker or clearing to take back.")
    ],
    *,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Take back one summary, marker or clearing, and keep everything after it.

    Nothing is deleted. `tree` lists what can be uncovered. A rewind to before it covers again.
    """
    with context.session(session, write=not dry_run) as chat:
        target = options.entry_number(chat, "SEQ", seq, context.now)
        done = chat.uncover(target, expected_seq=expected_seq, dry_run=dry_run)
        answer = reports.undo.uncovered_report(chat, done)
        draw = partial(view_changes.draw_view_change, short=context.short_id(chat))
    context.show(answer, draw)
