"""The command that appends a message. The content is an argument, a file, or standard input."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import roocontext
from roocontext.cli import completion
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.completion import NEW
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.options import Expected
from roocontext.cli.screens import results
from roocontext.cli.terminal import is_terminal
from roocontext.errors import InvalidOption, VersionConflict

app = typer.Typer()


@command(app, panel=CHANGE, document="Receipt")
def append(
    context: CommandContext,
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="A session's id or the beginning of it, `last`, or `new` to create a session, and"
            " also the default database if there is none yet.",
            autocompletion=completion.complete_sessions_or_new,
        ),
    ],
    content: Annotated[
        str | None,
        typer.Argument(
            metavar="CONTENT",
            help="The message's content. Default: what standard input holds, unchanged.",
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", readable=False, help="Read the content from a file, unchanged."
        ),
    ] = None,
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="Who wrote the message: user or assistant. Other formats have more roles.",
            autocompletion=completion.complete_roles,
        ),
    ] = "user",
    content_json: Annotated[
        bool,
        typer.Option("--content-json", help="Read the content as JSON, such as a list of blocks."),
    ] = False,
    content_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The provider whose format the JSON has: anthropic, openai or gemini.",
            autocompletion=completion.complete_formats,
        ),
    ] = "anthropic",
    ts: Annotated[
        int | None, typer.Option(metavar="MS", help="The agent's own time, in ms since 1970.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The agent's own id of the message.")
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="An id of this request. If it is repeated with the same id, it is stored once.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model that wrote the message.",
            autocompletion=completion.complete_models,
        ),
    ] = None,
    usage: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The token usage as the provider reported it."),
    ] = None,
    expected_seq: Expected = None,
    session_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of a `new` session.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TITLE", help="The title of a `new` session.")
    ] = None,
) -> None:
    """Append a message to a session, or begin a new session with it.

    For example, `roocontext append new "Why does it fail?" --title "fix the parser"`, then
    `roocontext append last --role assistant --file answer.txt`.
    """
    if session != NEW and (session_id, title) != (None, None):
        raise Refusal("--id and --title are for `new` sessions.", Code.USAGE)
    given = _given(content, file)
    message: Any = _parsed("CONTENT", given) if content_json else given
    reported = None if usage is None else _parsed("--usage", usage)
    facts: dict[str, Any] = {"ts": ts, "message_id": message_id, "client_id": client_id}
    facts |= {"format": content_format, "model": model, "usage": reported}
    if session == NEW:
        # Before there is a session: a refused message must not leave an empty one.
        _check_first(roocontext.NewMessage(role, message, **facts), expected_seq)
    with context.session_or_new(session, session_id=session_id, title=title) as chat:
        receipt = chat.append(role, message, expected_seq=expected_seq, **facts)
    context.show(receipt, results.draw_receipt)


def _check_first(message: "roocontext.NewMessage", expected_seq: int | None) -> None:
    """Raise what appending the message to a new session would raise."""
    from roocontext.log.draft import message_draft  # noqa: PLC0415 - heavy

    message_draft(message, now=0, salts=bytes)
    if expected_seq:
        line = f"Expected head {expected_seq}, but a new session's is 0."
        raise VersionConflict(line, expected=expected_seq, actual=0)


def _given(content: str | None, file: Path | None) -> str:
    """The content, from the one place where it was given."""
    if content is not None and file is not None:
        raise Refusal("CONTENT and --file were both given: give one of them.", Code.USAGE)
    if content is not None:
        return content
    if file is None and is_terminal(sys.stdin):
        raise Refusal("There is no content: give CONTENT or --file, or pipe it in.", Code.USAGE)
    try:
        given = (sys.stdin.buffer.read() if file is None else file.read_bytes()).decode()
    except UnicodeDecodeError as error:
        line = f"The content is not UTF-8 at byte {error.start}."
        raise Refusal(line, Code.USAGE) from None
    except OSError as error:
        line = f"The file {str(file)!r} cannot be read: {error.strerror}."
        raise Refusal(line, Code.NOT_FOUND) from None
    if not given:
        raise Refusal("There is no content: the input is empty.", Code.USAGE)
    return given


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=partial(_object, name))
    except (ValueError, RecursionError):
        raise InvalidOption(f"{name} is not JSON.", name=name) from None


def _object(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; refused if it has a name twice, because one of the values would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        line = f"{name} has an object with the same name twice; one value would be lost."
        raise Refusal(line, Code.USAGE)
    return found
