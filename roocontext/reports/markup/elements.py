"""Elements of a page, made by functions that escape everything that is not an element.

A text becomes markup only by `tag`, so no template can forget to escape it. The same functions make
the pages of the server and the exported page.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from roocontext.reports.markup.safe_html import escaped


class Html(str):
    """Markup: it is put into a page as it is."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
"""The content of an element. A string that is not `Html` is text."""

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_ADDRESSES: Final = frozenset({"href", "src", "action"})
_SAFE_ADDRESS: Final = re.compile(
    r"(?:https?:|mailto:)\S+|[#?]\S*|/(?![/\\])\S*|[a-z0-9_.-]+\.(?:css|js)"
    r"|data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*",
    re.IGNORECASE,
)


def together(*children: Child) -> Html:
    """The children as markup."""
    parts: list[str] = []
    _collect(children, parts)
    return Html("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element. Attributes that are None or False are left out, and those that are True are bare.

    `class_` is the attribute `class`, and other underscores are hyphens. An address of a scheme
    that could act in the page is left out.
    """
    parts = ["<", name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        own = key.rstrip("_").replace("_", "-")
        if value is True:
            parts += " ", own
        elif own not in _ADDRESSES or is_safe_address(str(value)):
            parts += " ", own, '="', escaped(str(value)), '"'
    parts.append(">")
    if name not in _VOID:
        _collect(children, parts)
        parts += "</", name, ">"
    return Html("".join(parts))


def link_to(child: Child, address: str | None, **attributes: str | float | bool | None) -> Html:
    """A link. Without an address it leads nowhere."""
    return tag("a", child, href=address, **attributes)


def facts(*parts: Child, class_: str = "facts", role: str | None = None) -> Html:
    """Facts on a line. Those that are None are left out."""
    spans = (tag("span", part) for part in parts if part is not None)
    return tag("p", spans, class_=class_, role=role)


def enumerated(few: Sequence[Child], count: int) -> Html:
    """The first of so many things in a line, and how many more there are."""
    commas = [[", " if number else None, one] for number, one in enumerate(few)]
    left = count - len(few)
    return together(commas, f" and {left:,} more" if left > 0 else None)


def is_safe_address(address: str) -> bool:
    """True for addresses of our own pages, of the web, of mail, and for images inside the page."""
    return _SAFE_ADDRESS.fullmatch(address) is not None


def count_elements(markup: str) -> int:
    """The number of elements in a markup. In a text, `<` is always escaped."""
    return markup.count("<") - markup.count("</")


def _collect(children: Iterable[Child], parts: list[str]) -> None:
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escaped(child))
        elif isinstance(child, int):
            parts.append(f"{child:,}")
        elif child is not None:
            _collect(child, parts)
