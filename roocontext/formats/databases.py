"""Databases of other programs, read in one snapshot: SQLite files and PostgreSQL servers.

Nothing is written to them. A file in WAL mode is read with its log, whose newest rows may not be in
the file yet. An importer writes its statements with `?` for values; they are the same for both.
"""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from roocontext.errors import InvalidOption, UnreadableSource
from roocontext.formats.events import Event, Place, Problem, ServerUrl, Source, source_of
from roocontext.formats.files import SQLITE, loads, opened, report

Rows: TypeAlias = Callable[..., Iterator[tuple[Any, ...]]]
"""Run a statement with its values, and iterate over the rows."""
Tables: TypeAlias = Mapping[str, frozenset[str]]
"""The tables of a database, and the columns of each."""

_URL: Final = re.compile(r"([a-z]+)(?:\+[a-z0-9_]+)?://(.*)", re.DOTALL)
_FILE_TABLES: Final = (
    "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
    " WHERE m.type = 'table'"
)
_SERVER_TABLES: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = ANY (current_schemas(false))"
)
_PAGE: Final = 100
"""The rows that are fetched from a server at once."""


def place_of(named: str | Path) -> Place:
    """The place that a path or URL names. A driver in a URL is ignored: `postgresql+asyncpg://`.

    The path of a place is absolute: a session's metadata records it, and the importers read the
    names of the folders above.
    """
    if not isinstance(named, str | Path):
        raise InvalidOption("A path must be a string or a Path.", name="paths")
    url = _URL.fullmatch(named) if isinstance(named, str) else None
    match url and url[1]:
        case None if "\0" in str(named):
            raise InvalidOption("The name of a file has no NUL.", name="paths")
        case None:
            return _absolute(named)
        case "postgresql" | "postgres":
            return ServerUrl(f"postgresql://{url[2]}" if url else "")
        case "sqlite" if url and url[2].startswith("/"):
            return _absolute(url[2][1:].partition("?")[0])
    raise InvalidOption(
        "A database to import from is an SQLite file or a PostgreSQL server.", name="paths"
    )


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - keeps links


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """A database that another program has written."""

    place: Place

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """Connect, and read in one snapshot. Raises UnreadableSource."""
        if isinstance(self.place, ServerUrl):
            with _server_rows(self.place) as rows:
                yield rows
            return
        try:
            with closing(_connect_read_only(self.place)) as connection:
                connection.execute("BEGIN")
                yield connection.execute
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _unreadable(self.place, error) from None

    def tables(self) -> Tables:
        """The tables of the database."""
        query = _SERVER_TABLES if isinstance(self.place, ServerUrl) else _FILE_TABLES
        columns: dict[str, set[str]] = {}
        with self.reading() as rows:
            for table, column in rows(query):
                columns.setdefault(table, set()).add(column)
        return {table: frozenset(names) for table, names in columns.items()}

    def check_columns(self, tables: Tables, table: str, *columns: str, by: str) -> None:
        """Refuse a table that lacks a column, because another release has made it."""
        if missing := sorted({*columns} - tables.get(table, frozenset())):
            raise UnreadableSource(
                f"{self.place} was written by an unknown release of {by}: its table"
                f" {table} has no column {', '.join(missing)}.",
                path=str(self.place),
                advice="",
            )

    def source(
        self,
        tool: str,
        name: str,
        events: Callable[[list[Problem]], Iterator[Event]],
        *,
        parent: str | None = None,
        **facts: Any,
    ) -> Source:
        """A session of a program. Its events end at what cannot be read, which is reported."""

        def read(problems: list[Problem]) -> Iterator[Event]:
            with reporting(self.place, problems):
                yield from events(problems)

        return source_of(tool, name, self.place, read, parent=parent, **facts)


@contextmanager
def reporting(place: Place, problems: list[Problem]) -> Iterator[None]:
    """Read a database in here. If it cannot be read, this ends, and the problem is reported."""
    try:
        yield
    except UnreadableSource as error:
        report(problems, Problem(place, None, error.fact.rstrip("."), cuts=True))


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect to a file. Not immutable: the newest rows may still be in the write-ahead log."""
    url = f"file:{quote(os.fsencode(path))}?mode=ro"
    connection = sqlite3.connect(url, uri=True, isolation_level=None)
    # The driver refuses text that is not UTF-8, and quotes it.
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def is_sqlite(path: Path) -> bool:
    """True if a file is a database."""
    with opened(path) as file:
        return file.read(len(SQLITE)) == SQLITE


@contextmanager
def _server_rows(place: ServerUrl) -> Iterator[Rows]:
    if find_spec("psycopg") is None:
        raise InvalidOption(
            "Importing from PostgreSQL needs the package psycopg, which is not installed.",
            advice="Install the extra: pip install 'roocontext[postgres]'.",
            name="paths",
        )
    import psycopg  # noqa: PLC0415 - an extra
    from psycopg.types.json import set_json_loads  # noqa: PLC0415

    try:
        with closing(psycopg.connect(place.url)) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            # The application may have changed what its psycopg makes of JSON.
            set_json_loads(json.loads, connection)
            numbers = count()

            def rows(query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
                # A named cursor, because the rows of a session may not fit into memory.
                with connection.cursor(f"rows_{next(numbers)}") as cursor:
                    cursor.itersize = _PAGE
                    cursor.execute(query.replace("%", "%%").replace("?", "%s"), values)
                    yield from cursor

            yield rows
    except psycopg.Error as error:
        raise _unreadable(place, error) from None


def _unreadable(place: Place, error: Exception) -> UnreadableSource:
    """The error of a driver, without its text, which may hold content."""
    code = getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
    named = f"{type(error).__name__}{f', {code}' if code else ''}"
    return UnreadableSource(
        f"The database {place} could not be read ({named}).", path=str(place), advice=""
    )


def decoded(value: Any) -> Any:
    """A column with JSON: text in a file, and decoded by the driver of a server."""
    if isinstance(value, str):
        value = value.encode()
    return loads(value) if isinstance(value, bytes) else value


def utc_ms(value: Any) -> int | None:
    """A column with a time, in milliseconds. A time without a zone is in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return round(value * 1000) if isinstance(value, int | float) and isfinite(value) else None
