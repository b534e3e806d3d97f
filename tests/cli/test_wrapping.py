"""Lines are broken where rich breaks them; only the time differs."""

import string

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from roocontext.cli.screens.screen import _SIMPLE, wrapped

CONSOLE = Console(width=200)
WORDS = st.text(st.sampled_from("ab -–é日🙂\u0301\xa0\u3000xyz   "), max_size=60)
TEXTS = st.one_of(
    WORDS,
    st.lists(WORDS, max_size=4).map("\n".join),
    st.text(st.sampled_from([*string.ascii_lowercase, *"      "]), max_size=200),
)


def by_rich(text: str, width: int) -> list[str]:
    found = Text(text).wrap(CONSOLE, width, overflow="fold")
    return [line.plain.rstrip() for line in found]


@given(TEXTS, st.integers(2, 40))
def test_wrapped_lines_equal_those_of_rich(text, width):
    lines = ["".join(piece for piece, _ in line) for line in wrapped([(text, "")], width)]
    assert lines == by_rich(text, width)


@given(st.lists(TEXTS, max_size=4), st.integers(2, 40))
def test_each_part_keeps_its_style(texts, width):
    found = list(wrapped([(text, f"style {number}") for number, text in enumerate(texts)], width))
    for number, text in enumerate(texts):
        own = [part for line in found for part, style in line if style == f"style {number}"]
        assert "".join("".join(own).split()) == "".join(text.split())
    whole = [*wrapped([("".join(texts), "")], width)]
    plain = ["".join(part for part, _ in line) for line in found]
    assert plain == ["".join(part for part, _ in line) for line in whole]


def test_simple_characters_take_one_column_each():
    simple = [chr(code) for code in range(0x3000) if _SIMPLE.fullmatch(chr(code))]
    assert len(simple) > 900
    assert all(cell_len(one) == 1 for one in simple)
    assert [one for one in simple if one.isspace()] == [" "]
