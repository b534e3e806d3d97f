"""The words that a shell offers when Tab is pressed: sessions, and the values of options.

Shells split and quote words by different rules. So only ids that are one word in every shell are
offered; others can be typed.
"""

import os
import unicodedata
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

import typer

import roocontext
from roocontext import reports
from roocontext.cli import find_database
from roocontext.errors import RooContextError

Offers: TypeAlias = list[tuple[str, str]]
"""Words, each with a note that some shells show next to it."""

NEW = "new"

_MOST = 10_000
"""The most ids that are offered. If only some were, the shell might complete a wrong one."""

_REQUEST = "_ROOCONTEXT_COMPLETE"
_BEGINNING = "_ROOCONTEXT_BEGINNING"
"""The variable with the part of the word that bash does not replace."""

_LONGEST = 60
_WORD = frozenset("-_.:")
_NOTE = frozenset(" .,-_/+")


def complete_sessions(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the sessions whose ids begin like this, and `last`."""
    url = find_database.chosen(ctx.obj.db)
    beginning = os.environ.get(_BEGINNING, "")
    offers = [] if beginning else [(reports.naming.LAST, "the one with the newest entry")]
    with (
        suppress(RooContextError),
        roocontext.Store.open(url, upgrade=False, read_only=True, owner=ctx.obj.owner) as store,
    ):
        typed = beginning + incomplete
        matches = store.find(typed, limit=_MOST) if typed else store.sessions()
        titles = {info.session_id: info.title for info in matches if _is_word(info.session_id)}
        named = [(name.removeprefix(beginning), title) for name, title in titles.items()]
        if not beginning:
            for info in reports.naming.after_colon(store, incomplete):
                tail = reports.naming.part_after_colon(info.session_id)
                named += [(tail, info.title)] if _is_word(tail) else []
        return [*offers, *((name, _note(title or "")) for name, title in named)]
    return []  # the shell shows no errors


def is_wanted(environ: MutableMapping[str, str]) -> bool:
    """Check if a shell asks for completion. If so, join the words that bash has split."""
    if environ.get(_REQUEST) == "complete_bash":
        join_words(environ)
    return bool(environ.get(_REQUEST))


def join_words(environ: MutableMapping[str, str]) -> None:
    """Join the words of a command line that bash has split at colons.

    bash replaces only the part after the last colon. So that part is the word to complete, and
    `complete_sessions` finds the part before it in the environment.
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
        environ[_BEGINNING], joined[-1] = head + colon, tail
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)


def complete_sessions_or_new(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the sessions, and `new`."""
    new = [] if os.environ.get(_BEGINNING) else [(NEW, "creates a session")]
    return [*complete_sessions(ctx, incomplete), *new]


def complete_policies() -> Sequence[str]:
    """Offer the policies."""
    from roocontext.policies.builtin import policies  # noqa: PLC0415 - heavy

    return policies.known()


def complete_summarisers() -> Sequence[str]:
    """Offer the summarisers."""
    from roocontext.summarisers import summarisers  # noqa: PLC0415 - heavy

    return summarisers.known()


def complete_models() -> Offers:
    """Offer the models whose context windows are known."""
    from roocontext.tokens.limits import models  # noqa: PLC0415 - reads a data file

    return [(name, f"{context:,} tokens") for name, context in models().items()]


def complete_formats() -> Sequence[str]:
    """Offer the formats of content."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - heavy

    return readers.known()


def complete_roles(ctx: typer.Context) -> Sequence[str]:
    """Offer the roles of the chosen format."""
    from roocontext.log.readings import readers  # noqa: PLC0415 - heavy

    name = ctx.params.get("content_format") or "anthropic"
    return readers[name].roles if name in readers.known() else ()


def _is_word(text: str) -> bool:
    """Check if the id is one word in every shell, and no other name on the command line."""
    is_plain = text.isascii() and all(letter.isalnum() or letter in _WORD for letter in text)
    return is_plain and not text.startswith("-") and text not in (reports.naming.LAST, NEW)


def _note(title: str) -> str:
    """A title without the characters that a shell may interpret."""
    letters = (
        letter if unicodedata.category(letter)[0] in "LMN" or letter in _NOTE else " "
        for letter in title
    )
    return " ".join("".join(letters).split())[:_LONGEST]
