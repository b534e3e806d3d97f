"""Commands that act on a session. All they do is an entry of its log, and nothing is deleted."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import roocontext
from roocontext.cli import documents, gauge, receipts, reports, times
from roocontext.cli.commands import Desk, SessionName, command
from roocontext.cli.failing import Code, Refusal
from roocontext.cli.gauge import ModelName
from roocontext.cli.opening import NEW
from roocontext.cli.showing import is_terminal, progress
from roocontext.errors import InvalidOption

if TYPE_CHECKING:
    from roocontext import ContextManager, Session
    from roocontext.context import Outcome

app = typer.Typer()
_act = partial(command, app, panel="Act")

Seq = Annotated[str, typer.Argument(metavar="SEQ", help="An entry's number.")]
_REFUSED = ("failed", "conflict")

PolicyName = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="What decides what is hidden.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="The window in tokens; default: the model's.")
]
SummariserName = Annotated[
    str, typer.Option("--summariser", metavar="NAME", help="What writes the summary.")
]
Expected = Annotated[
    int | None,
    typer.Option("--expected-seq", min=0, help="Only if the session's head is still this entry."),
]


@_act(shape=reports.Appended)
def append(
    desk: Desk,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="As everywhere; or `new`, which begins a session, in a new database if need be.",
        ),
    ],
    content: Annotated[
        str | None, typer.Argument(help="What is said; default: standard input, as it is.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="Read what is said from a file, as it is.")
    ] = None,
    role: Annotated[str, typer.Option(help="Who says it.")] = "user",
    content_json: Annotated[
        bool, typer.Option("--content-json", help="What is said is JSON, such as a list of blocks.")
    ] = False,
    content_format: Annotated[
        str, typer.Option("--format", help="The shape of the JSON: anthropic, openai or gemini.")
    ] = "anthropic",
    ts: Annotated[int | None, typer.Option("--ts", help="The agent's own time, in ms.")] = None,
    message_id: Annotated[
        str | None, typer.Option(help="The agent's name for the message.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(help="The request's name: repeating it is safe.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model that said it.")] = None,
    usage: Annotated[
        str | None, typer.Option(help="What the provider says it has cost, as JSON.")
    ] = None,
    expected_seq: Expected = None,
    session_id: Annotated[str | None, typer.Option("--id", help="The id of the `new` one.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the `new` one.")] = None,
) -> None:
    """Append a message."""
    if session != NEW and (session_id, title) != (None, None):
        raise Refusal("--id and --title are for `new` sessions.", Code.USAGE)
    said = _said(content, file)
    message: Any = _parsed("CONTENT", said) if content_json else said
    reported = None if usage is None else _parsed("--usage", usage)
    with desk.session_or_new(session, session_id=session_id, title=title) as chat:
        receipt = chat.append(
            role,
            message,
            format=content_format,
            ts=ts,
            message_id=message_id,
            client_id=client_id,
            model=model,
            usage=reported,
            expected_seq=expected_seq,
        )
    desk.tell(documents.document(receipt), receipts.appended)


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
    """Put a summary in the place of old messages, however full the context is."""
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
    protect: Annotated[
        list[str] | None, typer.Option(metavar="TOOL", help="A tool whose outputs stay.")
    ] = None,
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
        str, typer.Argument(metavar="[AIM]", help="manage, condense, truncate or clear.")
    ] = "manage",
    *,
    model: ModelName = None,
    policy: PolicyName = "default",
    limit: Limit = None,
    summariser: SummariserName = "extractive",
) -> None:
    """Say what would be done now, and show the view it would leave; nothing is written."""
    with desk.session(session) as chat:
        manager = _manager(desk, chat, model, policy, limit, summariser=summariser)
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
            help="An entry's number, a time (UTC), as `2h ago`, or else a message's id.",
        ),
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--message-id", help="A message's id that looks like another.")
    ] = None,
    ts: Annotated[int | None, typer.Option("--ts", help="The agent's time of a message.")] = None,
    before: Annotated[
        bool, typer.Option("--before", help="To just before it, not just after it.")
    ] = False,
    expected_seq: Expected = None,
) -> None:
    """Make the session what it was; nothing is deleted, and `undo` takes it back."""
    if sum(one is not None for one in (to, message_id, ts)) != 1:
        raise Refusal("Give one of --to, --message-id and --ts.", Code.USAGE)
    where = message_id if to is None else times.target("--to", to, desk.now)
    with desk.session(session, write=True) as chat:
        done = chat.rewind(where, ts=ts, keep_target=not before, expected_seq=expected_seq)
    desk.tell(documents.document(done), receipts.rewound)


@_act(shape=reports.RewoundReport)
def undo(
    desk: Desk,
    session: SessionName,
    *,
    of: Annotated[
        str | None, typer.Option("--of", metavar="SEQ", help="Only if this is the newest rewind.")
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
    session_id: Annotated[str | None, typer.Option("--id", help="The id of the new one.")] = None,
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
        typer.Argument(metavar="[SEQ]...", help="Messages; without any, the pins are listed."),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the pins back.")] = False,
) -> None:
    """Let no plan hide or clear these messages."""
    wanted = [times.whole("SEQ", seq) for seq in seqs or []]
    with desk.session(session, write=bool(wanted)) as chat:
        for seq in wanted:
            chat.unpin(seq) if remove else chat.pin(seq)
        pinned = sorted(chat.pins())
    answer: reports.Pins = {"session_id": chat.id, "pins": pinned}
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
        if title is not None:
            chat.rename(title)
        known = chat.info().title
    answer: reports.Titled = {"session_id": chat.id, "title": known}
    desk.tell(answer, receipts.titled)


def _said(content: str | None, file: Path | None) -> str:
    """What is to be appended, from where it was said to be."""
    if content is not None and file is not None:
        raise Refusal("CONTENT and --file are two contents: give one.", Code.USAGE)
    if content is not None:
        return content
    if file is None and is_terminal(sys.stdin):
        raise Refusal("Nothing was said: give CONTENT, --file or standard input.", Code.USAGE)
    try:
        said = (sys.stdin.buffer.read() if file is None else file.read_bytes()).decode()
    except UnicodeDecodeError as error:
        line = f"What was given is no UTF-8 at byte {error.start}."
        raise Refusal(line, Code.USAGE) from None
    except OSError as error:
        line = f"The file {str(file)!r} cannot be read: {error.strerror}."
        raise Refusal(line, Code.NOT_FOUND) from None
    if not said:
        raise Refusal("Nothing was said: what was read is empty.", Code.USAGE)
    return said


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


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidOption(f"{name} is not JSON.", name=name) from None
