"""Redactions, purges and archives: the plan that a person confirms, and the receipt afterwards."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from roocontext.cli.screens.safe_text import cut_line, one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import age, zoned_time

if TYPE_CHECKING:
    from roocontext.reports import erasing as documents

_COPIES = 3
"""How many sessions with copies are named."""
_WORDS = 60
"""How many columns of a content or title are shown."""
_LISTED: Final = 10
_WHY: Final = {
    "changed": "it was changed meanwhile",
    "turn": "a runner has its turn",
    "damaged": "it is damaged: `roocontext verify` says where",
}


def draw_redacted(screen: Screen, answer: "documents.RedactedReport") -> None:
    """The content that is or would be erased, and the entries that may repeat it."""
    content = f"the content of entry {answer.seq}"
    if not answer.changed:
        screen.line(f"Nothing was changed: {content} was erased before.")
    else:
        copies = [copy for copy in answer.copies if copy[0] != answer.session_id]
        also = f", and its copies in {_places(screen, copies)}" if copies else ""
        screen.line(f"{'This would erase' if answer.dry_run else 'Erased'} {content}{also}.")
    if answer.owner is not None:
        owner = one_line(answer.owner)
        screen.line((f"Only the sessions of {owner} were searched for copies.", "note"))
    if answer.bytes is not None:
        words = _few(screen, answer.beginning)
        about = f"{one_line(answer.speaker or '')}, {size(answer.bytes)}: {words}"
        screen.line((about.rstrip(), "note"), indent=2)
    if answer.quotes:
        quotes = _places(screen, answer.quotes)
        screen.line(f"Entries that quote it, to be redacted too: {quotes}.")
    if answer.summaries:
        screen.line(f"Summaries that may quote it: {_places(screen, answer.summaries)}.")
    if answer.archived:
        names = _places(screen, answer.archived)
        line = f"Archived sessions that may hold it: {names}. Their files do not change."
        screen.line((line, "warn"))
    if not answer.dry_run:
        _draw_erased(screen, erased=answer.erased)


def draw_purged(screen: Screen, answer: "documents.PurgedReport") -> None:
    """A session that is or would be deleted, or the receipt of an earlier purge."""
    what = f"{quantity(answer.messages, 'message')}, {size(answer.bytes)}"
    name, when = screen.name(answer.session_id), zoned_time(answer.purged_at)
    if answer.changed and answer.dry_run:
        screen.line(f"This would delete the content of {name}: {what}.")
        for field, text in (("Title", answer.title), ("First prompt", answer.first_prompt)):
            if text:
                screen.line((f"{field}: {_few(screen, text)}", "note"), indent=2)
        if answer.happened_at is not None:
            screen.line((f"Last message: {zoned_time(answer.happened_at)}", "note"), indent=2)
    elif answer.changed:
        screen.line(f"Deleted the content of {name}: {what}, {when}.")
    else:
        screen.line(f"{name} was purged before, {when}. Its receipt: {what}.")
    if not (answer.changed and answer.dry_run):
        screen.line(f"Last hash: {answer.last_hash}")
    if answer.copies:
        _draw_copies(screen, "Copies of its entries remain in", answer.copies)
    if answer.file is not None:
        screen.line(("The archive still holds its content. Destroy this file:", "warn"))
        screen.raw(f"{one_line(answer.file)}\nSHA-256 {answer.digest}", indent=2)
    if not answer.dry_run:
        _draw_erased(screen, erased=answer.erased)


def draw_purged_sessions(
    screen: Screen, answer: "documents.PurgedSessions", *, now: int, most: int | None = None
) -> None:
    """A line for each session that is or would be deleted, or for the first, and the sums."""
    if not answer.sessions:
        screen.line("No session matches. Nothing was changed.")
        return
    for row in answer.sessions[:most]:
        since = "" if row.happened_at is None else f"  {age(row.happened_at, now)}"
        counts = f"{quantity(row.messages, 'message')}, {size(row.bytes)}"
        about = _few(screen, row.title or row.first_prompt)
        screen.line(f"{screen.name(row.session_id)}{since}  {counts}  {about}".rstrip())
    if most is not None and (left := len(answer.sessions) - most) > 0:
        screen.line(f"and {left:,} more")
    verb = "This would delete" if answer.dry_run else "Deleted"
    sessions = quantity(len(answer.sessions), "session")
    messages = quantity(answer.messages, "message")
    screen.line(f"{verb} {sessions} with {messages}, {size(answer.bytes)}.")
    gone = {row.session_id for row in answer.sessions}
    if copies := sorted({copy for row in answer.sessions for copy in row.copies} - gone):
        _draw_copies(screen, "Copies of their entries may remain in", copies)
    files = [(row.file, row.digest) for row in answer.sessions if row.file is not None]
    if files and not answer.dry_run:
        screen.line(("Archives still hold their content. Destroy these files:", "warn"))
        for file, digest in files:
            screen.raw(f"{one_line(file)}\nSHA-256 {digest}", indent=2)
    if not answer.dry_run:
        _draw_erased(screen, erased=all(row.erased for row in answer.sessions))


def _few(screen: Screen, text: str | None) -> str:
    return cut_line(one_line(text or ""), _WORDS, screen.signs.more)


def _places(screen: Screen, pairs: Iterable[Sequence[Any]]) -> str:
    """Entries of sessions: `parser 16, branch 16`."""
    return ", ".join(f"{screen.name(name)} {seq}" for name, seq in pairs)


def _draw_copies(screen: Screen, about: str, sessions: Sequence[str]) -> None:
    names = ", ".join(map(screen.name, sessions[:_COPIES]))
    left = len(sessions) - _COPIES
    screen.line((f"{about} {names}{f' and {left:,} more' if left > 0 else ''}.", "warn"))


def _draw_erased(screen: Screen, *, erased: bool) -> None:
    where = (
        "The bytes were removed from the file."
        if erased
        else "Bytes may remain in the database's log, free space or backups."
    )
    screen.line((where, "note"))


def draw_archiving(screen: Screen, answer: "documents.ArchivingReport", *, now: int) -> None:
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
