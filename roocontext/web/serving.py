"""Runs the server: its socket, the file with its token, its signals, its end.

The file is for the programs of this user: agents read the address and the token in it, and
`roocontext open` finds the server that runs. It is removed when the server ends. After a crash it
stays, so a reader has to ask the server, or look whether its process still runs.
"""

import json
import os
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette

from roocontext.errors import InvalidOption
from roocontext.web.app import create_app
from roocontext.web.safety import LEAST_TOKEN, ServerSettings

if TYPE_CHECKING:
    from roocontext import Store

_GRACE_SECONDS: Final = 3
"""How long requests may take to end when the server is stopped."""


class Server(uvicorn.Server):
    """A server that tells its streams to end when it stops, and then returns.

    uvicorn would raise the signal again, and the process would end without cleaning up.
    """

    def __init__(self, app: Starlette, started: Callable[[], object]) -> None:
        self._state = app.state
        self._announce = started
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                # A log of requests would have the queries, and one of them has the token.
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, and say so. A signal that comes now ends the server already."""
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and then the server."""
        self._state.closing.set()
        await super().shutdown(sockets)
        self._state.threads.shut_down()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, unless they are ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def run_server(
    store: "Store",
    settings: ServerSettings,
    listener: socket.socket,
    *,
    database: str,
    started: Callable[[ServerSettings, Path | None], object],
) -> None:
    """Serve until interrupted.

    `started` is called when requests are accepted, with the final settings and the file that has
    the token. `database` is the name of the store for the readers of this file.
    """
    if listener.family is not socket.AF_UNIX:
        settings = replace(settings, port=listener.getsockname()[1])
    app = create_app(store, settings)
    with listener, _announced(settings, database) as file:
        Server(app, lambda: started(settings, file)).run(sockets=[listener])


def listen(host: str, port: int) -> tuple[socket.socket, bool]:
    """Listen on an address; return also if it is reached from other machines."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listener = socket.create_server(address[:2], family=family, backlog=2048)
        # Connections inherit it. asyncio would not set it, because the listener names no protocol,
        # and then each answer waits 40 ms for the client's acknowledgement of its headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, UnicodeError) as error:  # no name has an empty or a very long part
        reason = getattr(error, "strerror", None) or "the name is not known"
        line = f"Cannot listen on {host} port {port}: {reason}."
        raise InvalidOption(line, name="port") from None
    return listener, not ip_address(str(listener.getsockname()[0]).partition("%")[0]).is_loopback


@contextmanager
def listen_on_file(path: Path) -> Iterator[socket.socket]:
    """Listen on a socket file that only this user can connect to. Remove it at the end."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InvalidOption(f"{str(path)!r} exists and is not a socket.", name="uds")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                path.unlink()  # of a server that crashed
            else:
                raise InvalidOption(f"A server already listens on {str(path)!r}.", name="uds")
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        line = f"Cannot listen on {str(path)!r}: {error.strerror}."
        raise InvalidOption(line, name="uds") from None
    finally:
        os.umask(before)
    try:
        listener.listen(2048)
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def token_for(given: str | None, *, public: bool) -> str:
    """The given token, or else a new one. A public server needs a given one."""
    if given is None:
        if public:
            raise InvalidOption(
                "A server that other machines can reach needs a token: set ROOCONTEXT_TOKEN.",
                name="host",
            )
        return secrets.token_urlsafe(32)
    if len(given) < LEAST_TOKEN or not all("!" <= character <= "~" for character in given):
        line = f"ROOCONTEXT_TOKEN must have at least {LEAST_TOKEN} characters of ASCII, no spaces."
        raise InvalidOption(line, name="token")
    return given


def announcements() -> Path:
    """The folder with the files of the servers that run."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        line = "There is no home folder for the file with the token: set XDG_STATE_HOME."
        raise InvalidOption(line, name="home") from None
    return Path(state) / "roocontext"


@contextmanager
def _announced(settings: ServerSettings, database: str) -> Iterator[Path | None]:
    """Write the file with the address and the token of a server, and remove it at the end."""
    if settings.token is None:
        yield None
        return
    folder = announcements()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, mine = folder / f"serve-{settings.port}.json", os.getpid()
    about = {"url": settings.url, "token": settings.token, "pid": mine, "database": database}
    new = folder / f".serve-{settings.port}-{mine}"
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        json.dump(about, opened)
    new.replace(file)
    try:
        yield file
    finally:
        with suppress(OSError, ValueError):
            if json.loads(file.read_text())["pid"] == mine:
                file.unlink()
