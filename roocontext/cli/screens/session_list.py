"""The list of sessions."""

from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len

from roocontext.cli.screens import meter
from roocontext.cli.screens.next_commands import draw_hint, next_command
from roocontext.cli.screens.safe_text import cut_line, one_line, unbroken
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import age

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roocontext.reports.sessions import PurgedRow, SessionRow, Sessions

Cells: TypeAlias = "Mapping[str, tuple[str, str]]"
"""The cells of a row by their headings, each with its style. The last one is text."""

_ID, _NARROW_ID = 32, 10
"""The most columns of an id."""
_GAP = "  "
_LEAST = 8
"""The least number of columns for the text of a row."""
_GO_FIRST = ("messages", "age", "purged", "full")
"""The columns that a narrow screen leaves out, in the order in which they are left out."""


def draw_sessions(
    screen: Screen,
    answer: "Sessions",
    *,
    now: int,
    text: str = "",
    has_filter: bool = False,
    recorded: bool = False,
) -> None:
    """A row for each session: id, age, gauge, number of messages, and title or first prompt."""
    if not answer.sessions and has_filter:
        screen.line("No session matches.")
    elif not answer.sessions:
        about = f"No session has {one_line(text)!r} in its id, title or first prompt."
        screen.line(about if text else "No sessions.")
    _draw(screen, [_session(screen, row, now, recorded=recorded) for row in answer.sessions])
    _draw_more(screen, answer)
    if answer.sessions:
        show = next_command(answer.sessions[0].short_id, "show {}")
        draw_hint(screen, "What the model sees of one", show)


def draw_purged_list(screen: Screen, answer: "Sessions", *, now: int) -> None:
    """A row for each purged session: its id, when it was purged, and how much was deleted."""
    if not answer.purged:
        screen.line("No purged session matches.")
    _draw(screen, [_purged(screen, row, now) for row in answer.purged])
    _draw_more(screen, answer)


def _draw_more(screen: Screen, answer: "Sessions") -> None:
    if answer.next is not None:
        screen.line(("There are more: --limit shows more, TEXT searches all.", "note"))


def _session(screen: Screen, row: "SessionRow", now: int, *, recorded: bool) -> Cells:
    time = row.updated_at if recorded else row.happened_at
    archived, full = "[archived] ", "-"
    if row.archived_at is None:
        archived, full = "", meter.window_share(row.context)
    return {
        "id": (_name(screen, row.session_id if screen.endless else row.short_id), "title"),
        "age": (age(time, now), "note"),
        "full": (full, meter.bar(screen, row.context)[1]),
        "messages": (f"{row.messages:,}", ""),
        "title or first prompt": (f"{archived}{one_line(row.title or row.first_prompt or '')}", ""),
    }


def _purged(screen: Screen, row: "PurgedRow", now: int) -> Cells:
    return {
        "id": (_name(screen, row.session_id), "title"),
        "purged": (age(row.purged_at, now), "note"),
        "messages": (f"{row.messages:,}", ""),
        "size": (f"{size(row.bytes)} in {quantity(row.entries, 'entry', 'entries')}", ""),
    }


def _name(screen: Screen, name: str) -> str:
    if screen.endless:
        return unbroken(name)
    return cut_line(unbroken(name), _NARROW_ID if screen.narrow else _ID, screen.signs.more)


def _draw(screen: Screen, rows: "Sequence[Cells]") -> None:
    """Draw the rows in columns below their headings. Only the text is cut."""
    if not rows:
        return
    *names, _ = rows[0]
    widths = {
        name: max(cell_len(name), *(cell_len(row[name][0]) for row in rows)) for name in names
    }
    for name in _GO_FIRST:
        if _room(screen, widths) < _LEAST:
            widths.pop(name, None)
    headings = {name: (name, "note") for name in rows[0]}
    for row in (headings, *rows):
        parts = [
            (_filled(row[name][0], name, width), row[name][1]) for name, width in widths.items()
        ]
        text, style = [*row.values()][-1]
        few = cut_line(text, max(_LEAST, _room(screen, widths)), screen.signs.more)
        screen.line(*parts, (few, style))


def _room(screen: Screen, widths: "Mapping[str, int]") -> int:
    """The number of columns left for the text."""
    return screen.width - sum(width + len(_GAP) for width in widths.values())


def _filled(text: str, name: str, width: int) -> str:
    spaces = " " * (width - cell_len(text))
    return f"{text}{spaces}{_GAP}" if name == "id" else f"{spaces}{text}{_GAP}"
