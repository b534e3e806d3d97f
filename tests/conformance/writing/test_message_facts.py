"""Facts about a message: extra data, `asked_at`, and the call that it answers."""

import pytest

from roocontext import NewMessage
from roocontext.errors import InvalidMessage, MessageNotFound
from support.dialogue import fill, state

pytestmark = pytest.mark.every_leg

DEEP = 500


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


EXTRAS = {
    "an object": {"stop_reason": "end_turn", "n": [1, 1.0, True, None, 2**70]},
    "a list": [],
    "a string": "NUL \0, lone \ud800",
    "false": False,
    "zero": 0,
    "inside": {"inside": {"roocontext": 1}},
    "deep": nested(DEEP),
}


def written(chat, seq):
    (found,) = (found for found in chat.audit(after=seq - 1) if found.seq == seq)
    return found.entry


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
@pytest.mark.parametrize("many", [False, True])
def test_extra_comes_back_equal_and_is_never_sent(chat, extra, many):
    if many:
        plain = NewMessage("user", "one")
        seq = chat.append_many([plain, NewMessage("assistant", "two", extra=extra)])[1].seq
    else:
        seq = chat.append("user", "one", extra=extra).seq
    entry = written(chat, seq)
    assert entry.extra == extra
    assert type(entry.extra) is type(extra)
    assert all(set(sent) == {"role", "content"} for sent in chat.messages())
    assert chat.verify().ok


REFUSED = {
    "extra that is no JSON": ({"extra": {"n": float("nan")}}, "extra.<0>"),
    "extra of a set": ({"extra": {1}}, "extra"),
    "extra that is too deep": ({"extra": nested(DEEP + 2)}, "extra"),
    "the reserved name": ({"extra": {"a": 1, "roocontext": {}}}, "extra"),
    "asked before the log": ({"asked_at": -1}, "asked_at"),
    "asked at no number": ({"asked_at": "1"}, "asked_at"),
    "asked at a bool": ({"asked_at": True}, "asked_at"),
    "asked at too large a number": ({"asked_at": 1 << 63}, "asked_at"),
    "an answer to a number": ({"answers": 1}, "answers"),
    "an answer to nothing": ({"answers": ()}, "answers"),
    "an answer to three numbers": ({"answers": (1, 2, 3)}, "answers"),
    "an answer to entry 0": ({"answers": (0, 0)}, "answers[0]"),
    "an answer to a block below 0": ({"answers": (1, -1)}, "answers[1]"),
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(("facts", "path"), REFUSED.values(), ids=REFUSED)
def test_unstorable_extra_is_refused(chat, facts, path):
    fill(chat, 2)
    before = state(chat)
    for attempt in (
        lambda: chat.append("user", "x", **facts),
        lambda: chat.append_many([{"role": "user", "content": "x", **facts}]),
        lambda: chat.write_batch([NewMessage("user", "x", **facts)]),
    ):
        with pytest.raises(InvalidMessage) as caught:
            attempt()
        assert caught.value.facts.get("path", path).startswith(path)
    assert state(chat) == before


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("facts", [{"asked_at": 3}, {"asked_at": 99}, {"answers": (3, 0)}])
def test_asked_at_and_answers_name_earlier_entries(chat, facts):
    fill(chat, 2)
    before = state(chat)
    for attempt in (
        lambda: chat.append("user", "x", **facts),
        lambda: chat.append("user", "x", expected_seq=2, client_id="c", **facts),
        lambda: chat.append_many([NewMessage("user", "x", **facts)]),
        lambda: chat.write_batch([NewMessage("user", "x", **facts)]),
    ):
        with pytest.raises(MessageNotFound) as caught:
            attempt()
        assert caught.value.facts["candidates"] == (0, 2)
    assert state(chat) == before
    assert chat.append("user", "x", asked_at=2, answers=(2, 7)).seq == 3


def test_entries_of_the_same_batch_may_be_named(chat):
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    chat.append_many(
        [
            NewMessage("user", "read it"),
            NewMessage("assistant", [call], asked_at=1),
            NewMessage("user", [result], answers=(2, 0)),
            NewMessage("assistant", "done", asked_at=3),
        ]
    )
    facts = [(found.entry.asked_at, found.entry.answers) for found in chat.audit()]
    assert facts == [(None, None), (1, None), (None, (2, 0)), (3, None)]
    assert chat.verify().ok


def test_repeated_request_is_compared_by_its_content_only(chat):
    fill(chat, 2)
    first = chat.append("user", "x", client_id="c", extra={"a": 1}, asked_at=1)
    again = chat.append("user", "x", client_id="c", extra={"b": 2}, asked_at=99, answers=(50, 0))
    assert (again.seq, again.new) == (first.seq, False)
    batch = chat.append_many([NewMessage("user", "x", client_id="c", extra=5, asked_at=99)])
    assert (batch[0].seq, batch[0].new) == (first.seq, False)
    assert written(chat, first.seq).extra == {"a": 1}


def test_each_fact_is_in_the_hash(lab):
    variants = [{}, {"extra": 1}, {"extra": 2}, {"asked_at": 1}, {"answers": (1, 0)}]
    hashes = set()
    for facts in [*variants, {"answers": (1, 1)}, {"asked_at": 1, "answers": (1, 0)}]:
        chat = lab.store.create()
        fill(chat, 1)
        hashes.add(chat.append("user", "x", **facts).hash)
    assert len(hashes) == len(variants) + 2


def test_redaction_erases_extra_and_keeps_references(lab):
    chat = lab.store.create()
    fill(chat, 1)
    facts = {"asked_at": 1, "answers": (1, 0)}
    chat.append("user", "words", extra={"key": "a secret"}, **facts)
    fork = chat.fork()
    for copy in (chat, fork):
        assert written(copy, 2).extra == {"key": "a secret"}
    chat.redact(2)
    for copy in (chat, fork):
        entry = written(copy, 2)
        assert (entry.extra, entry.asked_at, entry.answers) == (None, 1, (1, 0))
        assert copy.verify().ok
    assert not any("secret" in str(row) for row in lab.sql("SELECT extra FROM entries"))
