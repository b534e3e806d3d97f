"""Archived sessions: into a file, out of the store, and back with every hash."""

import gzip
import hashlib
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from roocontext import ArchiveFolder
from roocontext.errors import (
    InvalidOption,
    MessageNotFound,
    SessionArchived,
    SessionExists,
    SessionPurged,
    StoreUnavailable,
)
from roocontext.formats import import_paths, jsonl
from roocontext.store.proof import archive
from roocontext.store.writing import archived as archived_sessions
from roocontext.store.writing import erase
from support.damage import CALLS, OF_THE_STORE, SILENT, build
from support.dialogue import fill, restored, state, text, work

SECRET = "hunter2-the-secret-password"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def archived(store: Any, chat: Any, folder: Path) -> Any:
    """The outcome for one session, which must have been archived."""
    done = store.archive(session=chat.id, put=ArchiveFolder(folder))
    assert done.left == ()
    (one,) = done.archived
    return one


def brought_back(store: Any, file: str) -> Any:
    (done,) = import_paths(store, [file])
    assert not done.failed, done.problems
    return store.session(done.session_id)


@pytest.mark.every_leg
def test_session_that_came_back_continues(store, chat, folder):
    fill(chat, 4)
    chat.rewind(to=2)
    head = chat.head()
    back = restored(store, archived(store, chat, folder).file)
    assert back.head() == head
    assert back.undo().seq == 6
    assert back.append("user", "more").seq == 7
    assert back.verify(head).ok
    again = archived(store, back, folder)
    assert again.entries == 7
    assert restored(store, again.file).head().seq == 7


def test_session_without_entries_comes_back(store, chat, folder):
    one = archived(store, chat, folder)
    assert (one.entries, one.messages) == (0, 0)
    back = brought_back(store, one.file)
    assert back.append("user", "first").seq == 1
    assert back.verify().ok
    assert back.rebuild() == 0


def test_archived_session_is_listed_as_it_was(lab, folder):
    store = lab.store
    chat = store.create(title="kept", metadata={"user": "ann"})
    fill(chat, 3)
    child = store.create(parent=chat.id)
    before = chat.info()
    lab.clock.now = at = lab.clock.now + 1_000
    archived(store, chat, folder)
    listed = {info.session_id: info for info in store.sessions()}
    assert listed[chat.id] == replace(before, archived_at=at)
    assert [info.session_id for info in store.sessions(where={"user": "ann"})] == [chat.id]
    assert store.find(chat.id) == [replace(before, archived_at=at)]
    assert {one.info.session_id for one in store.overview()} == {chat.id, child.id}
    assert child.parent == chat.id
    assert store.sessions(parent=chat.id)[0].session_id == child.id


ERASING = {"redact", "redact in a dry run", "purge", "purge again", "purge in a dry run"}


def test_use_of_an_archived_session_names_the_file_and_its_digest(store, folder):
    chat = build(store)
    head = chat.head()
    one = archived(store, chat, folder)
    for name in CALLS.keys() - OF_THE_STORE - SILENT - ERASING:
        with pytest.raises(SessionArchived) as caught:
            CALLS[name](store, chat)
        error = caught.value
        assert (error.session_id, error.file, error.digest) == (chat.id, one.file, one.digest), name
        assert (error.seq, error.hash) == (head.seq, head.hash)
        assert one.file in str(error)
        assert one.digest in str(error)
    with pytest.raises(SessionArchived):
        store.search("word", session=chat.id)
    assert hashlib.sha256(Path(one.file).read_bytes()).hexdigest() == one.digest


def test_archived_session_leaves_no_row_but_its_own(lab, folder):
    chat = lab.store.create(metadata={"user": "ann"})
    chat.append("user", SECRET)
    work(chat)
    lab.store.index()
    chat.tokens("roo")
    archived(lab.store, chat, folder)
    for table in ("entries", "spans", "clearings", "counts", "search_rows", "search_marks"):
        assert lab.sql(f"SELECT count(*) FROM {table}") == [(0,)]
    assert lab.sql("SELECT count(*) FROM facts") == [(1,)]


def test_search_counts_the_archived_sessions_of_its_scope(lab, folder):
    store = lab.store
    kept, gone = store.create(metadata={"a": "1"}), store.create(metadata={"a": "2"})
    child = store.create(parent=gone.id)
    for chat in (kept, gone, child):
        chat.append("user", "needle", ts=1_000)
    archived(store, gone, folder)
    for _ in range(2):
        found = store.search("needle")
        assert ({hit.session_id for hit in found}, found.archived) == ({kept.id, child.id}, 1)
        assert found.to_dict()["archived"] == 1
        store.index(anew=True)
    assert store.search("needle", where={"a": "1"}).archived == 0
    assert store.search("needle", where={"a": "2"}).archived == 1
    assert store.search("needle", family=gone.id).archived == 1
    assert store.search("needle", session=kept.id).archived == 0
    later = datetime.fromtimestamp(2, UTC)
    assert store.search("needle", since=later).archived == 0
    assert store.search("needle", since=datetime.fromtimestamp(1, UTC)).archived == 1
    first = store.search("needle", limit=1)
    assert store.search("needle", limit=1, after=first.next).archived is None


def test_sessions_are_chosen_by_the_later_of_their_clocks(lab, folder):
    store, clock, day = lab.store, lab.clock, 86_400_000
    clock.now = 100 * day
    old = store.create("old")
    old.append("user", "m")
    imported = store.create("recorded now")
    future = store.create("in the future")
    future.append("user", "m", ts=1_000 * day)
    clock.now = 150 * day
    imported.append("user", "m", ts=day)
    clock.now = 190 * day
    store.create("empty")
    clock.now = 195 * day
    when = datetime.fromtimestamp(120 * 86_400, UTC)
    planned = store.archive(older_than=when, put=ArchiveFolder(folder), dry_run=True)
    assert planned.dry_run
    assert [one.session_id for one in planned.archived] == ["old"]
    assert not folder.exists()
    done = store.archive(older_than=timedelta(days=44), put=ArchiveFolder(folder))
    assert {one.session_id for one in done.archived} == {"old", "recorded now"}
    assert len(list(folder.iterdir())) == 2
    again = store.archive(older_than=timedelta(days=44), put=ArchiveFolder(folder))
    assert again.archived == again.left == ()


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"older_than": 90},
        {"older_than": datetime(2026, 1, 1)},  # noqa: DTZ001 - what is refused
        {"older_than": "90d"},
        {"older_than": timedelta.max},
        {"older_than": timedelta(days=-1)},
    ],
    ids=str,
)
def test_archive_without_a_time_is_refused(store, options):
    chat = store.create()
    with pytest.raises(InvalidOption):
        store.archive(put=lambda *_: None, **options)
    assert chat.info().archived_at is None


def test_file_is_jsonl_that_depends_on_the_log_alone(store, chat, folder):
    fill(chat, 3)
    chat.append("user", [text("\ud83d \0")])
    plain = b"".join(jsonl.export_session(chat))
    one = archived(store, chat, folder)
    file = Path(one.file)
    assert gzip.decompress(file.read_bytes()) == plain
    assert file.stat().st_mode & 0o777 == 0o600
    assert one.size == file.stat().st_size
    assert chat.id not in file.name
    back = brought_back(store, one.file)
    again = archived(store, back, folder / "other")
    assert Path(again.file).read_bytes() == file.read_bytes()


# What comes in between


def test_session_that_grows_meanwhile_is_left(store, chat, folder):
    fill(chat, 2)

    def put(name: str, content: Any) -> Any:
        chat.append("user", "meanwhile")
        return ArchiveFolder(folder)(name, content)

    done = store.archive(session=chat.id, put=put)
    assert done.archived == ()
    (left,) = done.left
    assert (left.session_id, left.why) == (chat.id, "changed")
    assert Path(left.file).exists()
    assert chat.append("user", "more").seq == 4


def test_session_that_is_purged_meanwhile_is_left(store, chat, folder):
    fill(chat, 2)

    def put(name: str, content: Any) -> Any:
        store.purge(chat.id)
        return ArchiveFolder(folder)(name, content)

    (left,) = store.archive(session=chat.id, put=put).left
    assert left.why == "changed"
    assert Path(left.file).exists(), "the content is in a file that nothing else names"
    with pytest.raises(SessionPurged):
        store.session(chat.id)


def test_sessions_that_another_run_archives_meanwhile_are_left(lab, folder):
    store, put = lab.store, ArchiveFolder(folder)
    names = [_old(lab, store.create()) for _ in range(3)]

    def slow(name: str, content: Any) -> Any:
        for other in names[1:]:  # this one, and one that comes later
            if not store.find(other)[0].archived_at:
                assert store.archive(session=other, put=put).left == ()
        return put(name, content)

    done = store.archive(older_than=timedelta(0), put=slow)
    assert [one.session_id for one in done.archived] == names[:1]
    assert {(one.session_id, one.why, one.file) for one in done.left} == {
        (name, "changed", None) for name in names[1:]
    }
    for info in store.sessions():
        with pytest.raises(SessionArchived) as caught:
            store.session(info.session_id)
        restored(store, caught.value.file)


def _old(lab, chat):
    fill(chat, 2)
    lab.clock.now += 1_000
    return chat.id


def test_session_that_a_runner_has_the_turn_of_is_left(store, chat, folder):
    fill(chat, 2)
    with chat.turn():
        done = store.archive(session=chat.id, put=ArchiveFolder(folder))
    assert [(left.why, left.file) for left in done.left] == [("turn", None)]
    archived(store, chat, folder)


def test_failed_put_leaves_the_session_and_a_repetition_continues(lab, folder):
    store = lab.store
    chats = [store.create() for _ in range(3)]
    for chat in chats:
        fill(chat, 2)
    lab.clock.now += 1_000
    calls = []

    def put(name: str, content: Any) -> Any:
        calls.append(name)
        if len(calls) == 2:
            raise RuntimeError("no network")
        return ArchiveFolder(folder)(name, content)

    with pytest.raises(RuntimeError):
        store.archive(older_than=timedelta(0), put=put)
    assert sum(info.archived_at is not None for info in store.sessions()) == 1
    done = store.archive(older_than=timedelta(0), put=put)
    assert len(done.archived) == 2
    # A crash after the file was stored: the same file is stored again.
    assert calls[1] in calls[2:]


def test_put_that_damages_the_file_is_refused(store, chat, tmp_path):
    fill(chat, 2)
    before = state(chat)

    def put(name: str, content: Any) -> Any:
        file = tmp_path / name
        file.write_bytes(content.read()[:-9])
        return file

    with pytest.raises(StoreUnavailable, match="SHA-256"):
        store.archive(session=chat.id, put=put)
    assert state(chat) == before


def test_folder_that_cannot_be_written_is_a_typed_error(store, chat, tmp_path):
    fill(chat, 2)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot hold the archive"):
        store.archive(session=chat.id, put=ArchiveFolder(tmp_path / "file"))
    assert chat.append("user", "more").seq == 3


@pytest.mark.parametrize("temporary", ["/dev/null/missing", "full"])
def test_temporary_file_that_cannot_be_written_is_a_typed_error(
    store, chat, folder, monkeypatch, temporary
):
    fill(chat, 2)
    before = state(chat)
    if temporary == "full":
        monkeypatch.setattr(archive, "TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    else:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
    with pytest.raises(StoreUnavailable, match="No temporary file can hold the archive"):
        store.archive(session=chat.id, put=ArchiveFolder(folder))
    assert state(chat) == before


# What comes back


def test_only_a_log_with_the_same_head_comes_back(store, chat, folder):
    fill(chat, 4)
    entries = list(chat.internals.stored())
    one = archived(store, chat, folder)
    shown = store.find(chat.id)
    other = store.create()
    fill(other, 4)
    for wrong in (entries[:3], [], list(other.internals.stored())):
        with pytest.raises(SessionArchived, match="with entry 4") as caught:
            store.restore(chat.id, wrong)
        assert one.file in str(caught.value)
    assert store.find(chat.id) == shown
    fork = brought_back(store, one.file)
    assert list(fork.internals.stored()) == entries


def test_other_parent_is_refused(store, chat, folder):
    child = store.create(parent=chat.id)
    fill(child, 2)
    entries = list(child.internals.stored())
    archived(store, child, folder)
    with pytest.raises(SessionExists):
        store.restore(child.id, entries)
    store.restore(child.id, entries, parent=chat.id)
    assert store.session(child.id).parent == chat.id


def test_damaged_file_brings_nothing_back(store, chat, folder):
    fill(chat, 30)
    one = archived(store, chat, folder)
    file = Path(one.file)
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:400] + b"\0\0\0" + whole[403:]):
        file.write_bytes(damaged)
        (done,) = import_paths(store, [file])
        assert getattr(done, "failed", False) or done.is_problem, done
        with pytest.raises(SessionArchived):
            store.session(chat.id)
    file.write_bytes(whole)
    assert brought_back(store, one.file).head().seq == 30


def test_restore_in_a_dry_run_leaves_the_session_archived(store, chat, folder):
    fill(chat, 3)
    entries = list(chat.internals.stored())
    archived(store, chat, folder)
    done = store.restore(chat.id, entries, dry_run=True)
    assert (done.new, done.dry_run) == (3, True)
    with pytest.raises(SessionArchived):
        store.session(chat.id)


# Redactions and purges


def test_redaction_of_a_copy_is_kept_and_applied_when_the_session_comes_back(store, chat, folder):
    fill(chat, 1)
    chat.append("user", SECRET)
    chat.append("user", "other")
    early, late = chat.fork(1), chat.fork()
    one, cut = archived(store, chat, folder), archived(store, early, folder)
    dry = late.redact(2, dry_run=True)
    done = late.redact(2)
    assert done.copies == ((late.id, 2),)
    # The fork that was cut before the message ends later than it, by the note of its origin.
    assert set(done.archived) == set(dry.archived) == {(chat.id, 2), (early.id, 2)}
    store.purge(late.id)
    back = brought_back(store, one.file)
    assert SECRET not in repr(list(back.internals.stored()))
    assert [note.target for note in back.notes("redaction")] == [2]
    assert back.verify().ok
    assert back.rebuild() == 0
    other = brought_back(store, cut.file)
    assert other.notes("redaction") == []


def test_redaction_of_an_archived_session_is_kept_too(store, chat, folder):
    chat.append("user", SECRET)
    fill(chat, 2)
    said = {"content": [{"type": "compaction", "content": SECRET}], "stop_reason": "compaction"}
    covering = chat.record({"type": "message", "id": "m", **said}).covering
    one = archived(store, chat, folder)
    for seq in (1, covering):
        assert chat.redact(seq, dry_run=True).changed
        done = chat.redact(seq)
        assert (done.changed, done.copies, done.archived) == (True, (), ((chat.id, seq),))
        assert not chat.redact(seq).changed
    for dry_run in (True, False):
        with pytest.raises(MessageNotFound, match="the log holds 1 to 5"):
            chat.redact(6, dry_run=dry_run)
    back = brought_back(store, one.file)
    assert SECRET not in repr(list(back.internals.stored()))
    assert back.verify().ok
    again = archived(store, back, folder)
    assert SECRET not in gzip.decompress(Path(again.file).read_bytes()).decode()


def test_restored_redaction_reaches_archived_copies(store, chat, folder):
    chat.append("user", SECRET)
    fill(chat, 1)
    fork = chat.fork()
    one = archived(store, fork, folder)
    whole = list(chat.internals.stored())
    chat.redact(1)
    store.purge(chat.id)
    assert len(whole) == 2
    back = brought_back(store, one.file)
    assert SECRET not in repr(list(back.internals.stored()))


@pytest.mark.parametrize("is_before", [True, False])
def test_copy_is_not_restored_whole_while_the_redacted_one_is_archived(
    store, chat, folder, is_before
):
    chat.append("user", SECRET)
    fill(chat, 1)
    fork, whole = chat.fork(), list(chat.internals.stored())
    if is_before:
        chat.redact(1)
    archived(store, chat, folder)
    if not is_before:
        fork.redact(1)
    store.purge(fork.id)
    copy = f"copy of {chat.id}"
    assert store.restore(copy, whole).redacted == ((copy, 1),)
    assert SECRET not in repr(list(store.session(copy).internals.stored()))
    assert store.session(copy).verify().ok


def test_session_comes_back_while_a_relative_does(opened, folder):
    """A redaction that the relative's tombstone has already waits for nobody."""
    with opened("postgres", "sync", lock_timeout=1) as lab:
        chat = lab.store.create()
        fill(chat, 2)
        one, other = (archived(lab.store, chat.fork(), folder) for _ in range(2))
        chat.redact(1)
        with psycopg.connect(lab.url) as server:
            held = "SELECT 1 FROM sessions WHERE session_id = %s FOR UPDATE"
            server.execute(held, [other.session_id])
            back = restored(lab.store, one.file)
        assert [note.target for note in back.notes("redaction")] == [1]


@pytest.mark.parametrize("error", [SessionArchived, SessionPurged])
def test_redaction_of_a_session_that_leaves_meanwhile_is_refused(
    opened, folder, monkeypatch, error
):
    """Its forks still hold the message."""
    with opened("postgres", "sync") as lab:
        chat = lab.store.create()
        fill(chat, 1)
        fork = chat.fork()

        def late(*args, **options):
            if error is SessionArchived:
                archived(lab.store, chat, folder)
            else:
                lab.store.purge(chat.id)
            return redact_relatives(*args, **options)

        redact_relatives = erase.redact_relatives
        monkeypatch.setattr(erase, "redact_relatives", late)
        with pytest.raises(error):
            chat.redact(1)
        monkeypatch.undo()
        assert fork.redact(1).changed


def test_tombstones_are_locked_in_the_order_of_their_ids(store, chat, folder, monkeypatch):
    fill(chat, 1)
    ids = sorted(archived(store, chat.fork(), folder).session_id for _ in range(12))
    locked = []

    def spy(log, *args, **options):
        locked.append(log.session_id)
        return redact_later(log, *args, **options)

    redact_later = archived_sessions.redact_later
    monkeypatch.setattr(archived_sessions, "redact_later", spy)
    chat.redact(1)
    assert locked == ids


def test_purge_of_an_archived_session_names_the_file(store, chat, folder):
    fill(chat, 3)
    fork = chat.fork()
    one = archived(store, chat, folder)
    planned = store.purge(chat.id, dry_run=True)
    done = store.purge(chat.id)
    assert (done.file, done.digest) == (planned.file, planned.digest) == (one.file, one.digest)
    assert (done.entries, done.last_hash, done.copies) == (3, one.last_hash, (fork.id,))
    with pytest.raises(SessionPurged) as caught:
        store.session(chat.id)
    assert caught.value.receipt["file"] == one.file
    assert store.purge(chat.id).file == one.file
    (failed,) = import_paths(store, [one.file])
    assert failed.failed
    assert chat.id not in {info.session_id for info in store.find(chat.id)}


def test_purge_names_archived_forks(store, chat, folder):
    fill(chat, 2)
    fork = chat.fork()
    archived(store, fork, folder)
    assert store.purge(chat.id).copies == (fork.id,)


def test_changes_say_nothing_of_an_archive(lab, folder):
    chat = lab.store.create()
    fill(chat, 2)
    one = archived(lab.store, chat, folder)
    with lab.store.changes() as changes:
        assert changes.read(timeout=0) == []
    brought_back(lab.store, one.file)
    with lab.store.changes() as changes:
        assert [(change.session_id, change.last_seq) for change in changes.read(timeout=0)] == [
            (chat.id, 2)
        ]
