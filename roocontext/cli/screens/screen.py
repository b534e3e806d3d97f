"""The screen: lines, rows and tables, as wide as it is, in colour or not.

Text comes here through `safe_text`.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import IO, Any, Literal, NoReturn

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from roocontext.cli.screens.safe_text import ASCII_SIGNS, UNICODE_SIGNS, Signs, cut_line
from roocontext.cli.screens.wrapping import Piece, wrapped

NARROW = 56
"""Below this many columns, tables become lists."""

_USUAL = 80

_ENDLESS = 1 << 16
"""The columns of what is no terminal."""

_BELOW = 3
"""How many lines a row may take below its start."""

_BESIDE = 16
"""The least number of columns for text beside the start of a row."""

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


class _Console(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise: rich would end the process with exit code 1."""
        raise BrokenPipeError


class Screen:
    """Where a command shows what it found."""

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
        """Whether lines are neither wrapped nor cut: the output is for a program or a file."""
        if self.endless:
            self.console.width = _ENDLESS
        self._colours = COLOR_SYSTEMS.get(self.console.color_system or "")
        self.signs: Signs = ASCII_SIGNS if self.console.options.ascii_only else UNICODE_SIGNS
        self.width = self.console.width if self.console.width > 1 else _USUAL
        """How many columns there are."""

    @property
    def narrow(self) -> bool:
        """Whether rows of columns would be too narrow to read."""
        return self.width < NARROW

    def line(self, *parts: str | Piece, indent: int = 0) -> None:
        """A line of parts, each with or without a style; it wraps where it must."""
        pieces = [(part, "") if isinstance(part, str) else part for part in parts]
        if self._colours is None:
            pieces = [("".join(text for text, _ in pieces), "")]
        margin = (" " * indent, "")
        for line in wrapped(pieces, max(1, self.width - indent)):
            self._put(*([margin, *line] if line else ()))

    def beside(self, start: str, text: str, style: str, text_style: str) -> None:
        """A row: its start, and as much text as fits beside it, or below it if it is narrow."""
        if not self.fits_beside(start):
            self._above(start, style)
            few = cut_line(text, _BELOW * self.width, self.signs.more)
            self.line((few, text_style), indent=1)
            return
        few = cut_line(text, self.width - cell_len(start), self.signs.more)
        self._put((start, style), (few, text_style))

    def whole(self, start: str, text: str, style: str) -> None:
        """A row of which nothing is cut: the text goes on below itself."""
        if not self.fits_beside(start):
            self._above(start, style)
            self.line((text, style), indent=1)
            return
        self.hanging((start, style), " " * cell_len(start), (text, style))

    def hanging(self, start: Piece, below: str, styled: Piece) -> None:
        """A start with text beside it; the further lines of the text begin with `below`."""
        room = max(1, self.width - max(cell_len(start[0]), cell_len(below)))
        for number, line in enumerate(wrapped([styled], room)):
            self._put((below, start[1]) if number else start, *line)

    def fits_beside(self, start: str) -> bool:
        """Whether there is room for text beside it."""
        return not self.narrow and self.width - cell_len(start) >= _BESIDE

    def _above(self, start: str, style: str) -> None:
        if start.strip():
            self.line((" ".join(start.split()), style))

    def raw(self, text: str, *, indent: int = 0) -> None:
        """Lines as they are, neither wrapped nor styled: for programs, and for much text."""
        margin = " " * indent
        for line in text.split("\n"):
            self.console.file.write(f"{margin}{line}\n")

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one to a line."""
        longest = max(len(name) for name, _ in rows)
        for name, value in rows:
            if self.narrow:
                self.line((f"{name} ", "note"), value)
            else:
                self.line((f"{name:<{longest}}  ", "note"), value)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows of columns: the first holds words, the others numbers. A list where it is narrow."""
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

    def _put(self, *pieces: Piece) -> None:
        """Print a line that fits."""
        # rich's `print` takes hundreds of times as long, and an audit may have 100,000 lines.
        self.console.file.write("".join([*starmap(self._styled, pieces), "\n"]))

    def _styled(self, text: str, style: str) -> str:
        """The text with the escapes of its style, if the output has colours."""
        if self._colours is None or not style:
            return text
        return self.console.get_style(style).render(text, color_system=self._colours)
