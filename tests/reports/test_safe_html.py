"""Text in a page: it is never markup, and nothing in it hides or turns the line."""

from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from roocontext.reports.markup.safe_html import escaped, preformatted

BIDI = "\u202e\u2066\u200f\u061c"


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_no_text_is_markup(text):
    made = escaped(text)
    made.encode()
    assert not set(made) & {"<", ">", '"', "'", *BIDI, "\0", "\r", "\x9b", "\u200b"}
    if text.isascii() and text.isprintable():
        assert unescape(made) == text


def test_invisible_characters_are_shown_by_number():
    assert escaped("a\0\u202eb\ud83d") == "a[U+0000][U+202E]b[U+D83D]"
    assert escaped("\u0928\u094d\u200d \U0001f469\u200d\U0001f467") == (
        "\u0928\u094d\u200d \U0001f469\u200d\U0001f467"
    )
    assert escaped("tab\tline\n") == "tab\tline\n"


def test_preformatted_text_keeps_its_lines():
    assert preformatted("\n a\r\nb") == '<pre class="text" dir="auto">\n\n a\nb</pre>'
