"""`python -m bench --distributed`: what each operation costs on a Citus cluster.

Everything is held against a store on one server of the same cluster, with the same binaries and
settings, in one run: through the coordinator, and by a client that asks the node of the session.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import make_url

from bench.data import content, grow, role
from bench.report import Line
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import ContextManager, NewMessage, Plan, Session, Store
from roocontext.store.engine.citus import distribute

GIVEN = "ROOCONTEXT_TEST_CITUS_URL"
SHARDS = 8
SESSIONS = 200
USAGE = {"input_tokens": 1_000, "output_tokens": 10}
NODES = "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid"
PLACE = """SELECT nodename, nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid)
    WHERE shardid = get_shard_id_for_distribution_column('sessions', %s::text)"""


class Way(NamedTuple):
    """A store, a session of it that is read, and one that is written."""

    store: Store
    chat: Session
    log: Session


class Operation(NamedTuple):
    """What is measured, and the most that it may cost in comparison with one server."""

    key: str
    what: str
    run: Callable[[Way, int], Any]
    budget: float | None = None


MANAGER = ContextManager(limit=1 << 40, output=1_000, counter="opencode", drift_ratio=1e9)


def _condense(log: Session) -> None:
    view, head = log.view(), log.head_seq()
    log.commit(Plan.condense(view, [row.seq for row in view.messages[2:-4]], "short"))
    log.rewind(head)


def _rewind(log: Session) -> None:
    log.rewind(log.head_seq() - 10)
    log.undo()


OPERATIONS = (
    Operation(
        "append",
        "append one 1 KiB message",
        lambda way, n: way.log.append(role(n), content(n)),
        4.5,
    ),
    Operation(
        "append_many",
        "append_many of three",
        lambda way, n: way.log.append_many([NewMessage("user", content(n))] * 3),
    ),
    Operation("view", "view of the read session", lambda way, _: way.chat.view(), 3.0),
    Operation("head", "head_seq", lambda way, _: way.chat.head_seq()),
    Operation("manage", "manage with nothing to do", lambda way, _: MANAGER.manage(way.chat), 6.0),
    Operation("rewind", "rewind and undo", lambda way, _: _rewind(way.log)),
    Operation("condense", "view, condense and rewind", lambda way, _: _condense(way.log)),
    Operation(
        "search.session",
        "search in the session",
        lambda way, _: way.store.search("nothing", session=way.chat.id),
    ),
    Operation("search", "search in all sessions", lambda way, _: way.store.search("nothing")),
    Operation("list", "list of 20 sessions", lambda way, _: way.store.sessions(limit=20)),
    Operation("create", "create a session", lambda way, _: way.store.create()),
    Operation("fork", "fork at entry 5", lambda way, _: way.chat.fork(5)),
)


def lines(sizes: Sizes) -> Iterator[Line]:
    """Measure every operation by each way."""
    with _databases() as (plain, spread, place):
        stack = ExitStack()

        def way_to(url: str, log: str, **options: Any) -> Way:
            store = stack.enter_context(Store.open(url, **options))
            return Way(store, store.session("read"), store.open_session(log))

        with stack:
            for url in (plain, spread):
                _prepare(url, sizes)
            # A client that asks a node writes to a session that is there.
            node = place("read")
            log = next(f"log{n}" for n in count() if place(f"log{n}") == node)
            ways = {
                "plain": way_to(plain, "log"),
                "coordinator": way_to(spread, "log"),
                "node": way_to(node, log),
            }
            for operation in OPERATIONS:
                yield from _measured(operation, ways, sizes)
            hooked = {
                "plain": way_to(plain, "hooked", on_begin=["SELECT 1"]),
                "coordinator": way_to(spread, "hooked", on_begin=["SELECT 1"]),
            }
            append = OPERATIONS[0]._replace(
                key="append.on_begin", what="append one message with on_begin", budget=None
            )
            yield from _measured(append, hooked, sizes)


def _measured(operation: Operation, ways: dict[str, Way], sizes: Sizes) -> Iterator[Line]:
    times = alternate(
        [
            Step(name, lambda number, way=way: operation.run(way, number))
            for name, way in ways.items()
        ],
        rounds=sizes.commits,
        batch=2,
    )
    for name in [name for name in ways if name != "plain"]:
        yield Line(
            f"citus.{operation.key}.{name}",
            f"Citus, by the {name}: {operation.what}",
            "one server",
            times[name],
            times["plain"],
            operation.budget if name == "coordinator" else None,
        )


def _prepare(url: str, sizes: Sizes) -> None:
    with Store.open(url) as store:
        for _ in range(min(SESSIONS, sizes.sessions)):
            store.create(title="one of many")
        chat = grow(store.create("read"), sizes.shown - 1)
        chat.append("assistant", content(1), usage=USAGE, model="m")
        MANAGER.manage(chat)
        store.index()


@contextmanager
def _databases() -> Iterator[tuple[str, str, Callable[[str], str]]]:
    """A store on one server, one on all nodes, and the URL of the node that has a session."""
    given = make_url(os.environ[GIVEN]).set(drivername="postgresql")
    with psycopg.connect(given.render_as_string(hide_password=False)) as connection:
        nodes = connection.execute(NODES).fetchall()

    def url(node: tuple[str, int], database: str | None) -> str:
        named = given.set(host=node[0], port=node[1], database=database)
        return named.render_as_string(hide_password=False)

    def everywhere(command: str) -> None:
        for member in nodes:
            with psycopg.connect(url(member, given.database), autocommit=True) as node:
                node.execute(command)

    plain, spread = (f"bench_{os.getpid()}_{name}" for name in ("plain", "spread"))
    try:
        for database in (plain, spread):
            everywhere(f"CREATE DATABASE {database}")
        for member in nodes:
            with psycopg.connect(url(member, spread), autocommit=True) as node:
                node.execute("CREATE EXTENSION citus")
        head, *workers = nodes
        with psycopg.connect(url(head, spread), autocommit=True) as coordinator:
            coordinator.execute("SELECT citus_set_coordinator_host(%s, %s)", head)
            for worker in workers:
                coordinator.execute("SELECT citus_add_node(%s, %s)", worker)
        for database in (plain, spread):
            Store.open(url(head, database)).close()
        distribute(url(head, spread), shards=SHARDS)

        def place(session_id: str) -> str:
            with psycopg.connect(url(head, spread)) as coordinator:
                return url(coordinator.execute(PLACE, [session_id]).fetchone(), spread)

        yield url(head, plain), url(head, spread), place
    finally:
        for database in (plain, spread):
            everywhere(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
