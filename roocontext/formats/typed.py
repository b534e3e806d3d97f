"""The words that a person typed, apart from a tool's own texts in the user's messages.

Tools put texts of their own into these messages: the folder, instructions, open files, reminders,
output of commands. Each importer describes those of its tool as `Insertions`. A message that a
person has not typed as it is says so in its `extra` (`typed_in`), so that no title shows the
tool's texts. The content stays as it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace as with_fields

from roocontext.errors import InvalidMessage
from roocontext.log.entries import NewMessage
from roocontext.log.readings import Holds, pieces, read_message, reader, results
from roocontext.log.summary import typed_in


@dataclass(frozen=True)
class Insertions:
    """Recognises the texts of a tool.

    A text that begins with one of the `openings` is the tool's, and so is an element with one of
    these `tags`. If a text has elements that are `wrappers`, a person typed what is in them, and
    nothing else. `heading` is a line after which the person's words follow, `ending` one after
    which they end.
    """

    openings: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    heading: str = ""
    ending: str = ""

    def typed(self, text: str) -> str:
        """The words of a text that a person typed."""
        if self.heading and self.heading in text:
            text = text.partition(self.heading)[2]
        elif inside := [match[2] for match in _elements(self.wrappers).finditer(text)]:
            text = "\n".join(inside)
        elif text.lstrip().startswith(self.openings):
            return ""
        if self.ending:
            text = text.partition(self.ending)[0]
        return _elements(self.tags).sub("", text)


@cache
def _elements(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Elements with these tags. One that is not closed reaches to the end of the text."""
    names = "|".join(tags) or "(?!)"
    return re.compile(rf"<({names})(?:\s[^<>]*)?>(.*?)(?:</\1>|\Z)", re.DOTALL)


def with_typed_text(message: NewMessage, words: str) -> NewMessage:
    """The message, of which a person typed these words."""
    return with_fields(message, extra={**(message.extra or {}), **typed_in(words)})


def typed(message: NewMessage, typed_of: Callable[[str], str]) -> NewMessage:
    """The message, marked if a person did not type all of its texts."""
    if message.role != "user":
        return message
    try:
        reader(message.format).check(message.role, message.content)
    except InvalidMessage:
        return message  # the store refuses it, and names the reason
    _, blocks = read_message(message)
    texts = [piece.text or "" for piece in pieces(blocks) if piece.kind is Holds.TEXT]
    words = [typed_of(text) for text in texts]
    if words == texts or results(blocks):
        return message
    return with_typed_text(message, "\n".join(filter(str.strip, words)))
