"""`roocontext serve`: serves a database over HTTP, to people and to agents."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roocontext.cli import find_database
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.cli.screens.safe_text import safe
from roocontext.errors import InvalidOption

if TYPE_CHECKING:
    from roocontext.web.safety import ServerSettings

app = typer.Typer()

_TOKEN = "ROOCONTEXT_TOKEN"  # noqa: S105 - the name of a variable
_PACKAGES = {"starlette", "uvicorn"}


@command(app, panel=INSPECT, document="")
def serve(
    context: CommandContext,
    *,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="The address to listen on. Default: this machine.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65535, help="The port; 0 takes any free port."),
    ] = 8765,
    uds: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Listen on a socket file of this user instead. It needs no token.",
        ),
    ] = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Allow changes. Nothing can be deleted.")
    ] = False,
    admin: Annotated[
        bool, typer.Option("--admin", help="Allow changes, redactions and purges.")
    ] = False,
) -> None:
    """Serve the sessions over HTTP to a browser and to agents, read-only unless told otherwise.

    The link that is printed lets a browser in. Agents send the token of the file that is named, or
    that of ROOCONTEXT_TOKEN if it is set. To listen on an address that other machines can reach,
    ROOCONTEXT_TOKEN must be set.
    """
    try:
        from roocontext.web import safety, serving  # noqa: PLC0415 - heavy, and an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        line = "The server needs more packages. Install the extra: pip install 'roocontext[web]'."
        raise Refusal(line, Code.USAGE) from None
    writes = allow_write or admin
    with ExitStack() as stack:
        stack.enter_context(context.obj.bars.hidden())
        try:
            if uds is None:
                listener, public = serving.listen(host, port)
                stack.enter_context(listener)
                token = serving.token_for(os.environ.get(_TOKEN), public=public)
            else:
                listener, public, token = (
                    stack.enter_context(serving.listen_on_file(uds)),
                    False,
                    None,
                )
        except InvalidOption as error:
            raise Refusal(str(error), Code.USAGE) from None
        settings = safety.ServerSettings(
            host=host, token=token, public=public, allow_write=writes, admin=admin
        )
        store = stack.enter_context(context.store(write=writes, dry_run=True))
        serving.run_server(
            store,
            settings,
            listener,
            database=find_database.without_password(context.url),
            started=lambda final, file: _started(final, file, uds),
        )


def _started(settings: "ServerSettings", file: Path | None, uds: Path | None) -> None:
    """Print how the server is reached."""
    if uds is not None:
        typer.echo(f"Listening on {safe(str(uds))}")
    else:
        typer.echo(f"Open {settings.link}")
        typer.echo(f"The token for agents is in {safe(str(file))}")
