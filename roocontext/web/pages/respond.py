"""Answers with pages, and the files that pages load."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from roocontext.reports.markup.body import session_title
from roocontext.reports.markup.elements import Child, Html, link_to, tag
from roocontext.reports.markup.frame import page_frame
from roocontext.web.pages.addresses import LIST, SEARCH, session_path

if TYPE_CHECKING:
    from roocontext import SessionInfo

STYLE: Final = "/static/page.css"
SCRIPT: Final = "/static/page.js"


class HtmlPage(Response):
    """A page. Lone surrogates are shown as numbers already, but no page may fail on one."""

    media_type = "text/html"

    def __init__(self, content: Html) -> None:
        # A form sends its Origin only from pages that let their own server know where it was.
        super().__init__(content, headers={"Referrer-Policy": "same-origin"})

    def render(self, content: Any) -> bytes:
        """Encode the page."""
        return str(content).encode("utf-8", "backslashreplace")


def framed(
    title: str, *body: Child, session: str | None = None, query: str = "", **data: str
) -> HtmlPage:
    """A page inside the frame of the server."""
    form = tag(
        "form",
        tag(
            "input",
            type="search",
            name="q",
            value=query,
            placeholder="Search",
            aria_label="Search all sessions",
        ),
        tag("input", type="hidden", name="session", value=session) if session else None,
        action=SEARCH,
        role="search",
    )
    return HtmlPage(
        page_frame(
            f"{title} – roocontext",
            link_to("Skip to the content", "#main", class_="skip"),
            tag(
                "header",
                link_to("roocontext", LIST),
                tag("nav", link_to("Sessions", LIST), aria_label="Site"),
                form,
                class_="bar",
            ),
            tag("main", body, id="main"),
            head=(
                tag("link", rel="stylesheet", href=STYLE),
                tag("link", rel="icon", href="data:image/png;base64,"),
                tag("script", src=SCRIPT, defer=True),
            ),
            data={f"data-{name}": value for name, value in data.items()},
        )
    )


def session_frame(title: str, info: "SessionInfo", *body: Child) -> HtmlPage:
    """A page about a session, whose name leads back to it."""
    name = session_title(info)
    back = tag("p", link_to(name, session_path(info.session_id)), class_="note")
    return framed(f"{title}, {name}", tag("h1", title), back, body, session=info.session_id)


@cache
def _static(folder: str, name: str) -> bytes:
    return (files(folder) / name).read_bytes()


def style_sheet(_request: Request) -> Response:
    """The style of all pages."""
    return Response(_static("roocontext.reports.markup", "page/page.css"), media_type="text/css")


def page_script(_request: Request) -> Response:
    """The script of all pages."""
    return Response(_static("roocontext.web", "static/page.js"), media_type="text/javascript")
