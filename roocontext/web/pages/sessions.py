"""The list of sessions: families folded together, how full each is, and what it cost."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from roocontext.errors import SessionArchived, SessionNotFound
from roocontext.reports.gauge import Gauge
from roocontext.reports.markup.body import session_title
from roocontext.reports.markup.elements import Child, Html, facts, link_to, tag
from roocontext.reports.naming import quantity, size, tool_named
from roocontext.reports.sessions import SessionRow, matching_sessions
from roocontext.reports.times import age, local_time
from roocontext.reports.usage import cost_of
from roocontext.store.engine.clock_and_ids import system_clock
from roocontext.web.pages.addresses import LIST, address, session_path
from roocontext.web.pages.respond import framed

if TYPE_CHECKING:
    from roocontext import Store

_SESSIONS: Final = 50
_READ: Final = 20_000
"""The most entries whose costs are summed for one page."""
_REMEMBERED: Final = 2_000


class SessionCost(NamedTuple):
    """The cost of a session in dollars, and the number of calls that have no known cost."""

    dollars: float | None
    unpriced: int


class RememberedCosts:
    """The costs of sessions, each summed once until the session grows."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, SessionCost]] = OrderedDict()

    def of(self, store: "Store", rows: Iterable[SessionRow]) -> dict[str, SessionCost]:
        """The costs of these sessions. Those that would take too long to sum are left out."""
        costs: dict[str, SessionCost] = {}
        left = _READ
        for row in rows:
            last_seq, cost = self._known.get(row.session_id, (-1, None))
            if cost is None or last_seq != row.last_seq:
                if row.archived_at is not None or row.last_seq > left:
                    continue
                left -= row.last_seq
                try:
                    cost = SessionCost(*cost_of(store.session(row.session_id)))
                except (SessionNotFound, SessionArchived):  # since the list was read
                    continue
                self._known[row.session_id] = row.last_seq, cost
            costs[row.session_id] = cost
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return costs


def list_page(request: Request) -> Response:
    """A page of the sessions, the newest first."""
    store: Store = request.app.state.store
    query = request.query_params
    text, after = query.get("text", "").strip(), query.get("after") or None
    page = matching_sessions(store, text, limit=_SESSIONS, after=after)
    form = tag(
        "form",
        tag("label", "Filter ", tag("input", type="search", name="text", value=text)),
        tag("button", "Filter"),
        action=LIST,
        class_="tools",
    )
    following = (
        link_to("Older sessions →", address(LIST, text=text or None, after=page.next))
        if page.next
        else None
    )
    costs = request.app.state.costs.of(store, page.sessions)
    rows = _Rows(_names(store, page.sessions), costs, system_clock())
    body = (
        tag("ul", rows.families(page.sessions), class_="sessions")
        if page.sessions
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


def _names(store: "Store", rows: Sequence[SessionRow]) -> dict[str, str]:
    """The names of these sessions, and of those that they were forked from or belong to."""
    names = {row.session_id: session_title(row) for row in rows}
    others = {name for row in rows for name in (row.forked_from, row.parent) if name is not None}
    for name in sorted(others - names.keys()):
        try:
            names[name] = session_title(store.session(name).info())
        except (SessionNotFound, SessionArchived):
            continue
    return names


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a list: the names of sessions by id, what they cost, and the time."""

    names: Mapping[str, str]
    costs: Mapping[str, SessionCost]
    now: int

    def families(self, rows: Sequence[SessionRow]) -> Iterable[Html]:
        """The sessions, those of sub-agents under their parents as far as both are on the page."""
        here = {row.session_id for row in rows}
        children: defaultdict[str, list[SessionRow]] = defaultdict(list)
        for row in rows:
            if row.parent in here and row.parent is not None:
                children[row.parent].append(row)
        return [self._row(row, children) for row in rows if row.parent not in here]

    def _row(self, row: SessionRow, children: Mapping[str, Sequence[SessionRow]]) -> Html:
        own = children.get(row.session_id, ())
        family = None
        if own:
            # A family may be deep, but a list that is nested without end has no room left.
            inside = tag("ul", (self._row(child, children) for child in own), class_="family")
            family = tag("details", tag("summary", quantity(len(own), "sub-agent")), inside)
        name = link_to(self.names[row.session_id], session_path(row.session_id), class_="name")
        return tag("li", name, self._facts(row), family)

    def _facts(self, row: SessionRow) -> Html:
        context, tool = row.context, tool_named(row.metadata)
        when = f"{age(row.happened_at, self.now)} ago"
        forked, parent = row.forked_from, row.parent
        return facts(
            tag("code", row.short_id),
            tool and tool[:40],
            tag("time", when, title=local_time(row.happened_at)),
            f"{quantity(row.messages, 'message')}, the model sees {row.visible_messages:,}",
            size(row.bytes),
            context.model[:60] if context.model else None,
            # The view of an archived session is not in the database.
            _fill(context) if context.limit and row.archived_at is None else None,
            self._cost(row),
            ["fork of ", self._origin(forked, row.forked_at)] if forked is not None else None,
            ["sub-agent of ", self._link(parent, session_path(parent))] if parent else None,
        )

    def _cost(self, row: SessionRow) -> Child:
        cost = self.costs.get(row.session_id)
        if cost is None:
            # An archived session has no page of its usage.
            usage = address(f"{session_path(row.session_id)}/usage")
            return None if row.archived_at is not None else link_to("cost", usage)
        if cost.dollars is None:
            return None
        return f"${cost.dollars:.2f}{' or more' if cost.unpriced else ''}"

    def _origin(self, session_id: str, seq: int | None) -> Child:
        path = session_path(session_id)
        return [self._link(session_id, f"{path}/e/{seq}" if seq else path), f" at entry {seq}"]

    def _link(self, session_id: str, to: str) -> Child:
        """A session by its name, if it still exists."""
        name = self.names.get(session_id)
        return tag("code", session_id[:60]) if name is None else link_to(name[:60], to)


def _fill(context: Gauge) -> Child:
    """How full the context window is."""
    limit = context.limit or 1
    share = f"{round(100 * context.tokens / limit)} %"
    filled = min(context.tokens, limit)
    meter = tag("meter", share, min=0, max=limit, value=filled, aria_label="Context window")
    return [meter, f" {'' if context.exact else '~'}{share} full"]
