"""Tables of sizes, usage and costs."""

from typing import TYPE_CHECKING

from rich.cells import cell_len

from roocontext.cli.screens import meter
from roocontext.cli.screens.safe_text import cut_line, one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity, size

if TYPE_CHECKING:
    from roocontext.reports import usage
    from roocontext.reports.gauge import Gauge
    from roocontext.reports.sessions import StatsReport

_NAME = 16
"""The least number of columns for the name of a tool or model."""
_WIDEST = 28
"""The most columns of the name of a model or a session in a list."""


def draw_stats(screen: Screen, answer: "StatsReport") -> None:
    """The number of visible, hidden and rewound messages, and their sizes."""
    if answer.session_id is None:
        screen.line((quantity(answer.sessions, "session"), "title"))
    else:
        screen.line((screen.name(answer.session_id), "title"))
    screen.table(
        ("", "messages", "size"),
        [
            ("visible", f"{answer.visible_messages:,}", size(answer.visible_bytes)),
            ("hidden", f"{answer.hidden_messages:,}", size(answer.hidden_bytes)),
            ("taken back", f"{answer.rewound_messages:,}", size(answer.rewound_bytes)),
            ("all", f"{answer.messages:,}", size(answer.bytes)),
        ],
    )
    screen.line(quantity(answer.entries, "entry", "entries"), " in the log")


def draw_usage(screen: Screen, answer: "usage.UsageReport") -> None:
    """The tokens of roles and tools, and the costs of the model calls."""
    screen.line((screen.name(answer.session_id), "title"))
    draw_context(screen, answer.context)
    what = "every message ever written" if answer.everything else "what the model sees"
    if answer.roles:
        screen.blank()
        screen.line(f"By role and by tool, {what}:")
    _tallies(screen, "role", "messages", answer.roles, answer.context)
    _tallies(screen, "tool", "blocks", answer.tools, answer.context)
    rows = [_model(screen, row) for row in answer.models]
    if answer.summaries.count or answer.summaries.calls:
        rows.append(_summaries(answer.summaries))
    if rows:
        screen.blank()
        if answer.family:
            screen.line(f"Model calls of {quantity(answer.sessions, 'session')} of the family:")
        screen.table(("model", "calls", "sent", "cached", "answered", "drift", "cost"), rows)
        screen.line((_priced(screen, answer), "note"))


def draw_context(screen: Screen, found: "Gauge") -> None:
    """The gauge of the context window, on one line or two."""
    bar, style = meter.bar(screen, found)
    model = found.model
    named_ = _short(screen, model) if model else "no model is known: name one with --model"
    dot = screen.signs.dot
    full = meter.size_in_words(found)
    about = f"{named_} {dot} {meter.source(found)}"
    start = f"{bar} " if bar else ""
    if cell_len(f"{start}{full} {dot} {about}") <= screen.width:
        screen.line((start, style), full, (f" {dot} {about}", "note"))
        return
    screen.line((start, style), full)
    screen.line((about, "note"))


def _tallies(
    screen: Screen, heading: str, counts: str, rows: "list[usage.Tally]", found: "Gauge"
) -> None:
    if not rows:
        return
    sign = "" if found.exact else "~"
    screen.blank()
    screen.table(
        (heading, counts, "tokens"),
        [(_short(screen, row.name), f"{row.count:,}", f"{sign}{row.tokens:,}") for row in rows],
    )


def _model(screen: Screen, row: "usage.ModelUsage") -> tuple[str, ...]:
    numbers = (f"{count:,}" for count in (row.calls, row.input, row.cached, row.output))
    drift = "-" if row.ratio is None else f"x{row.ratio:.2f}"
    return (_short(screen, row.model or "(not named)"), *numbers, drift, _cost(row.cost))


def _summaries(row: "usage.SummaryUsage") -> tuple[str, ...]:
    name = f"({quantity(row.count, 'summary', 'summaries')})"
    numbers = (f"{count:,}" for count in (row.calls, row.input))
    return (name, *numbers, "-", f"{row.output:,}", "-", _cost(row.cost))


def _priced(screen: Screen, answer: "usage.UsageReport") -> str:
    """The sum of the costs, and the models without a known cost."""
    unknown = [_short(screen, row.model or "(not named)") for row in answer.models if row.unpriced]
    if answer.summaries.unpriced:
        unknown.append("some summaries")
    known = "No cost is known" if answer.cost is None else f"All together ${answer.cost:.4f}"
    without = f"; without {', '.join(unknown)}" if unknown else ""
    return f"{known}, as recorded or by the prices of {answer.priced}{without}."


def _short(screen: Screen, name: str) -> str:
    """A name, cut to the room that a table has for it."""
    return cut_line(one_line(name), max(_NAME, screen.width // 2 - 4), screen.signs.more)


def _cost(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.4f}"


_SPENT = ("sessions", "calls", "sent", "cached", "answered", "cost")


def draw_spending(screen: Screen, answer: "usage.Spending") -> None:
    """A row for each day, model or session, and the sum."""
    if not answer.rows:
        screen.line("No usage was recorded.")
        return
    screen.table((answer.by, *_SPENT), [_cells(screen, row) for row in answer.rows])
    calls = f"{quantity(answer.calls, 'call')} in {quantity(answer.sessions, 'session')}"
    screen.line((f"{calls}: {_total(answer)}.", "note"))


def _total(answer: "usage.Spending") -> str:
    if answer.cost is None:
        return "no cost is known"
    without = f", without {quantity(answer.unpriced, 'call')}" if answer.unpriced else ""
    return f"${answer.cost:.4f}{without}, as recorded or by the prices of {answer.priced}"


def _cells(screen: Screen, row: "usage.SpendingRow") -> tuple[str, ...]:
    name = cut_line(one_line(row.name), _WIDEST, screen.signs.more)
    counts = (row.sessions, row.calls, row.input, row.cached, row.output)
    return (name, *(f"{count:,}" for count in counts), _cost(row.cost))
