"""Commands that change what the model sees. Each only adds entries to the log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

import roocontext
from roocontext import reports
from roocontext.cli import completion, parse_time
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import Expected, ModelName, SessionName
from roocontext.cli.screens import results
from roocontext.errors import MessageNotFound

if TYPE_CHECKING:
    from roocontext import ContextManager, Receipt, Session
    from roocontext.context import Outcome

app = typer.Typer()
_change = partial(command, app, panel="Change")

_REFUSED = ("failed", "conflict")

PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Decides what is hidden: default, hybrid, sliding_window, gemini, opencode, roo, or"
        " another that Tab offers.",
        autocompletion=completion.complete_policies,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="TOKENS",
        min=1,
        help="The window. Default: that of the model, or 4,096 if no model is known.",
    ),
]
SummariserName = Annotated[
    str,
    typer.Option(
        "--summariser",
        metavar="NAME",
        help="Writes the summary: extractive, which works offline, or anthropic.",
        autocompletion=completion.complete_summarisers,
    ),
]

Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--protect", metavar="TOOL", help="A tool whose outputs are kept. May be repeated."
    ),
]


@_change(document="OutcomeReport")
def condense(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    summariser: SummariserName = "extractive",
) -> bool:
    """Replace old messages with a summary, however full the context is.

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
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
) -> bool:
    """Hide the oldest messages behind a marker, however full the context is."""
    with context.session(session, write=True) as chat:
        manager = _manager(context, chat, model, policy, limit)
        return _show(context, chat, manager.truncate(chat))


@_change(document="OutcomeReport")
def clear(
    context: CommandContext,
    session: SessionName,
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    protect: Protected = None,
) -> bool:
    """Replace old tool outputs with a placeholder, however full the context is."""
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
            help="manage, which acts only on a full context, condense, truncate or clear.",
            autocompletion=completion.complete_aims,
        ),
    ] = "manage",
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: LimitOption = None,
    summariser: SummariserName = "extractive",
    protect: Protected = None,
) -> None:
    """Show what would be done now and the view it would leave; nothing is stored.

    The summary is made for this, so a summariser that calls a model calls it now.
    """
    with context.session(session) as chat:
        protected = protect or ()
        manager = _manager(
            context, chat, model, policy, limit, summariser=summariser, protect=protected
        )
        with context.progress("Trying it"):
            outcome = manager.preview(chat, aim)
        context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)


@_change(document="Rewound")
def rewind(
    context: CommandContext,
    session: SessionName,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="An entry's number, a time in UTC such as `2026-01-31 09:30` or `2h ago`, or a"
            " message's id. A time is compared with the agent's own times of the messages if it"
            " gave any, otherwise with the times they were recorded.",
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
            help="The agent's own time of a message, exactly, in ms since the epoch.",
        ),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="Go to just before it instead of just after it.")
    ] = False,
    expected_seq: Expected = None,
) -> None:
    """Return the session to an earlier state; nothing is deleted, and `undo` takes it back.

    For example, `roocontext rewind last --to 40` makes it what it was right after entry 40.
    """
    if sum(one is not None for one in (to, message_id, ts)) != 1:
        line = "Where to? Give one of --to, --message-id and --ts, as `--to 40` or `--to '2h ago'`."
        raise Refusal(line, Code.USAGE)
    where = message_id if to is None else parse_time.target("--to", to, context.now)
    with context.session(session, write=True) as chat, _named_by(to):
        done = chat.rewind(where, ts=ts, keep_target=not before, expected_seq=expected_seq)
    context.show(done, results.draw_rewound)


@_change(document="Rewound")
def undo(
    context: CommandContext,
    session: SessionName,
    *,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="SEQ", help="Refuse if the newest rewind is not this entry."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Undo even if that hides newer messages.")
    ] = False,
    expected_seq: Expected = None,
) -> None:
    """Take back the newest rewind. An undo is a rewind too, so doing it twice is a redo."""
    rewound = None if of is None else parse_time.entry_number("--of", of)
    with context.session(session, write=True) as chat:
        done = chat.undo(of=rewound, force=force, expected_seq=expected_seq)
    context.show(done, results.draw_rewound)


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
    """Begin a new session as a copy of this one."""
    seq = None if at is None else parse_time.entry_number("--at", at)
    with context.session(session, write=True) as chat:
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
            help="The messages' entry numbers. Without any, the pins are listed.",
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the pins.")] = False,
) -> None:
    """Keep messages from ever being hidden or cleared."""
    wanted = [parse_time.entry_number("SEQ", seq) for seq in seqs or []]
    with context.session(session, write=bool(wanted)) as chat:
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
    """Change the title of the session."""
    with context.session(session, write=title is not None) as chat:
        changed = None if title is None else chat.rename(title).new
        known = chat.info().title
    answer = reports.results.Titled(session_id=chat.id, title=known, changed=changed)
    context.show(answer, results.draw_title)


@contextmanager
def _half_done(before: Sequence[int]) -> Iterator[None]:
    """Add to the error what was done before it."""
    try:
        yield
    except MessageNotFound as error:
        if not before:
            raise
        line = f"{error.fact} Done before it: {', '.join(map(str, before))}."
        raise MessageNotFound(line, **error.facts) from None


@contextmanager
def _named_by(to: str | None) -> Iterator[None]:
    """Add to the error that the text is neither a number nor a time."""
    try:
        yield
    except MessageNotFound as error:
        if to is None or "message_id" not in error.facts:
            raise
        line = f"--to is neither an entry's number nor a time, such as {parse_time.EXAMPLES}."
        raise MessageNotFound(f"{line} {error.fact}", **error.facts) from None


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
    """The manager for the model that is named, or that of the last call."""
    return roocontext.ContextManager(
        reports.gauge.model_of(chat, model) or "",
        policy=policy,
        limit=limit,
        summariser=summariser,
        protected_tools=protect,
        clock=context.clock_and_ids.clock,
    )


def _show(context: CommandContext, chat: "Session", outcome: "Outcome") -> bool:
    """Show what was done; whether anything was."""
    if outcome.status in _REFUSED:
        raise Refusal(f"{outcome.status}: {outcome.reason}", Code.REFUSED)
    context.show(reports.results.outcome_report(chat.id, outcome), results.draw_outcome)
    return outcome.changed
