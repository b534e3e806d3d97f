"""The screen: lines, rows and tables, as wide as it is, in colour or not.

Callers make text safe with `safe_text` before they pass it to a screen.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, starmap
from typing import IO, Any, Final, Literal, NoReturn, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.console import COLOR_SYSTEMS, Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from roocontext.cli.screens.safe_text import (
    ASCII_SIGNS,
    UNICODE_SIGNS,
    Signs,
    cut_line,
    one_line,
    unbroken,
)

NARROW = 56
"""Below this many columns, tables become lists."""

_USUAL = 80

_LONGEST_TITLE = 160
"""How many cells of a title are shown."""

_LONGEST_NAME = 100
"""How many cells of an id are shown. The beginning of an id names it too."""

_ENDLESS = 1 << 16
"""The columns of an output that is not a terminal."""

_BELOW = 3
"""How many lines a row may take below its start."""

_LEAST = 16
"""The least number of columns for text after the start of a row."""

_THEME = Theme(
    {
        "role.user": "cyan",
        "role.assistant": "green",
        "role.tool": "yellow",
        "prompt": "bold",
        "match": "bold yellow",
        "acts": "magenta",
        "hidden": "dim",
        "note": "dim",
        "good": "green",
        "warn": "yellow",
        "bad": "bold red",
        "title": "bold",
    }
)

StyledText: TypeAlias = tuple[str, str]
"""A text and its style."""


class _Console(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise: rich would end the process with exit code 1."""
        raise BrokenPipeError


class Screen:
    """The output of a command that is drawn."""

    def __init__(self, file: IO[str] | None = None, *, colours: bool | None = None) -> None:
        self.console = _Console(
            file=file or sys.stdout,
            force_terminal=colours,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            theme=_THEME,
        )
        self.endless = not self.console.is_terminal and not os.environ.get("COLUMNS")
        """True if lines are neither wrapped nor cut: the output is for a program or a file."""
        if self.endless:
            self.console.width = _ENDLESS
        self._colours = COLOR_SYSTEMS.get(self.console.color_system or "")
        self.signs: Signs = ASCII_SIGNS if self.console.options.ascii_only else UNICODE_SIGNS
        self.width = self.console.width if self.console.width > 1 else _USUAL
        """How many columns there are."""

    @property
    def narrow(self) -> bool:
        """True if rows of columns would be too narrow to read."""
        return self.width < NARROW

    def name(self, session_id: str) -> str:
        """An id on one line, cut only if it is very long."""
        return cut_line(unbroken(session_id), _LONGEST_NAME, self.signs.more)

    def headline(self, session_id: str, title: str | None) -> None:
        """The line that names a session."""
        few = cut_line(
            one_line(title or "", longest=2 * _LONGEST_TITLE), _LONGEST_TITLE, self.signs.more
        )
        self.line((self.name(session_id), "title"), f"  {few}" if few else "")

    def line(self, *parts: str | StyledText, indent: int = 0) -> None:
        """A line of parts, each with or without a style. It is wrapped if it is too long."""
        styled = [(part, "") if isinstance(part, str) else part for part in parts]
        margin = (" " * indent, "")
        for line in wrapped(styled, max(1, self.width - indent)):
            self._put(*([margin, *line] if line else ()))

    def row(self, start: str, text: str, style: str, text_style: str) -> None:
        """A row: its start, and as much text as fits after it, or below it on a narrow screen."""
        if not self.fits_after(start):
            self._above(start, style)
            few = cut_line(text, _BELOW * self.width, self.signs.more)
            self.line((few, text_style), indent=1)
            return
        few = cut_line(text, self.width - cell_len(start), self.signs.more)
        self._put((start, style), (few, text_style))

    def whole_row(self, start: str, text: str, style: str) -> None:
        """A row with its whole text: further lines are indented to below the first."""
        if not self.fits_after(start):
            self._above(start, style)
            self.line((text, style), indent=1)
            return
        self.hanging((start, style), " " * cell_len(start), (text, style))

    def hanging(self, start: StyledText, below: str, text: StyledText) -> None:
        """A start with text after it. Further lines of the text begin with `below`."""
        room = max(1, self.width - max(cell_len(start[0]), cell_len(below)))
        for number, line in enumerate(wrapped([text], room)):
            self._put((below, start[1]) if number else start, *line)

    def fits_after(self, start: str) -> bool:
        """Check if there is room for text after a start."""
        return not self.narrow and self.width - cell_len(start) >= _LEAST

    def _above(self, start: str, style: str) -> None:
        if start.strip():
            self.line((" ".join(start.split()), style))

    def raw(self, text: str, *, indent: int = 0) -> None:
        """Lines as they are, neither wrapped nor styled: for programs, and for long texts."""
        margin = " " * indent
        for line in text.split("\n"):
            self.console.file.write(f"{margin}{line}\n")

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one pair on a line."""
        longest = 0 if self.narrow else max(len(name) for name, _ in rows) + 1
        for name, value in rows:
            self.line((f"{name:<{longest}} ", "note"), value)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table whose first column holds words, the others numbers; on a narrow screen a list."""
        if self.narrow:
            for row in rows:
                self.line((row[0], "title"))
                for heading, cell in zip(headings[1:], row[1:], strict=True):
                    self.line((f"{heading} ", "note"), cell, indent=1)
            return
        table = Table(box=None, pad_edge=False, header_style="note", padding=(0, 2, 0, 0))
        for index, heading in enumerate(headings):
            side: Literal["left", "right"] = "right" if index else "left"
            table.add_column(Text(heading), justify=side, overflow="fold", no_wrap=bool(index))
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)

    def blank(self) -> None:
        """An empty line."""
        self._put()

    def _put(self, *parts: StyledText) -> None:
        """Print a line that fits."""
        # rich's `print` takes hundreds of times as long, and an audit may have 100,000 lines.
        self.console.file.write("".join([*starmap(self._styled, parts), "\n"]))

    def _styled(self, text: str, style: str) -> str:
        """The text with the escapes of its style, if the output has colours."""
        if self._colours is None or not style:
            return text
        return self.console.get_style(style).render(text, color_system=self._colours)


_SIMPLE: Final = re.compile(
    "[\x20-\x7e\xa1-\xac\xae-\u02ff\u0370-\u0373\u0391-\u0482\u2013-\u2022]*"
)
"""Characters of one column each, of which only the space separates words."""

_WORD: Final = re.compile(r"\s*\S+\s*")


def wrapped(parts: Sequence[StyledText], width: int) -> Iterator[list[StyledText]]:
    """The lines of a text, of so many columns at most, without the spaces at their ends.

    They are the lines that rich's `Text.wrap` makes, in a hundredth of the time.
    """
    at = 0
    for paragraph in "".join(text for text, _ in parts).split("\n"):
        starts = [0, *_breaks(paragraph, width), len(paragraph)]
        for lo, hi in pairwise(starts):
            end = at + lo + len(paragraph[lo:hi].rstrip())
            yield [*_between(parts, at + lo, end)]
        at += len(paragraph) + 1


def _breaks(text: str, width: int) -> list[int]:
    """Where the lines of a paragraph begin, without the first."""
    if text.isspace():
        return []  # it has no word, which would be looked for from each of its characters
    # Nearly all lines are simple: a break is the last space that fits, and no word is measured.
    # Measuring each word takes twenty times as long.
    if not _SIMPLE.fullmatch(text) or text.startswith(" "):
        return [*_breaks_by_word(text, width)]
    starts: list[int] = []
    start, end = 0, len(text.rstrip())
    while end - start > width:
        space = text.rfind(" ", start, start + width + 1)
        if space <= start:  # a word that is longer than a line
            return [*_breaks_by_word(text, width)]
        start = space + 1
        while text[start] == " ":
            start += 1
        starts.append(start)
    return starts


def _breaks_by_word(text: str, width: int) -> Iterator[int]:
    used = 0
    for match in _WORD.finditer(text):
        start, word = match.start(), match[0]
        length = cell_len(word.rstrip())
        if length <= width - used:
            used += cell_len(word)
        elif length > width:
            for part in chop_cells(word, width):
                if start:
                    yield start
                start, used = start + len(part), cell_len(part)
        elif used and start:
            yield start
            used = cell_len(word)


def _between(parts: Sequence[StyledText], lo: int, hi: int) -> Iterator[StyledText]:
    """The parts that make up a range of the text."""
    at = 0
    for text, style in parts:
        if inside := text[max(lo - at, 0) : max(hi - at, 0)]:
            yield inside, style
        at += len(text)
