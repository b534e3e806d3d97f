"""The pages of the server: each is rendered here, and works without a script."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from roocontext.web.pages.entry import entry_routes
from roocontext.web.pages.history import history_routes
from roocontext.web.pages.respond import static_routes
from roocontext.web.pages.search import search_routes
from roocontext.web.pages.session import session_routes
from roocontext.web.pages.sessions import list_routes
from roocontext.web.pages.tail import tail_routes


def page_routes() -> Sequence[BaseRoute]:
    """Every route of a page, and of the files that pages load."""
    return [
        *static_routes(),
        *list_routes(),
        *search_routes(),
        *tail_routes(),
        *session_routes(),
        *history_routes(),
        *entry_routes(),
    ]
