"""Markdown of a message as elements of a page: no raw HTML, no images, only links that are safe.

The text of a message is hostile input. Headings become paragraphs, because they are not headings of
the page, and an image becomes a link: a page loads nothing from elsewhere.
"""

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from roocontext.reports.markup.elements import Html, is_safe_address, link_to, tag
from roocontext.reports.markup.safe_html import escaped, visible

_LONGEST_CODE: Final = 8_000
"""Longer code is not highlighted: some lexers take a time that grows with its square."""
_OUTSIDE: Final = "noreferrer noopener nofollow"


def markdown(text: str, *, highlighted: bool = True) -> Html:
    """A text as it was meant to be shown."""
    made = _parser().render(visible(text.replace("\r\n", "\n")), {"highlighted": highlighted})
    # Character references in the text are decoded by the parser, so they are checked again.
    return Html(visible(made))


def code_block(code: str, language: str, *, highlighted: bool = True) -> Html:
    """Code, highlighted if its language is known."""
    body = _highlighted(code, language) if highlighted and len(code) <= _LONGEST_CODE else None
    # A browser drops a line end at the beginning, so one is added.
    return tag("pre", Html("\n"), body or code, class_="code", dir="auto")


class _Renderer(RendererHTML):
    """Elements without attributes, so that none can act or has a style of its own."""

    def renderToken(  # noqa: N802 - the base class's name
        self, tokens: Sequence[Token], idx: int, options: Any, env: MutableMapping[str, Any]
    ) -> str:
        token = tokens[idx]
        token.attrs = {name: at for name, at in token.attrs.items() if name in ("start", "class")}
        if token.type in ("heading_open", "heading_close"):
            token.attrs = {"class": "heading"} if token.nesting == 1 else {}
            token.tag = "p"
        return super().renderToken(tokens, idx, options, env)

    def link_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        address = str(tokens[idx].attrs.get("href", ""))
        return f'<a href="{escaped(address)}" rel="{_OUTSIDE}">'

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        address = str(tokens[idx].attrs.get("src", ""))
        name = tokens[idx].content or address
        return link_to(f"Image: {name}", address, rel=_OUTSIDE)

    def fence(
        self, tokens: Sequence[Token], idx: int, _: Any, env: MutableMapping[str, Any]
    ) -> str:
        language = next(iter(tokens[idx].info.split()), "")
        return code_block(tokens[idx].content, language, highlighted=env["highlighted"])

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return code_block(tokens[idx].content, "")


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the base class's name
        """True for links to the web and to mail."""
        outside = url.lower().startswith(("http://", "https://", "mailto:"))
        return outside and is_safe_address(url)


@cache
def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    return parser


def _highlighted(code: str, language: str) -> Html | None:
    """The code with the classes of its tokens; None if there is no such language."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return Html(visible(highlight(visible(code), lexer, HtmlFormatter(nowrap=True))))
