"""`roocontext mcp`: serves a database to agents and editors by the Model Context Protocol."""

import os
import signal
from typing import Annotated, NoReturn

import typer

from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Code, Refusal, write_error
from roocontext.cli.options import TOKEN, Where, conditions
from roocontext.errors import InvalidOption

app = typer.Typer()


@command(app, panel=INSPECT, document="")
def mcp(
    context: CommandContext,
    *,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve streamable HTTP at http://127.0.0.1:PORT/mcp instead of standard input"
            " and output.",
        ),
    ] = None,
    where: Where = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Offer the tools `append` and `rewind` too.")
    ] = False,
) -> None:
    """Serve the sessions to agents and editors by MCP, read-only unless --allow-write is given.

    With --http, clients must send the token of ROOCONTEXT_TOKEN if it is set.
    """
    try:
        from roocontext.mcp import server as serving  # noqa: PLC0415 - heavy, and an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        line = "The server needs the mcp package. Install the extra: pip install 'roocontext[mcp]'."
        raise Refusal(line, Code.USAGE) from None
    token = None if http is None else _token()
    opened = context.store(write=allow_write, where=conditions(where))
    with context.obj.bars.hidden(), opened as store:
        server = serving.SessionServer(store, allow_write=allow_write)
        if http is not None:
            serving.run_on_http(server, http, token)
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)
        serving.run_on_stdio(server)


def _token() -> str | None:
    """The token that clients must send, if one is set."""
    from roocontext.web.serving import token_for  # noqa: PLC0415 - heavy

    token = os.environ.get(TOKEN)
    try:
        return None if token is None else token_for(token, public=False)
    except InvalidOption as error:
        raise Refusal(str(error), Code.USAGE) from None


def _leave(*_: object) -> NoReturn:
    """End the process at once. The SDK would wait for its thread that reads stdin."""
    write_error("roocontext: Interrupted.\n")
    os._exit(Code.INTERRUPTED)  # each commit is atomic
