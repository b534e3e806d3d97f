"""Forks: whatever was acknowledged on any side is there, and what cannot be used says so."""

import os
from itertools import product

import pytest

from roocontext import Store
from support.examples import everyday
from support.pgbouncer import bouncers
from torture.processes import Brood

ROUNDS = 15 if os.environ.get("ROOCONTEXT_TORTURE") else 1

PLACES = everyday(["file", "postgres"], ["file", "postgres", *bouncers()])
"""Each day not through a pooler: a fork leaves its connections as it leaves any others."""

each_place = pytest.mark.parametrize("url", PLACES, indirect=True)


def _create(url: str, session: str) -> None:
    with Store.open(url) as store:
        store.create(session)


def _check(url: str, session: str, brood: Brood) -> None:
    assert set(brood.ends) == {0}
    with Store.open(url) as store:
        chat = store.session(session)
        stored = {message.seq: message.content for message in chat.view().messages}
        lost = {facts["seq"]: facts["text"] for facts in brood.told if "seq" in facts}
        for seq, text in stored.items():
            if lost.get(seq) == text:
                del lost[seq]
        assert not lost
        found = chat.verify()
        assert found.ok, found.problem


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("writers", everyday([3], [0, 3]))
@each_place
def test_both_sides_of_a_fork_write_open_and_close(nursery, url, seed, writers):
    _create(url, "family")
    options = {"session": "family", "times": 15, "seed": seed, "writers": writers}
    brood = nursery.run(("write_on_both_sides", {"url": url, **options}))
    _check(url, "family", brood)


@each_place
def test_two_processes_fork_at_once(nursery, url):
    _create(url, "family")
    options = {"url": url, "session": "family", "times": 10}
    brood = nursery.run(*(("write_on_both_sides", {**options, "seed": n}) for n in range(2)))
    _check(url, "family", brood)


@each_place
def test_threads_may_fork(nursery, url):
    _create(url, "family")
    options = {"url": url, "session": "family", "times": 10}
    _check(url, "family", nursery.run(("fork_from_threads", options)))


METHODS = ("fork", "spawn", "forkserver")
"""A child of the others has nothing of its parent, so that forks are enough each day."""


@pytest.mark.parametrize(
    ("url", "method"),
    [*product(("file", "postgres"), everyday(METHODS[:1], METHODS))],
    indirect=["url"],
)
def test_multiprocessing_may_fork(nursery, url, method):
    _create(url, "family")
    options = {"url": url, "session": "family", "times": 20, "method": method}
    _check(url, "family", nursery.run(("multiply", options)))


FORKS = [
    *("fork_in_a_transaction", "fork_beside_a_transaction"),
    *("fork_after_the_file_moved", "fork_without_hooks"),
]


@pytest.mark.parametrize("job", everyday(FORKS, [*FORKS, "fork_and_execute"]))
def test_open_file_is_refused_in_the_child(nursery, tmp_path, job):
    url = str(tmp_path / "store.db")
    _create(url, "family")
    _check(url, "family", nursery.run((job, {"url": url, "session": "family"})))


@each_place
def test_fork_does_not_wait_for_an_open_audit(nursery, url):
    _create(url, "family")
    _check(url, "family", nursery.run(("fork_amid_an_audit", {"url": url, "session": "family"})))


def test_store_in_memory_stays_with_its_process(nursery):
    assert nursery.run(("fork_with_a_store_in_memory", {})).ends == [0]


@pytest.mark.parametrize("job", ["fork_with_a_server", "fork_an_async_store"])
def test_child_leaves_connections_to_a_server_alone(nursery, postgres_url, job):
    _create(postgres_url, "family")
    options = {"url": postgres_url, "session": "family"}
    _check(postgres_url, "family", nursery.run((job, options)))
