"""Numbers by name, compared with a dictionary."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from roocontext.formats.numbered_names import NumberedNames


class Named:
    """A name whose hash is given, so that different names share a slot."""

    def __init__(self, mark: int) -> None:
        self.mark = mark

    def __hash__(self) -> int:
        return self.mark


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2**32 - 1)), max_size=700))
def test_they_are_those_of_a_dictionary(given):
    # Marks that differ in their high bits only begin in one slot; 0 is a mark that none has.
    names = NumberedNames()
    expected = {}
    for name, number in given:
        mark = (name + 1) << (8 * (name % 6))
        names[Named(mark)] = expected[mark] = number
    for name in range(401):
        mark = (name + 1) << (8 * (name % 6))
        assert names.get(Named(mark)) == expected.get(mark)
        assert (Named(mark) in names) == (mark in expected)


def test_the_empty_name_and_hashes_below_zero():
    names = NumberedNames()
    assert names.get("") is None
    names[""], names[Named(-5)] = 7, 8
    assert (names.get(""), names.get(Named(-5)), names.get(Named(5))) == (7, 8, None)


def test_they_take_little_memory():
    tracemalloc.start()
    names = NumberedNames()
    for number in range(20_000):
        names[f"name {number}"] = number
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 33 * 20_000
    assert [names.get(f"name {number}") for number in range(20_000)] == list(range(20_000))
