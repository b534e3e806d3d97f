"""What a search has found: for each hit the words around it, and whether the model sees it."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from roocontext.cli.screens.entry import HIDES
from roocontext.cli.screens.next_commands import next_command
from roocontext.cli.screens.safe_text import named, one_line, safe
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.reports.times import age, chosen_time, zoned_time

if TYPE_CHECKING:
    from roocontext.reports.search import Found, HitRow

_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def draw_found(screen: Screen, answer: "Found", *, now: int, recorded: bool = False) -> None:
    """Each hit: where it is, the words around it, and what hides it."""
    if not answer.hits:
        screen.line(f"No message has {one_line(answer.query)!r}.")
    for number, hit in enumerate(answer.hits):
        if number:
            screen.blank()
        _draw(screen, hit, now, recorded=recorded)
    if answer.next is not None:
        screen.blank()
        screen.line(("There are more: --limit shows more.", "note"))


def _draw(screen: Screen, hit: "HitRow", now: int, *, recorded: bool) -> None:
    name = named(hit.session_id, screen.signs.more)
    who = hit.speaker if hit.kind == Kind.MESSAGE else hit.kind
    about = f"  {one_line(who)}, {age(chosen_time(hit, recorded=recorded), now)}"
    screen.line((f"{name} {hit.seq}", "title"), (about, "note"))
    screen.line(*_snippet(screen, hit), indent=2)
    if hit.hider is not None:
        trigger = f", {one_line(hit.hider.trigger)}" if hit.hider.trigger else ""
        time = zoned_time(chosen_time(hit.hider, recorded=recorded))
        since = f" {hit.hider.seq} since {time}{trigger}."
        screen.line((f"{HIDES[Kind(hit.hider.kind)]}{since}", "note"), indent=2)
    for seq in sorted({by for _, by in hit.cleared}):
        screen.line((f"{HIDES[Kind.CLEARING]} {seq}.", "note"), indent=2)
    if command := next_command(hit.session_id, f"show {{}} {hit.seq}"):
        screen.raw(command, indent=2)


def _snippet(screen: Screen, hit: "HitRow") -> Iterator[tuple[str, str]]:
    """The words, with the hits in a style of their own."""
    shown, at = hit.snippet, 0
    if shown.is_continued:
        yield screen.signs.more, "note"
    for lo, hi in shown.marks:
        yield _plain(shown.text[at:lo]), ""
        yield _plain(shown.text[lo:hi]), "match"
        at = hi
    yield _plain(shown.text[at:]), ""
    if shown.continues:
        yield screen.signs.more, "note"


def _plain(text: str) -> str:
    """The text without empty lines and rows of spaces."""
    return safe(_LINES.sub("\n", _SPACES.sub(" ", text)))
