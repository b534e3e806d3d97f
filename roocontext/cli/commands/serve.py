"""Commands that serve a database: to agents by MCP, and over HTTP to agents and browsers."""

import json
import os
import signal
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import typer

from roocontext import reports
from roocontext.cli import completion, find_database
from roocontext.cli.command_context import CommandContext, command
from roocontext.cli.command_group import INSPECT
from roocontext.cli.exit_codes import Code, Refusal, write_error
from roocontext.cli.options import TOKEN, SessionName, Where, flag, option
from roocontext.cli.screens.safe_text import safe
from roocontext.errors import InvalidOption

if TYPE_CHECKING:
    from roocontext.web.safety import ServerSettings

app = typer.Typer()


@contextmanager
def _needed(extra: str, what: str, *packages: str) -> Iterator[None]:
    """Refuse if one of these packages, which come with an extra, is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        line = f"The server needs {what}. Install the extra: pip install 'roocontext[{extra}]'."
        raise Refusal(line) from None


_web_needed = partial(_needed, "web", "more packages", "starlette", "uvicorn")


@contextmanager
def _options_checked() -> Iterator[None]:
    """Report an option that the server refuses as a mistake in the command."""
    try:
        yield
    except InvalidOption as error:
        raise Refusal(error.fact) from None


@command(app, panel=INSPECT, document="")
def mcp(
    context: CommandContext,
    *,
    http: Annotated[
        int | None,
        option(
            "PORT",
            "Serve streamable HTTP at http://127.0.0.1:PORT/mcp instead of standard input"
            " and output.",
            min=1,
            max=65535,
        ),
    ] = None,
    where: Where = None,
    allow_write: Annotated[
        bool, flag("--allow-write", "Offer the tools `append` and `rewind` too.")
    ] = False,
) -> None:
    """Serve the sessions to agents and editors over MCP, read-only by default.

    With --http, clients must send the token of ROOCONTEXT_TOKEN if it is set.
    """
    with _needed("mcp", "the mcp package", "mcp"):
        from roocontext.mcp import server as serving  # noqa: PLC0415 - heavy, and an extra
    token = os.environ.get(TOKEN)
    if http is not None and token is not None:
        from roocontext.web.serving import token_for  # noqa: PLC0415 - heavy

        with _options_checked():
            token = token_for(token, public=False)
    opened = context.store(write=allow_write, where=reports.naming.conditions(where))
    context.obj.bars.hide()
    with opened as store:
        server = serving.SessionServer(store, allow_write=allow_write)
        if http is not None:
            serving.run_on_http(server, http, token)
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)
        serving.run_on_stdio(server)


def _leave(*_: object) -> NoReturn:
    """End the process at once. The SDK would wait for its thread that reads stdin."""
    write_error("roocontext: Interrupted.\n")
    os._exit(Code.INTERRUPTED)  # each commit is atomic


@command(app, panel=INSPECT, document="")
def serve(
    context: CommandContext,
    *,
    host: Annotated[str, option("NAME", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, option("PORT", "The port; 0 takes any free port.", min=0, max=65535)
    ] = 8765,
    uds: Annotated[
        Path | None,
        option("FILE", "Listen on a socket file of this user instead. It needs no token."),
    ] = None,
    where: Where = None,
    allow_write: Annotated[
        bool, flag("--allow-write", "Allow changes. Nothing can be deleted.")
    ] = False,
    admin: Annotated[bool, flag("--admin", "Allow changes, redactions and purges.")] = False,
    summariser: Annotated[
        str,
        option(
            "NAME",
            "The summariser for compactions: extractive, which works offline, or anthropic,"
            " openai, openai-responses or gemini, with the key in the environment.",
            autocompletion=completion.complete_summarisers,
        ),
    ] = "extractive",
) -> None:
    """Serve the sessions over HTTP to a browser and to agents, read-only by default.

    The printed link signs a browser in. Agents send the token of ROOCONTEXT_TOKEN or, if it is not
    set, the token in the file whose path is printed. To listen on an address that other machines
    can reach, ROOCONTEXT_TOKEN must be set.
    """
    rights = {"allow_write": allow_write or admin, "admin": admin, "summariser": summariser}
    _serve(
        context,
        lambda final, file: _started(final, file, uds),
        host=host,
        port=port,
        uds=uds,
        where=reports.naming.conditions(where),
        **rights,
    )


@command(app, panel=INSPECT, document="")
def open_(context: CommandContext, session: SessionName = "last") -> None:
    """Show a session in the browser. Use the server that runs for this database, or start one.

    A new server is read-only, and ends with Ctrl-C.
    """
    with context.session(session) as chat:
        path = f"/s/{quote(chat.id, safe='', errors='surrogatepass')}"
    for url, token in _running(_database(context, {})):
        _show(f"{url}{path}?{urlencode({'token': token})}")
        return

    def show(settings: "ServerSettings", file: Path | None) -> None:
        _started(settings, file, None)
        _show(f"{settings.url}{path}?{urlencode({'token': settings.token})}")

    _serve(context, show)


def _show(link: str) -> None:
    """Open a link in the browser, and print it if there is none."""
    if not webbrowser.open(link):
        typer.echo(f"Open {link}")


def _database(context: CommandContext, where: Mapping[str, str]) -> str:
    """The name of the database, which is the same in whatever folder a command is started.

    A server that shows a part of it has a name of its own.
    """
    url = find_database.without_password(context.url)
    name = url if "://" in url else str(Path(url).absolute())
    part = [f"owner {context.obj.owner!r}"] * (context.obj.owner is not None)
    part += [f"{key}={value!r}" for key, value in sorted(where.items())]
    return f"{name} ({', '.join(part)})" if part else name


def _running(database: str) -> Iterator[tuple[str, str]]:
    """The addresses and tokens of the servers that run for a database."""
    with _web_needed():
        from roocontext.web import serving  # noqa: PLC0415
    for file in sorted(serving.announcements().glob("serve-*.json")):
        # A server that crashed leaves its file, and its port may be another's by now.
        with suppress(OSError, ValueError, KeyError):
            about = json.loads(file.read_text())
            if about["database"] != database:
                continue
            asked = Request(f"{about['url']}/api/v1/openapi.json", method="HEAD")  # noqa: S310
            asked.add_header("Authorization", f"Bearer {about['token']}")
            # A proxy of the environment would be sent the token, and cannot reach this machine.
            with build_opener(ProxyHandler({})).open(asked, timeout=3):
                yield about["url"], about["token"]


def _serve(
    context: CommandContext,
    started: "Callable[[ServerSettings, Path | None], object]",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    uds: Path | None = None,
    where: Mapping[str, str] | None = None,
    **rights: Any,
) -> None:
    """Run a server with these rights until it is interrupted."""
    with _web_needed():
        from roocontext.web import safety, serving  # noqa: PLC0415
    with ExitStack() as stack:
        context.obj.bars.hide()
        with _options_checked():
            if uds is None:
                listener, public = serving.listen(host, port)
                stack.enter_context(listener)
                token = serving.token_for(os.environ.get(TOKEN), public=public)
            else:
                listener = stack.enter_context(serving.listen_on_file(uds))
                public, token = False, None
        settings = safety.ServerSettings(host=host, token=token, public=public, **rights)
        write = settings.allow_write
        store = stack.enter_context(context.store(write=write, dry_run=True, where=where))
        name = _database(context, where or {})
        serving.run_server(store, settings, listener, database=name, started=started)


def _started(settings: "ServerSettings", file: Path | None, uds: Path | None) -> None:
    """Print how the server is reached."""
    if uds is not None:
        typer.echo(f"Listening on {safe(str(uds))}")
    else:
        typer.echo(f"Open {settings.link}")
        typer.echo(f"The token for agents is in {safe(str(file))}")
