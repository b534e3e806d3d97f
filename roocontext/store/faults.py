"""What a driver's error means: translated here and nowhere else.

A driver's text may quote content, so none of it is passed on, not even as a cause.
"""

import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from sqlalchemy.exc import DBAPIError

from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    RooContextError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

RETRYABLE = frozenset({"40001", "40P01", "55P03", sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Codes that say another writer was in the way."""

_SQLITE: Mapping[int, type[RooContextError]] = {
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_NOTADB: ForeignDatabase,
    sqlite3.SQLITE_CORRUPT: HistoryCorrupt,
}
_POSTGRES: Mapping[str, type[RooContextError]] = {
    "25006": StoreReadOnly,
    "42501": StoreReadOnly,
    "53100": StoreFull,
    "XX001": HistoryCorrupt,
    "XX002": HistoryCorrupt,
}


_TAKEN = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_TRIGGER,  # the guard of the log, which is asked first
        "23505",
    }
)


class UniqueViolation(Exception):
    """A row with this key exists. Raised to callers that can say which."""


def driver_errors() -> tuple[type[BaseException], ...]:
    """What the drivers raise, those that are loaded."""
    psycopg = sys.modules.get("psycopg")
    return (sqlite3.Error,) if psycopg is None else (sqlite3.Error, psycopg.Error)


@contextmanager
def translated(*, sent: bool = True) -> Iterator[None]:
    """Turn a driver's error into ours; if nothing can have been sent, its outcome is known."""
    try:
        yield
    except DBAPIError as error:
        raise_ours(error.orig or error, sent=sent)
    except driver_errors() as error:
        raise_ours(error, sent=sent)


def raise_ours(error: BaseException, *, sent: bool = True) -> NoReturn:
    """Raise the error of ours that a driver's error means."""
    code = _code(error)
    if getattr(error, "sqlite_errorcode", code) in _TAKEN:
        raise UniqueViolation from None
    if isinstance(code, int):
        kind = _SQLITE.get(code, StoreUnavailable)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
    else:
        kind = _POSTGRES.get(code or "", StoreUnavailable)
        name = f"{type(error).__name__} {code or ''}".strip()
    facts = {"code": code, "outcome_unknown": sent and _is_disconnect(error)}
    raise kind(f"The database answered {name}.", **facts) from None


def _code(error: BaseException) -> int | str | None:
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is not None:
        return int(extended) & 0xFF
    return getattr(error, "sqlstate", None)


def _is_disconnect(error: BaseException) -> bool:
    """Whether the connection is gone, so that nobody knows what became of the statement."""
    if isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlstate", None)
    if code is None:
        return type(error).__name__ in ("OperationalError", "InterfaceError")
    return str(code).startswith(("08", "57P"))
