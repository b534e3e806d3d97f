"""Rows that somebody put outside the log: no operation reads them, whatever they seem to be."""

import re

import pytest

from roocontext import Plan
from roocontext.errors import HistoryCorrupt, MessageNotFound, RooContextError
from roocontext.log.counting import BYTES
from roocontext.store.engine.schema import entries
from support.damage import READING, build
from support.dialogue import fill, keep_estimate, state

pytestmark = [pytest.mark.only("sync"), pytest.mark.only("file", "postgres")]

CALL = '[{"type":"tool_use","id":"f","name":"run","input":{}}]'
HIDES = '{"hides":[[1,3]],"position":1}'
ROWS = {
    "a call": f"'message', 'assistant', 'm', '{CALL}', NULL, '[\"call\",\"f\"]', NULL, NULL",
    "a message": "'message', 'user', NULL, '\"forged\"', NULL, NULL, NULL, NULL",
    "a summary": f"'summary', 'user', NULL, '\"forged\"', '{HIDES}', NULL, NULL, NULL",
    "a marker": f"'marker', 'user', NULL, '\"forged\"', '{HIDES}', NULL, NULL, NULL",
    "a companion": "'companion', 'user', NULL, '\"forged\"', '{\"position\":1}', NULL, NULL, NULL",
    "a clearing": "'clearing', NULL, NULL, NULL, '{\"clears\":[[9,0]]}', NULL, NULL, NULL",
    "a rewind": "'rewind', NULL, NULL, NULL, '{\"to\":0}', NULL, NULL, NULL",
    "an uncovering": "'uncovering', NULL, NULL, NULL, '{\"uncovers\":[15]}', NULL, NULL, NULL",
    "a pin": "'note', NULL, NULL, '{\"pinned\":true}', NULL, NULL, 'pin', 4",
    "a title": "'note', NULL, NULL, '{\"title\":\"forged\"}', NULL, NULL, 'title', NULL",
    "metadata": "'note', NULL, NULL, '{\"metadata\":{}}', NULL, NULL, 'metadata', NULL",
    "a frame": "'note', NULL, NULL, '{\"system\":\"forged\"}', NULL, NULL, 'frame', NULL",
    "a redaction": "'note', NULL, NULL, '{\"digest\":\"00\"}', NULL, NULL, 'redaction', 4",
    "a note": "'note', NULL, NULL, '{\"said\":\"forged\"}', NULL, NULL, 'mine', NULL",
}


@pytest.fixture
def lab(lab):
    """A store of the test's own without triggers and checks."""
    lab.drop_guards()
    return lab


def forge(lab, chat, seq, row):
    """Put a row into a session, with a hash and a client id that look right."""
    lab.sql(
        "INSERT INTO entries (session_id, seq, recorded_at, message_id, client_id, compaction_id,"
        " size, messages_total, bytes_total, salt, content_digest, hash, usage, format,"
        " kind, role, model, content, details, tools, note, target)"
        f" SELECT '{chat.id}', {seq}, 1, 'forged', 'forged' || {seq}, 'forged', 8, 5, 40, hash,"
        f" hash, hash, '{{\"input_tokens\":5}}', 'anthropic', {row}"
        f" FROM entries WHERE session_id = '{chat.id}' AND seq = 4"
    )


def answers(lab, chat):
    """The answers of all operations that read, except the time at which they are asked."""
    views = {
        name: lambda _, chat, name=name: sorted(
            map(repr, lab.sql(f"SELECT * FROM {name} WHERE session_id = '{chat.id}'"))
        )
        for name in ("messages", "effective_history")
    }
    found = {}
    for name, operation in {**READING, **views}.items():
        if name == "change_cursor":  # it is the minute of the server's clock
            continue
        try:
            answer = repr(operation(lab.store, chat))
        except Exception as error:  # noqa: BLE001 - what is refused has to be refused alike
            answer = repr(error)
        found[name] = re.sub(r"purged_at=\d+| at 0x\w+", "", answer)
    return found


@pytest.mark.parametrize("first", ["the last is 0", "the first is after the log"])
def test_no_operation_reads_a_row_outside_the_log(lab, first):
    chat = build(lab.store)
    before = answers(lab, chat)
    assert before == answers(lab, chat)
    last = chat.head().seq
    outside = [-number if "0" in first else last + 1 + number for number in range(len(ROWS))]
    for seq, row in zip(outside, ROWS.values(), strict=True):
        forge(lab, chat, seq, row)
    after = answers(lab, chat)
    assert [name for name in before if after[name] != before[name]] == []
    found = chat.verify()
    assert found.seq == (1 - len(ROWS) if "0" in first else last + 1)
    assert chat.rebuild() == 0
    assert chat.internals.noted([f"forged{seq}" for seq in outside]) == {}
    with pytest.raises(MessageNotFound):
        chat.rewind(to="forged")
    taken = {"client_id": f"forged{found.seq}"}
    with pytest.raises(HistoryCorrupt):  # its place in the unique index is taken
        chat.append("user", "forged", **taken)
    copy = chat.fork()
    assert copy.verify().ok
    assert copy.head().hash != chat.head().hash
    assert [entry.seq for entry in copy.audit()] == [*range(1, last + 2)]
    assert copy.append("user", "forged", **taken).new


@pytest.mark.only("file")
@pytest.mark.parametrize("seq", ["1.5", "'x'", "x'01'"])
def test_seq_that_is_no_integer_is_named(lab, seq):
    """On SQLite: the columns of a server hold what they say."""
    chat = build(lab.store)
    forge(lab, chat, seq, ROWS["a pin"])
    assert not chat.verify().ok


NAMED = {
    "message": lambda chat, seq: chat.message(seq),
    "redact": lambda chat, seq: chat.redact(seq),
    "pin": lambda chat, seq: chat.pin(seq),
    "note": lambda chat, seq: chat.note("mine", {}, target=seq),
    "asked_at": lambda chat, seq: chat.append("user", "x", asked_at=seq),
    "answers": lambda chat, seq: chat.append("user", "x", answers=(seq, 0)),
    "answer": lambda chat, seq: chat.answer((seq, 0), "done"),
    "begin": lambda chat, seq: chat.begin((seq, 0)),
    "uncover": lambda chat, seq: chat.uncover(seq),
    "hide": lambda chat, seq: chat.commit(Plan.truncate(chat.view(), [3, seq], "M")),
    "clear": lambda chat, seq: chat.commit(Plan.clear(chat.view(), [(seq, 0)])),
    "rewind": lambda chat, seq: chat.rewind(to=seq),
    "fork": lambda chat, seq: chat.fork(seq),
    "view": lambda chat, seq: chat.view(as_of=seq),
    "diff": lambda chat, seq: chat.diff(seq),
    "request": lambda chat, seq: chat.request(as_of=seq),
    "newest_note": lambda chat, seq: chat.newest_note("mine", as_of=seq),
}


def test_no_operation_takes_a_row_outside_the_log_by_its_seq(lab):
    chat = build(lab.store)
    for seq in (-1, 9999):
        forge(lab, chat, seq, ROWS["a call"])
    before = state(chat)
    for operation in NAMED.values():
        for seq in (-1, 9999):
            with pytest.raises(RooContextError):
                operation(chat, seq)
    assert not keep_estimate(chat, 9999, BYTES, 7)
    assert state(chat) == before


COPIES = {
    "of no session": lambda lab, chat: "ghost",
    "of a purged session": lambda lab, chat: lab.store.purge(chat.fork().id).session_id,
    "after the log": lambda lab, chat: chat.fork(2).id,
}


@pytest.mark.parametrize("name", COPIES)
def test_redaction_passes_by_a_copy_outside_a_log(lab, name):
    """It looked for the session of such a row, without an end if that was purged."""
    chat = lab.store.create()
    fill(chat, 4)
    session_id = COPIES[name](lab, chat)
    columns = ", ".join(column.name for column in entries.columns if column.name != "session_id")
    there = lab.sql(f"SELECT seq FROM entries WHERE session_id = '{session_id}'")
    seqs = ", ".join(str(row[0]) for row in [(0,), *there])
    lab.sql(
        f"INSERT INTO entries (session_id, {columns}) SELECT '{session_id}', {columns}"
        f" FROM entries WHERE session_id = '{chat.id}' AND seq NOT IN ({seqs})"
    )
    assert chat.redact(4).copies == ((chat.id, 4),)
    assert chat.verify().ok


def test_family_that_descends_from_itself_is_damage(lab):
    """The sums of such a family were looked for without an end."""
    root = lab.store.create()
    child = lab.store.create(parent=root.id)
    grandchild = lab.store.create(parent=child.id)
    lab.sql(f"UPDATE sessions SET parent = '{grandchild.id}' WHERE session_id = '{root.id}'")
    for chat in (root, child, grandchild):
        with pytest.raises(HistoryCorrupt):
            chat.usage(family=True)
        assert chat.usage() == []
        assert chat.verify().ok
