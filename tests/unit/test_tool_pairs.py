"""Settled exchanges are left out, and what a plan separates is the same without them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.log.pairs import Tools, matched, tools_from
from roocontext.log.tool_pairs import unsettled
from support.examples import examples


def calls(*ids):
    return Tools(True, list(enumerate(ids)))


def results(*ids):
    return Tools(False, list(enumerate(ids)))


def left(*messages):
    return unsettled([message.text() for message in messages])


IDS = st.lists(st.sampled_from(["a", "b", "a,b", '"', '","', "\ud800"]), min_size=1, max_size=3)


@st.composite
def exchanges(draw):
    """A call and its results: complete in order, most of the time."""
    ids = draw(IDS)
    cut = draw(st.integers(0, len(ids)))
    parts = [part for part in (ids[:cut], ids[cut:]) if part]
    return [calls(*ids), *(results(*part) for part in parts)]


ANY = st.builds(lambda are_calls, ids: [(results, calls)[are_calls](*ids)], st.booleans(), IDS)
HISTORIES = st.lists(st.one_of(exchanges(), ANY), max_size=8).map(
    lambda groups: [message for group in groups for message in group]
)


def across(messages, indices=None):
    """How often which message answers which."""
    kept = range(len(messages)) if indices is None else indices
    found = matched([messages[index] for index in kept])
    return Counter((kept[pair.call[0]], kept[pair.result[0]]) for pair in found)


@settings(max_examples=examples(300))
@given(HISTORIES)
def test_who_answers_whom_is_the_same_without_settled_exchanges(messages):
    outside = left(*messages)
    pairs = across(messages)
    inside = {pair: count for pair, count in pairs.items() if not {*pair} & {*outside}}
    assert across(messages, outside) + Counter(inside) == pairs
    settled = set(range(len(messages))) - {*outside}
    answered = Counter(index for pair, count in inside.items() for index in pair * count)
    assert answered == Counter({index: len(messages[index].ids) for index in settled})


def test_what_is_answered_at_once_is_settled():
    assert left(calls("a"), results("a"), calls("b", "c"), results("b", "c")) == []
    assert left(calls("a", "b"), results("a"), results("b")) == []
    assert left(calls("a", "a"), results("a"), results("a")) == []


@pytest.mark.parametrize(
    "messages",
    [
        [results("a")],
        [calls("a")],
        [results("a"), calls("a")],
        [calls("a", "b"), results("a")],
        [calls("a", "b"), results("b"), results("a")],
        [calls("a"), results("a", "b")],
        [calls("a", "b"), results("a"), results("c"), results("b")],
        [calls("ab"), results("a"), results("b")],
        [calls("a,b"), results("a"), results("b")],
        [calls('a","b'), results("a"), results("b")],
    ],
)
def test_everything_else_is_left(messages):
    assert left(*messages) == list(range(len(messages)))


def test_a_call_that_waits_is_left_alone():
    assert left(calls("a"), calls("a"), results("a"), results("a")) == [0, 3]


def test_a_damaged_column_is_left():
    assert unsettled(["{", '["call","a"]', "7", '["result","a"]', '["talk","a"]']) == [*range(5)]


@given(HISTORIES)
def test_the_same_ids_always_give_the_same_text(messages):
    assert [tools_from(message.text()) for message in messages] == messages
