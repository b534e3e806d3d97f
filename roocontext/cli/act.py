"""Commands that act on a session. All they do is an entry of its log, and nothing is deleted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

import roocontext
from roocontext.cli import completing, gauge, times
from roocontext.cli.answers import documents, reports
from roocontext.cli.commands import Desk, Expected, SessionName, command
from roocontext.cli.failing import Code, Refusal
from roocontext.cli.gauge import ModelName
from roocontext.cli.screens import receipts
from roocontext.cli.waiting import progress
from roocontext.errors import MessageNotFound

if TYPE_CHECKING:
    from roocontext import ContextManager, Receipt, Session
    from roocontext.context import Outcome

app = typer.Typer()
_act = partial(command, app, panel="Act")

_REFUSED = ("failed", "conflict")

PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="What decides what is hidden: default, hybrid, sliding_window, gemini, opencode, roo,"
        " or another that Tab completes.",
        autocompletion=completing.policies,
    ),
]
Limit = Annotated[
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
        help="What writes the summary: extractive, which works offline, or anthropic.",
        autocompletion=completing.summarisers,
    ),
]

Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--protect", metavar="TOOL", help="A tool whose outputs stay; once for each such tool."
    ),
]


@_act(shape=reports.OutcomeReport)
def condense(
    desk: Desk,
    session: SessionName,
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: Limit = None,
    summariser: SummariserName = "extractive",
) -> bool:
    """Put a summary in the place of old messages, however full the context is.

    Where no summary is had, the policy may truncate instead: the answer says what was done.
    """
    with desk.session(session, write=True) as chat:
        manager = _manager(desk, chat, model, policy, limit, summariser=summariser)
        with progress("Asking for a summary", None):
            outcome = manager.condense(chat)
        return _told(desk, chat, outcome)


@_act(shape=reports.OutcomeReport)
def truncate(
    desk: Desk,
    session: SessionName,
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: Limit = None,
) -> bool:
    """Hide the oldest messages behind a marker, however full the context is."""
    with desk.session(session, write=True) as chat:
        manager = _manager(desk, chat, model, policy, limit)
        return _told(desk, chat, manager.truncate(chat))


@_act(shape=reports.OutcomeReport)
def clear(
    desk: Desk,
    session: SessionName,
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: Limit = None,
    protect: Protected = None,
) -> bool:
    """Show a placeholder for old outputs of tools, however full the context is."""
    with desk.session(session, write=True) as chat:
        manager = _manager(desk, chat, model, policy, limit, protect=protect or ())
        return _told(desk, chat, manager.prune(chat))


@_act(shape=reports.OutcomeReport)
def preview(
    desk: Desk,
    session: SessionName,
    aim: Annotated[
        str,
        typer.Argument(
            metavar="[AIM]",
            help="manage, which acts only on a full context, condense, truncate or clear.",
            autocompletion=completing.aims,
        ),
    ] = "manage",
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: Limit = None,
    summariser: SummariserName = "extractive",
    protect: Protected = None,
) -> None:
    """Say what would be done now, and show the view it would leave; nothing is written.

    The summary is written for it, so that a summariser that asks a model asks it now.
    """
    with desk.session(session) as chat:
        protected = protect or ()
        manager = _manager(
            desk, chat, model, policy, limit, summariser=summariser, protect=protected
        )
        with progress("Trying it on paper", None):
            outcome = manager.preview(chat, aim)
        desk.tell(documents.outcome_report(chat.id, outcome), receipts.outcome)


@_act(shape=reports.RewoundReport)
def rewind(
    desk: Desk,
    session: SessionName,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="An entry's number, a time in UTC, as `2026-01-31 09:30` or `2h ago`, or else a"
            " message's id. A time is compared with the agent's own times of the messages, where"
            " it gave any, else with when they were recorded.",
        ),
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "--message-id",
            metavar="ID",
            help="The agent's id of a message, also one that looks like a number or a time.",
        ),
    ] = None,
    ts: Annotated[
        int | None,
        typer.Option(
            "--ts",
            metavar="MS",
            help="The agent's own time of a message, in ms since the epoch, exactly.",
        ),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="To just before it, not just after it.")
    ] = False,
    expected_seq: Expected = None,
) -> None:
    """Make the session what it was; nothing is deleted, and `undo` takes it back.

    For example: `roocontext rewind last --to 40` makes it what it was right after entry 40.
    """
    if sum(one is not None for one in (to, message_id, ts)) != 1:
        line = "Where to? Give one of --to, --message-id and --ts, as `--to 40` or `--to '2h ago'`."
        raise Refusal(line, Code.USAGE)
    where = message_id if to is None else times.target("--to", to, desk.now)
    with desk.session(session, write=True) as chat, _named_by(to):
        done = chat.rewind(where, ts=ts, keep_target=not before, expected_seq=expected_seq)
    desk.tell(documents.document(done), receipts.rewound)


@_act(shape=reports.RewoundReport)
def undo(
    desk: Desk,
    session: SessionName,
    *,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="SEQ", help="Only if this entry is the newest rewind."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it hides what came since.")
    ] = False,
    expected_seq: Expected = None,
) -> None:
    """Take back the newest rewind, undos included: twice is a redo."""
    rewound = None if of is None else times.whole("--of", of)
    with desk.session(session, write=True) as chat:
        done = chat.undo(of=rewound, force=force, expected_seq=expected_seq)
    desk.tell(documents.document(done), receipts.rewound)


@_act(shape=reports.Forked)
def fork(
    desk: Desk,
    session: SessionName,
    *,
    at: Annotated[
        str | None, typer.Option("--at", metavar="SEQ", help="Up to this entry; default: the last.")
    ] = None,
    session_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the new one.")
    ] = None,
) -> None:
    """Begin a new session as a copy of this one."""
    seq = None if at is None else times.whole("--at", at)
    with desk.session(session, write=True) as chat:
        branch = chat.fork(seq, session_id=session_id)
        (*_, origin) = branch.notes("origin")
    answer: reports.Forked = {
        "session_id": branch.id,
        "forked_from": chat.id,
        "at": origin.content["seq"],
    }
    desk.tell(answer, receipts.forked)


@_act(shape=reports.Pins)
def pin(
    desk: Desk,
    session: SessionName,
    seqs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SEQ]...",
            help="The messages' entry numbers; without any, the pins are listed.",
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the pins back.")] = False,
) -> None:
    """Let no plan hide or clear these messages."""
    wanted = [times.whole("SEQ", seq) for seq in seqs or []]
    with desk.session(session, write=bool(wanted)) as chat:
        done: list[Receipt] = []
        for seq in wanted:
            with _half_done(wanted[: len(done)]):
                done.append(chat.unpin(seq) if remove else chat.pin(seq))
        pinned = sorted(chat.pins())
    changed = any(receipt.new for receipt in done) if done else None
    answer: reports.Pins = {"session_id": chat.id, "pins": pinned, "changed": changed}
    desk.tell(answer, receipts.pins)


@_act(shape=reports.Titled)
def title(
    desk: Desk,
    session: SessionName,
    title: Annotated[
        str | None, typer.Argument(metavar="[TITLE]", help="Without one, it is shown.")
    ] = None,
) -> None:
    """Give the session another title."""
    with desk.session(session, write=title is not None) as chat:
        changed = None if title is None else chat.rename(title).new
        known = chat.info().title
    answer: reports.Titled = {"session_id": chat.id, "title": known, "changed": changed}
    desk.tell(answer, receipts.titled)


@contextmanager
def _half_done(before: Sequence[int]) -> Iterator[None]:
    """What was done before something went wrong is said."""
    try:
        yield
    except MessageNotFound as error:
        if not before:
            raise
        told = f"{error.fact} Done before it: {', '.join(map(str, before))}."
        raise MessageNotFound(told, **error.facts) from None


@contextmanager
def _named_by(to: str | None) -> Iterator[None]:
    """What is no message's id may have been meant as something else."""
    try:
        yield
    except MessageNotFound as error:
        if to is None or "message_id" not in error.facts:
            raise
        line = f"--to is neither an entry's number nor a time, such as {times.EXAMPLES}."
        raise MessageNotFound(f"{line} {error.fact}", **error.facts) from None


def _manager(
    desk: Desk,
    chat: "Session",
    model: str | None,
    policy: str,
    limit: int | None,
    *,
    summariser: str = "extractive",
    protect: Sequence[str] = (),
) -> "ContextManager":
    """What decides what is hidden: the model is the one named, or the one that answered last."""
    return roocontext.ContextManager(
        gauge.model_of(chat, model) or "",
        policy=policy,
        limit=limit,
        summariser=summariser,
        protected_tools=protect,
        clock=desk.surroundings.clock,
    )


def _told(desk: Desk, chat: "Session", outcome: "Outcome") -> bool:
    """Tell what was done; whether anything was."""
    if outcome.status in _REFUSED:
        raise Refusal(f"{outcome.status}: {outcome.reason}", Code.REFUSED)
    desk.tell(documents.outcome_report(chat.id, outcome), receipts.outcome)
    return outcome.changed
