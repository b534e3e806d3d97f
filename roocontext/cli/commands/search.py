"""Commands that find messages by their words, and explain why an entry is hidden."""

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from roocontext import reports
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.options import (
    After,
    EntryName,
    Recorded,
    SessionName,
    Where,
    argument,
    option,
    session_option,
)
from roocontext.cli.points import time_option
from roocontext.cli.screens import entry
from roocontext.search.passages import Speaker
from roocontext.search.query import Among, Order

app = typer.Typer()

_USUAL = 20


@command(app, panel=INSPECT, document="Found")
def search(
    context: CommandContext,
    text: Annotated[
        list[str],
        argument(
            "TEXT",
            'Words that a message must all contain. `"a phrase"` is found exactly as written,'
            " `begin*` finds every word that begins like that, and `C++` is found with its signs."
            " Put `--` before a text that begins with a dash.",
        ),
    ],
    *,
    session: Annotated[str | None, session_option("Only this session.")] = None,
    family: Annotated[str | None, session_option("Only this session and its descendants.")] = None,
    role: Annotated[
        Speaker | None,
        option("ROLE", "Only messages of the `user` or the `assistant`, or outputs of a `tool`."),
    ] = None,
    tool: Annotated[str | None, option("NAME", "Only the calls and outputs of this tool.")] = None,
    since: Annotated[
        datetime | None,
        time_option("Only messages since then: `yesterday`, `2026-01-31` or `30d`."),
    ] = None,
    until: Annotated[datetime | None, time_option("Only messages before then.")] = None,
    where: Where = None,
    among: Annotated[
        Among,
        option(
            "WHICH",
            "`visible`: messages that the model sees now; `hidden`: those that summaries and"
            " markers hide; `standing`: both; `all`: also those that rewinds took back.",
        ),
    ] = "all",
    order: Annotated[Order, option("ORDER", "`best`, `newest` or `oldest` first.")] = "best",
    limit: Annotated[
        int, option("NUMBER", "The maximum number of hits.", "--limit", "-n", min=1, max=1_000)
    ] = _USUAL,
    after: After = None,
    lines: Annotated[
        int, option("LINES", "Lines of context.", "--context", "-C", min=0, max=1_000)
    ] = 0,
    recorded: Recorded = False,
) -> None:
    """Find messages by their words, hidden and rewound ones too, and show why they are hidden.

    The index is brought up to date first, if the database can be written to.
    """
    _index(context)
    with context.store() as store:
        query = " ".join(text)
        page = store.search(
            query,
            session=None if session is None else reports.naming.session_named(store, session),
            family=None if family is None else reports.naming.parent_named(store, family),
            role=role,
            tool=tool,
            since=since,
            until=until,
            where=reports.naming.conditions(where),
            among=among,
            order=order,
            limit=limit,
            after=after,
            context=lines,
            recorded=recorded,
        )
    answer = reports.search.found(query, page)
    context.show(answer, partial(entry.draw_found, now=context.now, recorded=recorded), pager=True)


@command(app, panel=INSPECT, document="Why")
def why(
    context: CommandContext, session: SessionName, seq: EntryName, *, recorded: Recorded = False
) -> None:
    """Show whether the model sees an entry, and if not, what hides it and how to bring it back."""
    with context.session(session) as chat:
        answer = reports.why.why(chat, seq.entry(chat))
        draw = partial(entry.draw_why, name=context.short_id(chat), recorded=recorded)
    context.show(answer, draw)


def _index(context: CommandContext) -> None:
    with (
        suppress(*reports.search.UNINDEXED),
        context.progress("Indexing") as report,
        context.store(write=True) as store,
    ):
        store.index(progress=report)
    context.obj.has_written = False
