"""Single entries: an entry with all its fields, why it is hidden, the hits of a search."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from roocontext.cli.screens import content, timeline
from roocontext.cli.screens.next_commands import draw_next, next_command
from roocontext.cli.screens.safe_text import one_line, safe
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.reports.naming import quantity
from roocontext.reports.times import age, chosen_time, local_time, zoned_time

if TYPE_CHECKING:
    from roocontext import SessionInfo
    from roocontext.reports.history import EntryRow, HiderRow
    from roocontext.reports.search import Found, HitRow
    from roocontext.reports.why import Reason, Why

HIDES = {
    Kind.SUMMARY: "Hidden by summary",
    Kind.MARKER: "Hidden by marker",
    Kind.COVERING: "Compacted by the provider, entry",
    Kind.CLEARING: "Its output is cleared by clearing",
    Kind.REWIND: "Taken back by rewind",
    Kind.UNCOVERING: "Taken back by uncovering",
}
_SHORTENS = "The middle of its output is cleared by clearing"


def draw_entry(screen: Screen, row: "EntryRow", *, info: "SessionInfo", name: str) -> None:
    """A whole entry: its content, its recorded fields, and the entries that hide it.

    `name` is the session's name in the suggested commands.
    """
    screen.headline(info.session_id, info.title)
    _, time = local_time(row.happened_at).split()
    timeline.draw_whole_entry(screen, row, timeline.start_of(row, time, len(str(row.seq))))
    for hider in row.hiders:
        screen.line((_hidden_by(hider), "note"))
    if row.hiders:
        draw_next(screen, "How to bring it back", next_command(name, f"why {{}} {row.seq}"))
    elif row.visible:
        rewind = next_command(name, f"rewind {{}} --to {row.seq} --before")
        draw_next(screen, "Go back to before it", rewind)


def _hidden_by(hider: "HiderRow", *, recorded: bool = False) -> str:
    """Say which entry hides, takes back or clears another, and since when."""
    trigger = f", {one_line(hider.trigger)}" if hider.trigger else ""
    time = zoned_time(chosen_time(hider, recorded=recorded))
    return f"{HIDES[Kind(hider.kind)]} {hider.seq} since {time}{trigger}."


def draw_why(screen: Screen, answer: "Why", *, name: str, recorded: bool = False) -> None:
    """Say whether the model sees an entry, and what hides it, with the commands to reverse it."""
    screen.headline(answer.session_id, answer.title)
    kind = answer.speaker if answer.kind == Kind.MESSAGE else answer.kind
    what = f"Entry {answer.seq}, {one_line(kind or '')}"
    screen.line(f"{what}: {_seen(answer)}.")
    if answer.redacted:
        screen.line("Its content was erased for good.")
    for reason in answer.reasons:
        _reason(screen, reason, name, recorded=recorded)
    commands = [next_command(name, _reverse(reason)) for reason in answer.reasons]
    if any(commands):
        what = "To see the output again" if answer.visible else "To bring it back"
        screen.line(f"{what}:")
        screen.raw("\n".join(commands), indent=2)
    hid = [reason.seq for reason in answer.reasons if reason.uncover is not None]
    if hid and not answer.visible and any(commands):
        screen.line("To go back to before it was hidden, without what came since:")
        screen.raw(next_command(name, f"rewind {{}} --to {min(hid) - 1}"), indent=2)


def _seen(answer: "Why") -> str:
    if not answer.shown_to_models:
        return f"no model ever sees a {answer.kind}"
    if not answer.visible:
        return "the model does not see it"
    if not answer.reasons:
        return "the model sees it"
    is_short = all(reason.partial for reason in answer.reasons)
    return f"the model sees it, with {'shortened' if is_short else 'cleared'} output"


def _reason(screen: Screen, reason: "Reason", name: str, *, recorded: bool) -> None:
    policy = "" if reason.policy in (None, reason.trigger) else f"policy {reason.policy}"
    who = [one_line(name) for name in (reason.trigger, policy) if name]
    by = f" ({', '.join(who)})" if who else ""
    since = f"since {zoned_time(chosen_time(reason, recorded=recorded))}{by}"
    hides = _SHORTENS if reason.partial else HIDES[Kind(reason.kind)]
    screen.line((f"{hides} {reason.seq}", "acts"), f" {since}.")
    if reason.text:
        command = next_command(name, f"show {{}} {reason.seq}")
        text, rest = content.readable(reason.text, whole=command and f"`{command}`")
        screen.line(text, indent=4)
        if rest:
            screen.line((f"{screen.signs.more} {rest}", "note"), indent=4)


def _reverse(reason: "Reason") -> str:
    """The words of the command that reverses a reason."""
    if reason.uncover is not None:
        return f"uncover {{}} {reason.uncover}"
    return f"rewind {{}} --to {reason.rewind_to}"


_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def draw_found(screen: Screen, answer: "Found", *, now: int, recorded: bool = False) -> None:
    """Each hit: its session and entry, the words around it, and what hides it."""
    if not answer.hits:
        screen.line(f"No message has {one_line(answer.query)!r}.")
    for number, hit in enumerate(answer.hits):
        if number:
            screen.blank()
        _hit(screen, hit, now, recorded=recorded)
    if answer.next is not None:
        screen.blank()
        screen.line(("There are more: --limit shows more.", "note"))
    if answer.archived:
        count = quantity(answer.archived, "archived session")
        screen.line((f"Not searched: {count}. `sessions` shows which.", "note"))


def _hit(screen: Screen, hit: "HitRow", now: int, *, recorded: bool) -> None:
    name = screen.name(hit.session_id)
    who = hit.speaker if hit.kind == Kind.MESSAGE else hit.kind
    about = f"  {one_line(who)}, {age(chosen_time(hit, recorded=recorded), now)}"
    screen.line((f"{name} {hit.seq}", "title"), (about, "note"))
    screen.line(*_snippet(screen, hit), indent=2)
    if hit.hider is not None:
        screen.line((_hidden_by(hit.hider, recorded=recorded), "note"), indent=2)
    for seq in sorted({by for _, by in hit.cleared}):
        screen.line((f"{HIDES[Kind.CLEARING]} {seq}.", "note"), indent=2)
    if command := next_command(hit.session_id, f"show {{}} {hit.seq}"):
        screen.raw(command, indent=2)


def _snippet(screen: Screen, hit: "HitRow") -> Iterator[tuple[str, str]]:
    """The words, with the matches in a style of their own."""
    snippet, at = hit.snippet, 0
    if snippet.is_continued:
        yield screen.signs.more, "note"
    for lo, hi in snippet.marks:
        yield _plain(snippet.text[at:lo]), ""
        yield _plain(snippet.text[lo:hi]), "match"
        at = hi
    yield _plain(snippet.text[at:]), ""
    if snippet.continues:
        yield screen.signs.more, "note"


def _plain(text: str) -> str:
    """The text without empty lines and rows of spaces."""
    return safe(_LINES.sub("\n", _SPACES.sub(" ", text)))
