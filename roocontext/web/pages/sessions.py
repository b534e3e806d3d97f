"""The list of sessions: families folded together, how full each is, and what it cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roocontext.reports.markup.elements import Child, Html, tag
from roocontext.reports.naming import quantity, size
from roocontext.reports.sessions import SessionRow, matching_sessions
from roocontext.reports.times import age, local_time
from roocontext.store.engine.clock_and_ids import system_clock
from roocontext.web.pages.addresses import LIST, address, session_path
from roocontext.web.pages.respond import framed

if TYPE_CHECKING:
    from roocontext import Store

_SESSIONS: Final = 50


def list_page(request: Request) -> Response:
    """A page of the sessions, the newest first."""
    store: Store = request.app.state.store
    query = request.query_params
    text, after = query.get("text", "").strip(), query.get("after") or None
    found = matching_sessions(store, text, limit=_SESSIONS, after=after)
    form = tag(
        "form",
        tag("label", "Filter ", tag("input", type="search", name="text", value=text)),
        tag("button", "Filter"),
        action=LIST,
        class_="tools",
    )
    following = (
        tag("a", "Older sessions →", href=address(LIST, text=text or None, after=found.next))
        if found.next
        else None
    )
    body = (
        tag("ul", _families(found.sessions), class_="sessions")
        if found.sessions
        else tag(
            "p", "No session matches." if text else "There are no sessions yet.", class_="note"
        )
    )
    return framed(
        "Sessions",
        tag("h1", "Sessions"),
        form,
        body,
        tag("nav", following, class_="pager", aria_label="Pages") if following else None,
    )


def _families(rows: Sequence[SessionRow]) -> Iterable[Html]:
    """The sessions, those of sub-agents under their parents as far as both are on the page."""
    here = {row.session_id for row in rows}
    children: defaultdict[str, list[SessionRow]] = defaultdict(list)
    for row in rows:
        if row.parent in here and row.parent is not None:
            children[row.parent].append(row)
    now = system_clock()
    return [_row(row, children, now) for row in rows if row.parent not in here]


def _row(row: SessionRow, children: Mapping[str, Sequence[SessionRow]], now: int) -> Html:
    own = children.get(row.session_id, ())
    family = None
    if own:
        # A family may be deep, but a list that is nested without end has no room left.
        inside = tag("ul", (_row(child, children, now) for child in own), class_="family")
        family = tag("details", tag("summary", quantity(len(own), "sub-agent")), inside)
    return tag(
        "li",
        tag(
            "a",
            row.title or row.first_prompt or row.session_id,
            href=session_path(row.session_id),
            class_="name",
        ),
        _facts(row, now),
        family,
    )


def _facts(row: SessionRow, now: int) -> Html:
    context = row.context
    facts: list[Child] = [tag("code", row.short_id)]
    metadata = row.metadata if isinstance(row.metadata, dict) else {}
    if isinstance(tool := metadata.get("tool"), str):
        facts.append(tool[:40])
    facts.append(tag("time", f"{age(row.happened_at, now)} ago", title=local_time(row.happened_at)))
    facts.append(f"{quantity(row.messages, 'message')}, the model sees {row.visible_messages:,}")
    facts.append(size(row.bytes))
    if context.model:
        facts.append(context.model[:60])
    if context.limit:
        share = round(100 * context.tokens / context.limit)
        sign = "" if context.exact else "~"
        meter = tag(
            "meter",
            f"{share} %",
            min=0,
            max=context.limit,
            value=min(context.tokens, context.limit),
            aria_label="Context window",
        )
        facts.append([meter, f" {sign}{share} % full"])
    if row.parent:
        facts.append(["sub-agent of ", tag("a", row.parent[:40], href=session_path(row.parent))])
    return tag("p", [tag("span", fact) for fact in facts], class_="facts")


def list_routes() -> list[Route]:
    """The routes of this module."""
    return [Route(LIST, list_page)]
