"""Mistakes of agents and programs: stored without loss, or refused and nothing changed.

A word is planted in whatever is refused: no text of an error, nor of its cause, may hold it.
"""

import traceback
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import partial
from itertools import product

import pytest

from roocontext import Counts, Head, NewMessage, PendingCall, Plan, RooContextError
from roocontext.errors import (
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    InvalidPlan,
    MessageNotFound,
    SessionNotFound,
    VersionConflict,
)
from roocontext.log.counting import Size
from roocontext.log.plan import Action
from support.dialogue import fill, result, state, work

CANARY = "".join(reversed("yranac-deknit"))
HUGE = (2**63, 2**64, -(2**63) - 1, 10**30)


class Colour(IntEnum):
    """A number that is not only a number."""

    RED = 1


def same(one, other):
    """True if two values are equal, including types and the order of keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(same(k, j) and same(v, w) for (k, v), (j, w) in pairs)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def refused(chat, error, ask):
    """Assert that the call raises this error, which quotes nothing, and that nothing changed."""
    before = state(chat)
    with pytest.raises(error) as caught:
        ask()
    assert issubclass(caught.type, RooContextError)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in f"{caught.value!r} {caught.value.facts}"
    assert state(chat) == before
    assert chat.append("user", "still usable").new
    return caught.value


def nested(depth, inner="x"):
    for _ in range(depth):
        inner = [inner]
    return inner


def block(**fields):
    return [{"type": "odd", **fields}]


LOSSLESS = {
    "empty text": "",
    "no blocks": [],
    "nul": "a\0b",
    "nul in a block": block(said="\0", other="\\u0000"),
    "lone surrogates": "\ud800 and \udfff",
    "surrogates the wrong way round": block(said="\udc00\ud800"),
    "a surrogate in a key": block(**{"\ud83d": 1}),
    "emoji and controls": "\U0001f600\u2028\x1b[31m\x7f\x85",
    "not normalised": "e\u0301 \u00e9",
    "an unknown block": block(deep={"z": 1, "a": [None, True, False]}),
    "the order of keys": [{"z": 1, "type": "odd", "a": 2, "m": {"b": 1, "a": 2}}],
    "an empty key": block(**{"": {"": ""}}),
    "one, one point zero, true": block(n=[1, 1.0, True, 0, 0.0, False, None]),
    "negative zero": block(n=[-0.0, 0.0]),
    "floats": block(n=[1e308, 5e-324, 0.1, 1e16, 123456789012345680.0, 1.5]),
    "integers of 64 bits": block(n=[2**53 + 1, 2**63 - 1, -(2**63)]),
    "huge integers": block(n=[2**64 - 1, 2**64, 2**70, -(2**70), 10**300]),
    "nested a hundred levels": block(n=nested(97)),
    "a megabyte": [result("t1", "line\n" * 200_000 + "\u00e9\U0001f600\ud800")],
    "thinking": [{"type": "thinking", "thinking": "hm", "signature": "abc=="}],
    "a sql fragment": "'); DROP TABLE entries; --",
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_content_comes_back_as_it_was(chat, name):
    content = LOSSLESS[name]
    receipt = chat.append("assistant", content)
    (shown,) = chat.view().messages
    (entry,) = chat.audit()
    assert same(shown.content, content)
    assert same(entry.content, content)
    assert same(chat.message(receipt.seq).content, content)
    assert same(chat.view(as_of=1).messages[0].content, content)
    assert chat.verify().ok
    chat.messages()
    assert same(chat.fork().message(1).content, content)


def test_usage_and_metadata_come_back_as_they_were(store):
    odd = {"z": 2**70, "a": ["\ud800", "\0", -0.0, 1, 1.0, True, None], "": {}}
    chat = store.create(metadata=odd)
    chat.append("user", "x", usage=odd)
    chat.note("remark", odd)
    entries = list(chat.audit())
    assert same(chat.info().metadata, odd)
    assert same(entries[1].entry.usage, odd)
    assert same(chat.notes("remark")[0].content, odd)
    chat.set_metadata({"now": odd})
    assert same(chat.info().metadata, {"now": odd})


LOOP = block(said=CANARY)
LOOP[0]["again"] = LOOP
REFUSED = {
    "nan": block(said=CANARY, n=float("nan")),
    "infinity": block(said=CANARY, n=[float("-inf")]),
    "a tuple": block(said=(CANARY,)),
    "a set": block(said={CANARY}),
    "bytes": block(said=CANARY.encode()),
    "bytes as content": CANARY.encode(),
    "an object": block(said=object(), other=CANARY),
    "a class": block(said=Colour, other=CANARY),
    "a date": block(said=datetime(2024, 1, 1), other=CANARY),  # noqa: DTZ001
    "a key that is a number": [{"type": "odd", 1: CANARY}],
    "a key that is null": [{"type": "odd", None: CANARY}],
    "a key that is a bool": [{"type": "odd", True: CANARY}],
    "a key that is a tuple": [{"type": "odd", (1, 2): CANARY}],
    "keys that become one": [{"type": "odd", "1": CANARY, 1: CANARY}],
    "nested too deep": block(n=nested(500, CANARY)),
    "nested far too deep": block(n=nested(100_000, CANARY)),
    "an integer of 5,000 digits": block(n=10**5_000, said=CANARY),
    "content that holds itself": LOOP,
}


@pytest.mark.one_leg
@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED)
def test_value_beyond_json_is_refused(chat, content):
    for ask in (
        lambda: chat.append("user", content),
        lambda: chat.append_many([NewMessage("user", content)]),
        lambda: chat.append("user", "x", usage=content),
        lambda: chat.note("remark", {"v": content}),
        lambda: chat.set_metadata({"v": content}),
    ):
        refused(chat, InvalidMessage, ask)


def test_numbers_with_a_name_come_back_as_numbers_or_not_at_all(chat):
    for odd in (Colour.RED, OrderedDict(a=1)):
        try:
            seq = chat.append("user", block(n=odd)).seq
        except InvalidMessage:
            continue
        assert chat.message(seq).content[0]["n"] == odd


GOOD_IDS = {
    "slashes": "../../etc/passwd",
    "backslashes": "C:\\a\\..\\b",
    "quotes": "'\";--",
    "percent and braces": "%s %(a)s {b} :c ?",
    "controls": "a\x1b[31m\r\n\t\x07b",
    "emoji": "\U0001f600" * 100,
    "blank": " ",
    "a thousand": "i" * 1_000,
    "right to left": "\u202egnp.exe",
    "a url": "file:///x?mode=memory#y",
}
BAD_IDS = {
    "empty": "",
    "nul": "a\0b",
    "lone surrogate": "a\ud800",
    "ten thousand": "i" * 10_000,
    "too many bytes": "\U0001f600" * 251,
    "bytes": b"a",
    "number": 7,
    "tuple": ("a",),
}


@pytest.mark.parametrize("name", GOOD_IDS)
def test_odd_id_is_accepted(store, name):
    odd = GOOD_IDS[name]
    chat = store.create(odd, title=odd)
    chat.append("user", "x", message_id=odd, client_id=odd, model=odd[:200])
    chat.note(odd, {"a": 1})
    assert Head.from_json(chat.head().to_json()) == chat.head()
    again = store.session(odd)
    assert (again.id, again.info().title) == (odd, odd)
    assert again.append("user", "x", client_id=odd).seq == 2
    assert again.rewind(to=odd).to == 2
    assert [note.note for note in again.notes(odd)] == [odd]
    with pytest.raises(MessageNotFound) as caught:
        again.rewind(to=f"{odd}?"[-999:])
    assert "\x1b" not in str(caught.value)
    assert store.purge(odd).entries == 3


def plan_with(chat, **changes):
    fields = {
        "head_seq": chat.head_seq(),
        "action": Action.CONDENSE,
        "hides": ((1, 2),),
        "rows": (NewMessage("user", "S"),),
        "counts": Counts("c", Size(2), Size(1)),
    }
    return Plan(**{**fields, **changes})


def commit(chat, **changes):
    return chat.commit(plan_with(chat, **changes))


CLEARS = {"action": Action.CLEAR, "hides": (), "rows": ()}
NO_ENTRY = (MessageNotFound, InvalidOption)
NUMBERS = {
    "an entry": (
        NO_ENTRY,
        (0, -1, 99, *HUGE),
        lambda chat, it: chat.message(it),
        lambda chat, it: chat.pin(it),
        lambda chat, it: chat.unpin(it),
        lambda chat, it: chat.note("remark", {"said": CANARY}, target=it),
        lambda chat, it: chat.redact(it),
        lambda chat, it: chat.redact(it, dry_run=True),
        lambda chat, it: chat.view(after=it),
    ),
    "a point": (
        NO_ENTRY,
        (-1, 99, *HUGE),
        lambda chat, it: chat.rewind(to=it),
        lambda chat, it: chat.rewind(to=it, keep_target=False),
        lambda chat, it: chat.view(as_of=it),
        lambda chat, it: chat.diff(it),
        lambda chat, it: chat.diff(0, it),
        lambda chat, it: chat.fork(it),
    ),
    "a time": ((*NO_ENTRY, InvalidMessage), (-1, 99, *HUGE), lambda chat, it: chat.rewind(ts=it)),
    "a version": (
        (VersionConflict, InvalidOption),
        (-1, 99, *HUGE),
        lambda chat, it: chat.append("user", CANARY, expected_seq=it),
        lambda chat, it: chat.append_many([NewMessage("user", CANARY)], expected_seq=it),
        lambda chat, it: chat.rewind(to=1, expected_seq=it),
        lambda chat, it: chat.undo(expected_seq=it),
    ),
    "a number of a plan": (
        (InvalidPlan, VersionConflict, InvalidOption),
        HUGE,
        lambda chat, it: commit(chat, head_seq=it),
        lambda chat, it: commit(chat, hides=(tuple(sorted((1, it))),)),
        lambda chat, it: commit(chat, hides=(tuple(sorted((1, it))),), head_seq=max(it, 4)),
        lambda chat, it: commit(chat, **CLEARS, clears=((it, 0),)),
        lambda chat, it: commit(chat, **CLEARS, clears=((1, it),)),
        lambda chat, it: commit(chat, **CLEARS, clears=((1, it),), compat=True),
    ),
}


@pytest.mark.parametrize(
    ("errors", "values", "calls"), [(a, b, c) for a, b, *c in NUMBERS.values()], ids=NUMBERS
)
def test_number_of_nothing_is_refused(chat, errors, values, calls):
    fill(chat, 3)
    for call, value in product(calls, values):
        refused(chat, errors, partial(call, chat, value))


KINDS = ("begun", "extract", "frame", "metadata", "origin", "pin", "redaction", "title")
SIZES = ((2, 1), (Size(2), 1), (None, Size(1)), (Size("2"), Size(1)))
NAN = float("nan")
ARGUMENTS = {
    "a role": (
        (InvalidMessage, InvalidIdentifier),
        ("", "system", "tool", CANARY, "User", None, 7, ["user"]),
        lambda _, chat, it: chat.append(it, "x"),
    ),
    "a format": (
        InvalidMessage,
        ("", "xml", None, 7, ["anthropic"]),
        lambda _, chat, it: chat.append("user", "x", format=it),
    ),
    "a time": (
        InvalidMessage,
        (*HUGE, 1.5, "1", True, NAN),
        lambda _, chat, it: chat.append("user", "x", ts=it),
    ),
    "an id": (
        InvalidIdentifier,
        BAD_IDS.values(),
        lambda store, _, it: store.create(it),
        lambda store, _, it: store.create(title=it),
        lambda _, chat, it: chat.fork(session_id=it),
        lambda _, chat, it: chat.set_title(it),
        lambda _, chat, it: chat.append("user", CANARY, message_id=it),
        lambda _, chat, it: chat.append("user", CANARY, client_id=it),
        lambda _, chat, it: chat.append("user", CANARY, model=it),
        lambda _, chat, it: chat.append_many([NewMessage("user", CANARY, client_id=it)]),
        lambda _, chat, it: chat.note(it, {"said": CANARY}),
    ),
    "a session": (
        (SessionNotFound, InvalidIdentifier, InvalidOption),
        BAD_IDS.values(),
        lambda store, _, it: store.session(it),
        lambda store, _, it: store.purge(it),
        lambda store, _, it: store.purge(it, dry_run=True),
    ),
    "a target": (
        (MessageNotFound, InvalidIdentifier, InvalidOption),
        ("", "a\0b", "a\ud800", "i" * 10_000, 1.5, None),
        lambda _, chat, it: chat.rewind(to=it),
        lambda _, chat, it: chat.rewind(to=it, ts=1),
    ),
    "a time without a zone": (
        (InvalidMessage, InvalidOption),
        [datetime(2024, 1, 1)],  # noqa: DTZ001
        lambda _, chat, it: chat.rewind(to=it),
        lambda _, chat, it: chat.view(as_of=it),
        lambda _, chat, it: chat.messages(as_of=it),
        lambda _, chat, it: chat.repairs(as_of=it),
        lambda _, chat, it: chat.diff(0, it),
    ),
    "a note of the store": (
        InvalidOption,
        KINDS,
        lambda _, chat, it: chat.note(it, {"odd": CANARY}),
        lambda _, chat, it: chat.note(it, {"odd": CANARY}, target=1),
    ),
    "a version": (
        InvalidOption,
        ("1", 1.5, True),
        lambda _, chat, it: chat.append("user", "x", expected_seq=it),
        lambda _, chat, it: chat.write_batch([NewMessage("user", "x")], expected_seq=it),
    ),
    "a note": (
        (InvalidMessage, InvalidOption),
        (None, 7, "text", [1]),
        lambda _, chat, it: chat.note("remark", it),
    ),
    "a head": (
        InvalidOption,
        ["another session"],
        lambda store, chat, it: chat.verify(store.create(title=it).head()),
    ),
    "the entry of a head": (
        InvalidOption,
        (None, "3", CANARY, 1.5, True, -1, 10**5000),
        lambda _, chat, it: chat.verify(Head(chat.id, it, "00")),
    ),
    "a call to answer": (
        InvalidOption,
        [
            PendingCall(*place, "t1", CANARY, {})
            for place in ((CANARY, 0), ("\ud800", 0), (2, -1), (2, None), (2, "0"), (2, 10**5000))
        ],
        lambda _, chat, it: chat.answer(it, CANARY),
        lambda _, chat, it: chat.begin(it),
    ),
    "messages to hide": (
        InvalidPlan,
        ([None], [CANARY], CANARY, {"\ud800"}, [1, True], [1, 1.0], 5),
        lambda _, chat, it: Plan.condense(chat.view(), it, "S"),
        lambda _, chat, it: Plan.truncate(chat.view(), it),
    ),
    "a placeholder": (
        InvalidPlan,
        (None, [CANARY], {CANARY: 1}, 7),
        lambda _, chat, it: Plan.clear(chat.view(), [(1, 0)], it),
    ),
    "a format of a plan": (
        InvalidMessage,
        (None, "xml", ["anthropic"]),
        lambda _, chat, it: Plan.condense(chat.view(), [1], NewMessage("user", "S", format=it)),
    ),
    "seconds": (
        InvalidOption,
        (None, "1", True, NAN, -1, 10**400),
        lambda store, _, it: store.ping(it),
        lambda _, chat, it: chat.turn(lease=it).__enter__(),
    ),
    "a function": (
        InvalidOption,
        (5, CANARY, [CANARY]),
        lambda store, chat, it: store.archive(put=it, session=chat.id),
        lambda store, chat, it: store.archive(put=print, session=chat.id, progress=it),
        lambda store, _, it: store.index(progress=it),
        lambda _, chat, it: chat.verify(progress=it),
    ),
    "counts": (
        InvalidPlan,
        (5, *(Counts("c", *sizes) for sizes in SIZES)),
        lambda _, chat, it: commit(chat, counts=it),
    ),
    "kept parts": (InvalidPlan, [None], lambda _, chat, it: commit(chat, keeps=it)),
    "notes of a plan": (
        InvalidOption,
        (5, [5]),
        lambda _, chat, it: chat.commit(plan_with(chat), notes=it),
    ),
    "a summary": (
        InvalidMessage,
        (
            NewMessage("user", [{"type": "text", "text": CANARY, "n": NAN}]),
            NewMessage("nobody", CANARY),
            NewMessage("user", CANARY, format="xml"),
            NewMessage("user", nested(5_000, CANARY)),
            NewMessage("user", CANARY, ts=2**64),
        ),
        lambda _, chat, it: commit(chat, rows=(it,)),
    ),
    "a record": (
        InvalidMessage,
        ({"n": NAN}, {"v": CANARY.encode()}, {1: CANARY}),
        lambda _, chat, it: commit(chat, record=it),
    ),
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("errors", "values", "calls"), [(a, b, c) for a, b, *c in ARGUMENTS.values()], ids=ARGUMENTS
)
def test_impossible_argument_is_refused(store, chat, errors, values, calls):
    fill(chat, 3)
    for call, value in product(calls, values):
        error = refused(chat, errors, partial(call, store, chat, value))
        assert len(str(error)) < 500


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("truth", [2, "yes", [1], {"a": 1}], ids=str)
def test_any_true_value_asks_for_the_time_of_recording(store, chat, truth):
    chat.append("user", CANARY, ts=1)
    now = datetime.now(UTC)
    assert chat.rewind(now, recorded=truth, dry_run=True) == chat.rewind(
        now, recorded=True, dry_run=True
    )
    for ask in (store.sessions, store.overview, partial(store.search, CANARY)):
        found = ask(since=now - timedelta(days=9), recorded=truth)
        assert repr(found) == repr(ask(since=now - timedelta(days=9), recorded=True))


@pytest.mark.parametrize("bad", ["", "a\0b", "a\ud800"])
def test_impossible_note_kind_is_not_found(chat, bad):
    try:
        assert chat.notes(bad) == []
    except RooContextError as error:
        assert isinstance(error, InvalidIdentifier)  # noqa: PT017 - either answer is right


@pytest.mark.parametrize("seq", HUGE)
def test_reading_from_beyond_the_end_is_empty(chat, seq):
    fill(chat, 3)
    try:
        found = list(chat.audit(after=seq))
    except InvalidOption:
        return
    assert len(found) == (0 if seq > 0 else 3)


@pytest.mark.parametrize("pairs", [list, iter, set], ids=["list", "iterator", "set"])
def test_ranges_and_blocks_of_a_plan_are_any_pairs(chat, pairs):
    """Of a plan that was read from JSON they are lists."""
    call, _ = work(chat, ["call"])
    one = (call + 1, 0) if pairs is set else [call + 1, 0]
    blocks = {"action": Action.CLEAR, "hides": (), "rows": (), "clears": pairs([one])}
    assert chat.commit(plan_with(chat, **blocks)).cleared == 1
    both = (call, call + 1) if pairs is set else [call, call + 1]
    assert chat.commit(plan_with(chat, hides=pairs([both]))).hidden == 2
    assert chat.verify().ok


@pytest.mark.parametrize("placeholder", ["a\ud800b", "a\0b", "\x1b[31m"])
def test_placeholder_comes_back_or_is_refused(chat, placeholder):
    fill(chat, 1)
    _, told = work(chat, output="long " * 50)
    plan = Plan.clear(chat.view(), [(told, 0)], placeholder)
    try:
        chat.commit(plan)
    except RooContextError as error:
        assert isinstance(error, (InvalidPlan, InvalidMessage, InvalidOption))  # noqa: PT017 - either is right
        assert chat.head_seq() == told
    else:
        assert chat.view().messages[-1].content[0]["content"] == placeholder
    assert chat.verify().ok


@pytest.mark.parametrize(
    "line",
    [
        *("", "{}", "[]", "nonsense", '{"session_id": 1, "seq": "x", "hash": null}'),
        f'{{"more": {"[" * 100_000}{"]" * 100_000}}}',
    ],
    ids=range(6),
)
def test_malformed_head_is_refused(line):
    with pytest.raises(InvalidOption):
        Head.from_json(line)
