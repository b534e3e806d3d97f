"""The application: the routes of the API and of the pages, over one store, inside the guard."""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from roocontext.errors import RooContextError
from roocontext.store.aio import AsyncStore
from roocontext.store.engine.threads import Threads
from roocontext.summarisers import summariser_for
from roocontext.web.api.openapi import openapi
from roocontext.web.api.operations import PREFIX, to_routes
from roocontext.web.api.table import OPERATIONS
from roocontext.web.compacting import RememberedSummaries
from roocontext.web.errors import (
    AsciiJson,
    MalformedRequest,
    MethodRefused,
    NothingHere,
)
from roocontext.web.failure import failed_response, nearest_to
from roocontext.web.pages.change import change_routes
from roocontext.web.pages.compact import compact_routes
from roocontext.web.pages.entry import entry_routes
from roocontext.web.pages.erase import erase_routes
from roocontext.web.pages.history import history_routes
from roocontext.web.pages.respond import static_routes
from roocontext.web.pages.search import search_routes
from roocontext.web.pages.session import session_routes
from roocontext.web.pages.sessions import RememberedCosts, list_routes
from roocontext.web.pages.tail import tail_routes
from roocontext.web.safety import HEALTH, Guard, ServerSettings

if TYPE_CHECKING:
    from roocontext import Store


class _Id(Convertor[str]):
    """An id in a path: any text, percent-encoded, slashes too."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="surrogateescape")

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


class _Seq(Convertor[int]):
    """The number of an entry in a path. Python reads no integer of any length."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("id", _Id())
register_url_convertor("seq", _Seq())


def create_app(store: "Store", settings: ServerSettings) -> Starlette:
    """The application over a store that is open.

    `state.store`, `state.async_store`, `state.settings` and `state.summariser` are for handlers.
    Those that are plain functions run in threads, where they may call the store. A stream ends when
    `state.closing` is set. An id is a parameter such as `{session:id}`.
    """
    app = Starlette(
        routes=routes(),
        middleware=[Middleware(Guard, settings)],
        exception_handlers={RooContextError: _refused, HTTPException: _not_routed},
    )
    # A path with a slash too many is another path, and a redirect would lose the body.
    app.router.redirect_slashes = False
    app.state.store = store
    app.state.threads = Threads()
    app.state.async_store = AsyncStore(store, app.state.threads)
    app.state.settings = settings
    app.state.summariser = RememberedSummaries(summariser_for(settings.summariser))
    app.state.costs = RememberedCosts()
    app.state.closing = asyncio.Event()
    return app


def routes() -> Sequence[BaseRoute]:
    """Every route of the server."""
    described = Route(f"{PREFIX}/openapi.json", _openapi)
    pages = (
        *(static_routes(), list_routes(), search_routes(), tail_routes(), session_routes()),
        *(history_routes(), entry_routes(), change_routes(), compact_routes(), erase_routes()),
    )
    return [Route(HEALTH, _health), described, *to_routes(OPERATIONS), *chain(*pages)]


async def _health(_request: Request) -> Response:
    """The server answers. This path needs no token, and so it says nothing else."""
    return AsciiJson({"ok": True})


def _openapi(_request: Request) -> Response:
    return AsciiJson(openapi(OPERATIONS))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RooContextError)
    path = request.scope["path"]
    nearest = await run_in_threadpool(nearest_to, request.app.state.store, path, error)
    return failed_response(error, path, request.headers.get("accept", ""), nearest)


async def _not_routed(request: Request, error: Exception) -> Response:
    """The router found no route, or not with this method."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            return _answer(request, NothingHere())
        case 405:
            allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
            response = _answer(request, MethodRefused(f"This path supports {allowed}."))
            response.headers["Allow"] = allowed
            return response
    return _answer(request, MalformedRequest(error.detail))


def _answer(request: Request, error: RooContextError) -> Response:
    return failed_response(error, request.scope["path"], request.headers.get("accept", ""))
