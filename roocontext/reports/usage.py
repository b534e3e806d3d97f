"""The tokens of messages by role and by tool, and the costs of model calls.

The costs are those of one session, or of all by day, by model or by session.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import fsum
from typing import TYPE_CHECKING, Any

from roocontext.log.counting import count_message
from roocontext.log.entries import MESSAGE_KINDS, NewMessage
from roocontext.log.readings import pieces, read_message
from roocontext.reports import gauge
from roocontext.reports.document import Document, Text
from roocontext.reports.gauge import Gauge
from roocontext.reports.history import tool_of
from roocontext.tokens import counter_for, prices, spending

if TYPE_CHECKING:
    from roocontext import Message, Session, Store
    from roocontext.log.counting import Counter, ReportedUsage
    from roocontext.store.reading.usage import UsageGrouping
    from roocontext.tokens import Prices, Spent


class Tally(Document):
    """The tokens of the messages of a role, or of the calls and results of a tool."""

    name: Text
    count: int
    tokens: int


class ModelUsage(Document):
    """The usage that the provider reported for the calls of a model.

    `cached` tokens of the input were read from a cache, and `written` tokens were written to one.
    `thinking` is a part of the output, null if it was not reported. `ratio` is the factor from the
    session's own estimates to the reported usage. `cost` is in dollars: the recorded costs, and for
    calls without one, the costs by the table of prices. `unpriced` calls have neither.
    """

    model: str | None
    calls: int
    input: int
    output: int
    cached: int
    written: int
    thinking: int | None
    unpriced: int
    estimated: int | None
    ratio: float | None
    cost: float | None


class SummaryUsage(Document):
    """The costs of the summaries, as far as the summarisers reported them.

    `count` is the number of summaries. The other sums include the calls that failed.
    """

    count: int
    calls: int
    input: int
    output: int
    unpriced: int
    cost: float | None


class UsageReport(Document):
    """The tokens of the view by role and by tool, and the costs of the model calls.

    With `family`, the models and summaries are those of the session and all its descendants, and
    `sessions` is the number of these that reported usage. `cost` is the sum of all known costs, in
    dollars, by the table of prices of the date `priced`.
    """

    session_id: str
    everything: bool
    family: bool
    sessions: int
    priced: str
    cost: float | None
    context: Gauge
    roles: list[Tally]
    tools: list[Tally]
    models: list[ModelUsage]
    summaries: SummaryUsage


def usage_of(
    chat: "Session", given: str | None = None, *, everything: bool = False, family: bool = False
) -> UsageReport:
    """The usage of a session: of the messages that the model sees, or of all in the log.

    With `family`, the calls are those of the session and all its descendants.
    """
    from roocontext.context.drift import drift_of  # noqa: PLC0415 - loads all policies

    context = gauge.counted_gauge(chat, given)
    counter = counter_for(context.model or "")
    roles, tools = _tallied(_messages(chat, everything=everything), counter)
    used = prices()
    reported = chat.usage(family=family)
    spent = spending(reported, used)
    drifts = drift_of(chat.internals.calls(), counter.name)
    return UsageReport(
        session_id=chat.id,
        everything=everything,
        family=family,
        sessions=len({row.session_id for row in reported}),
        priced=used.date,
        cost=_cost(spent),
        context=context,
        roles=_rows(roles),
        tools=_rows(tools),
        models=[
            ModelUsage.of(row, drifts.get(row.model or "")) for row in spent if not row.is_summary
        ],
        summaries=SummaryUsage.of(
            count=sum(row.is_summary and not row.is_failed for row in reported),
            **_sums([row for row in spent if row.is_summary], SummaryUsage),
        ),
    )


def _messages(chat: "Session", *, everything: bool) -> "Iterator[Message | NewMessage]":
    """The visible messages, or all."""
    if not everything:
        yield from chat.view().messages
        return
    for entry in chat.audit():
        if entry.kind in MESSAGE_KINDS:
            form = entry.entry.format or "anthropic"
            yield NewMessage(entry.role or "", entry.content, form)


def _tallied(
    messages: "Iterable[Message | NewMessage]", counter: "Counter"
) -> tuple[Mapping[str, list[int]], Mapping[str, list[int]]]:
    """The tokens of each message by role, and those of each call and result by tool."""
    roles: defaultdict[str, list[int]] = defaultdict(list)
    tools: defaultdict[str, list[int]] = defaultdict(list)
    called: dict[str, str] = {}
    for message in messages:
        roles[message.role].append(count_message(counter, message))
        read_role, blocks = read_message(message)
        for piece in pieces(blocks):
            tool = tool_of(piece, called)
            if tool is not None:
                tools[tool].append(counter.count(read_role, [piece.block], "anthropic"))
    return roles, tools


def _rows(tallies: Mapping[str, list[int]]) -> list[Tally]:
    """The tallies, the highest first."""
    rows = [Tally(name=name, count=len(own), tokens=sum(own)) for name, own in tallies.items()]
    return sorted(rows, key=lambda row: (-row.tokens, row.name))


def cost_of(chat: "Session") -> tuple[float | None, int]:
    """The sum of the known costs of a session's calls, and the number of calls without a cost."""
    spent = spending(chat.usage(), prices())
    return _cost(spent), sum(row.unpriced for row in spent)


def _sums(spent: "Sequence[Spent]", document: type[Document]) -> dict[str, Any]:
    """The sums of some calls that a document has fields for."""
    names = {"calls", "input", "cached", "output", "unpriced"} & document.model_fields.keys()
    return {name: sum(getattr(row, name) for row in spent) for name in names} | {
        "cost": _cost(spent)
    }


def _cost(spent: "Iterable[Spent]") -> float | None:
    """The sum of the known costs, if there is any."""
    costs = [row.cost for row in spent if row.cost is not None]
    return fsum(costs) if costs else None


class SpendingRow(Document):
    """The calls of a day, a model or a session, including those that wrote summaries.

    `cached` tokens of the input were read from a cache. `cost` is in dollars, without the
    `unpriced` calls: no cost was recorded for these, and the table of prices has none for them.
    """

    name: Text
    sessions: int
    calls: int
    input: int
    cached: int
    output: int
    unpriced: int
    cost: float | None


class Spending(Document):
    """The costs of the model calls of all sessions, `by` day, model or session.

    Days are those of the local time zone. `cost` is the sum of all known costs, in dollars, by the
    table of prices of the date `priced`.
    """

    by: str
    sessions: int
    calls: int
    unpriced: int
    priced: str
    cost: float | None
    rows: list[SpendingRow]


def spending_of(
    store: "Store",
    by: "UsageGrouping" = "day",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Mapping[str, str] | None = None,
    recorded: bool = False,
) -> Spending:
    """The calls of all sessions, or of those with metadata, that happened between two times.

    If `recorded`, their time is when they were recorded.
    """
    used = prices()
    groups = store.usage(since=since, until=until, where=where, recorded=recorded, by=by, zone=None)
    rows = [_row(group.name or "(not named)", group.rows, used) for group in groups]
    if by != "day":
        rows.sort(key=lambda row: (-(row.cost or 0), -row.input, row.name))
    total = _row("", [row for group in groups for row in group.rows], used)
    return Spending.of(total, by=by, priced=used.date, rows=rows)


def _row(name: str, reported: "Sequence[ReportedUsage]", table: "Prices") -> SpendingRow:
    sessions = len({row.session_id for row in reported})
    sums = _sums(spending(reported, table), SpendingRow)
    return SpendingRow(name=name, sessions=sessions, **sums)
