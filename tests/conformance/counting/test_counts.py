"""Reads before a condensation: live rows, their counts, calls of models."""

import subprocess
import sys

import pytest

from roocontext import Plan, Store
from roocontext.errors import InvalidOption, StoreReadOnly, UnknownPlugin
from roocontext.log.counting import BYTES
from roocontext.reports.gauge import counted_gauge
from roocontext.store.counting.snapshot import Wanted
from roocontext.tokens import counter_for
from support.async_driver import plain_session
from support.dialogue import counts_of, fill, keep_estimate, seqs, shown, state, text, work
from support.replies import CLAUDE, claude

USED = {"input_tokens": 40, "output_tokens": 2}


def test_live_rows_stand_in_view_order_with_the_ids_of_what_hides_them(chat):
    said = fill(chat, 8)
    condensed = chat.commit(Plan.condense(chat.view(), said[1:4], "S")).compaction_id
    view = chat.view()
    cut = chat.commit(Plan.truncate(view, seqs(view)[:3])).compaction_id
    chat.append("user", "taken back")
    chat.rewind(to=chat.head_seq() - 1)
    live = {row.message.seq: row for row in chat.internals.live()}
    found = {seq: (row.condense_parent, row.truncation_parent) for seq, row in live.items()}
    assert [found[seq] for seq in said[:5]] == [
        (None, cut),
        *[(condensed, None)] * 3,
        (None, cut),
    ]
    assert [seq for seq, tag in found.items() if tag == (None, None)] == shown(chat)
    order = seqs(row.message for row in chat.internals.live())
    assert order == [said[0], *said[1:4], 9, said[4], 10, *said[5:]]


def test_each_message_is_counted_as_it_is_shown(chat):
    said = fill(chat, 4)
    _, told = work(chat, output="long " * 60)
    whole = counts_of(chat, BYTES)
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    chat.commit(Plan.condense(chat.view(), said[:3], "S"))
    found = counts_of(chat, BYTES)
    assert found == {m.seq: BYTES.count(m.role, m.content, m.format) for m in chat.view().messages}
    assert sum(found.values()) == chat.tokens(BYTES)
    assert found[told] < whole[told]
    assert chat.fork().tokens(BYTES) == chat.tokens(BYTES)
    assert chat.internals.live()[-1].message.cleared == (0,)
    live = counts_of(chat, BYTES, hidden=True)
    assert live == {**found, **{seq: whole[seq] for seq in said[:3]}}


class Asked:
    """A counter that remembers how often it was asked."""

    name = "asked"
    exact = True
    times = 0

    def count(self, role, content, format):  # noqa: A002
        self.times += 1
        return len(str(content))


def test_cleared_rows_are_counted_once_in_each_state(chat):
    counter = Asked()
    _, first = work(chat, ("a", "b"), output="long " * 60)
    _, second = work(chat, ("c",), output="long " * 60)
    assert chat.tokens(counter) == sum(len(str(m.content)) for m in chat.view().messages)
    chat.commit(Plan.clear(chat.view(), [(first, 0), (second, 0)]))
    chat.commit(Plan.clear(chat.view(), [(first, 1)], "gone"))
    for times in (6, 6):
        assert chat.tokens(counter) == sum(len(str(m.content)) for m in chat.view().messages)
        assert sum(counts_of(chat, counter).values()) == chat.tokens(counter)
        assert counter.times == times
    chat.rewind(to=second + 1)
    assert chat.tokens(counter) == sum(len(str(m.content)) for m in chat.view().messages)
    assert counter.times == 7
    chat.rewind(to=second)
    chat.redact(second)
    assert chat.tokens(counter) == sum(len(str(m.content)) for m in chat.view().messages)


def test_redacted_message_is_counted_once(chat):
    counter = Asked()
    said = fill(chat, 4)
    _, told = work(chat, output="long " * 60)
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    chat.tokens(counter)
    chat.redact(said[1])
    chat.redact(told)
    expected = sum(len(str(m.content)) for m in chat.view().messages)
    assert chat.tokens(counter) == expected
    times = counter.times
    for _ in range(2):
        assert chat.tokens(counter) == sum(counts_of(chat, counter).values()) == expected
    assert counter.times == times


def test_tokens_after_an_entry_are_those_of_what_follows_it(chat):
    said = fill(chat, 6)
    _, told = work(chat, output="long " * 60)
    chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    chat.commit(Plan.condense(chat.view(), said[:4], "S"))
    for after in (0, said[4], told - 1, told, chat.head_seq(), 1_000):
        following = [m for m in chat.view().messages if m.seq > after]
        expected = sum(BYTES.count(m.role, m.content, m.format) for m in following)
        assert chat.tokens(BYTES, after=after) == expected
    with pytest.raises(InvalidOption):
        chat.tokens(BYTES, after=-1)


def test_calls_are_the_messages_with_usage(chat):
    chat.append("user", "hello")
    first = chat.append("assistant", "hi", model="m", usage=USED).seq
    fill(chat, 4)
    second = chat.append("assistant", "so", usage={"input_tokens": 50}).seq
    assert [(c.seq, c.model, c.usage) for c in chat.internals.calls()] == [
        (first, "m", USED),
        (second, None, {"input_tokens": 50}),
    ]
    assert [c.seq for c in chat.internals.calls(last=3)] == [second]
    assert all(c.current for c in chat.internals.calls())
    for last in (-1, 1.5):
        with pytest.raises(InvalidOption):
            chat.internals.calls(last=last)
    chat.commit(Plan.condense(chat.view(), shown(chat)[:3], "S"))
    third = chat.append("assistant", "now", usage=USED).seq
    assert [c.seq for c in chat.internals.calls() if c.current] == [third]


@pytest.mark.parametrize("is_condensed", [False, True])
def test_message_that_a_request_had_not_read_came_since_the_call(chat, is_condensed):
    chat.append("user", "What is it?")
    chat.append("user", "Say it in short.")
    sent = chat.tokens(BYTES)
    request = chat.request("anthropic", model=CLAUDE)
    if is_condensed:
        chat.commit(Plan.condense(chat.view(), shown(chat), "S"))
    unread = "And why?"
    chat.append("user", unread)
    usage = {"input_tokens": 900, "output_tokens": 3}
    reply = chat.record(claude(text("A parser."), usage=usage), request).seq
    wanted = Wanted(counter=BYTES, calls=9, estimates=lambda _: True)
    snapshot = chat.internals.snapshot(wanted)
    assert snapshot.estimated == {reply: sent}
    assert snapshot.since == (None if is_condensed else BYTES.count("user", unread, "anthropic"))
    gauge = counted_gauge(plain_session(chat), CLAUDE)
    counted = counter_for(CLAUDE).count("user", unread, "anthropic")
    assert (gauge.reported, gauge.exact) == (None if is_condensed else 903, False)
    assert is_condensed or gauge.tokens == 903 + counted


def test_estimates_are_kept_once_beside_the_log(chat):
    chat.append("user", "hello")
    seq = chat.append("assistant", "hi", usage=USED).seq
    before = state(chat)
    assert keep_estimate(chat, seq, BYTES, 41)
    assert not keep_estimate(chat, seq, BYTES, 99)
    assert chat.internals.calls()[0].estimates == {"bytes": 41}
    assert state(chat) == before
    assert chat.tokens(BYTES) == 11
    assert chat.verify().ok


def test_counting_works_on_a_read_only_store(opened):
    with opened("file", "sync") as lab:
        chat = lab.store.create()
        seq = chat.append("assistant", "hi", usage=USED).seq
        with Store.open(lab.url, read_only=True) as store:
            same = store.session(chat.id)
            assert counts_of(same, BYTES) == {seq: 4}
            assert not keep_estimate(same, seq, BYTES, 5)
            assert same.internals.calls()[0].estimates == {}
            with pytest.raises(StoreReadOnly):
                same.append("user", "no")


def test_counter_may_be_given_by_name(chat):
    fill(chat, 3)
    assert chat.tokens("bytes") == chat.tokens(BYTES)
    assert chat.tokens("o200k_base") > 0
    with pytest.raises(UnknownPlugin, match="o200k_base"):
        chat.tokens("o300k_base")


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("thing", [5, None, object(), type(BYTES)])
def test_wrong_counter_is_refused(chat, thing):
    chat.append("user", "hello")
    with pytest.raises(InvalidOption, match="A counter must have name, exact, count"):
        chat.tokens(thing)


def test_named_counter_is_found_before_anything_else_is_imported(tmp_path):
    code = (
        "import sys; from roocontext import Store\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    chat = store.create()\n"
        "    chat.append('user', 'one two three')\n"
        "    print('roocontext.tokens' in sys.modules, chat.tokens('cl100k_base'))"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "store.db")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "7"]
