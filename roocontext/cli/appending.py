"""The command that appends a message: what is said comes from its argument, a file or a pipe."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from roocontext.cli import completing
from roocontext.cli.answers import documents, reports
from roocontext.cli.commands import Desk, Expected, command
from roocontext.cli.failing import Code, Refusal
from roocontext.cli.opening import NEW
from roocontext.cli.screens import receipts
from roocontext.cli.terminal import is_terminal
from roocontext.errors import InvalidOption

app = typer.Typer()
_act = partial(command, app, panel="Act")


@_act(shape=reports.Appended)
def append(
    desk: Desk,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="As everywhere; or `new`, which begins a session, in a new database if need be.",
            autocompletion=completing.sessions_or_new,
        ),
    ],
    content: Annotated[
        str | None, typer.Argument(help="What is said; default: standard input, as it is.")
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            readable=False,
            help="Read what is said from a file, as it is.",
        ),
    ] = None,
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="Who says it: user or assistant; the other formats have more.",
            autocompletion=completing.roles,
        ),
    ] = "user",
    content_json: Annotated[
        bool, typer.Option("--content-json", help="What is said is JSON, such as a list of blocks.")
    ] = False,
    content_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The shape of the JSON: anthropic, openai or gemini.",
            autocompletion=completing.formats,
        ),
    ] = "anthropic",
    ts: Annotated[
        int | None,
        typer.Option("--ts", metavar="MS", help="The agent's own time, in ms since the epoch."),
    ] = None,
    message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The agent's name for the message.")
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The request's name: repeated in a session, it is stored once."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="The model that said it.", autocompletion=completing.models
        ),
    ] = None,
    usage: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="What the provider says it has cost, as it says it."),
    ] = None,
    expected_seq: Expected = None,
    session_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of the `new` one.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TITLE", help="The title of the `new` one.")
    ] = None,
) -> None:
    """Append a message.

    For example: `roocontext append new "Why does it fail?" --title "mend the parser"`, then
    `roocontext append last --role assistant --file answer.txt`.
    """
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


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=partial(_object, name))
    except (ValueError, RecursionError):
        raise InvalidOption(f"{name} is not JSON.", name=name) from None


def _object(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object as it was written; of two values of one name, one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal(f"{name} has an object that names one thing twice.", Code.USAGE)
    return found
