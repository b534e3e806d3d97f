"""A database of every schema that was ever released opens, migrates and shows what it showed."""

import gzip
import importlib.util
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from roocontext import Head, Store
from roocontext.store.engine.schema import REVISION

GOLDEN = Path(__file__).parent / "golden"
REVISIONS = sorted(path.name.split(".")[0] for path in GOLDEN.glob("*.sqlite.gz"))


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _maker()


@pytest.fixture(params=REVISIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A stored database, and what was recorded of it."""
    path = tmp_path / "golden.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{request.param}.sqlite.gz").read_bytes()))
    return path, json.loads(gzip.decompress((GOLDEN / f"{request.param}.json.gz").read_bytes()))


def test_golden_database_shows_the_recorded_view(golden):
    path, record = golden
    with Store.open(path) as store:
        assert make.recorded(store) == record
        for name, known in record.items():
            found = store.session(name).verify(Head(**known["head"]))
            assert found.ok, (name, found.problem)
            assert store.session(name).rebuild() == 0
            assert store.session(name).append("user", "it goes on").seq == known["head"]["seq"] + 1
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT version_num FROM roocontext_version").fetchall()
        assert rows == [(REVISION,)]


def test_golden_database_shows_the_recorded_view_in_sql(golden):
    path, record = golden
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        for name, known in record.items():
            query = "SELECT seq FROM effective_history WHERE session_id = ?"
            seqs = [row[0] for row in connection.execute(query, [name])]
            assert seqs == [row[0] for row in known["now"]]


def test_golden_databases_include_the_newest_schema():
    assert REVISION in REVISIONS


def test_same_operations_write_the_golden_log(tmp_path):
    record = json.loads(gzip.decompress((GOLDEN / f"{REVISION}.json.gz").read_bytes()))
    make.build(tmp_path / "again.db")
    with Store.open(tmp_path / "again.db") as store:
        assert make.recorded(store) == record
