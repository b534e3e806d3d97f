"""What the model calls of many sessions have cost: by day, by model or by session."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from math import fsum
from typing import TYPE_CHECKING

from roocontext.reports.document import Document, Text
from roocontext.reports.times import local_time
from roocontext.tokens import prices, spending

if TYPE_CHECKING:
    from roocontext import ReportedUsage, Store
    from roocontext.tokens import Prices

BY: "Mapping[str, Callable[[ReportedUsage, int], str]]" = {
    "day": lambda _, time: local_time(time).split()[0],
    "model": lambda row, _: row.model or "(not named)",
    "session": lambda row, _: row.session_id,
}
"""What calls can be summed up by."""


class SpendingRow(Document):
    """The calls of a day, a model or a session, those that wrote summaries included.

    `cached` of the input was read from a cache. `cost` is in dollars; `unpriced` calls are not in
    it, because no cost was recorded and the table of prices does not have their model.
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
    """What the model calls of all sessions have cost, `by` day, model or session.

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
    by: str = "day",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    recorded: bool = False,
    table: "Prices | None" = None,
) -> Spending:
    """The calls of all sessions that happened since a time and before another.

    If `recorded`, their time is when they were recorded.
    """
    used = prices() if table is None else table
    reported = store.usage(since=since, until=until, recorded=recorded)
    groups: defaultdict[str, list[ReportedUsage]] = defaultdict(list)
    for row in reported:
        time = row.recorded_at if recorded else row.happened_at
        groups[BY[by](row, time)].append(row)
    rows = [_row(name, group, used) for name, group in groups.items()]
    everything = _row("", reported, used)
    if by == "day":
        rows.sort(key=lambda row: row.name)
    else:
        rows.sort(key=lambda row: (-(row.cost or 0), -row.input, row.name))
    return Spending(
        by=by,
        sessions=everything.sessions,
        calls=everything.calls,
        unpriced=everything.unpriced,
        priced=used.date,
        cost=everything.cost,
        rows=rows,
    )


def _row(name: str, reported: "list[ReportedUsage]", table: "Prices") -> SpendingRow:
    spent = spending(reported, table)
    costs = [one.cost for one in spent if one.cost is not None]
    return SpendingRow(
        name=name,
        sessions=len({row.session_id for row in reported}),
        calls=sum(one.calls for one in spent),
        input=sum(one.input for one in spent),
        cached=sum(one.cached for one in spent),
        output=sum(one.output for one in spent),
        unpriced=sum(one.unpriced for one in spent),
        cost=fsum(costs) if costs else None,
    )
