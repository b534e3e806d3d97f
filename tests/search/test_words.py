"""The words of a search: terms, queries, matches and snippets, without a store."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.log.encoding import encode
from roocontext.search.match import occurrences, score
from roocontext.search.passages import WIDTH, WantedPassages, passages, snippet
from roocontext.search.query import LONGEST, composed, folded, parse_query, parts, terms_of
from support.examples import examples
from support.rows_of_formats import histories, marks, rows

PIECES = st.sampled_from(
    [
        *("foo", "Bar", "HTTP", "x1", "_", ".", "/", " ", "-", "\n", "*", '"', "\0", "\ud800"),
        *("+", "#", "$", "@", "(", ")"),
        *("数", "据", "ア", "ｱ", "가", "é", "e\u0301", "ß", "İ", "\u212a", "٣", "Ａ", "ก", "ำ"),
        *("👍", "🏽", "→"),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=12))


def is_indexed(query, terms):
    """True if an index that holds these terms answers the query."""

    def has(term):
        if term.is_beginning:
            return any(one.startswith(term.text) for one in terms)
        return term.text in terms

    return all(any(all(map(has, some)) for some in given) for given in query.indexed)


@settings(max_examples=examples(150, long=300))
@given(text=TEXTS, other=TEXTS, data=st.data())
def test_terms_of_a_text_include_what_every_query_that_it_answers_asks_for(text, other, data):
    lo = data.draw(st.integers(0, len(text)))
    hi = data.draw(st.integers(lo, len(text)))
    for asked in (text, other, text[lo:hi], f"{text[lo:hi]}*", f'"{text[lo:]}"', text.upper()):
        query = parse_query(asked)
        if occurrences(query, composed(text)):
            assert is_indexed(query, terms_of(text))


@settings(max_examples=examples(100, long=200))
@given(text=TEXTS, before=TEXTS, after=TEXTS)
def test_text_is_found_by_itself(text, before, after):
    query = parse_query(text.replace("*", " ").replace('"', " "))
    assert not query.words or occurrences(query, composed(f"{before} {text} {after}"))


@given(text=TEXTS)
def test_folding_keeps_the_length(text):
    assert len(folded(text)) == len(text)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("fooBarBaz", ["foo", "Bar", "Baz"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("sha256Sum", ["sha256", "Sum"]),
        ("ABC", ["ABC"]),
        ("123", ["123"]),
        ("éÉa", ["é", "Éa"]),
    ],
)
def test_identifiers_are_found_by_their_parts(run, expected):
    assert list(parts(run)) == expected


@pytest.mark.parametrize("run", ["a1", "aB", "数", "é", "_", "."])
def test_long_run_beside_an_accent_is_cut_into_terms_in_one_pass(run):
    assert terms_of(f"é {run * 50_000} foo.bar") >= {"é", "foo", "bar", "foo\u00b7bar"}


def test_long_terms_are_cut():
    long = "x" * 3_000
    assert terms_of(long) == {"x" * LONGEST}
    assert is_indexed(parse_query(long), terms_of(long))
    assert not occurrences(parse_query(long), long[:-1])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("a b", 2),
        ('"a b"', 1),
        ('"a b', 2),
        ('a"b c"', 2),
        ("a a", 1),
        ("* ** -- ()", 0),
        ('""', 0),
        ('"a"* b*', 2),
    ],
)
def test_queries_are_split_into_words(query, words):
    assert len(parse_query(query).words) == words


def test_message_that_says_it_more_often_or_is_shorter_is_better():
    found = [[(0, 1)]]
    assert score(found, 100) > score(found, 1_000) > score(found, 100_000) > 0
    assert score([[(0, 1), (2, 3)]], 100) > score(found, 100)
    assert score(found * 2, 100) > score(found, 100)


@pytest.mark.parametrize("asked", ["─────x", '"──── x"', '"─ ─ ──x"', '"╭──── x"', "→→→→→x"])
def test_row_of_symbols_is_searched_without_trying_every_choice_of_them(asked):
    query, row = parse_query(asked), f"╭{'─' * 150}{'→' * 150}"
    assert occurrences(query, f"{row} y {row}\ny x") is None
    assert occurrences(query, f"{row} y {row}x")


def test_sign_after_an_underscore_is_between_two_parts_of_a_word():
    for query in ("foo.bar", "foo_.bar"):
        for text in ("foo.bar", "foo_.bar", "foo_/bar"):
            assert occurrences(parse_query(query), text) == [[(0, len(text))]]


def test_symbols_before_those_that_are_asked_for_may_be_in_a_gap():
    assert occurrences(parse_query('"a →b"'), "a → →b") == [[(0, 6)]]


@given(text=TEXTS, before=st.integers(0, 500), after=st.integers(0, 500), context=st.integers(0, 3))
def test_snippet_is_a_part_of_the_text_with_every_mark_in_it(text, before, after, context):
    whole = composed("ab \n" * (before // 4) + text + " needle " + "cd \n" * (after // 4))
    shown = snippet(whole, occurrences(parse_query("needle"), whole), context=context)
    assert shown.text in whole
    assert [shown.text[lo:hi] for lo, hi in shown.marks] == ["needle"]
    assert shown.is_continued != whole.startswith(shown.text)
    assert shown.continues != whole.endswith(shown.text)
    if not context:
        assert len(shown.text) <= WIDTH


@given(history=histories)
def test_texts_of_every_format_are_searched(history):
    for message, (_, (act, *given_)) in zip(rows(history), history, strict=True):
        text = passages(message.format, message.role, message.content)
        for mark in marks(message.seq, act, *given_):
            assert mark in text, message


@pytest.mark.parametrize("number", ["1e5", "1.0E+5", "0.00001", "3"])
def test_number_in_arguments_is_found_as_it_is_read(number):
    """Whether a stored content is worth decoding is decided without decoding it."""
    function = {"name": "run", "arguments": f'{{"n": {number}}}'}
    calls = [{"id": "c", "type": "function", "function": function}]
    content = {"role": "assistant", "content": None, "tool_calls": calls}
    text = passages("openai", "assistant", content)
    query = parse_query(text.split()[-1])
    assert occurrences(query, text)
    assert query.may_be_in(encode(content))


def test_more_context_than_there_is_shows_the_whole_text():
    whole = "ab\n" * 500 + "needle" + "\ncd" * 500
    assert snippet(whole, occurrences(parse_query("needle"), whole), context=1 << 62).text == whole


def test_passages_are_selected_by_role_and_tool():
    content = [
        {"type": "text", "text": "said"},
        {"type": "thinking", "thinking": "thought", "signature": "sig"},
        {"type": "tool_use", "id": "t", "name": "run", "input": {"a": {"b": ["x", 5, None, True]}}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}]},
        {"type": "odd", "data": "A" * 1_000, "kept": "as it is"},
        {"type": "image", "source": {"type": "base64", "data": "B" * 1_000}},
    ]
    whole = passages("anthropic", "assistant", content)
    assert whole == (
        "said\nthought\nrun\nb: x\nb: 5\nb: null\nb: true\nout\ntype: odd\nkept: as it is"
    )
    assert passages("anthropic", "assistant", content, WantedPassages("tool")) == "out"
    named = WantedPassages(tool="run", name_of={"t": "run"}.get)
    assert passages("anthropic", "assistant", content, named).splitlines()[-1] == "out"
    assert passages("anthropic", "assistant", content, WantedPassages(tool="other")) == ""
