"""The view: its order, its past, its pages, and cleared outputs."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from psycopg.types.json import set_json_loads

from roocontext import NewMessage, Plan, Store
from roocontext.errors import InvalidOption, InvalidPlan, MessageNotFound
from roocontext.log.counting import is_bound_to_prefix
from roocontext.store.loop import request
from support.dialogue import at, fill, seqs, shown, work


def test_head_of_a_past_seq_passes_over_notes(chat):
    fill(chat, 2)
    chat.set_title("t")
    view = chat.view(as_of=3)
    assert (view.seq, view.head_seq) == (3, 2)


def test_view_as_of_a_future_seq_is_refused(chat):
    fill(chat, 2)
    for seq in (3, 99):
        with pytest.raises(MessageNotFound) as caught:
            chat.view(as_of=seq)
        assert caught.value.candidates == (0, 2)


def test_moment_of_a_view_may_be_of_any_zone_and_any_year(chat, clock):
    clock.now, clock.step = 10_000, 0
    fill(chat, 2)
    clock.now, clock.step = 20_000, 1
    fill(chat, 1)
    elsewhere = at(19_999).astimezone(timezone(timedelta(hours=9)))
    assert chat.view(as_of=elsewhere).seq == 2
    assert chat.view(as_of=datetime.max.replace(tzinfo=UTC)).seq == 3
    assert chat.view(as_of=datetime.min.replace(tzinfo=UTC)).seq == 0


def test_pages_hold_the_whole_view_in_order(chat):
    said = fill(chat, 11)
    summary = chat.commit(Plan.condense(chat.view(), said[2:6], "S")).seq
    whole = chat.view()
    assert seqs(whole)[2] == summary
    for size in (1, 2, 3, 8, 100):
        pages = list(chat.internals.pages(size))
        assert [message for page in pages for message in page.messages] == list(whole.messages)
        assert all(len(page.messages) == size for page in pages[:-1])
        assert {page.seq for page in pages} == {whole.seq}
    assert list(chat.internals.pages(3, as_of=0)) == []


def test_page_follows_any_message_of_the_view(chat):
    said = fill(chat, 8)
    chat.commit(Plan.condense(chat.view(), said[2:5], "S"))
    order = shown(chat)
    for index, seq in enumerate(order):
        assert seqs(chat.view(after=seq)) == order[index + 1 :]
        assert seqs(chat.view(after=seq, limit=2)) == order[index + 1 : index + 3]
    with pytest.raises(MessageNotFound, match=f"Entry {said[3]} is not in this view"):
        chat.view(after=said[3])


def test_pages_are_of_one_moment_during_writes(chat):
    said = fill(chat, 9)
    whole = chat.view()
    pages = iter(chat.internals.pages(2))
    found = [*next(pages).messages]
    chat.commit(Plan.condense(chat.view(), said[1:6], "S"))
    found += next(pages).messages
    chat.rewind(to=1)
    found += next(pages).messages
    fill(chat, 3)
    for page in pages:
        found += page.messages
    assert found == list(whole.messages)


def test_message_is_read_by_its_seq(chat):
    fill(chat, 2)
    chat.set_title("t")
    chat.rewind(to=1)
    assert chat.message(2).seq == 2
    for seq in (3, 4, 5):
        with pytest.raises(MessageNotFound):
            chat.message(seq)


def test_view_is_read_from_its_newest_end(chat):
    """The same pages backwards, over notes, inserted rows and cleared blocks; past and now."""
    for number in range(40):
        call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "output " * 9}
        chat.append_many([NewMessage("assistant", [call]), NewMessage("user", [result])])
        if number % 3 == 0:
            chat.note("remark", {})
    order = seqs(chat.view())
    for start in range(2, 60, 12):
        chat.commit(Plan.condense(chat.view(), order[start : start + 4], f"summary {start}"))
    newest = [m for m in chat.view().messages if isinstance(m.content, list)][-9::2]
    results = [m.seq for m in newest if m.content[0]["type"] == "tool_result"]
    chat.commit(Plan.clear(chat.view(), [(seq, 0) for seq in results]))
    chat.set_title("and notes at the end")
    for as_of in (None, chat.info().last_seq - 3, 90, 0):
        whole = chat.view(as_of=as_of)
        for size in (1, 3, 7, 1_000):
            found, before = [], None
            while page := chat.view(as_of=as_of, last=size, before=before).messages:
                assert len(page) == min(size, len(whole.messages) - len(found))
                found = [*page, *found]
                before = page[0].seq
            assert found == list(whole.messages)
    newest = chat.view(last=5)
    assert (newest.seq, newest.head_seq, newest.whole) == (chat.head().seq, chat.head_seq(), False)
    assert any(message.cleared for message in chat.view(last=20).messages)


def test_wrong_pages_from_the_newest_end_are_refused(chat):
    chat.append_many([NewMessage("user", str(number)) for number in range(6)])
    chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
    assert chat.view(last=3, before=1).messages == ()
    for before in (2, 9):
        for as_of in (None, 7):
            with pytest.raises(MessageNotFound):
                chat.view(last=3, before=before, as_of=as_of)
    for wrong in (
        *({"last": 0}, {"last": "3"}, {"before": 3}, {"before": 0, "last": 1}),
        *({"last": 2, "limit": 2}, {"last": 2, "after": 1}, {"last": 2, "before": 5, "limit": 2}),
    ):
        with pytest.raises(InvalidOption):
            chat.view(**wrong)
    with pytest.raises(InvalidPlan):
        Plan.condense(chat.view(last=6), [1], "S")


LOADERS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda text: text,
    "decimals": lambda text: json.loads(text, parse_int=Decimal),
}


@pytest.fixture(params=LOADERS)
def loads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Another loader, until the end of the test."""
    set_json_loads(LOADERS[request.param])
    yield
    set_json_loads(json.loads)


def test_cleared_view_needs_no_loader_of_json(postgres_url, loads):
    with Store.open(postgres_url) as store:
        chat = store.create()
        fill(chat, 2)
        _, answer = work(chat)
        chat.commit(Plan.clear(chat.view(), [(answer, 0)], 'a "placeholder" \\ \u2028 \x01'))
        assert chat.view().messages == chat.view(limit=100).messages


def test_store_is_created_with_any_loader_of_json(postgres, loads):
    url = postgres.empty()
    with Store.open(url) as store:
        assert store.create().append("user", "first").seq == 1
    postgres.drop(url)


BINDING = "claude-fable-5-1"

WRITES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda _: None,
    "a message": lambda chat: chat.append("user", "meanwhile"),
    "a redaction": lambda chat: chat.redact(2),
    "a rewind": lambda chat: chat.rewind(3),
    "a summary": lambda chat: chat.commit(Plan.condense(chat.view(), [1, 2], "in short")),
}


@pytest.mark.only("file", "postgres")
@pytest.mark.only("sync")  # the store is used during one of its own calls
def test_messages_read_during_a_write_are_of_one_moment(store, monkeypatch):
    for name, write in WRITES.items():
        chat = store.create()
        fill(chat, 6)
        before = chat.messages(model=BINDING)
        writes = iter([write])

        def meanwhile(model: str | None, chat: Any = chat, writes: Any = writes) -> bool:
            for write in writes:  # once, after the view was read
                write(chat)
            return is_bound_to_prefix(model)

        monkeypatch.setattr(request, "is_bound_to_prefix", meanwhile)
        assert chat.messages(model=BINDING) == before, name
        monkeypatch.undo()
