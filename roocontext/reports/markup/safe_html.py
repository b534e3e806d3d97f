"""Text that is safe in a page: it cannot become markup, hide, or reverse the line."""

import re
from html import escape
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
"""Control characters, direction marks, lone surrogates, and characters without a width. Joiners are
kept, because they shape letters."""


def escaped(text: str) -> str:
    """The text for elements and quoted attributes, with invisible characters as numbers."""
    return visible(escape(text, quote=True))


def visible(text: str) -> str:
    """The text with numbers for characters that nobody sees, or that turn the line around."""
    return _UNSEEN.sub(_numbered, text)


def preformatted(text: str, style: str = "text") -> str:
    """A block that keeps its lines. Browsers drop a line end at its beginning, so one is added."""
    lines = escaped(text.replace("\r\n", "\n"))
    return f'<pre class="{style}" dir="auto">\n{lines}</pre>'


def _numbered(match: re.Match[str]) -> str:
    return f"[U+{ord(match[0]):04X}]"
