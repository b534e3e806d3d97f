"""Values are printed and measured as JavaScript prints and measures them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.tokens.javascript import code_points, stringify, truthy, units


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0, "0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (2**70, "1.1805916207174113e+21"),
        (10**400, "null"),
        (float("inf"), "null"),
        (float("nan"), "null"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ([1, [2, {"a": []}]], '[1,[2,{"a":[]}]]'),
        (
            {"b": 1, "10": 2, "a": 3, "9": 4, "01": 5, "-1": 6},
            '{"9":4,"10":2,"b":1,"a":3,"01":5,"-1":6}',
        ),
        ({"4294967295": 1, "4294967294": 2}, '{"4294967294":2,"4294967295":1}'),
        ({"٣": 1, "2": 2}, '{"2":2,"٣":1}'),
        ('日\u2028\x7f/"\\', '"日\u2028\x7f/\\"\\\\"'),
        ("\b\t\n\f\r\x00\x1f", '"\\b\\t\\n\\f\\r\\u0000\\u001f"'),
        ("\ud83d!\ude00", '"\\ud83d!\\ude00"'),
        ("\ud83d\ude00", '"\ud83d\ude00"'),
        ("\ud83d\ud83d\ude00\ude00", '"\\ud83d\ud83d\ude00\\ude00"'),
    ],
    ids=repr,
)
def test_numbers_are_printed_as_by_javascript(value, printed):
    assert stringify(value) == printed


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_is_read_back_as_the_same_double(number):
    assert float(stringify(number)) == number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_printed_value_is_json(value):
    assert json.loads(stringify(value)) == value


@given(st.text(st.characters(exclude_categories=())))
def test_length_is_in_utf16_units(text):
    assert units(text) == sum(2 if character > "\uffff" else 1 for character in text)
    assert units(code_points(text)) == units(text)


def test_only_halves_that_stand_together_are_joined():
    assert code_points("\ud83d\ude00") == "\U0001f600"
    assert code_points("\ude00\ud83d") == "\ude00\ud83d"


@pytest.mark.parametrize("value", [{}, [], "0", -1, 0.5, True, {"a": None}])
def test_truthy_values_are_those_of_javascript(value):
    assert truthy(value)


@pytest.mark.parametrize("value", [None, False, 0, 0.0, -0.0, ""])
def test_falsy_values_are_those_of_javascript(value):
    assert not truthy(value)
