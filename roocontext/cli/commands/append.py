"""`roocontext append`: appends a message, from an argument, a file or standard input."""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import roocontext
from roocontext.cli import completion, find_database
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import CHANGE
from roocontext.cli.completion import NEW
from roocontext.cli.exit_codes import Refusal
from roocontext.cli.options import Expected, argument, flag, option
from roocontext.cli.screens import results
from roocontext.cli.terminal import is_terminal, read_input
from roocontext.errors import InvalidOption, SessionExists, SessionNotFound, VersionConflict
from roocontext.reports.exact_json import read_exactly

if TYPE_CHECKING:
    from roocontext import Session, Store

app = typer.Typer()


@command(app, panel=CHANGE, document="Receipt")
def append(
    context: CommandContext,
    session: Annotated[
        str,
        argument(
            "SESSION",
            "A session's id or the beginning of it, `last`, or `new` to create a session, and"
            " also the default database if there is none yet.",
            autocompletion=completion.complete_sessions_or_new,
        ),
    ],
    content: Annotated[
        str | None,
        argument(
            "CONTENT", "The message's content. Default: the text on standard input, unchanged."
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None, option("FILE", "Read the content from a file, unchanged.", readable=False)
    ] = None,
    role: Annotated[
        str,
        option(
            "ROLE",
            "Who wrote the message: user or assistant. Other formats have more roles.",
            autocompletion=completion.complete_roles,
        ),
    ] = "user",
    content_json: Annotated[
        bool, flag("--content-json", "Read the content as JSON, such as a list of blocks.")
    ] = False,
    content_format: Annotated[
        str,
        option(
            "FORMAT",
            "The provider whose format the JSON has: anthropic, openai or gemini.",
            "--format",
            autocompletion=completion.complete_formats,
        ),
    ] = "anthropic",
    ts: Annotated[int | None, option("MS", "The agent's own time, in ms since 1970.")] = None,
    message_id: Annotated[str | None, option("ID", "The agent's own id of the message.")] = None,
    client_id: Annotated[
        str | None,
        option("ID", "An id of this request: repeated with the same id, it is stored only once."),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "MODEL", "The model that wrote the message.", autocompletion=completion.complete_models
        ),
    ] = None,
    usage: Annotated[
        str | None, option("JSON", "The token usage as the provider reported it.")
    ] = None,
    expected_seq: Expected = None,
    session_id: Annotated[str | None, option("ID", "The id of a `new` session.", "--id")] = None,
    title: Annotated[str | None, option("TITLE", "The title of a `new` session.")] = None,
) -> None:
    """Append a message to a session, or begin a new session with it.

    For example, `roocontext append new "Why does it fail?" --title "fix the parser"`, then
    `roocontext append last --role assistant --file answer.txt`.
    """
    if session != NEW and (session_id, title) != (None, None):
        raise Refusal("--id and --title are for `new` sessions.")
    if session == NEW and client_id is not None and session_id is None:
        raise Refusal("A repetition would begin another session: with --client-id, give --id too.")
    text = _text(content, file)
    body: Any = _parsed("CONTENT", text) if content_json else text
    reported = None if usage is None else _parsed("--usage", usage)
    facts: dict[str, Any] = {"ts": ts, "message_id": message_id, "client_id": client_id}
    facts |= {"format": content_format, "model": model, "usage": reported}
    with ExitStack() as stack:
        if session == NEW:
            # A refused message must not leave an empty session, so it is checked first.
            _check_first(roocontext.NewMessage(role, body, **facts), expected_seq)
            is_first = find_database.is_first_use(context.url)
            store = stack.enter_context(context.store(write=True, create=is_first))
            try:
                chat = store.create(session_id, title=title)
            except SessionExists as error:
                chat = _begun(store, error, client_id)
        else:
            chat = stack.enter_context(context.session(session, write=True))
        receipt = chat.append(role, body, expected_seq=expected_seq, **facts)
    context.show(receipt, results.draw_receipt)


def _begun(store: "Store", error: SessionExists, client_id: str | None) -> "Session":
    """The session that the same request began before; otherwise the id is taken."""
    with suppress(SessionNotFound):  # it is another owner's
        chat = store.session(error.session_id)
        if client_id is not None and chat.internals.first_written(client_id) is not None:
            return chat
    raise error


def _check_first(message: "roocontext.NewMessage", expected_seq: int | None) -> None:
    """Raise what appending the message to a new session would raise."""
    from roocontext.log.draft import Sources, message_draft  # noqa: PLC0415 - heavy

    message_draft(message, Sources(0, bytes, str))
    if expected_seq:
        line = f"Expected head {expected_seq}, but a new session's is 0."
        raise VersionConflict(line, expected=expected_seq, actual=0)


def _text(content: str | None, file: Path | None) -> str:
    """The content, from the argument, the file or standard input."""
    if content is not None and file is not None:
        raise Refusal("CONTENT and --file were both given: give one of them.")
    if content is not None:
        return content
    if file is None and is_terminal(sys.stdin):
        raise Refusal("There is no content: give CONTENT or --file, or pipe it in.")
    text = read_input("The content" if file is None else f"The file {str(file)!r}", file)
    if not text:
        raise Refusal("There is no content: the input is empty.")
    return text


def _parsed(name: str, text: str) -> Any:
    try:
        return read_exactly(text)
    except ValueError as error:
        raise InvalidOption(f"{name} is not JSON: {error}.", name=name) from None
