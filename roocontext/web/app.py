"""The application: the routes of the API and of the pages, over one store, inside the guard."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

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
from roocontext.web.errors import AsciiJson, MalformedRequest, MethodRefused, NothingHere
from roocontext.web.failure import failed_response, nearest_to
from roocontext.web.pages import (
    change,
    compact,
    entry,
    erase,
    history,
    respond,
    search,
    session,
    sessions,
    tail,
)
from roocontext.web.pages.addresses import LIST, SEARCH
from roocontext.web.pages.forms import form_route
from roocontext.web.safety import HEALTH, Guard, ServerSettings

if TYPE_CHECKING:
    from roocontext import Store


class _Id(Convertor[str]):
    """An id in a path: any text, percent-encoded, slashes too."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="surrogateescape")


class _Seq(Convertor[int]):
    """The number of an entry in a path. Python reads no integer of any length."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)


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
    app.state.costs = sessions.RememberedCosts()
    app.state.closing = asyncio.Event()
    return app


def routes() -> Sequence[BaseRoute]:
    """Every route of the server."""
    of_session, of_entry = "/s/{session:id}", "/s/{session:id}/e/{seq:seq}"
    return [
        Route(HEALTH, _health),
        Route(f"{PREFIX}/openapi.json", _openapi),
        *to_routes(OPERATIONS),
        Route(respond.STYLE, respond.style_sheet),
        Route(respond.SCRIPT, respond.page_script),
        Route(LIST, sessions.list_page),
        Route(SEARCH, search.search_page),
        Route(of_session, session.session_page),
        Route(f"{of_session}/follow", tail.follow),
        Route(f"{of_session}/rows", tail.rows),
        Route(f"{of_session}/diff", history.difference_page),
        Route(f"{of_session}/timeline", history.timeline_page),
        Route(f"{of_session}/usage", history.usage_page),
        Route(f"{of_session}/export", history.download_page),
        Route(of_entry, session.entry_address),
        Route(f"{of_entry}/whole", entry.whole_page),
        Route(f"{of_entry}/raw", entry.raw),
        Route(f"{of_entry}/image/{{digest}}", entry.image_file),
        Route(f"{of_entry}/request", entry.request_page),
        form_route(f"{of_entry}/change", change.entry_menu),
        form_route(f"{of_session}/change", change.session_menu),
        form_route(f"{of_session}/rewind", change.rewind_preview, change.make_rewind),
        form_route(f"{of_session}/undo", change.undo_preview, change.make_undo),
        form_route(f"{of_session}/uncover", change.uncover_preview, change.make_uncovering),
        form_route(f"{of_session}/pin", None, change.change_pin),
        form_route(f"{of_session}/fork", None, change.make_fork),
        form_route(f"{of_session}/compact", compact.compact_preview, compact.make_compaction),
        form_route(
            f"{of_session}/redact", erase.redact_preview, erase.make_redaction, needs="admin"
        ),
        form_route(f"{of_session}/purge", erase.purge_preview, erase.make_purge, needs="admin"),
    ]


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
