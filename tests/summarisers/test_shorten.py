"""Texts are cut at characters, say what is gone, and weigh no more than they may."""

from hypothesis import given
from hypothesis import strategies as st

from roocontext.summarisers.transcript import (
    TOKEN,
    clean,
    first,
    last,
    shorten,
    shorten_line,
    weight,
)

texts = st.text(st.characters(exclude_categories=()), max_size=60) | st.text("ab", max_size=300)
rooms = st.integers(0, 200)


def test_other_scripts_weigh_more_than_ascii():
    assert weight("abc") == TOKEN
    assert weight("日本") > 2 * TOKEN


def test_middle_is_cut_and_counted():
    cut = shorten("begin " + "x" * 1_000 + " end", 100)
    assert cut.startswith("begin x")
    assert cut.endswith("x end")
    assert f"[... {1_010 - len(cut) + len('[... 938 characters left out ...]') + 2:,} " in cut


def test_text_that_fits_is_left_alone():
    assert shorten("x" * 100, 100) == "x" * 100
    assert shorten_line("one\n  two\tthree", 100) == "one two three"


def test_shortened_line_is_marked():
    assert shorten_line("a very long line", 10) == "a very..."


def test_control_characters_are_removed_and_surrogates_replaced():
    assert clean("a\0b\x1b[2Jc\r\nd\re\tf\u202eg") == "ab[2Jc\nd\ne\tfg"
    assert clean("\ud83d\ude00 \ud83d \ude00") == "😀 \ufffd \ufffd"


@given(texts, rooms)
def test_shortened_text_never_exceeds_its_room(text, room):
    for cut in (shorten(text, room), first(text, room), last(text, room)):
        assert weight(cut) <= max(room, 0)
    assert weight(shorten_line(text, max(room, 3))) <= max(room, 3)


@given(texts, rooms)
def test_cut_keeps_beginning_and_end(text, room):
    assert text.startswith(first(text, room))
    assert text.endswith(last(text, room))
    assert first(text, weight(text)) == last(text, weight(text)) == text


@given(texts)
def test_clean_text_is_encodable_and_unchanged(text):
    clean(text).encode()
    assert clean(clean(text)) == clean(text)


@given(texts, texts)
def test_weights_add_up(one, other):
    assert weight(one + other) == weight(one) + weight(other)
