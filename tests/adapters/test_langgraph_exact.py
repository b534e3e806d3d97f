"""Values that JSON gives back exactly: decided without writing them where that is certain."""

import json
import marshal

from hypothesis import example, given
from hypothesis import strategies as st

from roocontext.formats.langchain_conversations import is_exact


class Text(str):
    __slots__ = ()


class Fields(dict):
    pass


TEXTS = st.one_of(
    st.text(max_size=5),
    st.text(alphabet="a\n\ud83d\ude00\ud800", max_size=4),  # halves of characters, also in pairs
    st.builds(Text, st.text(max_size=2)),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.binary(max_size=2)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(TEXTS | st.integers() | st.none(), inner, max_size=3)
        | st.builds(Fields, st.dictionaries(TEXTS, inner, max_size=2))
    ),
    max_leaves=6,
)


@given(VALUES)
@example({1: "a"})
@example({"\ud83d\ude00": 1})
@example([-0.0, 1e22, 2**64, True, 1])
def test_value_is_exact_if_writing_and_reading_it_changes_nothing(value):
    assert is_exact(value) == _is_equal_after_a_trip(value)


def test_deep_value_is_exact_and_one_within_itself_is_not():
    deep: list = []
    for _ in range(400):
        deep = [deep]
    assert is_exact(deep)
    deep.append(deep)
    assert not is_exact(deep)


def _is_equal_after_a_trip(value):
    try:
        again = json.loads(json.dumps(value, allow_nan=False))
        return marshal.dumps(again, 0) == marshal.dumps(value, 0)
    except (TypeError, ValueError):
        return False
