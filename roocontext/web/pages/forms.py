"""Forms that change a session: plain ones, which need no script.

With GET a page shows what a change would do, and writes nothing. With POST the form on it asks for
the change. The guard lets only pages of this server send forms. A form names the head of the
session that its page showed, so that a change is refused if the session has another one by then.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from roocontext.errors import InvalidOption
from roocontext.reports.markup.elements import Child, Html, tag
from roocontext.web.errors import (
    MalformedRequest,
    MediaTypeRefused,
    check_head,
    opened_session,
)
from roocontext.web.pages.addresses import address, number_asked, session_path
from roocontext.web.safety import Need, ServerSettings, check_permitted

if TYPE_CHECKING:
    from roocontext import Session, Store

_MEDIA = "application/x-www-form-urlencoded"


class FormRequest(NamedTuple):
    """A request for a change, or for a page that shows it first."""

    request: Request
    fields: QueryParams

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return str(self.request.path_params["session"])

    @property
    def path(self) -> str:
        """The path of the session's page."""
        return session_path(self.session_id)

    @property
    def store(self) -> "Store":
        """The store."""
        store: Store = self.request.app.state.store
        return store

    @property
    def settings(self) -> ServerSettings:
        """The actions that the server was started with."""
        settings: ServerSettings = self.request.app.state.settings
        return settings

    @property
    def chat(self) -> "Session":
        """The session."""
        return opened_session(self.store, self.session_id)

    def number(self, name: str, least: int = 0) -> int:
        """A number that has to be given."""
        number = number_asked(self.fields, name, least)
        if number is None:
            raise InvalidOption(f"{name} must be the number of an entry.", name=name)
        return number

    def check_head(self) -> None:
        """Refuse a change that was shown for another head of the session."""
        check_head(self.chat, self.number("head"))

    def done(self, seq: int | None) -> Response:
        """The page of the session, with what was done."""
        return RedirectResponse(address(self.path, done=seq), 303)


Handler: TypeAlias = Callable[[FormRequest], Response]


def form_route(
    path: str, show: Handler | None, do: Handler | None = None, *, needs: Need = "write"
) -> Route:
    """The route of a page, and of the form on it."""
    handlers = {method: own for method, own in (("GET", show), ("POST", do)) if own}

    async def answer(request: Request) -> Response:
        check_permitted(request.app.state.settings, needs)
        if request.method == "POST":
            fields = _fields(request.headers.get("content-type", ""), await request.body())
            return await run_in_threadpool(handlers["POST"], FormRequest(request, fields))
        asked = FormRequest(request, request.query_params)
        return await run_in_threadpool(handlers["GET"], asked)

    return Route(path, answer, methods=[*handlers])


def _fields(media: str, body: bytes) -> QueryParams:
    """The fields of a form."""
    if media.partition(";")[0].strip().lower() != _MEDIA:
        raise MediaTypeRefused(f"Send {_MEDIA}.")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20
        )
    except (UnicodeError, ValueError):
        raise MalformedRequest("The form is malformed.") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise MalformedRequest("A field of the form is given twice.")
    return QueryParams(pairs)


def number_field(
    label: str, name: str, value: int | str | None = None, *, unit: str = "", **more: bool | str
) -> Html:
    """A field for a number."""
    field = tag("input", type="text", name=name, value=value, inputmode="numeric", size=8, **more)
    return tag("label", label, field, unit)


def choice_field(name: str, names: Mapping[str, str], chosen: str) -> Html:
    """A field for one of some values, each shown by its name."""
    options = (
        tag("option", words, value=value, selected=value == chosen)
        for value, words in names.items()
    )
    return tag("select", options, name=name)


def hidden_fields(fields: Mapping[str, Any]) -> list[Html]:
    """The fields of a form that are not shown."""
    kept = ((name, value) for name, value in fields.items() if value is not None)
    return [tag("input", type="hidden", name=name, value=str(value)) for name, value in kept]


def change_form(where: str, button: str, *shown: Child, danger: bool = False, **kept: Any) -> Html:
    """A form with what is shown in it, and with fields that are not."""
    return tag(
        "form",
        shown,
        hidden_fields(kept),
        tag("button", button, class_="danger" if danger else "act"),
        action=where,
        method="post",
        class_="change",
    )
