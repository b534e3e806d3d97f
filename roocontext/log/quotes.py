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
    listed = extra.get(QUOTED) if isinstance(extra, dict) else None
    if not isinstance(listed, list) or not all(map(_is_quote, listed)):
        return ()
    return tuple(Quote(*one) for one in listed)


def is_quoting(extra: str | None) -> bool:
    """Whether a message with this stored `extra` quotes others."""
    # A search in the text first: almost no message quotes any.
    return extra is not None and f'"{QUOTED}"' in extra and bool(quotes_of(decode(extra)))


def _is_quote(given: Any) -> bool:
    match given:
        case [str() | None, int(lo), int(hi)]:
            return 1 <= lo <= hi
    return False
