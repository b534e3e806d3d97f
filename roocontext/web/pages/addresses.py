"""The addresses of pages, and what a reader chose, as it stands in them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from roocontext.errors import InvalidOption
from roocontext.log.encoding import MAX_INTEGER
from roocontext.reports.markup.body import Style
from roocontext.store.sessions.excerpt import Anchor, Extent
from roocontext.web.errors import opened_session

if TYPE_CHECKING:
    from roocontext import Session

_NUMBER = re.compile(r"[0-9]{1,19}")
LIST = "/"
SEARCH = "/search"


def address(path: str, **query: Any) -> str:
    """A path with its query. What is None is left out."""
    present = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(present, errors='surrogatepass')}" if present else path


def session_path(session_id: str) -> str:
    """The path of a session. Its id may be any text."""
    return f"/s/{quote(session_id, safe='', errors='surrogatepass')}"


def session_asked(request: Request) -> "Session":
    """The session of a page."""
    return opened_session(request.app.state.store, request.path_params["session"])


def moment_asked(text: str) -> datetime:
    """A time in the query. Without a zone it is local."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        line = "as_of must be the number of an entry, or a time such as 2026-01-31T09:30."
        raise InvalidOption(line, name="as_of") from None


def number_asked(query: QueryParams, name: str, least: int = 0) -> int | None:
    """A number in the query; InvalidOption if it is none."""
    text = query.get(name)
    if text is None or text == "":
        return None
    if not (_NUMBER.fullmatch(text) and least <= int(text) <= MAX_INTEGER):
        raise InvalidOption(f"{name} must be the number of an entry.", name=name)
    return int(text)


def image_digest(data: str) -> str:
    """The name of an image. In a view outputs are cleared, so a number would name another one."""
    return sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PageView:
    """The address of a page of a session: its extent, moment, place and style."""

    session_id: str
    extent: Extent = Extent.VIEW
    as_of: int | None = None
    place: Anchor = Anchor()  # noqa: RUF009 - a value
    style: Style = Style()  # noqa: RUF009 - a value

    @classmethod
    def asked(cls, session_id: str, query: QueryParams) -> "PageView":
        """Read it from the query of a page."""
        tab = query.get("tab", Extent.VIEW.value)
        if tab not in [extent.value for extent in Extent]:
            raise InvalidOption("tab must be view, live or all.", name="tab")
        place = Anchor(*(number_asked(query, name, 1) for name in Anchor._fields))
        if sum(part is not None for part in place) > 1:
            raise InvalidOption("Give one of at, after and before.", name="at")
        style = Style(markdown=query.get("md") != "0", edits_open=query.get("edits") == "open")
        return cls(session_id, Extent(tab), number_asked(query, "as_of"), place, style)

    def query(self, **changed: Any) -> dict[str, Any]:
        """The query that says the same, without what is usual."""
        texts = {
            "tab": None if self.extent is Extent.VIEW else self.extent.value,
            "as_of": self.as_of,
            **self.place._asdict(),
            "md": None if self.style.markdown else "0",
            "edits": "open" if self.style.edits_open else None,
        }
        return {name: value for name, value in {**texts, **changed}.items() if value is not None}

    def address(self, **changed: Any) -> str:
        """The address of this page, with some of it changed."""
        return address(session_path(self.session_id), **self.query(**changed))

    def kept(self, *names: str) -> dict[str, Any]:
        """The fields that a form keeps: the query without the place, and without these."""
        query = replace(self, place=Anchor()).query()
        return {name: value for name, value in query.items() if name not in names}

    def elsewhere(self, **changed: Any) -> str:
        """The address of the same view at its end."""
        return replace(self, place=Anchor()).address(**changed)


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The links of a page. Entries on the page are reached without a request.

    If it `changes` the session, each entry has a link to the changes that it allows.
    """

    session_id: str
    on_page: frozenset[int] = frozenset()
    as_of: int | None = None
    changes: bool = False

    @property
    def _path(self) -> str:
        return session_path(self.session_id)

    def entry(self, seq: int) -> str | None:
        """An entry, on this page or another."""
        if seq in self.on_page:
            return f"#e{seq}"
        return address(f"{self._path}/e/{seq}", as_of=self.as_of)

    def whole(self, seq: int) -> str | None:
        """All of an entry."""
        return f"{self._path}/e/{seq}/whole"

    def image(self, seq: int, source: Mapping[str, Any]) -> str | None:
        """An image of an entry."""
        return f"{self._path}/e/{seq}/image/{image_digest(source['data'])}"

    def difference(self, old: int, new: int) -> str | None:
        """The difference of two views."""
        return address(f"{self._path}/diff", **{"from": old, "to": new})

    def change(self, seq: int) -> str | None:
        """The changes that an entry allows."""
        return f"{self._path}/e/{seq}/change" if self.changes else None

    def request(self, seq: int) -> str | None:
        """The request that a reply answers."""
        return f"{self._path}/e/{seq}/request"
