"""Many writers, one log: dense, unique, lossless, and nobody sees a lock.

Whoever waits waits inside the store. A test that would hang on a lock fails instead, because the
store gives up waiting, with an error.
"""

import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from roocontext import Store
from roocontext.errors import VersionConflict
from support.examples import TORTURE, examples

WRITERS = 8 if TORTURE else 4
APPENDS = 250 if TORTURE else 20
RACES = 200 if TORTURE else 10
STEPS = 20 if TORTURE else 3


def test_processes_share_one_session(nursery, url):
    with Store.open(url) as store:
        store.create("busy")
    jobs = [
        ("append_each", {"url": url, "session": "busy", "times": APPENDS, "name": f"w{number}"})
        for number in range(WRITERS)
    ]

    brood = nursery.run(*jobs)

    assert brood.ends == [0] * WRITERS
    acknowledged = {facts["seq"]: facts["text"] for facts in brood.told}
    assert sorted(acknowledged) == list(range(1, WRITERS * APPENDS + 1))
    for number in range(WRITERS):  # each writer's own messages are in its own order
        seqs = [facts["seq"] for facts in brood.of(number)]
        assert seqs == sorted(seqs)
    with Store.open(url) as store:
        chat = store.session("busy")
        assert {m.seq: m.content for m in chat.view().messages} == acknowledged
        assert chat.head_seq() == WRITERS * APPENDS
        assert chat.stats().visible_messages == WRITERS * APPENDS
        found = chat.verify()
        assert found.ok, found.problem


def test_one_version_has_one_winner(nursery, url):
    with Store.open(url) as store:
        store.create("race")
    job = ("race", {"url": url, "session": "race", "rounds": RACES})

    brood = nursery.run(job, job)

    assert brood.ends == [0, 0]
    for head in range(RACES):
        outcome = [facts for facts in brood.told if facts["round"] == head]
        assert sorted(facts["won"] for facts in outcome) == [False, True]
        assert {facts["seq"] for facts in outcome} == {head + 1}
        assert {facts["asked"] for facts in outcome if not facts["won"]} == {head}
    with Store.open(url) as store:
        assert store.session("race").head_seq() == RACES
        assert store.session("race").verify().ok


def test_stores_of_one_process_race_too(url):
    rounds = 25 if TORTURE else 10
    start = threading.Barrier(4, timeout=30)

    def writer(number: int) -> list[tuple[int, bool, int]]:
        outcomes = []
        with Store.open(url) as store:
            chat = store.session("race")
            for head in range(rounds):
                start.wait()
                try:
                    chat.append("user", f"{number}", expected_seq=head)
                    outcomes.append((head, True, head + 1))
                except VersionConflict as conflict:
                    outcomes.append((head, False, conflict.actual))
        return outcomes

    with Store.open(url) as store:
        store.create("race")
        with ThreadPoolExecutor(4) as threads:
            outcomes = [one for told in threads.map(writer, range(4)) for one in told]
        assert sorted(head for head, won, _ in outcomes if won) == list(range(rounds))
        assert all(actual == head + 1 for head, _, actual in outcomes)
        assert store.session("race").verify().ok


def test_threads_share_one_store(url):
    times, start = 40 if TORTURE else 10, threading.Barrier(16, timeout=60)

    def worker(number: int) -> None:
        chat = store.create(f"s{number}")
        start.wait()
        for index in range(times):
            receipt = chat.append("user", f"{number}:{index}")
            assert receipt.seq == index + 1
            if index % 10 == 9:
                latest = [m.content for m in chat.view(after=index - 8).messages]
                assert latest == [f"{number}:{i}" for i in range(index - 8, index + 1)]

    with Store.open(url) as store:
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(worker, range(16)))
        assert len(store.sessions()) == 16
        assert all(store.session(f"s{number}").verify().ok for number in range(16))


def test_summary_hides_what_was_planned_and_nothing_else(nursery, url):
    with Store.open(url) as store:
        chat = store.create("torn")
        chat.append_many([{"role": "user", "content": f"before {i} " * 9} for i in range(40)])
    common = {"url": url, "session": "torn"}

    brood = nursery.run(
        ("append_each", {**common, "times": 8 * STEPS, "name": "a"}),
        ("append_each", {**common, "times": 8 * STEPS, "name": "b"}),
        ("condense_again_and_again", {**common, "times": 3 * STEPS, "seed": 1}),
        ("condense_again_and_again", {**common, "times": 3 * STEPS, "seed": 2}),
        ("rewind_again_and_again", {**common, "times": STEPS, "seed": 3}),
    )

    assert brood.ends == [0] * 5
    commits = [facts for facts in brood.told if "planned" in facts]
    assert commits
    with Store.open(url) as store:
        chat = store.session("torn")
        for done in commits:
            before = {m.seq for m in chat.view(as_of=done["seq"] - 1).messages}
            after = {m.seq for m in chat.view(as_of=max(done["rows"])).messages}
            assert before - after == set(done["planned"])
            assert after - before == set(done["rows"])
            assert done["hidden"] == len(done["planned"])
        found = chat.verify()
        assert found.ok, found.problem
        said = Counter(m.content for m in chat.audit() if m.role == "user")
        assert all(said[f"{name}:{number}"] == 1 for name in "ab" for number in range(8 * STEPS))


@pytest.mark.parametrize("round_", range(examples(1)))
def test_new_database_is_opened_by_many_at_once(nursery, empty_url, round_):
    jobs = [("open_and_append", {"url": empty_url, "session": f"s{n}"}) for n in range(WRITERS)]

    brood = nursery.run(*jobs)

    assert brood.ends == [0] * WRITERS
    with Store.open(empty_url) as store:
        made = sorted(info.session_id for info in store.sessions())
        assert made == sorted(f"s{number}" for number in range(WRITERS))
        assert all(store.session(f"s{number}").verify().ok for number in range(WRITERS))


def test_readers_do_not_wait_for_a_writer(tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        chat = store.create("read")
        chat.append_many([{"role": "user", "content": f"{i}"} for i in range(10)])
        chat.rewind(5)
        readers: list[Callable[[], object]] = [
            store.sessions,
            chat.view,
            lambda: chat.view(as_of=8),
            lambda: list(chat.audit()),
            chat.stats,
            chat.messages,
            lambda: chat.verify().ok,
            chat.head,
            chat.info,
        ]
        before = [read() for read in readers]
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE sessions SET title = 'not yet'")
        try:
            assert [read() for read in readers] == before
            with Store.open(path) as other:
                assert other.session("read").view() == chat.view()
        finally:
            writer.execute("ROLLBACK")
            writer.close()


def test_page_is_of_its_moment_while_others_write(url):
    with Store.open(url) as store, Store.open(url) as other:
        chat, rival = store.create("paged"), other.session("paged")
        chat.append_many([{"role": "user", "content": f"{i}"} for i in range(10)])
        seen = []
        for page in chat.internals.pages(2):
            seen += [message.seq for message in page.messages]
            rival.append("user", "later")
            rival.rewind(3)
        assert seen == list(range(1, 11))


def test_retries_of_one_request_write_it_once(url):
    start = threading.Barrier(8, timeout=60)

    def request(seed: int) -> list[tuple[int, bool]]:
        chance = random.Random(seed)
        got = []
        for number in range(2 * STEPS):
            start.wait()
            if chance.random() < 0.5:
                receipt = chat.append("user", f"{number}", client_id=f"{number}")
            else:
                message = {"role": "user", "content": f"{number}", "client_id": f"{number}"}
                (receipt,) = chat.append_many([message])
            got.append((receipt.seq, receipt.new))
        return got

    with Store.open(url) as store:
        chat = store.create("again")
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(request, range(8)))
        for number, told in enumerate(zip(*answers, strict=True)):
            assert {seq for seq, _ in told} == {number + 1}
            assert [new for _, new in told].count(True) == 1
        assert chat.verify().ok
