"""What an import has found, and what an export has written."""

from collections import Counter
from typing import TYPE_CHECKING

from roocontext.cli.screens.safe_text import named, one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.words import quantity, size

if TYPE_CHECKING:
    from roocontext.reports.transfers import Exported, Import, ImportedSession

_SHOWN = 3
"""How many of the blocks are named that an export has left out."""
_LISTED = 20
"""How many files without sessions are listed, of those with which nothing is wrong."""


def draw_import(screen: Screen, answer: "Import") -> None:
    """Each session that has changed, each problem, and how many others there are."""
    changed = [one for one in answer.sessions if one.status != "unchanged" or one.problems]
    for one in changed:
        screen.line(_session(one, screen), indent=0)
        for problem in one.problems:
            screen.line((one_line(problem), "warn"), indent=2)
    usual = [one for one in answer.skipped if not one.is_problem]
    for skipped in (*usual[:_LISTED], *(one for one in answer.skipped if one.is_problem)):
        style = "warn" if skipped.is_problem else "note"
        screen.line((f"Skipped {one_line(skipped.path)}: {one_line(skipped.why)}.", style))
    if (rest := len(usual) - _LISTED) > 0:
        screen.line((f"Skipped {quantity(rest, 'more file')}.", "note"))
    would = "Would import" if answer.dry_run else "Imported"
    counts = Counter(one.status for one in answer.sessions)
    unchanged, failed = counts.pop("unchanged", 0), counts.pop("failed", 0)
    failures = f", {failed} failed" if failed else ""
    taken = quantity(counts.total(), "session")
    screen.line(f"{would} {taken}, {unchanged} unchanged{failures}.")


def draw_export(screen: Screen, answer: "Exported") -> None:
    """The files, and how large they are together."""
    name = named(answer.session_id, screen.signs.more)
    first, *others = answer.files
    more = f" and {quantity(len(others), 'more file')}" if others else ""
    screen.line(
        f"Wrote {name} as {answer.format} to {one_line(first)}{more}, {size(answer.bytes)}."
    )
    if answer.left_out:
        shown = ", ".join(answer.left_out[:_SHOWN])
        rest = f" and {len(answer.left_out) - _SHOWN:,} more" if answer.left_out[_SHOWN:] else ""
        screen.line(f"Left out, because only its provider knows it: {one_line(shown)}{rest}.")


def _session(one: "ImportedSession", screen: Screen) -> str:
    name = named(one.session_id, screen.signs.more) if one.session_id else "a session"
    what = quantity(one.messages, "message")
    if one.again:
        what += f" ({one.again} written again behind a summary)"
    what += f", {quantity(one.notes, 'note')}"
    if one.controls:
        what += f", {quantity(one.controls, 'control row')}"
    if one.redacted:
        what += f", {quantity(one.redacted, 'copy', 'copies')} of redacted messages erased"
    forked = f" from {named(one.forked_from, screen.signs.more)}" if one.forked_from else ""
    return f"{one.status}{forked}: {name}, {what}"
