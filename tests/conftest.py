"""Stores to test on: both interfaces, on an SQLite file, in memory, and on PostgreSQL.

Opening a store costs more than most tests, so that those which only need a session share one
store for each leg; a test that damages its store, or lists all sessions, opens its own.
"""

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from roocontext import Store
from support import citus_server, postgres_server
from support.async_driver import Driven, LoopThread
from support.empty_files import empty_file
from support.examples import TORTURE, examples
from support.python_process import Python, Script, python
from support.steady_sources import CountedIds, SetClock

MEMORY = Path("/dev/shm")
"""A new store waits for a disk a dozen times. The long runs, which kill processes, stay on one."""

ENGINES = ("file", "memory", "postgres")
INTERFACES = ("sync", "async")

# The same examples each time, however busy the machine is; the long runs look for new ones.
settings.register_profile(
    "repeatable",
    max_examples=examples(40),
    derandomize=not TORTURE,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")

LEGS = [(engine, interface) for engine in ENGINES for interface in INTERFACES]
EVERYDAY = [("file", "sync"), ("postgres", "sync")]
"""The legs of a test that is not marked `every_leg`: an asynchronous session adds a thread to a
synchronous one and no logic of its own, and a store in memory runs the statements of a file. The
long runs take every leg of every test."""
EACH_ONCE = [*EVERYDAY, ("memory", "async")]
"""The legs of a test that is marked `every_leg`: each engine, and each interface."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--vectors`: a folder with other recordings of the real programs, of the same names.

    `--distributed`: what runs on PostgreSQL runs on a Citus cluster, and nothing else runs.
    """
    parser.addoption("--vectors", type=Path, help="replay the recordings of this folder")
    parser.addoption("--distributed", action="store_true", help="run on a Citus cluster alone")


def pytest_configure(config: pytest.Config) -> None:
    """Tell both folders to the workers too, and to what reads one when it is imported."""
    # Nothing depends on where the tests are started: `nohup` and a shell's `&` ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    for name in [name for name in os.environ if name.startswith(("LC_", "ROOCONTEXT_DB"))]:
        del os.environ[name]
    os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8"}  # times on screens are local
    time.tzset()
    if folder := config.getoption("--vectors"):
        os.environ["ROOCONTEXT_VECTORS"] = str(folder.resolve())
    if not TORTURE and "TMPDIR" not in os.environ and _holds_everything(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is looked up once, and somebody may have


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first of the parameters that no engine sees; on a cluster, what is on PostgreSQL."""
    if not TORTURE:
        _keep(config, items, _needs_its_leg())
    if config.getoption("--distributed"):
        _keep(config, items, _is_on_postgres)


def _keep(
    config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]
) -> None:
    chosen = [(item, is_kept(item)) for item in items]
    config.hook.pytest_deselected(items=[item for item, kept in chosen if not kept])
    items[:] = [item for item, kept in chosen if kept]


def _needs_its_leg() -> Callable[[pytest.Item], bool]:
    """True for each item but the later ones of `values_on_one_leg` on the other legs."""
    seen: set[tuple[str, Any]] = set()

    def is_kept(item: Any) -> bool:
        callspec = getattr(item, "callspec", None)
        leg = callspec.params.get("leg") if callspec else None
        if leg in (None, EVERYDAY[0]) or not item.get_closest_marker("values_on_one_leg"):
            return True
        first = (item.nodeid.partition("[")[0], leg)
        is_first = first not in seen
        seen.add(first)
        return is_first

    return is_kept


def _is_on_postgres(item: Any) -> bool:
    _, _, parameters = item.name.partition("[")
    is_own = item.path.parent.name == "distributed"
    return is_own or "postgres" in parameters or "postgres" in item.fixturenames


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage only after all tests are loaded, and never look through them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _holds_everything(folder: Path) -> bool:
    """True if this folder has room for all that the tests write, and can run scripts."""
    return (
        os.access(folder, os.W_OK)
        and shutil.disk_usage(folder).free > 2 << 30
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
    )


@dataclass
class Lab:
    """An open store, and what a test needs to foresee and to disturb it."""

    engine: str
    interface: str
    url: str
    store: Any
    clock: SetClock
    ids: CountedIds
    guarded: bool = True

    @property
    def database(self) -> Any:
        """The database that the store runs its statements on."""
        store = self.store.target._plain if self.interface == "async" else self.store
        return store._database

    def sql(self, *statements: str) -> list[Any]:
        """Run plain SQL past the store; the rows of the last statement."""

        def run(tx: Any) -> list[Any]:
            ignoring = self.engine != "postgres" and not self.guarded
            if ignoring:  # by whoever damages it only: the store itself works with its checks
                tx.connection.execute("PRAGMA ignore_check_constraints = ON")
            try:
                for statement in statements:
                    cursor = tx.connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
            finally:
                if ignoring:
                    tx.connection.execute("PRAGMA ignore_check_constraints = OFF")

        return self.database.single(run)

    def drop_guards(self) -> None:
        """Take away the triggers and the checks of the schema, as anyone with the file can."""
        self.guarded = False
        if self.engine == "postgres":
            for table in ("entries", "sessions"):
                self.sql(citus_server.UNSAFE, f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for table, name in self.sql(
                "SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'c'"
                " AND connamespace = 'public'::regnamespace"
            ):
                self.sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            return
        for (name,) in self.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            self.sql(f"DROP TRIGGER {name}")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A PostgreSQL server, or a cluster of them."""
    is_cluster = request.config.getoption("--distributed")
    with (citus_server if is_cluster else postgres_server).running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    """A PostgreSQL database of the test's own that holds an empty store."""
    url = postgres.fresh()
    yield url
    postgres.drop(url)


@pytest.fixture
def server_url(postgres: Any) -> Iterator[str]:
    """A PostgreSQL database of the test's own that holds nothing."""
    url = postgres.empty()
    yield url
    postgres.drop(url)


@pytest.fixture(scope="session", name="python")
def running_python() -> Iterator[Python]:
    """Runs scripts in processes of their own."""
    with python() as running:
        yield running


@pytest.fixture
def forked_writers(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers of `roocontext.testing` are forked, and do not load the library again."""

    def start(command: Sequence[str], **_: Any) -> Script:
        return python.start(command[-1])

    popen = SimpleNamespace(Popen=start, PIPE=None)
    monkeypatch.setattr("roocontext.testing.processes.subprocess", popen)


@pytest.fixture(scope="session")
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    """Opens a Lab on a database of its own: `with opened(engine, interface) as lab`."""

    @contextmanager
    def open_lab(engine: str, interface: str, **options: Any) -> Iterator[Lab]:
        with ExitStack() as stack:
            url = _new_url(engine, request, tmp_path_factory.mktemp("store"), stack)
            clock, ids = SetClock(), CountedIds()
            options = {"durability": "normal", "clock": clock, "ids": ids, **options}
            if interface == "async":
                runner = stack.enter_context(LoopThread())
                store: Any = Driven.open(runner, url, **options)
            else:
                store = Store.open(url, **options)
            stack.callback(store.close)
            yield Lab(engine, interface, url, store, clock, ids)

    return open_lab


def _new_url(engine: str, request: pytest.FixtureRequest, folder: Path, stack: ExitStack) -> str:
    if engine == "memory":
        return ":memory:"
    if engine == "file":
        return empty_file(folder / "store.db")
    server = request.getfixturevalue("postgres")
    url = server.fresh()
    stack.callback(server.drop, url)
    return str(url)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test its legs."""
    if "leg" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_leg")
        once = metafunc.definition.get_closest_marker("one_leg")
        legs = LEGS if TORTURE else EVERYDAY[:1] if once else EACH_ONCE if every else EVERYDAY
        for only in metafunc.definition.iter_markers("only"):
            legs = [leg for leg in legs if not set(only.args).isdisjoint(leg)]
        metafunc.parametrize("leg", legs, ids="-".join, indirect=True, scope="session")


@pytest.fixture(scope="session")
def leg(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An engine and an interface."""
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """An engine, for what has nothing to do with the interface."""
    return request.param


@pytest.fixture(scope="session")
def shared(leg: tuple[str, str], opened: Callable[..., Any]) -> Iterator[Lab]:
    """The store that the tests of a leg share."""
    with opened(*leg) as lab:
        yield lab


@pytest.fixture
def lab(leg: tuple[str, str], opened: Callable[..., Any]) -> Iterator[Lab]:
    """A store of the test's own."""
    with opened(*leg) as made:
        yield made


@pytest.fixture
def store(shared: Lab) -> Any:
    """A Store, or an AsyncStore that is driven like one; other tests' sessions are in it."""
    return shared.store


@pytest.fixture
def clock(shared: Lab) -> SetClock:
    """The clock of `store`."""
    return shared.clock


@pytest.fixture
def chat(store: Any) -> Any:
    """A new session of `store`."""
    return store.create()
