"""Pairs of calls and results, and rows that must stay together."""

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.errors import HistoryCorrupt
from roocontext.log.encoding import encode
from roocontext.log.pairs import (
    Pair,
    bound,
    links_of,
    matched,
    may_hold_tools,
    pairs,
    reach,
    tools_from,
    tools_of,
    unsettled,
)
from support.dialogue import call, result, text
from support.examples import examples
from support.separated import split


@pytest.mark.parametrize("content", [call("a"), {"functionCall": {}}, {"function_call": {}}])
def test_only_an_object_or_a_list_may_hold_tools(content):
    stored = encode([content])
    assert may_hold_tools(stored)
    assert not may_hold_tools(encode(stored))


TEXT = text("hello")


def asks(*ids):
    return ("assistant", [call(i) for i in ids])


def answers(*ids):
    return ("user", [result(i) for i in ids])


def says(role="user"):
    return (role, [TEXT])


def test_ill_typed_blocks_pair_with_nothing():
    broken = [{"type": "tool_use"}, {"type": "tool_use", "id": 5}, {"type": ["tool_use"]}]
    assert pairs([("assistant", broken), ("user", [{"type": "tool_result"}])]) == []


histories = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant"]),
        st.lists(
            st.one_of(
                st.builds(call, st.sampled_from("abc")),
                st.builds(result, st.sampled_from("abc")),
                st.just(TEXT),
                st.just({"type": "tool_use", "id": None}),
            ),
            max_size=4,
        ),
    ),
    max_size=12,
)


def naive(messages):
    """The definition, word by word."""
    answered, found = set(), []
    for r, (role, blocks) in enumerate(messages):
        for b, block in enumerate(blocks):
            if role != "user" or block["type"] != "tool_result":
                continue
            candidates = [
                (c, k)
                for c, (speaker, said) in enumerate(messages[:r])
                for k, asked in enumerate(said)
                if speaker == "assistant"
                and asked["type"] == "tool_use"
                and asked["id"] == block["tool_use_id"]
                and (c, k) not in answered
            ]
            if candidates:
                latest = max(c for c, _ in candidates)
                chosen = min(place for place in candidates if place[0] == latest)
                answered.add(chosen)
                found.append(Pair(chosen, (r, b), block["tool_use_id"]))
    return found


@settings(max_examples=examples(150))
@given(histories)
def test_pairs_are_the_definition(messages):
    assert pairs(messages) == naive(messages)


@given(histories, st.sets(st.integers(0, 11)))
def test_hiding_with_all_partners_splits_nothing(messages, chosen):
    together = bound(pairs(messages))
    hidden = chosen.union(*(together.get(index, set()) for index in chosen))
    assert split(messages, hidden) == []
    assert all(index not in group for index, group in together.items())
    assert all(index in together[other] for index, group in together.items() for other in group)


ids = st.lists(st.sampled_from("abc"), max_size=2)
MESSAGES = st.lists(
    st.one_of(
        ids.map(lambda chosen: asks(*chosen)),
        ids.map(lambda chosen: answers(*chosen)),
        st.just(says()),
    ),
    max_size=14,
)


@settings(max_examples=examples(150))
@given(messages=MESSAGES, sides=st.lists(st.booleans(), min_size=14, max_size=14))
def test_reach_tells_if_a_pair_is_split(messages, sides):
    here = [index for index in range(len(messages)) if sides[index]]
    stretches = [
        list(group)
        for is_here, group in groupby(range(len(messages)), lambda index: sides[index])
        if not is_here
    ]
    tools = [tools_of(message) for message in messages]
    rows = [index for index in here if tools[index]]
    before = [sum(stretch[0] < index for stretch in stretches) for index in rows]
    found = reach([tools[index] for index in rows], before, len(stretches))
    read = sorted([*rows, *(index for n in found for index in stretches[n])])
    told = [
        (read[pair.call[0]], read[pair.result[0]])
        for pair in matched([tools[index] for index in read])
        if sides[read[pair.call[0]]] != sides[read[pair.result[0]]]
    ]
    expected = [(pair.call[0], pair.result[0]) for pair in split(messages, here)]
    assert (told if found else []) == expected


def test_call_that_waits_at_the_end_reaches_nothing():
    assert not reach([tools_of(asks("a"))], [1], 1)
    assert reach([tools_of(asks("a"))], [0], 1) == range(1)
    assert reach([tools_of(answers("a"))], [2], 5) == range(2)


ODD_IDS = st.sampled_from(["a", "b", "a,b", '"', '","', "\ud800"])


@given(st.lists(ODD_IDS | st.text(st.characters()), min_size=1, max_size=3), st.booleans())
def test_pairs_from_the_tools_column_are_the_same(chosen, are_calls):
    tools = tools_of(asks(*chosen) if are_calls else answers(*chosen))
    assert tools_from(tools.text()) == tools


@pytest.mark.parametrize("stored", ["{", "7", "[]", '["call",7]', '["talk","a"]', "null"])
def test_damaged_column_is_refused(stored):
    with pytest.raises(HistoryCorrupt):
        tools_from(stored)


def test_row_that_names_its_call_is_not_looked_up_by_id():
    messages = [asks("a", "a"), asks("a"), answers("a"), answers("x"), answers("a")]
    links = links_of([(10, None), (11, None), (12, (10, 1)), (13, (11, 0)), (14, None)])
    assert [(pair.call, pair.result) for pair in pairs(messages, links)] == [
        ((0, 1), (2, 0)),
        ((1, 0), (3, 0)),
        ((0, 0), (4, 0)),
    ]


@pytest.mark.parametrize("named", [(9, 0), (10, 1), (11, 0), (12, 0)])
def test_row_that_names_no_call_that_waits_answers_nothing(named):
    messages = [asks("a"), says(), answers("a")]
    links = links_of([(10, None), (11, None), (12, named)])
    assert pairs(messages, links) == []
    assert pairs([*messages, answers("a")], links) == [Pair((0, 0), (3, 0), "a")]


def test_only_the_first_of_two_rows_that_name_a_call_answers_it():
    messages = [asks("a"), answers("a"), answers("a")]
    links = links_of([(10, None), (11, (10, 0)), (12, (10, 0))])
    assert [pair.result for pair in pairs(messages, links)] == [(1, 0)]


def test_row_with_several_results_is_paired_by_their_ids():
    links = links_of([(10, None), (11, (10, 0))])
    found = pairs([asks("a", "b"), answers("b", "a")], links)
    assert [(pair.call[1], pair.result[1]) for pair in found] == [(1, 0), (0, 1)]


# Settled exchanges are left out, and what a plan separates is the same without them


def calls(*ids):
    return tools_of(asks(*ids))


def results(*ids):
    return tools_of(answers(*ids))


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


IDS = st.lists(ODD_IDS, min_size=1, max_size=3)


@st.composite
def exchanges(draw):
    """A call and its results: complete in order, most of the time."""
    ids = draw(IDS)
    cut = draw(st.integers(0, len(ids)))
    parts = [part for part in (ids[:cut], ids[cut:]) if part]
    return [calls(*ids), *(results(*part) for part in parts)]


ALONE = st.builds(lambda kind, ids: [kind(*ids)], st.sampled_from([calls, results]), IDS)
HISTORIES = st.lists(st.one_of(exchanges(), ALONE), max_size=8).map(
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
def test_pairs_are_the_same_without_settled_exchanges(history):
    messages, answers = history
    outside = left(*messages, answers=answers)
    whole = across(messages, answers=answers)
    inside = {pair: count for pair, count in whole.items() if not {*pair} & {*outside}}
    assert across(messages, outside, answers) + Counter(inside) == whole
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
