"""Records in a temporary file are equal to what was put there."""

from contextlib import closing

from roocontext.formats.shelf import Shelf


def nested(depth):
    record = {}
    for _ in range(depth):
        record = {"in": [record]}
    return record


def test_records_come_back_in_any_order():
    records = [{"b": 1, "a": "\ud800"}, 10**40, None, {"text": "x" * (2 << 20)}, nested(5_000)]
    with closing(Shelf()) as shelf:
        shelved = [shelf.put(record) for record in records]
        assert [*map(shelf.get, reversed(shelved[:-1]))] == records[-2::-1]
        assert shelf.get(shelved[-1]) is records[-1]


def test_records_are_compared_by_what_they_say():
    with closing(Shelf()) as shelf:
        one, other = shelf.put({"a": 1, "b": [2]}), shelf.put({"b": [2], "a": 1})
        assert shelf.is_same(one, other)
        assert shelf.is_same(one, shelf.put({"a": 1.0, "b": [2]}))
        assert not shelf.is_same(one, shelf.put({"a": 1, "b": [3]}))
        deep = shelf.put(nested(5_000))
        assert shelf.is_same(deep, deep)
        assert not shelf.is_same(one, deep)
