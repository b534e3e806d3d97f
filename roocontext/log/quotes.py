"""Messages that quote older messages: which entries they quote is in their `extra`.

An answer to a recall tool repeats the words of messages that the model no longer sees. If one of
these is redacted, the answers that quote it have to be found. And a search that found the answers
too would show the same words again and again.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from roocontext.log.encoding import decode

QUOTED: Final = "quoted_entries"
"""The name in a message's `extra` under which the entries that it quotes are listed."""


class Quote(NamedTuple):
    """The entries `lo` to `hi` of a session; without one, of the session of the message itself.

    A fork copies messages with their quotes. What was quoted from the same session is then quoted
    from the fork.
    """

    session_id: str | None
    lo: int
    hi: int


def quoting(quotes: Iterable[Quote]) -> dict[str, Any]:
    """The `extra` of a message with these quotes."""
    return {QUOTED: [list(quote) for quote in quotes]}


def quotes_of(extra: Any) -> tuple[Quote, ...]:
    """The quotes of a message, read from its `extra`, in which an agent may store anything."""
    return tuple(Quote(*one) for one in _listed(extra) or ())


def is_quoting(extra: str | None) -> bool:
    """Whether a message with this stored `extra` says nothing of its own.

    An answer that nothing was found quotes nothing, and is no new message either.
    """
    # A search in the text first: almost no message quotes any.
    return extra is not None and f'"{QUOTED}"' in extra and _listed(decode(extra)) is not None


def _listed(extra: Any) -> list[Any] | None:
    listed = extra.get(QUOTED) if isinstance(extra, dict) else None
    is_ours = isinstance(listed, list) and all(map(_is_quote, listed))
    return listed if is_ours else None


def _is_quote(given: Any) -> bool:
    match given:
        case [str() | None, int(lo), int(hi)]:
            return 1 <= lo <= hi
    return False
