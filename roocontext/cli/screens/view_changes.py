"""What a rewind, an undo or an uncovering did, and how to take it back."""

from typing import TYPE_CHECKING

from rich.cells import cell_len

from roocontext.cli.screens import timeline
from roocontext.cli.screens.next_commands import draw_next, next_command
from roocontext.cli.screens.safe_text import named
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.reports.naming import quantity
from roocontext.reports.times import zoned_time

if TYPE_CHECKING:
    from roocontext.reports.undo import ViewChange


def draw_view_change(screen: Screen, answer: "ViewChange", *, short: str) -> None:
    """What was done, how the view changed, its last message, and the command that reverses it.

    `short` is the id of the session, as short as it can be typed.
    """
    name = named(short, screen.signs.more)
    if answer.target is not None and answer.target_time is not None:
        when = zoned_time(answer.target_time)
        screen.line((f"The message is entry {answer.target}, from {when}.", "note"))
    if not answer.changed:
        screen.line(_unchanged(answer, name))
        return
    done = f"{_done(answer, name)} {_moved(answer)}."
    reverse = _reverse(answer, short)
    if not reverse or cell_len(f"{done} {reverse}") <= screen.width:
        screen.line(f"{done} {reverse}".rstrip())
    else:  # a command is easier to copy on a line of its own
        screen.line(done)
        screen.line(reverse)
    if answer.seq is not None and not answer.dry_run:
        draw_next(screen, "Compare", next_command(short, f"diff {{}} {answer.seq - 1}"))
    if answer.last is not None:
        screen.line(
            ("The view would end with:" if answer.dry_run else "The view ends with:", "note")
        )
        timeline.draw_brief(screen, answer.last, " ", "")
    elif answer.uncovered is None:
        screen.line(f"The view {'would be' if answer.dry_run else 'is'} empty.")
    end = "Nothing was changed." if answer.dry_run else "Files of the project are untouched."
    screen.line((end, "note"))


def _reverse(answer: "ViewChange", short: str) -> str:
    """The command that takes it back, if there is something to take back."""
    command = "" if answer.dry_run else next_command(short, "undo {}")
    return f"{'Undo' if answer.undone is None else 'Redo'}: `{command}`" if command else ""


def _unchanged(answer: "ViewChange", name: str) -> str:
    if answer.uncovered is None:
        return f"{name} is already as it was after entry {answer.to}. Nothing changed."
    return (
        f"Entry {answer.uncovered} of {name} is already uncovered, by entry {answer.seq}."
        " Nothing changed."
    )


def _done(answer: "ViewChange", name: str) -> str:
    dry = answer.dry_run
    if answer.undone is not None:
        return f"{'Would undo' if dry else 'Undid'} {answer.undone_kind} {answer.undone} of {name}."
    if answer.uncovered is not None:
        return f"{'Would uncover' if dry else 'Uncovered'} entry {answer.uncovered} of {name}."
    return f"{'Would rewind' if dry else 'Rewound'} {name} to entry {answer.to}."


def _moved(answer: "ViewChange") -> str:
    """How many messages left the view and came back, and how many outputs are shown again."""
    would = "would " * answer.dry_run
    parts = []
    if answer.left:
        left = quantity(answer.left, "message")
        parts.append(f"{left} {would}{'leave' if would else 'left'} the view")
    if answer.returned:
        came = f"{would}{'come' if would else 'came'} back"
        what = f"{answer.returned:,}" if parts else quantity(answer.returned, "message")
        parts.append(f"{what} {came}")
    if answer.restored:
        shown = "would be" if would else "is" if answer.restored == 1 else "are"
        parts.append(f"{quantity(answer.restored, 'tool output')} {shown} shown again")
    if not parts and answer.undone_kind == Kind.UNCOVERING:
        return f"Tool outputs {'would be' if would else 'are'} cleared again"
    return ", ".join(parts) or f"No message {would}{'leave' if would else 'left'} the view"
