"""Sums of the providers' reports: tokens by model and kind, and their cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from roocontext.log.counting import ReportedUsage
from roocontext.log.encoding import MAX_INTEGER
from roocontext.tokens.prices import Prices, prices
from roocontext.tokens.usage import Usage, usage_tokens

_COSTS: Final = ("cost", "total_cost", "cost_usd")
"""The names under which agents record the cost of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The calls of one model: its replies, or the summaries that it wrote.

    `input` is everything that was sent; `cached` of it was read from a cache, and `written` to one.
    `thinking` is the part of `output` that the provider reported as such, None if it reports none.
    `cost` is in dollars: the cost recorded with a call, or else that of the table of prices. The
    `unpriced` calls have neither and are not in the cost; if all are unpriced, it is None. A
    summary by several calls has only their sum: if that is a long request's, it is unpriced.
    """

    model: str | None
    is_summary: bool
    calls: int
    input: int
    output: int
    cached: int
    written: int
    thinking: int | None
    cost: float | None
    unpriced: int


def spending(rows: Iterable[ReportedUsage], table: Prices | None = None) -> tuple[Spent, ...]:
    """Sum the result of a session's `usage()` by model; summaries are separate.

    The table of prices is the built-in one, unless another is given.
    """
    by_model: defaultdict[tuple[bool, str | None], list[Any]] = defaultdict(list)
    for row in rows:
        if _calls(row):
            by_model[row.is_summary, row.model].append(row)
    used = prices() if table is None else table
    return tuple(_spent(rows, used) for rows in by_model.values())


def _spent(rows: list[ReportedUsage], table: Prices) -> Spent:
    read = [usage_tokens(row.usage) or Usage(0, 0, 0) for row in rows]
    costs = [_cost(row, table) for row in rows]
    known = [cost for cost in costs if cost is not None]
    thinking = [usage.thinking for usage in read if usage.thinking is not None]
    return Spent(
        model=rows[0].model,
        is_summary=rows[0].is_summary,
        calls=sum(map(_calls, rows)),
        input=sum(usage.input for usage in read),
        output=sum(usage.output for usage in read),
        cached=sum(usage.cached for usage in read),
        written=sum(usage.written for usage in read),
        thinking=sum(thinking) if thinking else None,
        # `sum` would let the order of the calls change the last digits.
        cost=fsum(known) if known else None,
        unpriced=sum(_calls(row) for row, cost in zip(rows, costs, strict=True) if cost is None),
    )


# An agent may record anything, so absurd values and values that are no numbers are left out.


def _calls(row: ReportedUsage) -> int:
    """The number of calls: 1 for a reply; for a summary its own number, which may be 0."""
    if not row.is_summary:
        return 1
    calls = row.usage.get("calls") if isinstance(row.usage, Mapping) else None
    return calls if type(calls) is int and calls > 0 else 0


def _cost(row: ReportedUsage, table: Prices) -> float | None:
    """The recorded cost, or else the table's for the tokens."""
    if isinstance(row.usage, Mapping):
        for name in _COSTS:
            cost = row.usage.get(name)
            if isinstance(cost, int | float) and type(cost) is not bool:
                return float(cost) if abs(cost) <= MAX_INTEGER else None
    price, usage = table.of(row.model), usage_tokens(row.usage)
    if price is None or usage is None:
        return None
    # Only the sum of the calls is known, and not which of them had the prices of long requests.
    is_ambiguous = _calls(row) > 1 and price.is_long(usage)
    return None if is_ambiguous else price.cost(usage)
