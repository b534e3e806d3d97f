"""The pages of requests that failed, for people; programs get problem documents.

A page is one file, with its style in it: a request that is refused gets no other file either.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

from starlette.responses import Response

from roocontext.errors import (
    MessageNotFound,
    RooContextError,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from roocontext.reports.markup.elements import link_to, tag
from roocontext.reports.markup.frame import inline_style, page_frame
from roocontext.reports.naming import after_colon
from roocontext.web.errors import HostRefused, headers_of, problem, problem_response
from roocontext.web.pages.addresses import LIST, session_path

if TYPE_CHECKING:
    from roocontext import Store

Nearest: TypeAlias = Sequence[tuple[str, str]]
"""Names and addresses of what was perhaps meant."""

_SESSION: Final = re.compile(r"/s/([^/]+)")
_MOST: Final = 5
_LEAST: Final = 3
"""The fewest characters of an id that is similar."""


def failed_response(
    error: RooContextError, path: str, accept: str, nearest: Nearest = ()
) -> Response:
    """The answer to a request that failed: a page for a browser, else a problem document."""
    if "text/html" not in accept or path.startswith("/api/"):
        return problem_response(error, path)
    document = problem(error, path)
    status, name = document["status"], document["title"].rstrip(".")
    style, known_as = inline_style()
    # Under a name that is not this server's there is no page to link.
    home = None if isinstance(error, HostRefused) else link_to("roocontext", LIST)
    links = [tag("li", link_to(name, where)) for name, where in nearest]
    page = page_frame(
        f"{name} – roocontext",
        tag("header", home or tag("b", "roocontext"), class_="bar"),
        tag(
            "main",
            tag("h1", name),
            tag("p", document["detail"], class_="failed"),
            tag("ul", links, class_="nearest") if links else None,
            tag("p", f"Status {status}", class_="note"),
        ),
        head=(style,),
    )
    policy = f"default-src 'none'; style-src {known_as}; base-uri 'none'; form-action 'none'"
    headers = headers_of(error) | {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
    content = page.encode("utf-8", "backslashreplace")
    return Response(content, status, headers, media_type="text/html; charset=utf-8")


def nearest_to(store: "Store", path: str, error: RooContextError) -> Nearest:
    """A link to the nearest page of an address that leads to nothing or is out of date."""
    asked = _SESSION.match(path)
    if asked is None:
        return ()
    name = unquote(asked[1], errors="surrogateescape")
    near: list[tuple[str, str]] = []
    with suppress(RooContextError):  # the first error is the one to show
        if isinstance(error, MessageNotFound):
            seqs = dict.fromkeys(seq for seq in error.candidates if type(seq) is int and seq > 0)
            near = [(f"Entry {seq}", f"{session_path(name)}/e/{seq}") for seq in seqs]
        elif isinstance(error, SessionNotFound) and not isinstance(error, SessionPurged):
            near = [(session_id, session_path(session_id)) for session_id in _similar(store, name)]
        if isinstance(error, (MessageNotFound, VersionConflict)):
            near.append(("The session as it is now", session_path(name)))
    return near


def _similar(store: "Store", name: str) -> Sequence[str]:
    """The ids that begin like this, or whose part after the colon does."""
    infos = [*store.find(name, limit=_MOST)] or after_colon(store, name)[:_MOST]
    length = len(name)
    while not infos and (length := length // 2) >= _LEAST:
        infos = [*store.find(name[:length], limit=_MOST)]
    return [info.session_id for info in infos]
