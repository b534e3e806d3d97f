"""What the model calls of many sessions have cost, as a table."""

from typing import TYPE_CHECKING

from roocontext.cli.screens.safe_text import cut_line, one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity

if TYPE_CHECKING:
    from roocontext.reports.usage import Spending, SpendingRow

_NAME = 28
"""The most columns of the name of a model or a session."""
_HEADINGS = ("sessions", "calls", "sent", "cached", "answered", "cost")


def draw_spending(screen: Screen, answer: "Spending") -> None:
    """A row for each day, model or session, and the sum."""
    if not answer.rows:
        screen.line("No usage was recorded.")
        return
    screen.table((answer.by, *_HEADINGS), [_cells(screen, row) for row in answer.rows])
    made = f"{quantity(answer.calls, 'call')} in {quantity(answer.sessions, 'session')}"
    screen.line((f"{made}: {_cost(answer)}.", "note"))


def _cost(answer: "Spending") -> str:
    if answer.cost is None:
        return "no cost is known"
    without = f", without {quantity(answer.unpriced, 'call')}" if answer.unpriced else ""
    return f"${answer.cost:.4f}{without}, as recorded or by the prices of {answer.priced}"


def _cells(screen: Screen, row: "SpendingRow") -> tuple[str, ...]:
    name = cut_line(one_line(row.name), _NAME, screen.signs.more)
    counts = (row.sessions, row.calls, row.input, row.cached, row.output)
    cost = "-" if row.cost is None else f"{row.cost:.4f}"
    return (name, *(f"{count:,}" for count in counts), cost)
