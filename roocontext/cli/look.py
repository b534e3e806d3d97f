"""Commands that look. None of them writes, and none makes a database."""

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from roocontext.cli import completing, gauge, spending, times
from roocontext.cli.answers import documents, shapes
from roocontext.cli.commands import Desk, SessionName, command
from roocontext.cli.gauge import ModelName
from roocontext.cli.opening import every_session
from roocontext.cli.screens import branches, histories, tallies
from roocontext.cli.waiting import progress

if TYPE_CHECKING:
    from roocontext import SessionInfo, Store

app = typer.Typer()
_look = partial(command, app, panel="Look")

Full = Annotated[bool, typer.Option("--full", help="Show everything whole, however long it is.")]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="WHEN",
        help="An entry's number, or a time in UTC, as `2026-01-31 09:30` or `2h ago`: what was"
        " recorded up to then counts, whatever times the agent gave its messages.",
    ),
]
Pager = Annotated[bool, typer.Option("--pager/--no-pager", help="Stop at each page.")]


@_look(shape=shapes.Sessions)
def sessions(
    desk: Desk,
    text: Annotated[
        str,
        typer.Argument(help="Only those with this text in the id or title.", show_default=False),
    ] = "",
    *,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=1_000_000, help="How many at most.")
    ] = 20,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Count the tokens; else they are guessed by the bytes, cleared outputs included.",
        ),
    ] = False,
    model: ModelName = None,
) -> None:
    """List the sessions, the newest first, with how full their context windows are."""
    with desk.store() as store:
        matching = (info for info in every_session(store) if _has(info, text.casefold()))
        found = list(islice(matching, limit + 1))
        rows = []
        with progress("Counting", limit if count else 0, least=2) as told:
            for number, info in enumerate(found[:limit], 1):
                rows.append(_row(store, info, model, count=count))
                told(number, len(found[:limit]))
    answer: shapes.Sessions = {"sessions": rows, "more": len(found) > limit}
    desk.tell(answer, partial(tallies.sessions, text=text))


@_look(shape=shapes.Shown)
def show(
    desk: Desk,
    session: SessionName,
    *,
    as_of: AsOf = None,
    full: Full = False,
    model: ModelName = None,
    pager: Pager = True,
) -> None:
    """Show the effective history: what the model sees, or saw at some time."""
    when = None if as_of is None else times.seq_or_time("--as-of", as_of, desk.now)
    with desk.session(session) as chat:
        view = chat.view(as_of=when)
        answer: shapes.Shown = {
            "session_id": chat.id,
            "title": chat.info().title,
            "seq": view.seq,
            "head_seq": view.head_seq,
            "context": gauge.measured(chat, model, as_of=when),
            "messages": [documents.message_row(message) for message in view.messages],
        }
    desk.tell(answer, partial(histories.shown, full=full), pager=pager)


@_look(shape=shapes.EntryRow, stream=True)
def audit(
    desk: Desk,
    session: SessionName,
    *,
    after: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Begin behind this entry.")] = 0,
    full: Full = False,
    pager: Pager = True,
) -> None:
    """Show every entry ever written, and why the model does or does not see it."""
    with desk.session(session) as chat:
        info = chat.info()
        log = histories.Log(chat.id, info.title, info.last_seq, after)
        rows = map(documents.entry_row, chat.audit(after=after))
        desk.stream(rows, partial(histories.audit, log=log, full=full), pager=pager)


@_look(shape=shapes.Tree)
def tree(desk: Desk, session: SessionName, *, full: Full = False, pager: Pager = True) -> None:
    """Show what hides what, and the branches that rewinds make."""
    with desk.session(session) as chat:
        title = chat.info().title
        shape = branches.Shape().take(chat.audit())
    answer: shapes.Tree = {
        "session_id": chat.id,
        "title": title,
        "entries": shape.last,
        "messages": shape.messages,
        "visible_messages": shape.visible,
        "stretches": shape.stretches(),
        "hidings": shape.hidings,
        "rewinds": shape.rewinds(),
    }
    desk.tell(answer, partial(branches.draw, full=full), pager=pager)


@_look(shape=shapes.Difference)
def diff(
    desk: Desk,
    session: SessionName,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="An entry's number, or a time in UTC, as `2026-01-31 09:30` or `2h ago`: right"
            " after the last entry recorded up to then.",
        ),
    ],
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="The same; default: now.")
    ] = None,
) -> None:
    """Show what left the view and what came into it between two points."""
    before = times.seq_or_time("OLD", old, desk.now)
    after = None if new is None else times.seq_or_time("NEW", new, desk.now)
    with desk.session(session) as chat:
        found = chat.diff(before, after)
    desk.tell(documents.difference(chat.id, found), histories.difference)


@_look(shape=shapes.UsageReport)
def usage(
    desk: Desk,
    session: SessionName,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Count all that was ever said, not what the model sees.")
    ] = False,
    model: ModelName = None,
) -> None:
    """Show the tokens by role and by tool, and what the calls of models have cost."""
    with desk.session(session) as chat:
        context = gauge.measured(chat, model)
        counter = gauge.counter_of(context["model"])
        said = spending.of_log(chat) if everything else spending.of_view(chat)
        sums = spending.Tallies(counter).take(said)
        answer: shapes.UsageReport = {
            "session_id": chat.id,
            "everything": everything,
            "context": context,
            "roles": sums.roles(),
            "tools": sums.tools(),
            "models": spending.by_model(chat, counter),
            "summaries": spending.of_summaries(chat),
        }
    desk.tell(answer, tallies.usage)


@_look(shape=shapes.StatsReport)
def stats(
    desk: Desk,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="Default: all of them together.",
            autocompletion=completing.sessions,
        ),
    ] = None,
) -> None:
    """Show how many messages are visible, hidden and taken back, and their bytes as written."""
    name = None
    if session is None:
        with desk.store() as store:
            found = [store.session(info.session_id).stats() for info in every_session(store)]
    else:
        with desk.session(session) as chat:
            name, found = chat.id, [chat.stats()]
    desk.tell(documents.stats_report(found, name), tallies.stats)


def _has(info: "SessionInfo", text: str) -> bool:
    return text in info.session_id.casefold() or text in (info.title or "").casefold()


def _row(
    store: "Store", info: "SessionInfo", model: str | None, *, count: bool
) -> shapes.SessionRow:
    chat = store.session(info.session_id)
    sizes = chat.stats()
    context = gauge.measured(chat, model) if count else gauge.guessed(chat, sizes, model)
    return documents.session_row(info, sizes, context)
