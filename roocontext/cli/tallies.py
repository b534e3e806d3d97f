"""Numbers about sessions, drawn: the list of sessions, sizes, what was used."""

from roocontext.cli import gauge, shapes
from roocontext.cli.showing import Screen
from roocontext.cli.wording import counted, moment, named, one_line, size


def sessions(screen: Screen, answer: shapes.Sessions) -> None:
    """Two lines for each session."""
    if not answer["sessions"]:
        screen.line("No sessions.")
    for row in answer["sessions"]:
        _session(screen, row)
    if answer["more"]:
        screen.line(("There are more: --limit shows them, TEXT finds them.", "note"))


def stats(screen: Screen, answer: shapes.StatsReport) -> None:
    """How much there is, and what became of it."""
    if answer["session_id"] is None:
        screen.line((counted(answer["sessions"], "session"), "title"))
    else:
        screen.line((named(answer["session_id"]), "title"))
    screen.table(
        ("", "messages", "size"),
        [
            ("visible", f"{answer['visible_messages']:,}", size(answer["visible_bytes"])),
            ("hidden", f"{answer['hidden_messages']:,}", size(answer["hidden_bytes"])),
            ("taken back", f"{answer['rewound_messages']:,}", size(answer["rewound_bytes"])),
            ("all", f"{answer['messages']:,}", size(answer["bytes"])),
        ],
    )
    screen.line(counted(answer["entries"], "entry", "entries"), " in the log")


def usage(screen: Screen, answer: shapes.UsageReport) -> None:
    """What roles and tools cost, and what the calls of models have cost."""
    what = "everything ever said" if answer["everything"] else "what the model sees"
    screen.line((named(answer["session_id"]), "title"), f" {screen.signs.dot} {what}")
    context(screen, answer["context"])
    _tallies(screen, "role", "messages", answer["roles"], answer["context"])
    _tallies(screen, "tool", "blocks", answer["tools"], answer["context"])
    rows = [_model(row) for row in answer["models"]]
    if answer["summaries"]["count"]:
        rows.append(_summaries(answer["summaries"]))
    if rows:
        screen.blank()
        screen.table(("model", "calls", "sent", "cached", "answered", "drift", "cost"), rows)


def context(screen: Screen, found: shapes.Gauge) -> None:
    """The gauge of the context window, on a line."""
    bar, style = gauge.bar(screen, found)
    model = one_line(found["model"]) if found["model"] else "no model is known: --model names one"
    about = f" {screen.signs.dot} {model} {screen.signs.dot} counted by {found['counter']}"
    screen.line((f"{bar} " if bar else "", style), gauge.words(found), (about, "note"))


def _session(screen: Screen, row: shapes.SessionRow) -> None:
    title = one_line(row["title"]) if row["title"] else ""
    screen.line((named(row["session_id"]), "title"), f"  {title}" if title else "")
    bar, style = gauge.bar(screen, row["context"])
    seen = f"{counted(row['messages'], 'message')}, {row['visible_messages']:,} seen"
    dot = screen.signs.dot
    screen.line(
        (moment(row["updated_at"]), "note"),
        f" {dot} {seen} {dot} {size(row['bytes'])} {dot} ",
        (f"{bar} " if bar else "", style),
        gauge.words(row["context"]),
        indent=0 if screen.narrow else 2,
    )


def _tallies(
    screen: Screen,
    heading: str,
    counts: str,
    rows: list[shapes.Tally],
    found: shapes.Gauge,
) -> None:
    if not rows:
        return
    sign = "" if found["exact"] else "~"
    screen.blank()
    screen.table(
        (heading, counts, "tokens"),
        [(one_line(row["name"]), f"{row['count']:,}", f"{sign}{row['tokens']:,}") for row in rows],
    )


def _model(row: shapes.ModelUsage) -> tuple[str, ...]:
    numbers = (f"{row[key]:,}" for key in ("calls", "input", "cached", "output"))
    drift = "-" if row["ratio"] is None else f"x{row['ratio']:.2f}"
    return (one_line(row["model"] or "(not named)"), *numbers, drift, _cost(row["cost"]))


def _summaries(row: shapes.SummaryUsage) -> tuple[str, ...]:
    name = f"({counted(row['count'], 'summary', 'summaries')})"
    numbers = (f"{row[key]:,}" for key in ("calls", "input"))
    return (name, *numbers, "-", f"{row['output']:,}", "-", _cost(row["cost"]))


def _cost(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.4f}"
