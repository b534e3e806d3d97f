"""The first prompt of a session: what a list shows of a session that has no title.

It is the beginning of the first message that a person wrote: one with text, and without results
of tools, so that the large contents of an agent's loop are not read for it. A rewind does not
change it. A redacted message is none, so that after a redaction
the next message counts.
"""

from typing import Final

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


def prompt_text(format_: str | None, role: str | None, content: str | None) -> str | None:
    """The beginning of a message's text, given its stored content; None if no person wrote it."""
    if role is None or role in _NO_PERSON or content is None or not is_known(format_, role):
        return None
    speaker, blocks = reader(str(format_)).blocks(role, decode(content))
    if speaker != "user":
        return None
    words = words_of(blocks).lstrip()[:_READ]
    # PostgreSQL stores neither lone surrogates nor NUL.
    text = whole(" ".join(words.split())[:LONGEST]).replace("\0", "\ufffd")
    return text.rstrip() or None
