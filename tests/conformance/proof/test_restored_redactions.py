"""Redactions and restores: content that was erased in one copy of a message is erased in all."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import HistoryCorrupt, SessionExists
from roocontext.formats import jsonl
from roocontext.store.proof import restore
from support.dialogue import call, fill, result, state, text
from support.steady_sources import SetClock

SECRET = "hunter2-the-secret-password"


@pytest.fixture
def source():
    """The store that a log comes from. Its ids are random: none of them is taken in the other."""
    with Store.open(":memory:", clock=SetClock()) as other:
        yield other


@pytest.fixture
def chat(source):
    """A session of the source with a secret in four entries."""
    chat = source.create(metadata={"user": SECRET})
    fill(chat, 1)
    chat.append("user", SECRET)
    chat.append("assistant", [text(SECRET), call("t1")])
    chat.append("user", [result("t1", SECRET)])
    fill(chat, 2)
    return chat


def copied(chat: Any, store: Any, **options: Any) -> Any:
    store.restore(chat.id, list(chat.internals.stored()), **options)
    return store.session(chat.id)


def told(*chats: Any) -> list[int]:
    """The number of entries of each session that hold the secret."""
    return [sum(SECRET in repr(entry) for entry in chat.internals.stored()) for chat in chats]


def sound(*chats: Any) -> bool:
    return all(chat.verify().ok and chat.rebuild() == 0 for chat in chats)


def test_restored_redaction_reaches_the_forks_in_the_store(lab, chat):
    store = lab.store  # of its own: it is indexed, with all that it holds
    here = copied(chat, store)
    early, between = here.fork(2), here.fork(5)
    late = between.fork()
    store.index()
    chat.redact(3)
    done = store.restore(chat.id, list(chat.internals.stored()))
    assert set(done.redacted) == {(one.id, 3) for one in (here, between, late)}
    assert told(here, early, late) == [3, 1, 3]
    assert [note.target for note in late.notes("redaction")] == [3]
    assert early.notes("redaction") == []
    assert sound(here, early, late)
    assert late.head_seq() == between.head_seq() == 5
    again = store.restore(chat.id, list(chat.internals.stored()))
    assert (again.redacted, again.new) == ((), 0)


def test_redacted_log_that_is_new_to_the_store_reaches_its_forks(store, chat):
    fork = copied(chat.fork(), store)
    chat.redact(3)
    chat.redact(1)
    head = fork.head()
    done = store.restore(chat.id, list(chat.internals.stored()))
    assert sorted(done.redacted) == [(fork.id, 1), (fork.id, 3)]
    assert told(store.session(chat.id), fork) == [2, 2]
    assert fork.info().metadata == store.session(chat.id).info().metadata == {}
    assert fork.verify(head).ok
    assert sound(store.session(chat.id), fork)


def test_row_redacted_in_the_store_does_not_come_back_in_a_fork(store, chat, source):
    fork = chat.fork(5)
    here = copied(chat, store)
    for seq in (1, 3, 4, 5):
        here.redact(seq)
    assert told(here) == [0]
    done = store.restore(fork.id, list(fork.internals.stored()))
    there = store.session(fork.id)
    assert sorted(done.redacted) == [(fork.id, seq) for seq in (1, 3, 4, 5)]
    assert told(here, there) == [0, 0]
    assert there.verify(fork.head()).ok
    assert sound(here, there)
    # The same file again adds nothing, and another fork comes without the content too.
    assert store.restore(fork.id, list(fork.internals.stored())).new == 0
    assert told(there, there.fork(), here.fork(4)) == [0, 0, 0]
    assert source.session(fork.id).view().messages[1].content == SECRET


def test_copies_that_are_restored_at_once_see_each_other(opened, chat, monkeypatch):
    whole = list(chat.internals.stored())
    chat.redact(3)
    redacted = list(chat.internals.stored())

    def slowly(*args):
        copies = redact_copies(*args)
        time.sleep(0.3)  # so that without a lock neither is committed when the other one looks
        return copies

    redact_copies = restore.redact_copies
    monkeypatch.setattr(restore, "redact_copies", slowly)
    with opened("postgres", "sync") as lab, ThreadPoolExecutor() as pool:
        list(pool.map(lab.store.restore, ("whole", "redacted"), (whole, redacted)))
        assert told(*map(lab.store.session, ("whole", "redacted"))) == [3, 3]
        assert sound(*map(lab.store.session, ("whole", "redacted")))


def test_backup_of_a_redacted_session_brings_nothing_back(store, chat):
    here = copied(chat, store)
    backup = list(chat.internals.stored())
    here.redact(3)
    before = state(here)
    done = store.restore(chat.id, backup)
    assert (done.new, done.redacted) == (0, ())
    assert state(here) == before
    chat.append("user", "later")
    with pytest.raises(SessionExists):
        store.restore(chat.id, list(chat.internals.stored()))
    assert told(here) == [3]


def test_continued_fork_is_redacted_too(store, chat):
    here = copied(chat, store)
    fork = chat.fork()
    store.restore(fork.id, list(fork.internals.stored(last=2)))
    here.redact(3)
    done = store.restore(fork.id, list(fork.internals.stored()))
    assert done.redacted == ((fork.id, 3),)
    assert told(here, store.session(fork.id)) == [3, 3]
    assert sound(here, store.session(fork.id))


def test_damage_does_not_spread(lab):
    chat = lab.store.create()
    fill(chat, 3)
    chat.redact(2)
    fork = chat.fork()
    log = list(fork.internals.stored())
    lab.store.purge(fork.id)
    lab.drop_guards()
    lab.sql(f"UPDATE entries SET content = '5' WHERE session_id = '{chat.id}' AND seq = 2")
    whole = [entry._replace(seq=entry.seq) for entry in log]
    done = lab.store.restore("another", whole)
    assert done.redacted == ()
    assert lab.store.session("another").verify().ok


def verdict(store: Any, name: str, log: Any, **options: Any) -> Any:
    try:
        return store.restore(name, log, **options)
    except (HistoryCorrupt, SessionExists) as error:
        return type(error), str(error)


def test_dry_run_gives_the_verdict_of_the_restore(store, chat):
    log = list(chat.internals.stored())
    damaged = [*log[:2], log[2]._replace(content='"x"'), *log[3:]]
    stranger = store.create()
    fill(stranger, 2)
    mine = copied(chat.fork(), store)
    cases = [
        (chat.id, damaged, {}),
        (chat.id, [*log[:2], log[2]._replace(salt=None), *log[3:]], {}),
        (chat.id, log[1:], {}),
        (stranger.id, log, {}),
        (mine.id, log[:3], {"parent": "another"}),
        (mine.id, damaged, {}),
        (mine.id, log, {}),
        (chat.id, log[:4], {"parent": "another"}),
        (chat.id, log, {"parent": "another"}),
        (chat.id, log, {}),
    ]
    kinds = []
    for name, entries, options in cases:
        before = store.sessions()
        foreseen = verdict(store, name, entries, dry_run=True, **options)
        assert store.sessions() == before
        done = verdict(store, name, entries, **options)
        kinds.append(type(done))
        if isinstance(done, tuple):
            assert foreseen == done
        else:
            assert foreseen == replace(done, dry_run=True)
    assert kinds.count(tuple) == 6


def test_dry_run_erases_nothing(store, chat):
    here = copied(chat, store)
    fork = here.fork()
    chat.redact(3)
    before = state(here), state(fork)
    foreseen = store.restore(chat.id, list(chat.internals.stored()), dry_run=True)
    assert (state(here), state(fork)) == before
    assert told(here, fork) == [4, 4]
    done = store.restore(chat.id, list(chat.internals.stored()))
    assert foreseen == replace(done, dry_run=True, erased=False)


@pytest.mark.one_leg
def test_cut_file_of_a_redacted_log_says_that_nothing_was_restored(source, chat, tmp_path):
    chat.redact(3)
    path = tmp_path / "one.jsonl"
    whole = b"".join(jsonl.export_session(chat))
    lines = whole.splitlines(keepends=True)
    for cut in (whole[:-9], b"".join(lines[:-1]), b"".join(lines[:5]) + b"{"):
        path.write_bytes(cut)
        with Store.open(":memory:") as other:
            for dry_run in (True, False):
                (done,) = jsonl.restore_file(other, path, dry_run=dry_run)
                assert (done.entries, done.new) == (0, 0)
                assert "Nothing was written" in str(done.problem)
                assert "no redaction records that" in str(done.problem)
                assert "can be restored" not in str(done.problem)
                assert other.sessions() == []
    # Cut before the redacted entry, or after its redaction, what is there is restored.
    chat.append("user", "later")
    lines = b"".join(jsonl.export_session(chat)).splitlines(keepends=True)
    for count in (3, len(lines) - 1):
        path.write_bytes(b"".join(lines[:count]))
        with Store.open(":memory:") as other:
            (foreseen,) = jsonl.restore_file(other, path, dry_run=True)
            (done,) = jsonl.restore_file(other, path)
            assert (done.entries, done.new) == (foreseen.entries, foreseen.new)
            assert done.entries == count - 1
            assert str(done.problem) == str(foreseen.problem)
            assert "Only the entries before it can be restored" in str(done.problem)


@pytest.mark.one_leg
def test_files_that_are_refused_are_refused_by_a_dry_run_in_the_same_words(source, chat, tmp_path):
    path = tmp_path / "one.jsonl"
    lines = b"".join(jsonl.export_session(chat)).splitlines(keepends=True)
    damaged = lines[3].replace(SECRET.encode(), b"another-secret-of-28-letters")
    header = lines[0].replace(b"}\n", b',"parent":"another"}\n')
    with Store.open(":memory:") as other:
        other.restore(chat.id, list(chat.internals.stored(last=2)))
        for text_, said in (
            ([*lines[:3], damaged, *lines[4:]], "the content is not what was written"),
            ([header, *lines[1:]], "its parent is None"),
        ):
            path.write_bytes(b"".join(text_))
            problems = []
            for dry_run in (True, False):
                (done,) = jsonl.restore_file(other, path, dry_run=dry_run)
                assert (done.entries, done.new) == (0, 0)
                problems.append(str(done.problem))
            assert problems[0] == problems[1]
            assert said in problems[0]
            assert other.session(chat.id).head().seq == 2
