"""Notes are found by the request that wrote them, and by the beginning of their kind."""

import pytest

from roocontext import InvalidOption, NewNote
from roocontext.errors import InvalidIdentifier


def test_notes_are_found_by_their_client_ids(chat):
    chat.append("user", "hello", client_id="message")
    chat.note("remark", {"n": 1}, client_id="one")
    chat.note("other", {"n": 2}, target=1, client_id="two")
    chat.rewind(0)
    found = chat.internals.noted(["two", "none", "message", "one"])
    assert {name: (note.seq, note.content["n"]) for name, note in found.items()} == {
        "two": (3, 2),
        "one": (2, 1),
    }
    assert chat.internals.noted([]) == {}


def test_newest_note_of_each_kind_is_found_by_prefix(chat):
    chat.append("user", "hello")
    chat.write_batch(
        NewNote(kind, {"n": number})
        for number, kind in enumerate(["step/b", "step/a", "step/b", "step", "step0", "step/c"])
    )
    chat.note("step/d", {}, target=1)

    def found(**page):
        return [
            (note.note, note.content["n"]) for note in chat.internals.newest_notes("step/", **page)
        ]

    assert found() == [("step/c", 5), ("step/b", 2), ("step/a", 1)]
    assert found(limit=2) == [("step/c", 5), ("step/b", 2)]
    assert found(before="step/c", limit=1) == [("step/b", 2)]
    assert found(before="step/a") == []
    assert found(before="a") == []


def test_page_is_full_however_often_kinds_were_written_again(chat):
    chat.write_batch(NewNote(f"kind {number % 3}", {"n": number}) for number in range(30))
    notes = chat.internals.newest_notes("kind", limit=3)
    assert [note.content["n"] for note in notes] == [29, 28, 27]


def test_kinds_are_compared_by_code_point(chat):
    for kind in ("k\u00e9", "kZ", "ka", "k\U0010fffe", "k"):
        chat.note(kind, {})
    assert [note.note for note in chat.internals.newest_notes("k")] == [
        "k\U0010fffe",
        "k\u00e9",
        "ka",
        "kZ",
        "k",
    ]


def test_wrong_arguments_are_refused(chat):
    for call, error in (
        (lambda: chat.internals.noted([""]), InvalidIdentifier),
        (lambda: chat.internals.newest_notes(""), InvalidIdentifier),
        (lambda: chat.internals.newest_notes("a", before=""), InvalidIdentifier),
        (lambda: chat.internals.newest_notes("a", limit=0), InvalidOption),
    ):
        with pytest.raises(error):
            call()
