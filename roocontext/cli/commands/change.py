"""Commands that change what the model sees. Each only adds entries to the log."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import roocontext
from roocontext import reports
from roocontext.cli import completion
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import (
    WAYS,
    DryRunOption,
    Expected,
    ModelOrLimit,
    Recorded,
    SessionName,
    argument,
    check_window,
    flag,
    option,
)
from roocontext.cli.points import Point, entry_argument, entry_option, explain_missing, read_points
from roocontext.cli.screens import results

if TYPE_CHECKING:
    from roocontext import ContextManager, Session
    from roocontext.context import Outcome
    from roocontext.reports.undo import ViewChange

app = typer.Typer()
_change = partial(command, app, panel=CHANGE)

PolicyName = Annotated[
    str,
    option(
        "NAME",
        "The policy that decides which messages are hidden: default, hybrid,"
        " sliding_window, gemini, opencode, roo, or another that Tab offers.",
        autocompletion=completion.complete_policies,
    ),
]
LimitOption = Annotated[
    int | None, option("TOKENS", "The size of the context window. Default: the model's.", min=1)
]
SummariserName = Annotated[
    str,
    option(
        "NAME",
        "The summariser that writes the summary: extractive, which works offline, or"
        " anthropic, openai, openai-responses or gemini, with the key in the environment.",
        autocompletion=completion.complete_summarisers,
    ),
]
Protected = Annotated[
    list[str] | None, option("TOOL", "A tool whose outputs are never cleared. May be repeated.")
]
Reversed = Annotated[
    Point, entry_argument("The summary, marker, covering or clearing to take back.")
]


@_change(document="ViewChange")
def rewind(
    context: CommandContext,
    session: SessionName,
    *,
    to: Annotated[
        Point | None,
        entry_option(
            "An entry's number, `last`, a time such as `2026-01-31 09:30` or `2h ago`, or a"
            " message's id. A time is right before the first live entry that happened later.",
            metavar="WHERE",
        ),
    ] = None,
    message_id: Annotated[
        str | None,
        option("ID", "The agent's id of a message, even if it looks like a number or a time."),
    ] = None,
    ts: Annotated[
        int | None, option("MS", "The agent's own time of a message, exactly, in ms since 1970.")
    ] = None,
    before: Annotated[
        bool, flag("--before", "Go to right before it instead of right after it.")
    ] = False,
    recorded: Recorded = False,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Return the session to an earlier state. Nothing is deleted, and `undo` reverses it.

    For example, `roocontext rewind last --to 40` makes it what it was right after entry 40.
    """
    if sum(target is not None for target in (to, message_id, ts)) != 1:
        raise Refusal("Give one of --to, --message-id and --ts: `--to 40` or `--to '2h ago'`.")
    with context.session(session, write=not dry_run) as chat, explain_missing(to):
        done = chat.rewind(
            message_id if to is None else to.for_rewind(chat),
            ts=ts,
            recorded=recorded,
            keep_target=not before,
            expected_seq=expected_seq,
            dry_run=dry_run,
        )
        _show_change(context, chat, reports.undo.rewound_report(chat, done))


@_change(document="ViewChange")
def undo(
    context: CommandContext,
    session: SessionName,
    *,
    of: Annotated[
        Point | None, entry_option("Refuse unless this entry is the last change.")
    ] = None,
    force: Annotated[bool, flag("--force", "Undo even if that hides newer messages.")] = False,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Undo the last change of the view: a plan, a covering, an uncovering or a rewind.

    Later messages are kept, except after a rewind. An undo is a change of the view too, so
    a second undo is a redo. `tree` lists earlier changes, and `uncover` takes back one of them.
    """
    with context.session(session, write=not dry_run) as chat:
        change = reports.undo.undo_last_change(
            chat,
            of=None if of is None else of.entry(chat),
            force=force,
            expected_seq=expected_seq,
            dry_run=dry_run,
        )
        _show_change(context, chat, change)


@_change(document="ViewChange")
def uncover(
    context: CommandContext,
    session: SessionName,
    seq: Reversed,
    *,
    expected_seq: Expected = None,
    dry_run: DryRunOption = False,
) -> None:
    """Take back one summary, marker, covering or clearing, and keep everything after it.

    Nothing is deleted. `tree` lists the entries that can be uncovered. A rewind to before the
    uncovering covers the messages again.
    """
    with context.session(session, write=not dry_run) as chat:
        done = chat.uncover(seq.entry(chat), expected_seq=expected_seq, dry_run=dry_run)
        _show_change(context, chat, reports.undo.uncovered_report(chat, done))


def _show_change(context: CommandContext, chat: "Session", change: "ViewChange") -> None:
    context.show(change, partial(results.draw_view_change, short=context.short_id(chat)))


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
        return _compacted(context, chat, manager.condense)


@_change(document="OutcomeReport")
def truncate(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelOrLimit = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
) -> bool:
    """Hide the oldest messages now, even if the context is not full. A marker replaces them."""
    with context.session(session, write=True) as chat:
        manager = _manager(context, chat, model, policy, limit)
        return _compacted(context, chat, manager.truncate)


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
        manager = _manager(context, chat, model, policy, limit, protect=protect)
        return _compacted(context, chat, manager.prune)


@_change(document="OutcomeReport")
def preview(
    context: CommandContext,
    session: SessionName,
    aim: Annotated[
        Literal["manage", "condense", "truncate", "clear"],
        argument(
            "AIM", "manage, which acts only if the context is full, or condense, truncate or clear."
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

    The summary is made too, so a summariser that uses a model calls it.
    """
    with context.session(session) as chat:
        manager = _manager(
            context, chat, model, policy, limit, summariser=summariser, protect=protect
        )
        with context.progress("Trying it"):
            outcome = manager.preview(chat, aim)
        context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)


def _manager(
    context: CommandContext,
    chat: "Session",
    model: str | None,
    policy: str,
    limit: int | None,
    *,
    summariser: str = "extractive",
    protect: Sequence[str] | None = None,
) -> "ContextManager":
    """Make the manager for the named model, or for the model that the newest message names."""
    manager = roocontext.ContextManager(
        reports.gauge.model_in_use(chat, model) or "",
        policy=policy,
        limit=limit,
        summariser=summariser,
        protected_tools=protect or (),
        clock=context.obj.clock,
    )
    check_window(chat, manager)
    return manager


def _compacted(
    context: CommandContext, chat: "Session", run: "Callable[[Session], Outcome]"
) -> bool:
    """Show what was done, and return whether anything was."""
    with context.progress("Compacting"):
        outcome = run(chat)
    if outcome.status in ("failed", "conflict"):
        raise Refusal(f"{outcome.status}: {outcome.reason}", Code.REFUSED)
    context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)
    return outcome.changed


@_change(document="Forked")
def fork(
    context: CommandContext,
    session: SessionName,
    *,
    at: Annotated[Point | None, entry_option("Copy up to this entry. Default: the last.")] = None,
    session_id: Annotated[str | None, option("ID", "The id of the new session.", "--id")] = None,
) -> None:
    """Create a new session as a copy of this session."""
    with context.session(session, write=True) as chat:
        branch = chat.fork(None if at is None else at.entry(chat), session_id=session_id)
        answer = reports.results.forked_report(branch, chat.id)
    context.show(answer, results.draw_forked)


@_change(document="Pins")
def pin(
    context: CommandContext,
    session: SessionName,
    seqs: Annotated[
        list[Point] | None,
        argument(
            "SEQ",
            f"The messages, each by {WAYS}. Without any, the pinned messages are listed.",
            parser=str,
            callback=read_points,
        ),
    ] = None,
    *,
    remove: Annotated[bool, flag("--remove", "Unpin the messages instead.")] = False,
) -> None:
    """Pin messages, so that no policy ever hides or clears them."""
    with context.session(session, write=bool(seqs)) as chat:
        write = chat.unpin if remove else chat.pin
        wanted = [seq.entry(chat) for seq in seqs or []]
        done = [write(seq) for seq in wanted]
        pinned = sorted(chat.pins())
    changed = any(receipt.new for receipt in done) if done else None
    answer = reports.results.Pins(session_id=chat.id, pins=pinned, changed=changed)
    context.show(answer, results.draw_pins)


@_change(document="Titled")
def title(
    context: CommandContext,
    session: SessionName,
    title: Annotated[
        str | None, argument("TITLE", "The new title. Without it, the title is shown.")
    ] = None,
) -> None:
    """Show or change the title of a session."""
    with context.session(session, write=title is not None) as chat:
        changed = None if title is None else chat.set_title(title).new
        known = chat.info().title
    answer = reports.results.Titled(session_id=chat.id, title=known, changed=changed)
    context.show(answer, results.draw_title)
