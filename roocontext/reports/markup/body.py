"""The content of a message as elements: texts, thinking, calls, results, edits and images.

A page has room for so many elements and bytes. A message is shown with as much as its share allows:
rendered, then plain, then only its beginning. The rest is one link away.
"""

import binascii
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple, Protocol

from roocontext.log.readings import Block, Holds, Piece, pieces, read_message, walk
from roocontext.reports.markup.elements import Child, Html, count_elements, link_to, tag, together
from roocontext.reports.markup.markdown import code_block, markdown
from roocontext.reports.markup.safe_html import preformatted
from roocontext.reports.naming import quantity, size

IMAGES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The types of images that are shown, with the first bytes of their files."""


class Links(Protocol):
    """The addresses that a page links to. A page has none of those that it does not define."""

    def entry(self, seq: int) -> str | None:
        """An entry, on this page or another."""

    def whole(self, seq: int) -> str | None:  # noqa: ARG002 - pages define it
        """All of an entry."""
        return None

    def image(self, seq: int, source: Mapping[str, Any]) -> str | None:
        """An image of an entry."""

    def difference(self, old: int, new: int) -> str | None:  # noqa: ARG002 - pages define it
        """The difference of two views."""
        return None

    def change(self, seq: int) -> str | None:  # noqa: ARG002 - pages define it
        """The changes that an entry allows."""
        return None

    def request(self, seq: int) -> str | None:  # noqa: ARG002 - pages define it
        """The request that a reply answers."""
        return None


class Level(NamedTuple):
    """How much of a message is shown: with Markdown and colours, and so many characters, blocks."""

    markdown: bool
    highlighted: bool
    characters: int
    blocks: int


EVERYTHING_SHOWN: Final = Level(markdown=True, highlighted=True, characters=1 << 40, blocks=1 << 40)
_LEVELS: Final = (
    Level(markdown=True, highlighted=True, characters=16_000, blocks=60),
    Level(markdown=True, highlighted=False, characters=16_000, blocks=60),
    Level(markdown=False, highlighted=False, characters=16_000, blocks=30),
    Level(markdown=False, highlighted=False, characters=3_000, blocks=8),
    Level(markdown=False, highlighted=False, characters=240, blocks=2),
)
_PLAIN: Final = _LEVELS[2]


_SHOWN_LINES, _FOLDED_LINES = 16, 8
"""The lines of a tool's output that are shown, and so many more before the rest is folded."""


@dataclass(slots=True)
class Room:
    """The elements and the compressed bytes that a page has left for entries.

    `in_vain` are elements that were rendered and did not fit. After too many of them, a long entry
    begins with the level at which the last cut one fitted, so a page of large tables takes no
    longer than any other.
    """

    elements: int
    packed: int
    in_vain: int = 0
    _fitting: int = 0

    def fitted(self, render: Callable[[Level], Html], others: int) -> Html:
        """Render with as much as fits, if so many other entries have to fit too."""
        made, cost, first = Html(), (0, 0), 0
        if self.in_vain > _MOST_IN_VAIN and len(render(_PLAIN)) > _SHORT:
            first = self._fitting
        for number, level in enumerate(_LEVELS[first:], first):
            made = render(level)
            cost = count_elements(made), len(zlib.compress(made.encode(), 6))
            # An entry takes at most half of what is left, so that others are not all cut.
            if cost[0] <= max(self.elements - others * _LEAST_ELEMENTS, _LEAST_ELEMENTS) and cost[
                1
            ] <= max(self.packed - others * _LEAST_PACKED, _LEAST_PACKED):
                if number:
                    self._fitting = number
                break
            self.in_vain += cost[0]
        self.elements -= cost[0]
        self.packed -= cost[1]
        return made


_LEAST_ELEMENTS, _LEAST_PACKED = 28, 700
"""The room that is kept for each entry that is still to come."""
_MOST_IN_VAIN: Final = 10_000
_SHORT: Final = 2_000
"""The characters of an entry that is rendered in full whatever others were like."""


@dataclass(frozen=True, slots=True)
class Style:
    """The choices of a reader: Markdown rendered, edits open."""

    markdown: bool = True
    edits_open: bool = False


class ToolCall(NamedTuple):
    """A call that results refer to: its entry, the tool, and what it was called with, in short.

    `is_only` says that the entry has no other call.
    """

    seq: int
    tool: str
    brief: str
    is_only: bool


class MessageSource(NamedTuple):
    """A message to show."""

    seq: int
    role: str
    content: Any
    format: str


def blocks_of(message: MessageSource) -> Sequence[Block]:
    """The blocks of a message, as its reader shows them."""
    return read_message(message)[1]


def tool_calls(seq: int, blocks: Iterable[Block]) -> dict[str, ToolCall]:
    """The calls among the blocks of a message, by their ids."""
    made = {
        str(piece.block.get("id")): (piece.text, _brief(piece.block))
        for piece in pieces(blocks)
        if piece.kind is Holds.CALL and piece.text is not None
    }
    return {name: ToolCall(seq, *call, is_only=len(made) == 1) for name, call in made.items()}


def answered_calls(blocks: Iterable[Block]) -> list[str]:
    """The ids of the calls that a message answers."""
    return [
        str(piece.block.get("tool_use_id"))
        for piece in pieces(blocks)
        if piece.kind is Holds.OUTPUT
    ]


def images_in(blocks: Iterable[Block]) -> list[Mapping[str, Any]]:
    """The images among the blocks that a page may show, in order."""
    return [piece.block["source"] for piece in walk(pieces(blocks)) if _is_image(piece)]


class MessageBody:
    """Renders the content of one message at a level."""

    def __init__(
        self,
        message: MessageSource,
        level: Level,
        style: Style,
        links: Links,
        calls: Mapping[str, ToolCall],
        *,
        is_joined: bool = False,
    ) -> None:
        """An answer that is joined to its only call does not repeat what was called."""
        self._message, self._level, self._style = message, level, style
        self._links, self._calls = links, calls
        self._left, self._is_joined = level.characters, is_joined
        self._is_prose = message.role in ("user", "assistant")

    def markup(self) -> Html:
        """Everything in the message, as far as the level has room for it."""
        found = pieces(blocks_of(self._message))
        shown = [self._piece(piece) for piece in found[: self._level.blocks]]
        left = len(found) - len(shown)
        if left > 0:
            shown.append(self._more(quantity(left, "more block")))
        return together(shown) or tag("p", "Nothing.", class_="remark")

    def _piece(self, piece: Piece) -> Html:
        match piece.kind:
            case Holds.TEXT:
                return self._text(piece.text or "")
            case Holds.THINKING:
                text = piece.text or "(not readable)"
                return _folded("thinking", "Thinking", self._pre(text, "text"))
            case Holds.CALL:
                return self._call(piece)
            case Holds.OUTPUT:
                return self._output(piece)
            case Holds.MEDIA | Holds.OTHER:
                return self._medium(piece)

    def _text(self, text: str) -> Html:
        if not (self._level.markdown and self._style.markdown and self._is_prose):
            return self._pre(text, "text")
        cut, rest = self._cut(text)
        prose = tag(
            "div", markdown(cut, highlighted=self._level.highlighted), class_="prose", dir="auto"
        )
        return together(prose, rest)

    def _pre(self, text: str, style: str) -> Html:
        cut, rest = self._cut(text)
        return together(Html(preformatted(cut, style)), rest)

    def _cut(self, text: str) -> tuple[str, Html]:
        """As much of a text as there is room for, and a link to the rest."""
        kept = text[: max(self._left, 0)]
        self._left -= len(kept)
        missing = len(text) - len(kept)
        return kept, self._more(quantity(missing, "more character")) if missing else Html()

    def _more(self, what: str) -> Html:
        address = self._links.whole(self._message.seq)
        return tag("p", link_to(f"{what}: show all", address) if address else what, class_="more")

    def _call(self, piece: Piece) -> Html:
        arguments = piece.block.get("input")
        heading = tag(
            "p",
            tag("b", on_one_line(piece.text or "?")),
            [" ", tag("code", _brief(piece.block))] if _brief(piece.block) else None,
            class_="tool-name",
        )
        if changes := _changes(arguments):
            edits = together(self._diff(old, new) for old, new in changes)
            body = _folded("edit", _changed_lines(changes), edits, open_=self._style.edits_open)
        else:
            body = self._arguments(arguments)
        return tag("div", heading, body, class_="call")

    def _arguments(self, given: Any) -> Html:
        if not given:
            return Html()
        if isinstance(given, dict) and len(given) == 1:
            (text,) = given.values()
            if isinstance(text, str):
                # The heading has a short one already.
                return Html() if text == _brief_text(given) else self._pre(text, "code")
        text = json.dumps(given, indent=1, ensure_ascii=False)
        is_short = len(text) <= 400
        cut, rest = self._cut(text)
        code = code_block(cut, "json", highlighted=self._level.highlighted)
        return together(code, rest) if is_short else _folded("arguments", "Arguments", [code, rest])

    def _diff(self, old: str, new: str) -> Html:
        cut_old, rest_old = self._cut(old)
        cut_new, rest_new = self._cut(new)
        return together(
            tag("pre", Html("\n"), _diff_lines(cut_old, cut_new), class_="diff", dir="auto"),
            rest_old,
            rest_new,
        )

    def _output(self, piece: Piece) -> Html:
        call = self._calls.get(str(piece.block.get("tool_use_id")))
        failed = bool(piece.block.get("is_error"))
        named: list[Child] = ["Error of " if failed else "Result of "]
        if call is None:
            named = ["Error" if failed else "Result"]
        else:
            is_known = self._is_joined and call.is_only
            named += [
                link_to(call.tool, self._links.entry(call.seq)),
                [" ", tag("code", call.brief)] if call.brief and not is_known else None,
            ]
        parts = [
            self._printed(part.text or "") if part.kind is Holds.TEXT else self._piece(part)
            for part in piece.inside
        ]
        style = "result error" if failed else "result"
        return tag(
            "div",
            tag("p", named, class_="tool-name"),
            parts or tag("p", "No output.", class_="remark"),
            class_=style,
        )

    def _printed(self, text: str) -> Html:
        """The output of a tool: its beginning, and the rest in a fold if that is long."""
        cut, rest = self._cut(text)
        lines = cut.splitlines(keepends=True)
        if len(lines) <= _SHOWN_LINES + _FOLDED_LINES:
            return together(Html(preformatted(cut, "code")), rest)
        head, tail = "".join(lines[:_SHOWN_LINES]), "".join(lines[_SHOWN_LINES:])
        more = quantity(len(lines) - _SHOWN_LINES, "more line")
        fold = _folded("output", more, Html(preformatted(tail, "code")))
        return together(Html(preformatted(head, "code")), fold, rest)

    def _medium(self, piece: Piece) -> Html:
        """An image of a known type, or a line that names the block."""
        block = piece.block if isinstance(piece.block, dict) else {}
        kind = block.get("type")
        what = on_one_line(kind if isinstance(kind, str) else "unknown block")
        if _is_image(piece):
            source = block["source"]
            name = f"{what}, {source['media_type']}, {size(len(source['data']) * 3 // 4)}"
            address = self._links.image(self._message.seq, source)
            if address is not None:
                image = tag("img", src=address, alt=name, loading="lazy")
                return _folded("media", name, image)
            return tag("p", name, class_="remark")
        text = json.dumps(piece.block, indent=1, ensure_ascii=False)
        if len(text) <= 2:
            return tag("p", what, class_="remark")
        return _folded("other", what, self._pre(text, "code"))


def _folded(style: str, name: str, *children: Child, open_: bool = False) -> Html:
    return tag("details", tag("summary", name), *children, class_=style, open_=open_)


def on_one_line(text: str, longest: int = 80) -> str:
    """A text on one line, cut if it is too long."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


class _Named(Protocol):
    @property
    def session_id(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def first_prompt(self) -> str | None: ...


def session_title(info: _Named) -> str:
    """The name of a session for people: its title, or its first prompt, or its id."""
    return on_one_line(info.title or info.first_prompt or info.session_id, 160)


_NAMING: Final = ("command", "cmd", "file_path", "path", "filePath", "pattern", "query", "url")


def _brief_text(given: Any) -> str:
    """The argument that says most about a call."""
    if not isinstance(given, dict):
        return ""
    named = (given.get(name) for name in (*_NAMING, *(given if len(given) == 1 else ())))
    return next((text for text in named if isinstance(text, str)), "")


def _brief(block: Any) -> str:
    return on_one_line(_brief_text(block.get("input")))


_EDITS: Final = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old", "new"),
    ("search", "replace"),
)
_MOST_LINES: Final = 400
_OFTEN: Final = 5


def _changes(given: Any) -> list[tuple[str, str]]:
    """The texts that a tool replaces, and by which, if it is an edit."""
    if not isinstance(given, dict):
        return []
    edits = given.get("edits")
    if isinstance(edits, list) and edits:
        each = [_changes(edit) for edit in edits]
        return [change for changes in each for change in changes] if all(each) else []
    for old, new in _EDITS:
        match given.get(old), given.get(new):
            case str() as before, str() as after:
                return [(before, after)]
    if isinstance(given.get("content"), str) and {"file_path", "path", "filePath"} & given.keys():
        return [("", given["content"])]
    return []


def _changed_lines(changes: Sequence[tuple[str, str]]) -> str:
    removed = sum(len(old.splitlines()) for old, _ in changes)
    added = sum(len(new.splitlines()) for _, new in changes)
    return (
        f"Edit: {quantity(removed, 'line')} replaced by {quantity(added, 'line')}"
        if removed
        else f"New text: {quantity(added, 'line')}"
    )


def _diff_lines(old: str, new: str) -> list[Html | str]:
    """The lines of both texts, those that are removed and added as elements of their own."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return [_signed("del", "-", before), _signed("ins", "+", after)]
    parts: list[Html | str] = []
    # A line that is repeated aligns nothing, and comparing each pair of them takes seconds.
    repeated = {line for line, count in Counter(after).items() if count > _OFTEN}
    matcher = SequenceMatcher(repeated.__contains__, before, after, autojunk=False)
    for action, i, j, k, m in matcher.get_opcodes():
        if action == "equal":
            parts.append("".join(f"  {line}\n" for line in before[i:j]))
            continue
        parts += [_signed("del", "-", before[i:j])] if i < j else []
        parts += [_signed("ins", "+", after[k:m])] if k < m else []
    return parts


def _signed(name: str, sign: str, lines: Sequence[str]) -> Html:
    return tag(name, "".join(f"{sign} {line}\n" for line in lines)) if lines else Html()


def _is_image(piece: Piece) -> bool:
    match piece.block:
        case {"source": {"type": "base64", "media_type": str(mime), "data": str(data)}} if (
            piece.kind is Holds.MEDIA and mime in IMAGES
        ):
            try:
                # Strictly: other text could end the attribute. The beginning is enough here.
                first = binascii.a2b_base64(data[:64], strict_mode=len(data) <= 64)
            except ValueError:
                return False
            return first.startswith(IMAGES[mime])
    return False
