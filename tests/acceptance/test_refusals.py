"""Bad arguments, as reference/input.md says: a typed error, on every engine alike.

A look-up takes anything that a caller may hold in its hand. It answers that there is no such thing,
or says what is wrong with the name; it never blames the database, and nothing is broken afterwards.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext import Plan, Store
from roocontext.errors import RooContextError, StoreUnavailable

BAD_NAMES = {"nul": "a\0b", "surrogate": "a\ud800b"}
OWN_NOTES = ("pin", "title", "metadata", "origin", "redaction")


@pytest.fixture
def room(engine: str, opened: Callable[..., Any]) -> Iterator[Any]:
    with opened(engine, "sync") as lab:
        yield lab.store


@pytest.fixture
def talk(room: Any) -> Any:
    chat = room.create("talk")
    for number in range(1, 5):
        chat.append("user", f"Message {number}, long enough to be condensed.")
    return chat


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> RooContextError:
    with pytest.raises(RooContextError) as caught:
        call(*args, **options)
    assert not isinstance(caught.value, StoreUnavailable)
    return caught.value


def usable(talk: Any) -> None:
    talk.pins()
    talk.commit(Plan.condense(talk.view(), [1, 2], "In short."))
    assert talk.fork().verify().ok
    assert talk.verify().ok


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_impossible_name_is_not_found(room: Any, talk: Any, name: str) -> None:
    refused(room.session, name)
    refused(room.purge, name)
    refused(talk.rewind, to=name)
    usable(talk)


@pytest.mark.parametrize("seq", [2**63, -(2**70)])
def test_seq_beyond_64_bits_is_not_found(talk: Any, seq: int) -> None:
    for call in (talk.pin, talk.message, talk.redact, talk.fork):
        refused(call, seq)
    refused(talk.rewind, to=seq)
    refused(talk.view, as_of=seq)
    refused(talk.append, "user", "late", expected_seq=seq)
    usable(talk)


@pytest.mark.parametrize("note", OWN_NOTES)
def test_notes_of_the_store_cannot_be_forged(talk: Any, note: str) -> None:
    before = talk.head().seq
    refused(talk.note, note, {"made": "up"}, target=1)
    assert talk.head().seq == before
    usable(talk)


@pytest.mark.parametrize("url", ["", "a\0b"])
def test_empty_url_is_refused(url: str) -> None:
    """An unset variable must not become a store that is gone with the process."""
    with pytest.raises(RooContextError):
        Store.open(url).close()


def test_unknown_durability_is_refused() -> None:
    with pytest.raises((RooContextError, ValueError)):
        Store.open(":memory:", durability="Full").close()
