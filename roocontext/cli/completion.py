"""What a shell offers when Tab is pressed: sessions, and the values of options.

Shells split and quote words by different rules. So only ids that are one word in every shell are
offered; others can be typed.
"""

import os
import unicodedata
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

import typer

import roocontext
from roocontext import reports
from roocontext.cli import find_database
from roocontext.errors import RooContextError

Offers: TypeAlias = list[tuple[str, str]]
"""Words, each with a note that some shells show beside it."""

NEW = "new"
AIMS = ("manage", "condense", "truncate", "clear")

_MOST = 10_000
"""The most ids that are offered. If only some were, the shell might complete a wrong one."""

_ASKED = "_ROOCONTEXT_COMPLETE"
_BEGUN = "_ROOCONTEXT_BEGUN"
"""The variable with the part of the word that bash does not replace."""

_LONGEST = 60
_WORD = frozenset("-_.:")
_NOTE = frozenset(" .,-_/+")


def complete_sessions(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the sessions whose ids begin like this, and `last`."""
    url = find_database.chosen(ctx.obj.db)
    begun = os.environ.get(_BEGUN, "")
    offers = [] if begun else [(reports.naming.LAST, "the one with the newest entry")]
    with suppress(RooContextError), roocontext.Store.open(url, upgrade=False, read_only=True) as s:
        found = s.find(begun + incomplete, limit=_MOST) if begun or incomplete else s.sessions()
        ids = {one.session_id: one for one in found if _is_word(one.session_id)}
        named = [(name.removeprefix(begun), one.title) for name, one in ids.items()]
        if not begun:
            parts = reports.naming.after_colon(s, incomplete)
            tails = [(reports.naming.part_after_colon(one.session_id), one.title) for one in parts]
            named += [(name, title) for name, title in tails if _is_word(name)]
        return [*offers, *((name, _note(title or "")) for name, title in named)]
    return []  # a shell that asks for words has no place for an error


def is_wanted(environ: MutableMapping[str, str]) -> bool:
    """Whether a shell asks for completion; the words that bash has split are joined then."""
    if environ.get(_ASKED) == "complete_bash":
        join_words(environ)
    return bool(environ.get(_ASKED))


def join_words(environ: MutableMapping[str, str]) -> None:
    """Undo that bash splits the words of a command line at colons.

    bash replaces only what follows the last colon. So that is the word to complete, and what comes
    before it is kept for `complete_sessions`.
    """
    words, place = environ.get("COMP_WORDS", "").split("\n"), environ.get("COMP_CWORD", "")
    if not place.isdecimal():
        return
    joined: list[str] = []
    is_split = False
    for before, word in pairwise(["", *words[: int(place) + 1]]):
        is_split = bool(joined) and bool(word) and {":"} in (set(word), set(before))
        if is_split:
            joined[-1] += word
        else:
            joined.append(word)
    if is_split:
        head, colon, tail = joined[-1].rpartition(":")
        environ[_BEGUN], joined[-1] = head + colon, tail
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)


def complete_sessions_or_new(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the same, and `new`."""
    new = [] if os.environ.get(_BEGUN) else [(NEW, "creates a session")]
    return [*complete_sessions(ctx, incomplete), *new]


def complete_policies() -> Offers:
    """Offer the policies."""
    from roocontext.policies.builtin import policies as known  # noqa: PLC0415 - heavy

    return _named(known.known())


def complete_summarisers() -> Offers:
    """Offer the summarisers."""
    from roocontext.summarisers import summarisers as known  # noqa: PLC0415 - heavy

    return _named(known.known())


def complete_models() -> Offers:
    """Offer the models whose windows are known."""
    from roocontext.tokens.limits import models as known  # noqa: PLC0415 - reads a data file

    return [(name, f"{context:,} tokens") for name, context in known().items()]


def complete_kinds() -> Offers:
    """Offer the kinds of entries."""
    from roocontext.log.entries import Kind  # noqa: PLC0415 - heavy

    return _named(list(Kind))


def complete_formats() -> Offers:
    """Offer the formats of content."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - heavy

    return _named(readers.known())


def complete_roles(ctx: typer.Context) -> Offers:
    """Offer the roles of the chosen format."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - heavy

    name = ctx.params.get("content_format") or "anthropic"
    return _named(readers[name].roles if name in readers.known() else ())


def complete_sums() -> Offers:
    """Offer what calls can be summed up by."""
    return _named(reports.usage.BY)


def complete_aims() -> Offers:
    """Offer what can be previewed."""
    return _named(AIMS)


def _named(names: Iterable[str]) -> Offers:
    return [(name, "") for name in names]


def _is_word(text: str) -> bool:
    """Whether a shell takes the id as one word, and the command line as this session."""
    is_plain = text.isascii() and all(one.isalnum() or one in _WORD for one in text)
    return is_plain and not text.startswith("-") and text not in (reports.naming.LAST, NEW)


def _note(title: str) -> str:
    """A title without the characters that a shell may interpret."""
    letters = (
        one if unicodedata.category(one)[0] in "LMN" or one in _NOTE else " " for one in title
    )
    return " ".join("".join(letters).split())[:_LONGEST]
