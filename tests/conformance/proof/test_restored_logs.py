"""A log out of one store and into another: equal in every view, every hash and every byte."""

import gzip
import tracemalloc
from typing import Any

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.errors import (
    HistoryCorrupt,
    InvalidOption,
    SessionExists,
    SessionPurged,
    VersionConflict,
)
from roocontext.formats import jsonl
from roocontext.log.chain import Sealed
from roocontext.store.proof import restore, verify
from roocontext.store.proof.restore import StoredEntry
from roocontext.store.reading import messages
from support.dialogue import call, everything, fill, result, text, work
from support.steady_sources import CountedIds, SetClock
from support.steps import steps_of

SECRET = "hunter2-the-secret-password"


@pytest.fixture(scope="module")
def other(leg: Any) -> Any:
    """Another store, of another engine."""
    with Store.open(":memory:", clock=SetClock(), ids=CountedIds()) as store:
        yield store


def copied(chat: Any, store: Any, entries: Any = None) -> Any:
    info = chat.info()
    given = list(chat.internals.stored()) if entries is None else entries
    return store.restore(chat.id, given, parent=info.parent, created_at=info.created_at)


def busy(chat: Any) -> None:
    """One of everything."""
    fill(chat, 3)
    work(chat, ("t1",), SECRET)
    chat.append("user", [text("\ud83d \0")], extra={"a": [1, 1.0, True]}, message_id="\u00e9")
    chat.commit(Plan.condense(chat.view(), [1, 2], "S", compaction_id="c"))
    chat.commit(Plan.clear(chat.view(), [(5, 0)], "-"))
    chat.pin(6)
    chat.set_title("title \u00e9")
    chat.set_metadata({"tool": "x", "n": 1})
    chat.rewind(to=6)
    chat.undo()
    chat.redact(5)
    chat.append("assistant", [call("t2")], model="m", usage={"input_tokens": 3}, client_id="k")
    chat.append("user", [result("t2")], answers=(chat.head_seq(), 0))


def test_session_with_one_of_everything_comes_back_equal(store, other):
    chat = store.create()
    busy(chat)
    done = copied(chat, other)
    assert (done.entries, done.new, done.created) == (chat.head().seq, chat.head().seq, True)
    assert everything(other.session(chat.id)) == everything(chat)
    assert copied(chat, other).new == 0
    # It continues like any other session.
    other.session(chat.id).append("user", "more")
    assert other.session(chat.id).verify(chat.head()).ok


def test_longer_log_continues_a_session(store, other):
    chat = store.create()
    fill(chat, 4)
    copied(chat, other)
    chat.commit(Plan.condense(chat.view(), [1, 2], "S"))
    fill(chat, 2)
    assert copied(chat, other).new == 3
    twin = other.session(chat.id)
    assert everything(twin) == everything(chat)
    assert copied(chat, other, list(chat.internals.stored(last=3))).new == 0
    assert everything(twin) == everything(chat)


def test_another_log_of_the_same_name_is_refused(store, other):
    chat = store.create()
    fill(chat, 3)
    mine = other.create(chat.id)
    mine.append("user", "of its own")
    fill(mine, 1)
    before = everything(mine)
    for last in (1, 2, 3):
        with pytest.raises(SessionExists):
            copied(chat, other, list(chat.internals.stored(last=last)))
    assert everything(mine) == before
    with pytest.raises(SessionExists, match="parent"):
        other.restore(chat.id, [], parent="elsewhere")
    other.purge(chat.id)
    with pytest.raises(SessionPurged):
        copied(chat, other)


DAMAGE = {
    "a missing entry": lambda rows: [rows[0], *rows[2:]],
    "another order": lambda rows: [rows[1], rows[0], *rows[2:]],
    "other content": lambda rows: [rows[0]._replace(content='"x"'), *rows[1:]],
    "another hash": lambda rows: [rows[0]._replace(hash=bytes(32)), *rows[1:]],
    "another time": lambda rows: [
        rows[0]._replace(sealed=rows[0].sealed._replace(ts=5)),
        *rows[1:],
    ],
    "no salt": lambda rows: [rows[0]._replace(salt=None), *rows[1:]],
    "content that is no text": lambda rows: [rows[0]._replace(content=5), *rows[1:]],
    "fields that are no text": lambda rows: [rows[0]._replace(extra=5), *rows[1:]],
    "spaces in its JSON": lambda rows: [rows[0]._replace(extra='{"a": 1}'), *rows[1:]],
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_log_is_refused_whole(store, other, damage):
    chat = store.create()
    chat.append("user", "a", extra={"a": 1})
    fill(chat, 3)
    with pytest.raises(HistoryCorrupt, match=r"Nothing was written|a check of the schema"):
        copied(chat, other, DAMAGE[damage](list(chat.internals.stored())))
    assert other.find(chat.id) == []


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("value", [5.5, True, [], {1}, "\ud800"])
def test_each_field_of_an_entry_is_checked(store, other, value):
    chat = store.create()
    chat.append("user", "a", extra={"a": 1})
    (entry,) = chat.internals.stored()
    damaged = [entry._replace(**{name: value}) for name in StoredEntry._fields]
    damaged += [
        entry._replace(sealed=entry.sealed._replace(**{name: value})) for name in Sealed._fields
    ]
    for one in damaged:
        with pytest.raises(HistoryCorrupt, match="Nothing was written"):
            other.restore(chat.id, [one])
    assert other.find(chat.id) == []


def test_wrong_input_is_refused(store, other):
    chat = store.create()
    chat.append("user", "a")
    for entries in (5, None, [5], ["x"], [None], iter([*chat.internals.stored()])):
        with pytest.raises(InvalidOption, match="restored from"):
            other.restore("of something else", entries)
    assert other.find("of something else") == []


def test_redaction_while_the_log_is_read_is_kept(store):
    chat = store.create()
    fill(chat, 3)
    entries = chat.internals.stored()
    chat.redact(2)
    assert len(list(entries)) == 4  # it had not begun
    with pytest.raises(VersionConflict):
        list(chat.internals.stored(last=3))


@pytest.mark.one_leg
@pytest.mark.parametrize("read", ["verify", "stored", "audit"])
def test_large_messages_are_read_a_few_at_a_time(store, monkeypatch, read):
    monkeypatch.setattr(messages, "AT_ONCE_BYTES", 1 << 20)
    chat = store.create()
    chat.append_many([NewMessage("user", "x" * 200_000) for _ in range(50)])
    reads = {"verify": chat.verify, "stored": chat.internals.stored, "audit": chat.audit}[read]
    tracemalloc.start()
    try:
        done = reads()
        assert done.ok if read == "verify" else sum(1 for _ in done) == 50
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 << 20


@pytest.mark.one_leg
@pytest.mark.parametrize("read", ["verify", "stored"])
def test_redactions_are_not_read_with_each_page(store, monkeypatch, read):
    for module in (restore, verify):
        monkeypatch.setattr(module, "PAGE", 10)
    steps = []
    for count in (100, 200):
        chat = store.create()
        fill(chat, count)
        for seq in range(1, count, 2):
            chat.redact(seq)
        reads = chat.verify if read == "verify" else lambda chat=chat: [*chat.internals.stored()]
        reads()
        steps.append(steps_of(reads))
    assert steps[1] < 2.2 * steps[0]


def test_file_of_a_family_is_the_same_again(store, other, tmp_path):
    chat = store.create()
    busy(chat)
    child = store.create(parent=chat.id)
    child.append_many([NewMessage("user", f"line {n}") for n in range(3)])
    store.create(parent=child.id)
    if hasattr(store, "target"):
        chat, store = store.target._plain.session(chat.id), store.target._plain
    path = tmp_path / "family.jsonl"
    path.write_bytes(b"".join(jsonl.export_family(store, chat)))
    done = list(jsonl.restore_file(other, path))
    assert [one.problem for one in done] == [None] * 3
    assert [one.new for one in done] == [one.entries for one in done] == [chat.head().seq, 3, 0]
    again = b"".join(jsonl.export_family(other, other.session(chat.id)))
    assert again == path.read_bytes()
    assert [one.new for one in jsonl.restore_file(other, path)] == [0, 0, 0]
    for one in done:
        other.purge(one.session_id)
    store.purge(chat.id)


@pytest.fixture
def family(shared, other, tmp_path):
    """A file of two sessions, the first of five lines."""
    store = shared.store
    chat = store.create()
    fill(chat, 4)
    child = store.create(parent=chat.id)
    fill(child, 2)
    path = tmp_path / "family.jsonl"
    path.write_bytes(b"".join(jsonl.export_family(store, chat)))
    return path, chat, child


BROKEN = {
    "no JSON": (3, lambda line: b"nonsense\n", 1),
    "an unknown field": (3, lambda line: line.replace(b'{"seq"', b'{"new":1,"seq"'), 1),
    "no hexadecimal number": (3, lambda line: line.replace(b'"hash":"', b'"hash":"x'), 1),
    "a letter of another language": (3, lambda line: line.replace(b"message 1", b"\xc3\xa9"), 1),
    "another hash": (3, lambda line: line.replace(b'"seq":2', b'"seq":3'), 0),
    "another version": (1, lambda line: line.replace(b'"version":1', b'"version":2'), 0),
    "a header without a name": (1, lambda line: line.replace(b'"session_id"', b'"id"'), 0),
    "a bad escape": (3, lambda line: line.replace(b"message 1", b"\\ud8"), 1),
    "an invalid name": (
        1,
        lambda line: line.replace(b'"session_id":"', b'"session_id":"\\u0000'),
        0,
    ),
}


@pytest.mark.one_leg
@pytest.mark.parametrize("broken", BROKEN)
def test_broken_line_is_named_and_the_rest_restored(family, other, broken):
    path, chat, child = family
    number, change, kept = BROKEN[broken]
    lines = path.read_bytes().splitlines(keepends=True)
    assert change(lines[number - 1]) != lines[number - 1]
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"".join(lines))
    first, second = jsonl.restore_file(other, path)
    assert (first.problem.path, first.problem.line) == (str(path), number)
    assert str(first.problem).startswith(f"{path}:{number}: ")
    assert first.entries == kept
    assert (second.session_id, second.entries, second.problem) == (child.id, 2, None)
    if kept:
        assert other.session(chat.id).verify().ok


@pytest.mark.one_leg
def test_file_that_is_cut_off_is_continued_later(family, other):
    path, _, child = family
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    first, second = jsonl.restore_file(other, path)
    assert (first.problem, second.new) == (None, 1)
    assert "cut off" in str(second.problem)
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert "ends after entry 1 of 2" in str(list(jsonl.restore_file(other, path))[1].problem)
    path.write_bytes(whole)
    assert [one.new for one in jsonl.restore_file(other, path)] == [0, 1]
    assert everything(other.session(child.id)) == everything(child)


@pytest.mark.one_leg
def test_compressed_file_is_not_unpacked_again_for_each_session(family, other, monkeypatch):
    path, chat, child = family
    path.write_bytes(gzip.compress(path.read_bytes()))
    opened, open_unpacked = [], jsonl.open_unpacked
    monkeypatch.setattr(
        jsonl, "open_unpacked", lambda path: opened.append(path) or open_unpacked(path)
    )
    done = [(one.session_id, one.problem) for one in jsonl.restore_file(other, path)]
    assert done == [(chat.id, None), (child.id, None)]
    assert len(opened) == 2
