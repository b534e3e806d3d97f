"""The first prompt of a session: what a list shows of a session that has no title.

It is the beginning of the first message that a person wrote: one with text, and without results
of tools, so that the large contents of an agent's loop are not read for it. A rewind does not
change it. A redacted message is none, so that after a redaction
the next message counts.

Agents put texts of their own into the user's messages. What a person typed of such a message is in
its `extra`, if the agent or an importer has put it there.
"""

from typing import Any, Final

from roocontext.log.encoding import decode, whole
from roocontext.log.readings import is_known, reader, words_of

LONGEST: Final = 80
"""How many characters of the prompt are kept."""

_READ: Final = 8 * LONGEST
"""How many characters are read: runs of white space are shortened to a space."""
_NO_PERSON: Final = frozenset(
    {"assistant", "model", "system", "developer", "tool", "function"},
)
"""The roles in which no person speaks. Their content need not be read."""
TYPED: Final = "typed_text"
"""The name in a message's `extra` of what a person typed of it; an empty text if nobody did."""


def typed_in(words: str) -> dict[str, Any]:
    """The `extra` of a message of which a person typed these words."""
    return {TYPED: _short(words)}


def prompt_text(
    format_: str | None, role: str | None, content: str | None, extra: str | None
) -> str | None:
    """The beginning of what a person typed of a stored message; None if no person wrote it."""
    if role is None or role in _NO_PERSON or content is None or not is_known(format_, role):
        return None
    speaker, blocks = reader(str(format_)).blocks(role, decode(content))
    if speaker != "user":
        return None
    typed = _typed(extra)
    return _short(words_of(blocks) if typed is None else typed) or None


def _typed(extra: str | None) -> str | None:
    # A search in the text first: most messages were typed as they are.
    found = decode(extra) if extra is not None and f'"{TYPED}"' in extra else None
    typed = found.get(TYPED) if isinstance(found, dict) else None
    return typed if isinstance(typed, str) else None


def _short(words: str) -> str:
    short = " ".join(words.lstrip()[:_READ].split())[:LONGEST]
    # PostgreSQL stores neither lone surrogates nor NUL.
    return whole(short).replace("\0", "\ufffd").rstrip()
