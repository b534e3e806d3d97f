"""Nodes are lost, added and emptied while others write: nothing is lost, and nothing written twice.

Each writer repeats what failed with the same client id, as the errors advise.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest

from roocontext import Store, StoreUnavailable
from roocontext.store.engine.citus import distribute
from roocontext.store.engine.health import examine_database
from support.citus_server import OwnCluster, started

WRITERS = 8
PREPARED = "SELECT count(*) FROM pg_prepared_xacts"
OTHERS_NODE = """SELECT nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid)
    WHERE shardid = get_shard_id_for_distribution_column('sessions', %s::text)"""


@pytest.fixture
def cluster() -> Iterator[OwnCluster]:
    """A cluster of the test's own, with a distributed store."""
    with started() as cluster:
        Store.open(cluster.url).close()
        distribute(cluster.url, shards=4)
        yield cluster


@dataclass
class Writers:
    """What was sent, and the errors that were met."""

    url: str
    sent: dict[str, int] = field(default_factory=dict)
    errors: list[StoreUnavailable] = field(default_factory=list)
    broken: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self, store: Store, name: str) -> None:
        """Append until the end, again and again what failed."""
        try:
            chat = store.session(name)
            while not self.stop.is_set():
                number = self.sent[name]
                try:
                    assert chat.append("user", str(number), client_id=str(number)).seq == number + 1
                    self.sent[name] += 1
                    time.sleep(0.005)
                except StoreUnavailable as error:
                    self.errors.append(error)
                    time.sleep(0.02)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.broken.append(error)

    def wait_for_more(self, *, than: dict[str, int], names: list[str] | None = None) -> None:
        """Wait until each has written more, or one of them is broken."""
        while any(self.sent[name] < than[name] + 5 for name in names or self.sent):
            assert self.broken == []
            time.sleep(0.01)


@contextmanager
def writing(url: str) -> Iterator[Writers]:
    """Eight writers at work. In the end each session holds what was sent, once and in order."""
    writers = Writers(url)
    with Store.open(url) as store:
        for number in range(WRITERS):
            writers.sent[store.create(f"w{number}").id] = 0
        threads = [
            threading.Thread(target=writers.write, args=(store, name)) for name in writers.sent
        ]
        for thread in threads:
            thread.start()
        try:
            writers.wait_for_more(than=dict(writers.sent))
            yield writers
            writers.wait_for_more(than=dict(writers.sent))
        finally:
            writers.stop.set()
            for thread in threads:
                thread.join()
    assert writers.broken == []
    with Store.open(url) as store:
        for name, count in writers.sent.items():
            chat = store.session(name)
            said = [message.content for message in chat.view().messages]
            assert said == [*map(str, range(count))]
            assert chat.verify().ok


def left_prepared(cluster: OwnCluster, nodes: list[str]) -> int:
    url = cluster.url.rsplit(":", 1)
    total = 0
    for node in nodes:
        with psycopg.connect(f"{url[0]}:{cluster.port(node)}/citus") as connection:
            total += connection.execute(PREPARED).fetchone()[0]
    return total


def test_killed_worker_loses_nothing(cluster):
    with writing(cluster.url) as writers:
        cluster.kill("worker1")
        before = dict(writers.sent)
        with psycopg.connect(cluster.url) as connection:
            placed = {
                name: connection.execute(OTHERS_NODE, [name]).fetchone()[0] for name in before
            }
        lost = cluster.port("worker1")
        assert lost in placed.values()
        # sessions of the other node are written while this one is away
        others = [name for name, port in placed.items() if port != lost]
        writers.wait_for_more(than=before, names=others)
        while not writers.errors:
            time.sleep(0.01)
        cluster.start()
    # Whoever waited for an answer of the lost node cannot know what became of the append.
    assert all(error.outcome_unknown for error in writers.errors)
    assert left_prepared(cluster, ["coordinator", "worker1", "worker2"]) == 0


def test_killed_coordinator_loses_nothing(cluster):
    with writing(cluster.url) as writers:
        cluster.kill("coordinator")
        while not writers.errors:
            time.sleep(0.01)
        cluster.start()
    assert left_prepared(cluster, ["coordinator", "worker1", "worker2"]) == 0


def test_added_and_emptied_nodes_lose_nothing(cluster):
    with writing(cluster.url) as writers:
        cluster.start(workers=3)
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute(
                "SELECT citus_rebalance_start(shard_transfer_mode := 'force_logical')"
            )
            connection.execute("SELECT citus_rebalance_wait()")
            grown = examine_database(cluster.url).cluster
            writers.wait_for_more(than=dict(writers.sent))
            connection.execute(
                "SELECT citus_drain_node('127.0.0.1', %s, 'force_logical')",
                [cluster.port("worker1")],
            )
            drained = examine_database(cluster.url).cluster
    assert grown is not None
    assert drained is not None
    held = [{node.name: node.shards for node in each.nodes} for each in (grown, drained)]
    workers = [f"127.0.0.1:{cluster.port(f'worker{number}')}" for number in (1, 2, 3)]
    assert all(held[0][worker] for worker in workers)
    assert held[1][workers[0]] == 0
    assert [sum(each.values()) for each in held] == [4, 4]
    for each in (grown, drained):
        assert each.unguarded == each.unchecked == each.unsecured == ()
