"""Pages read as a browser reads them, which refuse everything that could act."""

import gzip
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from roocontext import Session, Store
from roocontext.store.sessions.excerpt import Anchor, Extent
from roocontext.web.pages.addresses import PageView
from roocontext.web.pages.session import session_body
from support.web_server import Answer, WebClient

MOST_ELEMENTS, MOST_BYTES = 2_000, 64 << 10
_EMPTY = {"br", "hr", "img", "input", "link", "meta"}
_SCRIPTS = {"/static/page.js"}
_ACTING = {"iframe", "object", "embed", "style", "base", "template", "math"}


@dataclass
class Article:
    """An entry on a page."""

    seq: int
    kind: str
    state: str
    folds: list[str]
    is_open: bool
    words: str = ""
    links: list[str] = field(default_factory=list)


@dataclass
class Form:
    """A form of a page: where it goes, and its fields with their values."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    button: str = ""

    @property
    def body(self) -> bytes:
        return urlencode(self.fields).encode()


class WebPage(HTMLParser):
    """A page: its entries, its links, its forms, its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.elements = 0
        self.articles: list[Article] = []
        self.links: list[tuple[str, str]] = []
        self.sources: list[str] = []
        self.ids: set[str] = set()
        self.headings: list[str] = []
        self.forms: list[Form] = []
        self._open: list[tuple[str, dict[str, Any]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def seqs(self) -> list[int]:
        """The entries, in the order of the page."""
        return [article.seq for article in self.articles]

    @property
    def by_seq(self) -> dict[int, Article]:
        return {article.seq: article for article in self.articles}

    def check_bounds(self) -> None:
        assert self.elements <= MOST_ELEMENTS
        assert len(gzip.compress(self.text.encode())) <= MOST_BYTES

    def form(self, words: str) -> Form:
        """The form with these words on its button."""
        return next(form for form in self.forms if words in form.button)

    def link(self, words: str) -> str:
        return next(address for address, text in self.links if words in text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        own = dict(attrs)
        assert len(own) == len(attrs)
        self.elements += 1
        assert tag not in _ACTING, tag
        assert "style" not in own
        assert not [name for name in own if name.startswith("on")]
        assert tag != "script" or own["src"] in _SCRIPTS
        for name in ("href", "src", "action"):
            address = own.get(name, "#")
            assert address.startswith(
                ("/", "#", "http://", "https://", "mailto:", "data:image/")
            ), address
            assert not address.startswith(("//", "/\\"))
        if "id" in own:
            assert own["id"] not in self.ids
            self.ids.add(own["id"])
        if "src" in own:
            self.sources.append(own["src"])
        if tag == "article":
            folds = [at for name, at in self._open if name == "details"]
            article = Article(
                int(own["data-seq"]),
                own["data-kind"],
                own["data-state"],
                [at["class"] for at in folds],
                all("open" in at for at in folds),
            )
            self.articles.append(article)
        if tag == "a" and "href" in own:
            self.links.append((own["href"], ""))
            if self._article:
                self._article.links.append(own["href"])
        if tag == "form":
            self.forms.append(Form(own["action"], own.get("method", "get")))
        if tag == "input" and "name" in own and own.get("type") != "checkbox":
            self.forms[-1].fields[own["name"]] = own.get("value") or ""
        if tag == "option" and "selected" in own:
            name = next(at["name"] for open_, at in self._open if open_ == "select")
            self.forms[-1].fields[name] = own["value"]
        if tag not in _EMPTY:
            self._open.append((tag, own))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        names = [name for name, _ in self._open]
        if self._article:
            self._article.words += data
        if names and names[-1] == "button" and self.forms:
            self.forms[-1].button += data
        if "a" in names and self.links:
            address, text = self.links[-1]
            self.links[-1] = (address, text + data)
        if names and names[-1] in ("h1", "title"):
            self.headings.append(data)

    @property
    def _article(self) -> Article | None:
        return self.articles[-1] if any(name == "article" for name, _ in self._open) else None


def read_page(web: WebClient, path: str) -> WebPage:
    """A page of a server, as a browser gets it."""
    answer = web.get(path, accept="text/html")
    assert answer.status == 200, (path, answer.status, answer.body)
    page = WebPage(answer.body.decode())
    page.check_bounds()
    return page


def send_form(web: WebClient, form: Form, **changed: str) -> Answer:
    """Send a form, as a browser does, with some of its fields filled in."""
    form.fields.update(changed)
    return web.ask(
        "POST",
        form.action,
        body=form.body,
        content_type="application/x-www-form-urlencoded",
        origin=f"http://{web.host}",
        accept="text/html",
    )


def plain_store(store: Any) -> Store:
    """The store that a driven asynchronous one works on."""
    return store if isinstance(store, Store) else store.target._plain


def page_of(session: Session, **asked: Any) -> WebPage:
    """The page of a session, without a server."""
    view = PageView(session.id, **asked)
    excerpt = session.internals.excerpt(view.extent, view.place, as_of=view.as_of)
    return WebPage(session_body(view, excerpt))


def every_page(session: Session, extent: Extent) -> list[WebPage]:
    """All pages of a session, the newest first, by the links of each."""
    pages = [page_of(session, extent=extent)]
    while earlier := [address for address, text in pages[-1].links if "Earlier" in text]:
        query = parse_qs(urlsplit(earlier[0]).query)
        pages.append(page_of(session, extent=extent, place=Anchor(before=int(query["before"][0]))))
    return pages
