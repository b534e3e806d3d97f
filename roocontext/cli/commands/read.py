"""Commands that read one session. None of them writes, and none creates a database."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.options import PAUSE, WAYS, ModelName, Recorded, SessionName, flag, option
from roocontext.cli.points import Point, entry_argument, entry_option, time_option
from roocontext.cli.screens import entry, timeline
from roocontext.cli.screens import tree as picture
from roocontext.log.entries import Kind

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.reports.history import EntryRow, Selection

app = typer.Typer()
_read = partial(command, app, panel=INSPECT)

_FOLLOWED = 10
"""How many rows `-f` shows before it waits for new ones."""

Full = Annotated[bool, flag("--full", "Show long contents whole.")]
AsOf = Annotated[
    Point | None,
    entry_option(
        f"An entry: {WAYS}. A time is right before the first entry that happened later.",
        metavar="WHEN",
    ),
]
Number = Annotated[
    int | None, option("NUMBER", "Only this many, the newest.", "-n", "--tail", min=1)
]
Since = Annotated[
    datetime | None, time_option("Only entries that happened after this time, such as `2h`.")
]
Role = Annotated[
    list[str] | None,
    option(
        "ROLE",
        "Only messages of this role; `tool` selects the outputs of tools. May be repeated.",
        "--role",
    ),
]
KindOption = Annotated[
    list[Kind] | None,
    option(
        "KIND",
        "Only entries of this kind, such as message, summary or rewind. May be repeated.",
        "--kind",
    ),
]
Reverse = Annotated[bool, flag("--reverse", "Show the newest first.")]
Follow = Annotated[
    bool, flag("--follow", "Also show new entries as they are written, until Ctrl-C.", "-f")
]
Pager = Annotated[bool, flag("--pager/--no-pager", "Show a long output in a pager.")]


@_read(document="Shown", narrowed=("SEQ", "EntryRow"))
def show(
    context: CommandContext,
    session: SessionName,
    seq: Annotated[
        Point | None, entry_argument(f"Show this entry whole, visible or not: {WAYS}.")
    ] = None,
    *,
    as_of: AsOf = None,
    number: Number = None,
    since: Since = None,
    role: Role = None,
    kind: KindOption = None,
    reverse: Reverse = False,
    follow: Follow = False,
    recorded: Recorded = False,
    full: Full = False,
    model: ModelName = None,
    pager: Pager = True,
) -> None:
    """Show the messages that the model sees, or saw at an earlier point, or one entry whole.

    A pager opens at the newest message.
    """
    if follow and (context.as_json or as_of is not None) and seq is None:
        line = "-f shows the present on a screen: use `audit -f --json`, or leave out --as-of."
        raise Refusal(line)
    with context.session(session) as chat:
        if seq is not None:
            row = reports.history.one_entry(chat, seq.entry(chat))
            draw = partial(entry.draw_entry, info=chat.info(), name=context.short_id(chat))
            context.show(row, draw, pager=pager)
            return
        selection = reports.history.Selection(
            newest=number or (_FOLLOWED if follow else None),
            after=_last_before(chat, since, recorded=recorded),
            roles=tuple(role or ()),
            kinds=tuple(kind or ()),
            reverse=reverse,
        )
        rows = None
        with context.progress("Counting tokens"):
            if as_of is None and selection == reports.history.EVERYTHING and not context.as_json:
                answer, rows = reports.history.streamed_history(chat, model)
            else:
                answer = reports.history.effective_history(
                    *(chat, model),
                    as_of=None if as_of is None else as_of.in_log(chat),
                    recorded=recorded,
                    selection=selection,
                )
        name = "" if follow else context.short_id(chat)
        draw_view = partial(timeline.draw_view, full=full, name=name, rows=rows)
        context.show(answer, draw_view, pager=pager and not follow, at_end=not reverse)
        if follow:
            news = (row for row in _followed(chat, selection, answer.seq) if row.visible)
            context.stream(news, partial(timeline.draw_messages, full=full), pager=False)


@_read(document="EntryRow", stream=True)
def audit(
    context: CommandContext,
    session: SessionName,
    *,
    after: Annotated[Point | None, entry_option("Start after this entry.")] = None,
    number: Number = None,
    since: Since = None,
    role: Role = None,
    kind: KindOption = None,
    reverse: Reverse = False,
    follow: Follow = False,
    recorded: Recorded = False,
    full: Full = False,
    pager: Pager = True,
) -> None:
    """Show every entry ever written, and why the model does or does not see it.

    A pager opens at the newest entry.
    """
    with context.session(session) as chat:
        selection = reports.history.Selection(
            newest=number or (_FOLLOWED if follow else None),
            after=_last_before(chat, since, recorded=recorded),
            roles=tuple(role or ()),
            kinds=tuple(kind or ()),
            reverse=reverse,
        )
        if after is not None:
            selection = replace(selection, after=max(after.entry(chat), selection.after))
        info = chat.info()
        log = timeline.ShownLog(info, selection.after, context.short_id(chat), recorded)
        rows = reports.history.audit_rows(chat, selection)
        if follow:
            rows = chain(rows, _followed(chat, selection, info.last_seq))
        draw = partial(timeline.draw_audit, log=log, full=full)
        context.stream(rows, draw, pager=pager and not follow, at_end=not reverse)


def _last_before(chat: "Session", since: datetime | None, *, recorded: bool) -> int:
    """The last entry before the time of --since; 0 without it."""
    return 0 if since is None else chat.view(as_of=since, recorded=recorded, last=1).seq


def _followed(chat: "Session", selection: "Selection", last: int) -> "Iterator[EntryRow]":
    """The selected entries after the last, as they are written, until an interrupt."""
    while True:
        news = replace(selection, after=last, newest=None, reverse=False)
        for row in reports.history.audit_rows(chat, news):
            last = max(last, row.seq)
            yield row
        sys.stdout.flush()  # a pipe would be written to only after many rows
        time.sleep(PAUSE)


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
        Point,
        entry_argument(
            f"The earlier point, right after an entry: {WAYS}. A time is right"
            " before the first entry that happened later.",
            metavar="OLD",
        ),
    ],
    new: Annotated[
        Point | None, entry_argument("The later point. Default: now.", metavar="NEW")
    ] = None,
    *,
    recorded: Recorded = False,
) -> None:
    """Show which messages left the view and which came into it between two points."""
    with context.session(session) as chat:
        end = None if new is None else new.in_log(chat)
        answer = reports.history.difference(chat, old.in_log(chat), end, recorded=recorded)
    context.show(answer, timeline.draw_difference)
