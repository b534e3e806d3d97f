"""The search: every message that was ever written, whatever has become of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from roocontext.errors import InvalidOption
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag
from roocontext.reports.search import HitRow, SnippetRow, found, refresh_index
from roocontext.reports.times import local_time
from roocontext.search.query import Among
from roocontext.web.pages.addresses import SEARCH, PageLinks, address, session_path
from roocontext.web.pages.forms import choice_field
from roocontext.web.pages.respond import framed

if TYPE_CHECKING:
    from roocontext import Store

_HITS: Final = 20


def search_page(request: Request) -> Response:
    """A page of hits, in one session or in all."""
    store: Store = request.app.state.store
    asked = request.query_params
    query, session = asked.get("q", "").strip(), asked.get("session") or None
    wanted = asked.get("among", "all")
    among: Among | None = next((value for value in get_args(Among) if value == wanted), None)
    if among is None:
        raise InvalidOption(f"among must be one of {', '.join(get_args(Among))}.", name="among")
    body: list[Child] = [tag("h1", "Search"), _form(query, session, among)]
    if query:
        refresh_index(store)
        page = store.search(
            query, session=session, among=among, limit=_HITS, after=asked.get("after") or None
        )
        answer = found(query, page)
        body.append(
            tag("ol", (_hit(hit) for hit in answer.hits), class_="sessions")
            if answer.hits
            else tag("p", "No message has all of these words.", class_="note")
        )
        if answer.next:
            following = address(SEARCH, q=query, session=session, among=among, after=answer.next)
            body.append(
                tag("nav", link_to("More →", following), class_="pager", aria_label="Pages")
            )
    return framed(
        f"Search {query[:60]}" if query else "Search", *body, session=session, query=query
    )


def _form(query: str, session: str | None, among: str) -> Html:
    names = {
        "all": "all messages",
        "standing": "not taken back",
        "visible": "what the model sees",
        "hidden": "hidden ones",
    }
    return tag(
        "form",
        tag("label", "Words ", tag("input", type="search", name="q", value=query)),
        tag("label", "in ", choice_field("among", names, among)),
        [
            tag(
                "label",
                tag("input", type="checkbox", name="session", value=session, checked=True),
                " only in ",
                tag("code", session[:60]),
            )
        ]
        if session
        else None,
        tag("button", "Search"),
        action=SEARCH,
        class_="tools",
    )


def _hit(hit: HitRow) -> Html:
    links = PageLinks(hit.session_id)
    state: Child = "the model sees it"
    if hit.hider is not None:
        state = [
            "hidden by ",
            link_to(f"{hit.hider.kind} {hit.hider.seq}", links.entry(hit.hider.seq)),
        ]
    return tag(
        "li",
        link_to(f"Entry {hit.seq}", links.entry(hit.seq), class_="name"),
        tag("p", _snippet(hit.snippet), class_="hit", dir="auto"),
        facts(
            link_to(hit.session_id[:60], session_path(hit.session_id)),
            hit.speaker,
            local_time(hit.happened_at)[:16],
            state,
        ),
    )


def _snippet(snippet: SnippetRow) -> Iterator[Child]:
    """The text with its matches marked."""
    yield "… " if snippet.is_continued else ""
    end = 0
    for start, stop in snippet.marks:
        yield snippet.text[end:start]
        yield tag("mark", snippet.text[start:stop])
        end = stop
    yield snippet.text[end:]
    yield " …" if snippet.continues else ""
