"""Redactions and purges: the questions before them, and the receipts after them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roocontext.cli.screens.safe_text import ASCII_SIGNS, cut_line, named, one_line
from roocontext.cli.screens.screen import Screen
from roocontext.reports.naming import quantity, size
from roocontext.reports.times import age, zoned_time

if TYPE_CHECKING:
    from roocontext.reports.erasing import PurgedReport, PurgedSessions, RedactedReport

_ASKED = 3
"""How many copies a question names."""
_LISTED = 10
"""How many sessions a question names."""
_WORDS = 60
"""How many columns of a content or title are shown."""


def draw_redacted(screen: Screen, answer: "RedactedReport") -> None:
    """The receipt of a redaction, and the entries that may repeat its content."""
    more = screen.signs.more
    what = f"the content of entry {answer.seq}"
    if not answer.changed:
        screen.line(f"Nothing was changed: {what} was erased before.")
    else:
        verb = "This would erase" if answer.dry_run else "Erased"
        screen.line(f"{verb} {what}{_other_copies(answer, None, more)}.")
    if beginning := _beginning(answer, more):
        screen.line((beginning, "note"), indent=2)
    if answer.quotes:
        quotes = _places(answer.quotes, None, more)
        screen.line(f"Entries that quote it, to be redacted too: {quotes}.")
    if answer.summaries:
        screen.line(f"Summaries that may quote it: {_places(answer.summaries, None, more)}.")
    _bytes(screen, dry_run=answer.dry_run, erased=answer.erased)


def redaction_question(answer: "RedactedReport") -> str:
    """Ask before a message is erased, and show how it begins."""
    more = ASCII_SIGNS.more
    also = _other_copies(answer, _ASKED, more)
    quotes = _places(answer.quotes, _ASKED, more)
    summaries = _places(answer.summaries, _ASKED, more)
    stay = f" Entries that quote it remain: {quotes}." if quotes else ""
    stay += f" Summaries that may quote it remain: {summaries}." if summaries else ""
    what = f"entry {answer.seq} of {named(answer.session_id, more)}"
    shown = f"{_beginning(answer, more)}\n"
    return f"{shown}This erases the content of {what}{also}.{stay} Erase it for good?"


def draw_purged(screen: Screen, answer: "PurgedReport") -> None:
    """The receipt."""
    what = f"{quantity(answer.messages, 'message')}, {size(answer.bytes)}"
    name = named(answer.session_id, screen.signs.more)
    when = zoned_time(answer.purged_at)
    if not answer.changed:
        screen.line(f"{name} was purged before, {when}. Its receipt: {what}.")
    elif answer.dry_run:
        screen.line(f"This would delete the content of {name}: {what}.")
        for line in _about(answer, screen.signs.more):
            screen.line((line, "note"), indent=2)
        _copies(screen, answer)
        return
    else:
        screen.line(f"Deleted the content of {name}: {what}, {when}.")
    screen.line(f"Last hash: {answer.last_hash}")
    _copies(screen, answer)
    _bytes(screen, dry_run=answer.dry_run, erased=answer.erased)


def purge_question(answer: "PurgedReport") -> str:
    """Ask before a session is purged, and show what it is about."""
    more = ASCII_SIGNS.more
    stay = f" Copies remain in {_names(answer.copies, more)}." if answer.copies else ""
    what = f"{quantity(answer.messages, 'message')} ({size(answer.bytes)})"
    about = "".join(f"{line}\n" for line in _about(answer, more))
    name = named(answer.session_id, more)
    return f"{about}This deletes {what} of {name}.{stay} Delete them for good?"


def draw_purged_sessions(screen: Screen, answer: "PurgedSessions", *, now: int) -> None:
    """A line for each session that was or would be deleted, and the sums."""
    if not answer.sessions:
        screen.line("No session is that old. Nothing was changed.")
        return
    for row in answer.sessions:
        screen.line(_row(row, now, screen.signs.more))
    screen.line(f"{'This would delete' if answer.dry_run else 'Deleted'} {_sum(answer)}.")
    if copies := sorted({copy for row in answer.sessions for copy in row.copies}):
        names = _names(copies, screen.signs.more)
        screen.line((f"Copies of their entries may remain in {names}.", "warn"))
    _bytes(screen, dry_run=answer.dry_run, erased=all(row.erased for row in answer.sessions))


def purge_all_question(answer: "PurgedSessions", *, now: int) -> str:
    """Ask before many sessions are purged, and list the first of them."""
    rows = [_row(row, now, ASCII_SIGNS.more) for row in answer.sessions[:_LISTED]]
    if left := len(answer.sessions) - len(rows):
        rows.append(f"and {left:,} more")
    lines = "".join(f"{row}\n" for row in rows)
    return f"{lines}This deletes {_sum(answer)}. Delete them for good?"


def _sum(answer: "PurgedSessions") -> str:
    sessions = quantity(len(answer.sessions), "session")
    return f"{sessions} with {quantity(answer.messages, 'message')}, {size(answer.bytes)}"


def _row(row: "PurgedReport", now: int, more: str) -> str:
    """A session on a line: its id, the age of its last message, its size and its title."""
    since = "" if row.happened_at is None else f"  {age(row.happened_at, now)}"
    about = cut_line(one_line(row.title or row.first_prompt or ""), _WORDS, more)
    counts = f"{quantity(row.messages, 'message')}, {size(row.bytes)}"
    return f"{named(row.session_id, more)}{since}  {counts}  {about}".rstrip()


def _about(answer: "PurgedReport", more: str) -> Iterator[str]:
    """The title, the first prompt and the last message of a session that would be purged."""
    for name, text in (("Title", answer.title), ("First prompt", answer.first_prompt)):
        if text:
            yield f"{name}: {cut_line(one_line(text), _WORDS, more)}"
    if answer.happened_at is not None:
        yield f"Last message: {zoned_time(answer.happened_at)}"


def _beginning(answer: "RedactedReport", more: str) -> str:
    """The speaker, the size and the beginning of the content that would be erased."""
    if answer.bytes is None:
        return ""
    words = cut_line(one_line(answer.beginning or ""), _WORDS, more)
    return f"{one_line(answer.speaker or '')}, {size(answer.bytes)}: {words}".rstrip()


def _other_copies(answer: "RedactedReport", most: int | None, more: str) -> str:
    """Name the copies of a message in other sessions, to continue a sentence."""
    copies = [copy for copy in answer.copies if copy[0] != answer.session_id]
    return f", and its copies in {_places(copies, most, more)}" if copies else ""


def _copies(screen: Screen, answer: "PurgedReport") -> None:
    if answer.copies:
        names = _names(answer.copies, screen.signs.more)
        screen.line((f"Copies of its entries remain in {names}.", "warn"))


def _names(sessions: Sequence[str], more: str) -> str:
    """Some of these sessions, and how many more there are."""
    shown = ", ".join(named(name, more) for name in sessions[:_ASKED])
    left = len(sessions) - _ASKED
    return f"{shown} and {left:,} more" if left > 0 else shown


def _places(pairs: Sequence[Sequence[Any]], most: int | None, more: str) -> str:
    """Entries of sessions, all of them or the first: `parser 16, branch 16`."""
    shown = [f"{named(name, more)} {seq}" for name, seq in pairs[:most]]
    left = len(pairs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _bytes(screen: Screen, *, dry_run: bool, erased: bool) -> None:
    if not dry_run:
        gone = (
            "The bytes were removed from the file."
            if erased
            else "Bytes may remain in the database's log, free space or backups."
        )
        screen.line((gone, "note"))
