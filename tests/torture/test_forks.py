"""Forks: whatever was acknowledged on any side is there, and what cannot be used says so."""

import os
from itertools import product

import pytest

from roocontext import Store
from support.examples import everyday
from support.pgbouncer import bouncers

ROUNDS = 15 if os.environ.get("ROOCONTEXT_TORTURE") else 1

PLACES = everyday(["file", "postgres"], ["file", "postgres", *bouncers()])
"""Each day not through a pooler: a fork leaves its connections as it leaves any others."""

each_place = pytest.mark.parametrize("url", PLACES, indirect=True)


@pytest.fixture
def check(nursery):
    """Runs jobs on one session: they end well, and what was acknowledged is there."""

    def run(url, *jobs):
        with Store.open(url) as store:
            store.create("family")
        place = {"url": url, "session": "family"}
        brood = nursery.run(*((job, {**place, **options}) for job, options in jobs))
        assert set(brood.ends) == {0}
        with Store.open(url) as store:
            chat = store.session("family")
            stored = {(message.seq, message.content) for message in chat.view().messages}
            told = {(facts["seq"], facts["text"]) for facts in brood.told if "seq" in facts}
            assert told - stored == set()
            found = chat.verify()
            assert found.ok, found.problem

    return run


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("writers", everyday([3], [0, 3]))
@each_place
def test_both_sides_of_a_fork_write_open_and_close(check, url, seed, writers):
    check(url, ("write_on_both_sides", {"times": 15, "seed": seed, "writers": writers}))


@each_place
def test_two_processes_fork_at_once(check, url):
    check(url, *(("write_on_both_sides", {"times": 10, "seed": seed}) for seed in range(2)))


@each_place
def test_threads_may_fork(check, url):
    check(url, ("fork_from_threads", {"times": 10}))


METHODS = ("fork", "spawn", "forkserver")
"""A child of the others has nothing of its parent, so that forks are enough each day."""


@pytest.mark.parametrize(
    ("url", "method"),
    [*product(("file", "postgres"), everyday(METHODS[:1], METHODS))],
    indirect=["url"],
)
def test_multiprocessing_may_fork(check, url, method):
    check(url, ("multiply", {"times": 20, "method": method}))


FORKS = [
    *("fork_in_a_transaction", "fork_beside_a_transaction"),
    *("fork_after_the_file_moved", "fork_without_hooks"),
]


@pytest.mark.parametrize("job", everyday(FORKS, [*FORKS, "fork_and_execute"]))
def test_open_file_is_refused_in_the_child(check, tmp_path, job):
    check(str(tmp_path / "store.db"), (job, {}))


@each_place
def test_fork_does_not_wait_for_an_open_audit(check, url):
    check(url, ("fork_amid_an_audit", {}))


def test_store_in_memory_stays_with_its_process(nursery):
    assert nursery.run(("fork_with_a_store_in_memory", {})).ends == [0]


@pytest.mark.parametrize("job", ["fork_with_a_server", "fork_an_async_store"])
def test_child_leaves_connections_to_a_server_alone(check, postgres_url, job):
    check(postgres_url, (job, {}))
