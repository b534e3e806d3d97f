"""Commands that change what the model sees. Each only adds entries to the log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

import roocontext
from roocontext import reports
from roocontext.cli import completion, options
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import ModelOrLimit, SessionName
from roocontext.cli.screens import results
from roocontext.errors import MessageNotFound

if TYPE_CHECKING:
    from roocontext import ContextManager, Receipt, Session
    from roocontext.context import Outcome

app = typer.Typer()
_change = partial(command, app, panel=CHANGE)

_REFUSED = ("failed", "conflict")

PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="What decides which messages are hidden: default, hybrid, sliding_window, gemini,"
        " opencode, roo, or another that Tab offers.",
        autocompletion=completion.complete_policies,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="TOKENS",
        min=1,
        help="The size of the context window. Default: the model's.",
    ),
]
SummariserName = Annotated[
    str,
    typer.Option(
        "--summariser",
        metavar="NAME",
        help="What writes the summary: extractive, which works offline, or anthropic.",
        autocompletion=completion.complete_summarisers,
    ),
]

Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--protect", metavar="TOOL", help="A tool whose outputs are never cleared. May be repeated."
    ),
]


@_change(document="OutcomeReport")
def condense(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelOrLimit = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    summariser: SummariserName = "extractive",
) -> bool:
    """Replace old messages with a summary now, even if the context is not full.

    If no summary can be made, the policy may truncate instead; the output says which.
    """
    with context.session(session, write=True) as chat:
        manager = _manager(context, chat, model, policy, limit, summariser=summariser)
        with context.progress("Asking for a summary"):
            outcome = manager.condense(chat)
        return _show(context, chat, outcome)


@_change(document="OutcomeReport")
def truncate(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelOrLimit = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
) -> bool:
    """Hide the oldest messages behind a marker now, even if the context is not full."""
    with context.session(session, write=True) as chat:
        manager = _manager(context, chat, model, policy, limit)
        return _show(context, chat, manager.truncate(chat))


@_change(document="OutcomeReport")
def clear(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelOrLimit = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    protect: Protected = None,
) -> bool:
    """Replace old tool outputs with a placeholder now, even if the context is not full."""
    with context.session(session, write=True) as chat:
        manager = _manager(context, chat, model, policy, limit, protect=protect or ())
        return _show(context, chat, manager.prune(chat))


@_change(document="OutcomeReport")
def preview(
    context: CommandContext,
    session: SessionName,
    aim: Annotated[
        str,
        typer.Argument(
            metavar="AIM",
            help="manage, which only acts when the context is full, condense, truncate or clear.",
            autocompletion=completion.complete_aims,
        ),
    ] = "manage",
    *,
    model: ModelOrLimit = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    summariser: SummariserName = "extractive",
    protect: Protected = None,
) -> None:
    """Show what a command would do and the view it would leave, without storing anything.

    The summary is really written, so a summariser that calls a model calls it.
    """
    with context.session(session) as chat:
        protected = protect or ()
        manager = _manager(
            context, chat, model, policy, limit, summariser=summariser, protect=protected
        )
        with context.progress("Trying it"):
            outcome = manager.preview(chat, aim)
        context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)


@_change(document="Forked")
def fork(
    context: CommandContext,
    session: SessionName,
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="SEQ", help="Copy up to this entry. Default: the last."),
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the new session.")
    ] = None,
) -> None:
    """Create a new session as a copy of this one."""
    with context.session(session, write=True) as chat:
        seq = None if at is None else options.entry_number(chat, "--at", at, context.now)
        branch = chat.fork(seq, session_id=session_id)
        answer = reports.results.forked_report(branch, chat.id)
    context.show(answer, results.draw_forked)


@_change(document="Pins")
def pin(
    context: CommandContext,
    session: SessionName,
    seqs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SEQ",
            help=f"The messages, each by {options.WAYS}. Without any, the pinned messages"
            " are listed.",
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Unpin the messages instead.")] = False,
) -> None:
    """Pin messages, so that no policy ever hides or clears them."""
    with context.session(session, write=bool(seqs)) as chat:
        wanted = [options.entry_number(chat, "SEQ", seq, context.now) for seq in seqs or []]
        done: list[Receipt] = []
        for seq in wanted:
            with _half_done(wanted[: len(done)]):
                done.append(chat.unpin(seq) if remove else chat.pin(seq))
        pinned = sorted(chat.pins())
    changed = any(receipt.new for receipt in done) if done else None
    answer = reports.results.Pins(session_id=chat.id, pins=pinned, changed=changed)
    context.show(answer, results.draw_pins)


@_change(document="Titled")
def title(
    context: CommandContext,
    session: SessionName,
    title: Annotated[
        str | None,
        typer.Argument(metavar="TITLE", help="The new title. Without one, the title is shown."),
    ] = None,
) -> None:
    """Show or change the title of a session."""
    with context.session(session, write=title is not None) as chat:
        changed = None if title is None else chat.set_title(title).new
        known = chat.info().title
    answer = reports.results.Titled(session_id=chat.id, title=known, changed=changed)
    context.show(answer, results.draw_title)


@contextmanager
def _half_done(before: Sequence[int]) -> Iterator[None]:
    """Add to the error which messages were done before it."""
    try:
        yield
    except MessageNotFound as error:
        if not before:
            raise
        line = f"{error.fact} Already done: {', '.join(map(str, before))}."
        raise MessageNotFound(line, **error.facts) from None


def _manager(
    context: CommandContext,
    chat: "Session",
    model: str | None,
    policy: str,
    limit: int | None,
    *,
    summariser: str = "extractive",
    protect: Sequence[str] = (),
) -> "ContextManager":
    """Make the manager for the named model, or for the one that the newest message names."""
    manager = roocontext.ContextManager(
        reports.gauge.model_in_use(chat, model) or "",
        policy=policy,
        limit=limit,
        summariser=summariser,
        protected_tools=protect,
        clock=context.clock_and_ids.clock,
    )
    options.check_window(manager)
    return manager


def _show(context: CommandContext, chat: "Session", outcome: "Outcome") -> bool:
    """Show what was done, and return whether anything was."""
    if outcome.status in _REFUSED:
        raise Refusal(f"{outcome.status}: {outcome.reason}", Code.REFUSED)
    context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)
    return outcome.changed
