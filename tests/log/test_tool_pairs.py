"""Settled exchanges are left out, and what a plan separates is the same without them."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.log.pairs import Tools, links_of, matched, tools_from, unsettled
from support.examples import examples


def calls(*ids):
    return Tools(True, list(enumerate(ids)))


def results(*ids):
    return Tools(False, list(enumerate(ids)))


NO_CALL = (None, None)


def left(*messages, answers=()):
    """Who is left, given for some indices which call the message names: the index, the number."""
    named = dict(answers)
    return unsettled(
        [
            (index, message.text(), *named.get(index, NO_CALL))
            for index, message in enumerate(messages)
        ]
    )


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


def across(messages, indices=None, answers=()):
    """The number of times that each message answers each other one."""
    kept = range(len(messages)) if indices is None else indices
    named = dict(answers)
    links = links_of((index, named.get(index)) for index in kept)
    found = matched([messages[index] for index in kept], links)
    return Counter((kept[pair.call[0]], kept[pair.result[0]]) for pair in found)


def named_calls(messages):
    """For some results the call that they name: mostly the one before, sometimes any."""
    places = [index for index, message in enumerate(messages) if not message.are_calls]
    if not places:
        return st.just({})
    near = st.sampled_from(places).flatmap(
        lambda place: st.tuples(
            st.just(place),
            st.tuples(st.integers(max(0, place - 3), place), st.integers(0, 2)),
        )
    )
    return st.lists(near, max_size=4).map(dict)


@settings(max_examples=examples(80, long=300))
@given(HISTORIES.flatmap(lambda messages: st.tuples(st.just(messages), named_calls(messages))))
def test_pairs_are_the_same_without_settled_exchanges(given_):
    messages, answers = given_
    outside = left(*messages, answers=answers)
    pairs = across(messages, answers=answers)
    inside = {pair: count for pair, count in pairs.items() if not {*pair} & {*outside}}
    assert across(messages, outside, answers) + Counter(inside) == pairs
    settled = set(range(len(messages))) - {*outside}
    answered = Counter(index for pair, count in inside.items() for index in pair * count)
    assert answered == Counter({index: len(messages[index].ids) for index in settled})


def test_exchange_answered_at_once_is_settled():
    assert left(calls("a"), results("a"), calls("b", "c"), results("b", "c")) == []
    assert left(calls("a", "b"), results("a"), results("b")) == []
    assert left(calls("a", "a"), results("a"), results("a")) == []
    named = {1: (0, 0), 2: (0, 1)}
    assert left(calls("a"), results("a"), answers={1: (0, 0)}) == []
    assert left(calls("a", "b"), results("a"), results("b"), answers=named) == []


def test_result_that_names_another_call_than_its_id_is_left():
    assert left(calls("a"), calls("a"), results("a"), answers={2: (0, 0)}) == [0, 1, 2]
    assert left(calls("a", "b"), results("a"), results("b"), answers={1: (0, 1)}) == [0, 1, 2]
    assert left(calls("a"), calls("a"), results("a"), results("a")) == [0, 3]
    named = {2: (0, 1)}
    assert left(calls("a", "b", "c"), results("a", "b"), results("c"), answers=named) == [0, 1, 2]


def test_exchange_with_one_result_twice_and_none_of_another_call_is_left():
    assert left(calls("a", "b"), results("b"), results("b")) == [0, 1, 2]


def test_damaged_column_is_left():
    texts = ["{", '["call","a"]', "7", '["result","a"]', '["talk","a"]']
    assert unsettled([(seq, text, *NO_CALL) for seq, text in enumerate(texts)]) == [*range(5)]


@given(HISTORIES)
def test_same_ids_always_give_the_same_text(messages):
    assert [tools_from(message.text()) for message in messages] == messages
