"""The sessions that were archived or would be, and those that were left."""

from typing import TYPE_CHECKING, Final

from roocontext.cli.screens.safe_text import one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import age

if TYPE_CHECKING:
    from roocontext.reports.archiving import ArchivingReport

_LISTED: Final = 10
_WHY: Final = {
    "changed": "it was changed meanwhile",
    "turn": "a runner has its turn",
    "damaged": "it is damaged: `roocontext verify` says where",
}


def draw_archiving(screen: Screen, answer: "ArchivingReport", *, now: int) -> None:
    """The first sessions with their files, every session that was left, and the sums."""
    for row in answer.archived[:_LISTED]:
        counts = f"{quantity(row.messages, 'message')}, {size(row.bytes)}"
        screen.line(f"{screen.name(row.session_id)}  {age(row.happened_at, now)}  {counts}")
        if row.file is not None:
            screen.raw(one_line(row.file), indent=2)
    if (more := len(answer.archived) - _LISTED) > 0:
        screen.line((f"and {more:,} more", "note"))
    for left in answer.left:
        screen.line((f"Left {screen.name(left.session_id)}: {_WHY[left.why]}.", "warn"))
    if not (answer.archived or answer.left):
        screen.line("No session is that old. Nothing was archived.")
        return
    sums = (
        f"{quantity(len(answer.archived), 'session')} with {quantity(answer.messages, 'message')}"
    )
    if answer.dry_run:
        screen.line(f"This would archive {sums}, {size(answer.bytes)}.")
    else:
        screen.line(f"Archived {sums}: {size(answer.bytes)} in files of {size(answer.size)}.")
