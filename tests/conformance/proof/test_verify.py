"""Proving: whoever changes the log with plain SQL is found out, at the first entry that is wrong.

The triggers are dropped first, as anybody with the file can. What no chain can show without a head
saved elsewhere, a cut or rewritten tail, is shown with one.
"""

import re
from contextlib import suppress
from dataclasses import replace

import pytest

from roocontext import Counts, Head, NewMessage, Plan
from roocontext.errors import HistoryCorrupt, InvalidOption, RooContextError
from roocontext.log.counting import BYTES, Size
from roocontext.log.plan import Action
from roocontext.store.engine.schema import metadata
from support.dialogue import counts_of, fill, shown, work

COLUMNS = (
    "kind, format, role, ts, recorded_at, message_id, client_id, model, usage, compaction_id, note,"
    " target, asked_at, answers_seq, answers_block, size, messages_total, bytes_total,"
    " latest_happened, salt,"
    " content_digest, hash, tools, details, extra, content"
)


TABLES = ("sessions", "entries", "spans", "clearings", "counts", "facts")
"""The tables in which the sessions have rows."""
MOVING = ("changed_minute", "unindexed")
"""The columns of a session that a rebuild may set."""


@pytest.fixture(scope="session")
def defenceless(leg, opened):
    """A store without triggers: the session `s` has everything in it, and `other` is empty."""
    with opened(*leg) as lab:
        chat = lab.store.create("s", title="t", metadata={"a": 1, "user": "ann"})
        said = fill(chat, 6)
        _, told = work(chat, output="long " * 60)
        chat.commit(Plan.clear(chat.view(), [(told, 0)], "gone"))
        chat.commit(Plan.condense(chat.view(), said[1:3], "S"))
        chat.commit(Plan.truncate(chat.view(), said[4:5], "M"))
        chat.rewind(to=told)
        chat.undo()
        chat.append("user", "taken back")
        chat.rewind(to=chat.head_seq() - 1)
        fill(chat, 3)
        chat.tokens(BYTES)
        lab.store.create("other")
        lab.drop_guards()
        lab.sql(*(f"CREATE TABLE saved_{name} AS SELECT * FROM {name}" for name in TABLES))
        yield lab


@pytest.fixture
def forger(defenceless):
    """Somebody with plain SQL; every table is as before after the test."""
    yield defenceless
    for name in TABLES:
        defenceless.sql(f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM saved_{name}")


@pytest.fixture
def damaged(forger):
    """The session that the forger is about to damage."""
    chat = forger.store.session("s")
    assert chat.verify().ok
    return chat


def where(seq):
    return f"WHERE session_id = 's' AND seq = {seq}"


def found(chat, saved=None):
    verification = chat.verify(saved)
    assert not verification.ok
    assert verification.problem
    return verification.seq


def refused(seq, *asks):
    """Each of these operations names the entry at fault."""
    for ask in asks:
        with pytest.raises(HistoryCorrupt) as caught:
            ask()
        assert caught.value.seq == seq


def test_sound_session_has_no_fault(chat):
    fill(chat, 3)
    assert chat.verify().head == chat.head()
    assert chat.verify().entries == 3
    told = []
    assert chat.verify(progress=lambda done, total: told.append((done, total))).ok
    assert told == [(3, 3)]
    assert chat.rebuild() == 0


def test_saved_head_is_found_again(chat):
    heads = [chat.head()]
    for _ in range(4):
        fill(chat, 1)
        heads.append(Head.from_json(chat.head().to_json()))
    chat.rewind(to=1)
    assert all(chat.verify(head).ok for head in heads)
    assert found(chat, replace(heads[2], hash="00" * 32)) == 2
    with pytest.raises(InvalidOption):
        chat.verify(replace(heads[2], session_id="another"))


CHANGES = {
    "content": "content = '\"forged\"'",
    "content of the same size": "content = replace(content, 'word', 'ward')",
    "content taken away": "content = NULL",
    "a redaction that no note names": "content = '\"[redacted]\"', salt = NULL",
    "role": "role = 'assistant'",
    "a time": "recorded_at = recorded_at + 1",
    "the agent's time": "ts = 5",
    "a message id": "message_id = 'm'",
    "a client id": "client_id = 'c'",
    "model": "model = 'x'",
    "usage": "usage = '{}'",
    "format": "format = 'openai'",
    "kind": "kind = 'summary'",
    "kind to note": "kind = 'note'",
    "note": "note = 'pin'",
    "target": "target = 1",
    "what it was asked at": "asked_at = 1",
    "what it answers": "answers_seq = 1, answers_block = 0",
    "extra": "extra = '1'",
    "compaction id": "compaction_id = 'x'",
    "size": "size = size + 1",
    "running count": "messages_total = messages_total + 1",
    "running latest time": "latest_happened = latest_happened + 1",
    "running size": "bytes_total = bytes_total + 1",
    "salt": "salt = content_digest",
    "salt taken away": "salt = NULL",
    "digest": "content_digest = hash",
    "digest taken away": "content_digest = NULL",
    "hash": "hash = content_digest",
    "details": "details = '{\"to\": 1}'",
    "tools": 'tools = \'["call","a"]\'',
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_message_is_named(forger, damaged, change):
    ((good,),) = forger.sql(f"SELECT hash FROM entries {where(4)}")
    forger.sql(f"UPDATE entries SET {CHANGES[change]} {where(5)}")
    assert found(damaged) == 5
    verification = damaged.verify()
    assert (verification.entries, verification.head.seq) == (4, 4)
    assert verification.head.hash == bytes(good).hex()


def test_changed_or_moved_extra_data_is_named(forger, damaged):
    seq = damaged.append("user", "words", extra={"commit": "abc"}).seq
    assert damaged.verify().ok
    for change in (
        "extra = replace(extra, 'abc', 'abd')",
        "extra = NULL",
        "content = content || '\n' || extra, extra = NULL",
    ):
        rows = forger.sql(f"SELECT content, extra FROM entries {where(seq)}")
        forger.sql(f"UPDATE entries SET {change.replace(chr(92) + 'n', chr(10))} {where(seq)}")
        assert found(damaged) == seq
        content, extra = rows[0]
        forger.sql(f"UPDATE entries SET content = '{content}', extra = '{extra}' {where(seq)}")
        assert damaged.verify().ok


DETAILS = ("{}", "nonsense", "[]", '{"to": 99}', '{"hides": [[99, 100]]}')
TOOLS = ("NULL", '\'["result","other"]\'', '\'["call","t1"]\'', '\'["result","t1","t1"]\'', "'{'")
OTHERS = [
    ("rewind", ("salt = hash",)),
    ("cleared", tuple(f"tools = {tools}" for tools in TOOLS)),
    *(
        (kind, tuple(f"details = '{details}'" for details in DETAILS))
        for kind in ("clearing", "summary", "marker", "rewind")
    ),
]


@pytest.mark.parametrize(("kind", "changes"), OTHERS)
def test_change_of_another_entry_is_named(forger, damaged, kind, changes):
    kinds = ((entry.seq, "cleared" if entry.cleared else entry.kind) for entry in damaged.audit())
    seq = next(seq for seq, its_kind in kinds if its_kind == kind)
    for change in changes:
        forger.sql(f"UPDATE entries SET {change} {where(seq)}")
        assert found(damaged) == seq, change


def test_changed_skeleton_is_named(forger, damaged):
    damaged.redact(5)
    assert damaged.verify().ok
    forger.sql(f"UPDATE entries SET content = '\"[other]\"' {where(5)}")
    assert found(damaged) == 5


def moved(old, new):
    return f"UPDATE entries SET seq = {new} {where(old)}"


def copied(seq, source):
    return (
        f"INSERT INTO entries (session_id, seq, {COLUMNS})"
        f" SELECT 's', {seq}, {COLUMNS} FROM entries {source}"
    )


PLACES = {
    "the first deleted": lambda _: (1, [f"DELETE FROM entries {where(1)}"]),
    "one deleted": lambda _: (5, [f"DELETE FROM entries {where(5)}"]),
    "moved": lambda _: (4, [moved(4, 99)]),
    "swapped": lambda _: (4, [moved(4, -1), moved(5, 4), moved(-1, 5)]),
    "inserted": lambda last: (
        5,
        [
            *(moved(seq, seq + 1) for seq in range(last, 4, -1)),
            copied(5, where(4)),
            f"UPDATE sessions SET last_seq = {last + 1} WHERE session_id = 's'",
        ],
    ),
    "after the last": lambda last: (last + 1, [copied(last + 1, where(last))]),
    "of another session": lambda _: (
        5,
        [
            f"DELETE FROM entries {where(5)}",
            copied(5, "WHERE session_id = 'other' AND seq = 5"),
        ],
    ),
}
"""The first entry that is wrong, and how it became so, given the last one."""


@pytest.mark.parametrize("change", PLACES)
def test_entry_that_is_not_in_its_place_is_named(forger, damaged, change):
    fill(forger.store.session("other"), 8)
    seq, statements = PLACES[change](damaged.head().seq)
    forger.sql(*statements)
    assert found(damaged) == seq


STANDINGS = ("last_seq", "head_seq", "messages", "bytes")


SESSION = {
    **{name: f"{name} = {name} + 1" for name in STANDINGS},
    "last hash": "last_hash = (SELECT content_digest FROM entries WHERE session_id = 's' AND"
    " seq = 3)",
}


@pytest.mark.parametrize("change", SESSION)
def test_session_row_that_contradicts_its_log_is_named(forger, damaged, change):
    forger.sql(f"UPDATE sessions SET {SESSION[change]} WHERE session_id = 's'")
    assert not damaged.verify().ok


SPANS = {
    "a tag": "UPDATE spans SET condense_parent = 12 WHERE session_id = 's' AND lo = 1",
    "another tag": "UPDATE spans SET truncation_parent = 99 WHERE session_id = 's' AND lo = 7",
    "a tag taken away": "UPDATE spans SET condense_parent = NULL WHERE session_id = 's'",
    "a rewind": "UPDATE spans SET rewound_by = 14 WHERE session_id = 's' AND lo = 1",
    "a place": "UPDATE spans SET position = position + 1 WHERE session_id = 's' AND lo = 1",
    "an end": "UPDATE spans SET hi = hi + 1 WHERE session_id = 's' AND lo = 1",
    "none": "DELETE FROM spans WHERE session_id = 's'",
    "the last": "DELETE FROM spans WHERE session_id = 's' AND hi > 1000000",
    "one more": "INSERT INTO spans VALUES ('s', 99999, 99999, 0, NULL, NULL, NULL, NULL)",
    "a cleared block": "DELETE FROM clearings WHERE session_id = 's'",
    "another block": "UPDATE clearings SET block = 1 WHERE session_id = 's'",
    "another clearing": "UPDATE clearings SET cleared_by = 1 WHERE session_id = 's'",
    "a placeholder": "UPDATE clearings SET placeholder = 'forged' WHERE session_id = 's'",
    "one more clearing": "INSERT INTO clearings VALUES ('s', 3, 0, 11, 'forged', NULL, NULL)",
}


@pytest.mark.parametrize("damage", SPANS)
def test_rewind_with_a_changed_cache_does_no_harm_to_the_log(forger, damaged, damage):
    last = damaged.head().seq
    before = damaged.view(as_of=last - 2)
    forger.sql(SPANS[damage])
    with suppress(HistoryCorrupt):
        assert damaged.rewind(to=last - 2).changed
    damaged.rebuild()
    damaged.rewind(to=last - 2)
    assert damaged.view().messages == before.messages
    assert damaged.verify().ok


TIMES = ("latest_recorded", "recorded_back", "latest_happened", "happened_at")
CACHES = {
    **{name: (statement, "the (spans|clearings) are not") for name, statement in SPANS.items()},
    **{
        f"another {name}": (
            f"UPDATE sessions SET {name} = {name} + 1 WHERE session_id = 's'",
            problem,
        )
        for names, problem in (
            (TIMES, "times are not those of the log"),
            (("listed_at", "listed_minute", "updated_minute"), "listed_at or a minute is not"),
            (("rewound_bytes",), "the sums of rewound rows are wrong"),
        )
        for name in names
    },
    **{
        f"a first prompt that is {value}": (
            f"UPDATE sessions SET first_prompt = {value} WHERE session_id = 's'",
            "the first prompt is not that of the log",
        )
        for value in ("NULL", "'forged'")
    },
    **{
        name: (statement, "metadata")
        for name, statement in {
            "another fact": "UPDATE facts SET value = '\"bob\"' WHERE session_id = 's'",
            "one more fact": "INSERT INTO facts VALUES ('s', '\"role\"', '\"admin\"')",
            "no facts": "DELETE FROM facts WHERE session_id = 's'",
        }.items()
    },
}
"""Each damage to a cache, and what `verify` says of it."""


@pytest.mark.parametrize(("damage", "problem"), CACHES.values(), ids=CACHES)
def test_changed_cache_is_named_and_rebuilt(forger, damaged, damage, problem):
    view, head, rows = damaged.view(), damaged.head(), cached(forger)
    forger.sql(damage)
    assert cached(forger) != rows
    verification = damaged.verify()
    assert (verification.ok, verification.seq) == (False, None)
    assert re.search(f"{problem}.*rebuild", verification.problem)
    assert damaged.rebuild() > 0
    assert damaged.verify().ok
    assert damaged.view() == view
    assert damaged.head() == head
    assert cached(forger) == rows
    assert damaged.rebuild() == 0


def cached(forger):
    """All rows of the session that are computed from its log."""
    columns = ", ".join(
        column.name for column in metadata.tables["sessions"].columns if column.name not in MOVING
    )
    named = {**dict.fromkeys(("spans", "clearings", "facts"), "*"), "sessions": columns}
    return {
        name: sorted(forger.sql(f"SELECT {what} FROM {name} WHERE session_id = 's'"), key=repr)
        for name, what in named.items()
    }


def cut(forger, seq):
    """Cut the tail off, and make the session and its caches agree, as a careful forger would."""
    forger.sql(
        f"DELETE FROM entries WHERE session_id = 's' AND seq > {seq}",
        "UPDATE sessions SET (last_seq, last_hash, head_seq, messages, bytes) ="
        f" (SELECT seq, hash, seq, messages_total, bytes_total FROM entries {where(seq)})"
        " WHERE session_id = 's'",
    )


def test_cut_tail_is_found_with_a_saved_head_only(forger, damaged):
    early, late = 6, damaged.head()
    cut(forger, early)
    damaged.rebuild()
    assert damaged.verify().ok
    assert damaged.verify(damaged.head()).ok
    assert found(damaged, late) == early + 1
    assert shown(damaged) == [3, 4, 5, 6]


def test_rewritten_tail_is_found_with_a_saved_head(forger, damaged):
    saved = damaged.head()
    cut(forger, 6)
    damaged.rebuild()
    fill(damaged, saved.seq)
    assert damaged.verify().ok
    assert found(damaged, saved) == saved.seq


def test_session_swapped_whole_is_found_with_a_saved_head(forger, damaged):
    saved = damaged.head()
    fill(forger.store.session("other"), saved.seq)
    for name in ("entries", "spans", "clearings", "facts", "sessions"):
        names = [column.name for column in metadata.tables[name].columns]
        rest = ", ".join(names[1:])
        forger.sql(
            f"DELETE FROM {name} WHERE session_id = 's'",
            f"INSERT INTO {name} (session_id, {rest}) SELECT 's', {rest} FROM {name}"
            " WHERE session_id = 'other'",
            f"DELETE FROM {name} WHERE session_id = 'other'",
        )
    assert damaged.verify().ok
    assert found(damaged, saved) == saved.seq


def test_damaged_content_is_a_typed_error_when_it_is_read(forger, damaged):
    forger.sql(f"UPDATE entries SET content = '[\"a secret' {where(3)}")
    for ask in (damaged.view, lambda: list(damaged.audit()), lambda: damaged.message(3)):
        with pytest.raises(RooContextError) as caught:
            ask()
        assert "secret" not in str(caught.value)
    assert found(damaged) == 3


COUNTS = {
    "of a note": "'bytes', 1, 5",
    "outside the log": "'bytes', 9999, 5",
    "below zero": "'bytes', 3, -5",
}


@pytest.mark.parametrize("values", COUNTS.values(), ids=COUNTS)
def test_count_of_no_message_is_found_and_taken_away(forger, damaged, values):
    damaged.tokens(BYTES)
    kept = counts_of(damaged, BYTES)
    forger.sql(
        "DELETE FROM counts WHERE session_id = 's' AND seq = 3",
        "INSERT INTO counts (session_id, variant, counter, seq, tokens, exact)"
        f" VALUES ('s', '', {values}, TRUE)",
    )
    assert not damaged.verify().ok
    assert damaged.rebuild() == 1
    assert damaged.verify().ok
    assert counts_of(damaged, BYTES) == kept


CONTRADICTIONS = {
    "a rewind to itself": ("rewind", '{"to":SEQ}'),
    "a rewind forward": ("rewind", '{"to":9999}'),
    "a rewind to what is no number": ("rewind", '{"to":true}'),
    "a rewind that hides": ("rewind", '{"to":1,"hides":[[3,4]]}'),
    "overlapping ranges": ("summary", '{"hides":[[3,5],[5,6]],"position":1}'),
    "a range that ends before it begins": ("summary", '{"hides":[[5,3]],"position":1}'),
    "hiding later rows": ("summary", '{"hides":[[3,9999]],"position":1}'),
    "hiding itself": ("marker", '{"hides":[[3,SEQ]],"position":1}'),
    "hiding nothing": ("marker", '{"hides":[],"position":1}'),
    "no position": ("marker", '{"hides":[[3,4]]}'),
    "a position that is no number": ("marker", '{"hides":[[3,4]],"position":"1"}'),
    "clearing nothing": ("clearing", '{"clears":[]}'),
    "clearing a block twice": ("clearing", '{"clears":[[3,0],[3,0]]}'),
    "clearing a later row": ("clearing", '{"clears":[[9999,0]]}'),
    "no JSON": ("clearing", '{"clears"'),
    "a list": ("clearing", "[]"),
    "nonsense": ("summary", "nonsense"),
}


@pytest.mark.parametrize(("kind", "details"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_control_row_that_contradicts_itself_is_named_wherever_it_is_needed(
    forger, damaged, kind, details
):
    seq = next(entry.seq for entry in damaged.audit() if entry.kind == kind)
    last = damaged.head().seq
    hides_an_old_row = Plan(
        head_seq=damaged.head_seq(),
        action=Action.CONDENSE,
        hides=((1, 1),),
        rows=(NewMessage("user", "T"),),
        counts=Counts("given", Size(10), Size(9)),
    )
    forger.sql(f"UPDATE entries SET details = '{details.replace('SEQ', str(seq))}' {where(seq)}")
    refused(
        seq,
        lambda: damaged.view(as_of=last),
        lambda: list(damaged.audit()),
        lambda: damaged.diff(1),
        lambda: damaged.rewind(to=1),
        lambda: damaged.commit(hides_an_old_row),
        damaged.internals.live,
        damaged.fork,
        damaged.rebuild,
        lambda: counts_of(damaged, BYTES, hidden=True),
        lambda: damaged.redact(3),
    )
    assert found(damaged) == seq


@pytest.mark.parametrize(
    "uncovers", ["[3]", "[1]", "[5,3]", "[5,5]", "[99]", "[]", '["5"]', "[6]"], ids=str
)
def test_uncovering_that_contradicts_the_log_is_named(defenceless, uncovers):
    chat = defenceless.store.create()
    fill(chat, 4)
    seq = chat.commit(Plan.condense(chat.view(), [1, 2], "S")).seq
    done = chat.uncover(seq)
    defenceless.sql(
        f"UPDATE entries SET details = '{{\"uncovers\":{uncovers}}}'"
        f" WHERE session_id = '{chat.id}' AND seq = {done.seq}"
    )
    refused(
        done.seq,
        lambda: chat.view(as_of=done.seq),
        lambda: list(chat.audit()),
        lambda: chat.rewind(to=0),
        chat.internals.live,
        chat.fork,
        chat.rebuild,
    )
    verification = chat.verify()
    assert (verification.ok, verification.seq) == (False, done.seq)


@pytest.mark.parametrize("change", ["kind = 'uncovering'", "kind = 'messagf'", "kind = 'note'"])
def test_unknown_kind_is_named_everywhere(forger, damaged, change):
    seq = next(entry.seq for entry in damaged.audit() if entry.kind == "summary")
    forger.sql(f"UPDATE entries SET {change} {where(seq)}")
    refused(
        seq,
        damaged.view,
        damaged.internals.live,
        lambda: damaged.rewind(to=3),
        lambda: damaged.diff(1),
    )
    assert found(damaged) == seq


def test_search_names_the_unknown_kind_of_what_hides_a_hit(forger, damaged):
    seq = next(entry.seq for entry in damaged.audit() if entry.kind == "summary")
    forger.sql(f"UPDATE entries SET kind = 'messagf' {where(seq)}")
    refused(seq, lambda: forger.store.search("message", among="hidden"))


@pytest.mark.parametrize(
    "change", ["role = 'tool'", "format = 'gemini', role = 'assistant'", "format = 'telex'"]
)
def test_unknown_role_or_format_is_named(forger, damaged, change):
    forger.sql(f"UPDATE entries SET {change} {where(3)}")
    refused(3, damaged.view, damaged.messages, damaged.internals.live, lambda: damaged.message(3))
    assert found(damaged) == 3


def test_entry_that_cannot_be_read_is_named_among_many(forger, damaged):
    fill(damaged, 3)
    if forger.engine == "postgres":
        forger.sql(f"UPDATE entries SET usage = '{{' {where(7)}")
    else:
        forger.sql(f"UPDATE entries SET content = CAST(x'22ff22' AS TEXT) {where(7)}")
    verification = damaged.verify()
    assert (verification.ok, verification.seq, verification.entries) == (False, 7, 6)


@pytest.mark.only("file", "memory")
def test_rebuild_renews_caches_that_cannot_be_read(forger, damaged):
    view = damaged.view()
    forger.sql(
        "UPDATE spans SET lo = 'x' WHERE session_id = 's' AND lo = 1",
        "UPDATE clearings SET placeholder = x'ff' WHERE session_id = 's'",
    )
    assert "rebuild" in damaged.verify().problem
    assert damaged.rebuild() > 0
    assert damaged.verify().ok
    assert damaged.view() == view
