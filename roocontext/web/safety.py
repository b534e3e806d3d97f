"""The guard in front of every route: who may ask, from where, and how much.

A transcript is private, and a server on this machine can be reached by every page that a browser
shows. So each request must name this server in Host (a rebound DNS name does not), must not come
from a page of another origin, and must have the token of this start: agents send it as a bearer
token, browsers exchange it once for a cookie that no script and no other site can use. There are no
CORS headers. A socket file needs no token, because its permissions already say who may connect.
"""

import hmac
import logging
import re
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roocontext.errors import RooContextError
from roocontext.web.errors import (
    BodyTooLarge,
    HostRefused,
    MalformedRequest,
    OriginRefused,
    ServerFailed,
    Unauthorized,
    WritingRefused,
)
from roocontext.web.failure import failed_response

HEALTH: Final = "/healthz"
LEAST_TOKEN: Final = 32
"""The fewest characters of a token that is given instead of made."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CACHE: Final = "private, no-cache"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_AUTHORITY: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)(?::([0-9]{1,5}))?")
_ANY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened on
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The rights that a server gives, and the names by which it is reached.

    Without a `port`, it is reached by a socket file. Without a `token`, anyone who can connect is
    trusted. A `public` server is also reached by any address of this machine.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = field(default=None, repr=False)
    public: bool = False
    allow_write: bool = False
    admin: bool = False
    summariser: str = "extractive"
    most_bytes: int = 64 << 20

    @property
    def url(self) -> str:
        """Where the server is reached."""
        host = "127.0.0.1" if self.host in _ANY else self.host
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.port}" if self.port is not None else "http://localhost"

    @property
    def link(self) -> str:
        """The link that lets a browser in."""
        return f"{self.url}/?{urlencode({'token': self.token})}" if self.token else self.url

    @property
    def cookie(self) -> str:
        """The name of the cookie. A browser sends cookies to every port of a host."""
        return f"roocontext-{self.port}"

    def is_own(self, authority: str) -> bool:
        """Check if a Host names this server."""
        parts = _AUTHORITY.fullmatch(authority)
        if parts is None:
            return False
        name, port = parts[1].strip("[]").lower(), parts[2]
        if self.port is None:
            return name == "localhost"
        if int(port or 80) != self.port:
            return False
        return name in _LOOPBACK or name == self.host.lower() or (self.public and _is_ip(name))

    def is_own_origin(self, origin: str) -> bool:
        """Check if an Origin is that of this server's pages."""
        scheme, _, authority = origin.partition("://")
        return scheme == "http" and self.is_own(authority)


Need: TypeAlias = Literal["read", "write", "admin"]


def check_permitted(settings: ServerSettings, need: Need) -> None:
    """Refuse what the server was not started for."""
    if need == "admin" and not settings.admin:
        raise WritingRefused("Start the server with --admin to redact and purge.", option="--admin")
    if need == "write" and not settings.allow_write:
        line = "The server is read-only. Start it with --allow-write to change sessions."
        raise WritingRefused(line, option="--allow-write")


class Guard:
    """Refuses the requests that may not be answered, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._token = settings.token or ""
        self._cookie = hmac.new(self._token.encode(), b"cookie", sha256).hexdigest()
        """The secret of browsers. Other servers of this host see it, and do not learn the token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        # Routes see the path as it was sent, because an id may have a slash.
        path = scope["raw_path"].decode("latin-1")
        scope, headers = {**scope, "path": path}, Headers(scope=scope)
        has_started = False

        async def answer(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                _protect(MutableHeaders(scope=message))
            await send(message)

        def refused(error: RooContextError) -> Response:
            return failed_response(error, path, headers.get("accept", ""))

        try:
            let_in = self._check(scope, headers)
            app = let_in or self._app
            await app(scope, self._bounded(headers, receive), answer)
        except ClientDisconnect:
            return
        except RooContextError as error:
            await refused(error)(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - a server answers every request
            # Its text may have content of a message, so that only its type is logged. Starlette
            # replaces an error that comes after the beginning of the answer, and keeps its cause.
            cause = error.__cause__ or error
            _log.error("%s while answering %s", type(cause).__name__, scope["method"])
            if not has_started:
                await refused(ServerFailed())(scope, receive, answer)
            # Else the answer has no end, and uvicorn closes the connection.

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse the request, or answer it with a cookie, or let it through."""
        settings, path, method = self._settings, scope["path"], scope["method"]
        hosts = headers.getlist("host")
        # A page of another site reaches this server by a name that was rebound to its address.
        # Origin equals Host then, so that Host is checked first, and for reading too.
        if len(hosts) != 1 or not settings.is_own(hosts[0]):
            raise HostRefused(f"This server is {settings.url}.")
        self._check_origin(method, headers)
        if settings.token is None or path == HEALTH:
            return None
        if method == "GET" and (let_in := self._let_in(scope)):
            return let_in
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(sent.strip(), self._token):
            return None
        if not _same(HTTPConnection(scope).cookies.get(settings.cookie, ""), self._cookie):
            raise Unauthorized
        if method not in _SAFE and not headers.get("origin"):
            raise OriginRefused("A change that is authorised by a cookie must have an Origin.")
        return None

    def _check_origin(self, method: str, headers: Headers) -> None:
        for origin in headers.getlist("origin"):
            if not self._settings.is_own_origin(origin):
                raise OriginRefused
        site = headers.get("sec-fetch-site", "none")
        is_visit = method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not is_visit:
            raise OriginRefused

    def _let_in(self, scope: Scope) -> Response | None:
        """Exchange the token of the printed link for a cookie, and drop it from the address."""
        if b"token=" not in scope["query_string"] or scope["path"].startswith("/api/"):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not _same(query.pop("token", [""])[-1], self._token):
            raise Unauthorized("The link belongs to an earlier start of the server.")
        # `//host` would be another site.
        path = "/" + scope["path"].lstrip("/\\")
        rest = urlencode(query, doseq=True)
        response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        response.set_cookie(
            self._settings.cookie, self._cookie, httponly=True, samesite="strict", path="/"
        )
        return response

    def _bounded(self, headers: Headers, receive: Receive) -> Receive:
        """Read the body of a request, up to the limit."""
        most, total = self._settings.most_bytes, 0
        declared = headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdigit():
            raise MalformedRequest("Content-Length is not a number.")
        refused = BodyTooLarge(f"At most {most:,} bytes are accepted.", limit=most)
        if int(declared) > most:
            raise refused

        async def bounded() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > most:
                raise refused
            return message

        return bounded


def _protect(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Cache-Control", _CACHE)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
