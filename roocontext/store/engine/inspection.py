"""SQLAlchemy's own connection over one of the driver, for code that looks at the schema."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from roocontext.store.engine.driver_errors import translated


@contextmanager
def inspecting(driver: Any, dialect: Dialect, begin: str) -> Iterator[Connection]:
    """A SQLAlchemy connection in a transaction."""
    with translated():
        engine = create_engine(
            f"{dialect.name}+{dialect.driver}://", creator=lambda: driver, poolclass=StaticPool
        )
        with engine.connect() as connection:
            connection.exec_driver_sql(begin)
            try:
                yield connection
            except BaseException:
                with suppress(DBAPIError):  # some faults have ended the transaction already
                    connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")
