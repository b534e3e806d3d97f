"""The schema: what migrations make is what the statements are built on, on both engines alike."""

import tomllib
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, make_url

from roocontext.store.engine.migrate import differences
from roocontext.store.engine.schema import ALIKE, RELEASE, REVISION, VERSION_TABLE
from support.empty_files import empty_file

MIGRATIONS = Path(__file__).parents[2] / "migrations"
VIEWS = ["effective_history", "messages"]


@pytest.fixture(params=["file", "postgres"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A connection of SQLAlchemy's to a new store."""
    engine = create_engine(_for_sqlalchemy(_store(request, tmp_path, request.param)))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_migrated_schema_equals_the_tables_of_the_statements(connection):
    assert differences(connection) == []


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE entries ADD COLUMN another TEXT",
        "ALTER TABLE counts RENAME COLUMN exact TO precise",
        "DROP INDEX entries_notes",
        "CREATE INDEX later ON spans (lo)",
    ],
)
def test_changed_schema_is_reported(connection, change):
    connection.exec_driver_sql(change)
    assert differences(connection)


def test_tables_of_others_are_no_difference(connection):
    connection.exec_driver_sql("CREATE TABLE customers (id INTEGER)")
    assert differences(connection) == []


def test_both_engines_have_the_same_schema(request, tmp_path):
    schemas = []
    for kind in ("file", "postgres"):
        engine = create_engine(_for_sqlalchemy(_store(request, tmp_path, kind)))
        with engine.connect() as connection:
            schemas.append(_logical(connection))
        engine.dispose()
    assert schemas[0] == schemas[1]
    assert set(schemas[0]["tables"]) == {*ALIKE, VERSION_TABLE}
    assert schemas[0]["views"] == VIEWS


def test_release_is_that_of_the_package():
    project = tomllib.loads((MIGRATIONS.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == RELEASE == version("roocontext")


def test_revision_is_the_newest_migration():
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [REVISION]
    with as_file(files("roocontext.migrations")) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder))
        assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


def test_each_key_begins_with_the_session(connection):
    """Keys that begin with the session let sessions be spread over many servers."""
    inspector = inspect(connection)
    for table in ALIKE:
        assert inspector.get_pk_constraint(table)["constrained_columns"][0] == "session_id"
        assert inspector.get_foreign_keys(table) == []
        for index in inspector.get_indexes(table):
            assert not index["unique"] or index["column_names"][0] == "session_id"


def _store(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{empty_file(tmp_path / 'schema.db')}"


def _for_sqlalchemy(url: str) -> Any:
    parsed = make_url(url)
    return parsed if parsed.drivername == "sqlite" else parsed.set(drivername="postgresql+psycopg")


def _logical(connection: Connection) -> dict[str, Any]:
    inspector = inspect(connection)
    return {
        "tables": {
            table: _table(inspector, table)
            for table in inspector.get_table_names()
            # Full text search is each engine's own (0035).
            if not table.startswith(("search_rows", "search_terms"))
        },
        "views": sorted(inspector.get_view_names()),
        "columns of views": {
            view: [column["name"] for column in inspector.get_columns(view)] for view in VIEWS
        },
    }


def _table(inspector: Any, table: str) -> dict[str, Any]:
    return {
        "columns": [
            (column["name"], type(column["type"].as_generic()).__name__, column["nullable"])
            for column in inspector.get_columns(table)
        ],
        "key": inspector.get_pk_constraint(table)["constrained_columns"],
        "indexes": sorted(
            (index["name"], tuple(index["column_names"]), bool(index["unique"]))
            for index in inspector.get_indexes(table)
        ),
    }
