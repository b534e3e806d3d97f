"""Redaction and purge: the only ways to delete content, and what they leave."""

from pathlib import Path

import pytest

from roocontext.errors import (
    InvalidOption,
    MessageNotFound,
    SessionNotFound,
    SessionPurged,
    VersionConflict,
)
from support.damage import CALLS, OF_THE_STORE, SILENT, build
from support.dialogue import call, fill, result, seqs, state, text

SECRET = "hunter2-the-secret-password"


def test_redaction_leaves_a_skeleton(chat):
    content = [text(SECRET), call("t1"), {"type": "odd", "x": SECRET}]
    chat.append("assistant", content)
    chat.append("user", [{**result("t1", SECRET), "is_error": True}])
    for seq in (1, 2):
        done = chat.redact(seq)
        assert (done.session_id, done.seq, done.changed, done.dry_run) == (
            chat.id,
            seq,
            True,
            False,
        )
        assert done.copies == ((chat.id, seq),)
    first, second = chat.view().messages
    assert first.role == "assistant"
    assert [block["type"] for block in first.content] == ["text", "tool_use", "odd"]
    assert (first.content[1]["id"], first.content[1]["name"]) == ("t1", "run")
    assert second.content[0]["tool_use_id"] == "t1"
    assert second.content[0]["is_error"] is True
    for source in (chat.view(), list(chat.audit()), chat.message(1), chat.messages()):
        assert SECRET not in repr(source)
    for seq in range(chat.head().seq + 1):
        assert SECRET not in repr(chat.view(as_of=seq))
    assert [entry.redacted for entry in chat.audit()] == [True, True, False, False]
    assert chat.verify().ok


def test_equal_content_elsewhere_is_no_copy(store):
    one, other = store.create(), store.create()
    for chat in (one, other):
        chat.append("user", SECRET)
    assert one.redact(1).copies == ((one.id, 1),)
    assert SECRET in repr(other.view())


def test_redaction_of_no_message_is_refused(chat):
    fill(chat, 2)
    chat.set_title("t")
    chat.rewind(to=1)
    before = state(chat)
    for seq in (3, 4, 5):
        with pytest.raises(MessageNotFound):
            chat.redact(seq)
    assert state(chat) == before
    assert chat.redact(2).changed


@pytest.mark.parametrize("is_newest", [True, False])
def test_redacted_metadata_is_gone_from_the_session_and_its_index(lab, is_newest):
    chat = lab.store.create("s", metadata={"user": SECRET, SECRET: "key"})
    fill(chat, 2)
    fork = chat.fork(session_id="fork")
    if not is_newest:
        chat.set_metadata({"user": "ann"})
    assert chat.redact(1, dry_run=True).changed
    redacted = chat.redact(1)
    assert redacted.copies == (("fork", 1), ("s", 1))
    assert (redacted.changed, redacted.summaries) == (True, ())
    assert fork.info().metadata == {}
    assert chat.info().metadata == ({} if is_newest else {"user": "ann"})
    assert lab.store.sessions(where={"user": SECRET}) == []
    for table in ("sessions", "entries", "facts"):
        assert SECRET not in repr(lab.sql(f"SELECT * FROM {table}"))
    for one in (chat, fork, fork.fork(3, session_id="again")):
        assert one.verify().ok
        assert one.rebuild() == 0
    assert not chat.redact(1).changed
    chat.set_metadata({"user": "bob"})
    assert [info.session_id for info in lab.store.sessions(where={"user": "bob"})] == ["s"]


def test_purge_leaves_its_receipt(store, clock):
    chat = store.create(title="t")
    fill(chat, 4)
    head, info = chat.head(), chat.info()
    with pytest.raises(VersionConflict):
        store.purge(chat.id, expected_seq=4)
    with pytest.raises(InvalidOption):
        store.purge(where={"a": "b"}, expected_seq=5)
    clock.now = 77_000
    done = store.purge(chat.id, expected_seq=5)
    assert (done.session_id, done.entries, done.messages) == (chat.id, 5, 4)
    assert (done.bytes, done.last_hash, done.purged_at) == (info.bytes, head.hash, 77_000)
    again = store.purge(chat.id, expected_seq=4)
    assert (again.entries, again.last_hash, again.purged_at) == (5, head.hash, 77_000)


def test_use_of_a_purged_session_names_its_receipt(store):
    chat = build(store)
    head = chat.head()
    store.purge(chat.id)
    calls = {**CALLS, "append nothing": lambda _, chat: chat.append_many([])}
    purging = {"purge", "purge again", "purge in a dry run"}
    for name in calls.keys() - OF_THE_STORE - SILENT - purging:
        with pytest.raises(SessionPurged) as caught:
            calls[name](store, chat)
        assert caught.value.receipt["last_hash"] == head.hash, name
        assert caught.value.session_id == chat.id


def test_purge_hurts_no_fork(store):
    chat = store.create()
    fill(chat, 4)
    fork = chat.fork(3)
    view = fork.view()
    second, stranger = fork.fork(2), store.create()
    fill(stranger, 4)
    still = tuple(sorted((fork.id, second.id)))
    assert store.purge(chat.id, dry_run=True).copies == still
    assert store.purge(chat.id).copies == still
    assert store.purge(chat.id).copies == ()
    assert store.purge(second.id).copies == (fork.id,)
    assert store.purge(stranger.id).copies == ()
    assert fork.view() == view
    assert fork.verify().ok
    assert fork.redact(2).copies == ((fork.id, 2),)


def test_purged_session_is_not_listed_and_its_rows_are_gone(lab):
    kept, gone = lab.store.create(), lab.store.create(title=SECRET, metadata={"user": SECRET})
    for chat in (kept, gone):
        chat.append("user", SECRET)
    lab.store.purge(gone.id)
    assert [info.session_id for info in lab.store.sessions()] == [kept.id]
    for table in ("entries", "spans", "clearings", "counts", "facts"):
        rows = lab.sql(f"SELECT count(*) FROM {table} WHERE session_id = '{gone.id}'")
        assert rows == [(0,)]
    left = lab.sql(f"SELECT * FROM sessions WHERE session_id = '{gone.id}'")
    assert SECRET not in repr(left)
    with pytest.raises(SessionNotFound):
        lab.store.session(gone.id)
    assert seqs(kept.view()) == [1]


def test_erased_bytes_leave_the_file(opened):
    with opened("file", "sync") as lab:
        chat = lab.store.create()
        chat.append("user", SECRET)
        other = lab.store.create()
        other.append("user", f"{SECRET} again")
        assert chat.redact(1).erased
        assert lab.store.purge(other.id).erased
        folder = Path(lab.url).parent
        assert all(SECRET.encode() not in path.read_bytes() for path in folder.iterdir())
