"""Driver errors are translated here and nowhere else.

A driver's text may quote content, so none of it is passed on, not even as a cause. The exception is
the reason why a server refuses a connection: at that point it knows no content.
"""

import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy.exc import DBAPIError

from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    InvalidOption,
    RooContextError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from roocontext.store.engine.schema import metadata

RETRYABLE = frozenset({"40001", "40P01", "55P03", sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Codes that say another writer was in the way."""

_SQLITE: Mapping[int, type[RooContextError]] = {
    sqlite3.SQLITE_READONLY: StoreReadOnly,
    sqlite3.SQLITE_PERM: StoreReadOnly,
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_NOTADB: ForeignDatabase,
    sqlite3.SQLITE_CORRUPT: HistoryCorrupt,
    sqlite3.SQLITE_CONSTRAINT: HistoryCorrupt,
}
_POSTGRES: Mapping[str, type[RooContextError]] = {
    "25006": StoreReadOnly,
    "42501": StoreReadOnly,
    "53100": StoreFull,
    "22003": HistoryCorrupt,
    "23502": HistoryCorrupt,
    "23514": HistoryCorrupt,
    "XX001": HistoryCorrupt,
    "XX002": HistoryCorrupt,
}

_SAYS: Mapping[int | str, str] = {
    sqlite3.SQLITE_BUSY: "Another process holds the write lock on the database",
    sqlite3.SQLITE_LOCKED: "Another connection holds the write lock on the database",
    sqlite3.SQLITE_CANTOPEN: "The database file, or one of its companion files, cannot be opened",
    sqlite3.SQLITE_READONLY: "The database can be read but not written",
    sqlite3.SQLITE_PERM: "The system does not permit this access to the database file",
    sqlite3.SQLITE_FULL: "No space is left for the database to grow",
    sqlite3.SQLITE_IOERR: "The disk under the database failed",
    sqlite3.SQLITE_NOTADB: "The database file is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "The database file is damaged",
    sqlite3.SQLITE_CONSTRAINT: "Stored data violates a check of the schema",
    sqlite3.SQLITE_PROTOCOL: "The locks on the database file do not work as they should",
    sqlite3.SQLITE_NOMEM: "No memory is left for the database",
    "22003": "A stored number is too large to be added to",
    # Raised by our own check at the end of a transaction; nothing else divides.
    "22012": "The transaction took longer than the 120 seconds that the store allows",
    "23502": "Stored data violates a check of the schema",
    "23514": "Stored data violates a check of the schema",
    "25006": "The server permits this connection only to read",
    "3F000": "No schema of the search_path exists, so the store's tables have no place",
    "40001": "Another writer was in the way",
    "40P01": "Two writers waited for each other",
    "42501": "This role lacks a right that it needs on the database's tables",
    "42P01": "A table of the store is missing",
    "53100": "No space is left on the server's disk",
    "53200": "No memory is left on the server",
    "53300": "The server has no connection left for this role",
    "55P03": "Another process holds a lock that this operation needs",
    "57014": "The server cancelled the statement",
    "57P01": "The server was shut down",
    "57P02": "The server crashed",
    "57P03": "The server accepts no connections now",
    "XX000": "A node of the server's cluster failed, or the server itself",
    "XX001": "The database is damaged",
    "XX002": "An index of the database is damaged",
}
_ADVICE: Mapping[int | str, str] = {
    sqlite3.SQLITE_CORRUPT: "Keep a copy, then take what can be saved: `sqlite3 FILE .recover`.",
    "42501": "Its owner must GRANT it: `roocontext db grants` prints the rights that a role needs.",
    "22012": "Nothing was written: find out who holds locks, or write in smaller parts.",
    "3F000": "Create the schema first, or name another one in the search_path.",
    "XX001": "Keep a copy of its files, then restore a backup.",
    "XX002": "REINDEX rebuilds it.",
}
_REFUSED = "42501"
_NAMES = frozenset({*metadata.tables, "roocontext_version"})
_LONGEST = 300


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
    """The exceptions of the drivers that are loaded."""
    psycopg = sys.modules.get("psycopg")
    # The last two are what SQLite's driver says of more than 64 bits and of a damaged schema, whose
    # texts SQLite quotes as they are.
    ours = (sqlite3.Error, OverflowError, UnicodeDecodeError)
    return ours if psycopg is None else (*ours, psycopg.Error)


@contextmanager
def translated(*, sent: bool = True) -> Iterator[None]:
    """Turn a driver's error into ours; if nothing can have been sent, its outcome is known."""
    try:
        yield
    except DBAPIError as error:
        raise_ours(error.orig or error, sent=sent)
    except driver_errors() as error:
        raise_ours(error, sent=sent)


def raise_ours(error: BaseException, *, sent: bool = True, path: Path | None = None) -> NoReturn:
    """Raise our error for a driver's error, with the reason as far as it is known."""
    code = _code(error)
    if getattr(error, "sqlite_errorcode", code) in _TAKEN:
        # Only the caller knows whether the row is a repeated request or damage.
        raise UniqueViolation from None
    if isinstance(error, OverflowError):
        raise HistoryCorrupt("A stored number is too large to be added to.") from None
    if _is_undecodable(error):
        raise HistoryCorrupt("A stored text is not UTF-8.") from None
    kinds: Mapping[Any, type[RooContextError]] = _SQLITE if isinstance(code, int) else _POSTGRES
    kind = kinds.get(code, StoreUnavailable)
    # If the connection broke during a COMMIT, the server may have committed. A coordinator reports
    # most failures of its nodes as XX000, also those during a COMMIT.
    is_unknown = _is_disconnect(error) or code == "XX000"
    facts: dict[str, Any] = {"code": code, "outcome_unknown": sent and is_unknown}
    broke = "The connection to the server broke"
    other = broke if _is_disconnect(error) else "The database refused the statement"
    says, advice = _SAYS.get(code or "", other), _ADVICE.get(code or "")
    if path is not None:
        says = says.replace("The database file", repr(str(path)))
    if advice is not None:
        facts["advice"] = advice
    if table := _refused_table(error, code):
        says, facts["table"] = f"This role lacks a right that it needs on the table {table}", table
    raise kind(f"{says} ({_name(error)}).", **facts) from None


def unconnected(error: BaseException) -> RooContextError:
    """Why there is no connection to a PostgreSQL server, in the words of the server or libpq."""
    reported = _first_line(error)
    # psycopg reports an option that does not exist as an error of programming.
    if type(error).__name__ == "ProgrammingError":
        return InvalidOption(f"PostgreSQL does not take this URL: {reported}", name="url")
    return StoreUnavailable(
        f"There is no connection to PostgreSQL: {reported}",
        advice="Look at the host and port, the database, the role, its password and its limits.",
        code=_code(error),
    )


def _first_line(error: BaseException) -> str:
    """The first line of a server's or driver's message, safe for a terminal, as one sentence."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    words = " ".join(first.removeprefix("connection failed: ").split())
    _, _, refusal = words.rpartition(" failed: FATAL: ")
    printable = "".join(char if char.isprintable() else "?" for char in refusal or words)
    return f"{printable[:_LONGEST].rstrip('.')}."


def _name(error: BaseException) -> str:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"{getattr(error, 'sqlstate', None) or ''} {name}".strip()


def _code(error: BaseException) -> int | str | None:
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is not None:
        # The low byte is the primary code; the rest says more, such as which constraint it was.
        return int(extended) & 0xFF
    return getattr(error, "sqlstate", None)


def _refused_table(error: BaseException, code: int | str | None) -> str | None:
    """Our table that a role may not use; None if another object was refused.

    The server names it only in its message, which is in the server's language.
    """
    if code != _REFUSED:
        return None
    diagnosis = getattr(error, "diag", None)
    words = re.findall(r"\w+", getattr(diagnosis, "message_primary", None) or "")
    return next((word for word in reversed(words) if word in _NAMES), None)


def _is_undecodable(error: BaseException) -> bool:
    """True if SQLite returned text that is not UTF-8; Python's driver has no code for that."""
    undecoded = "Could not decode to UTF-8"
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(undecoded)


def _is_disconnect(error: BaseException) -> bool:
    """True if the connection broke, so that the statement may or may not have run."""
    if isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlstate", None)
    if code is None:
        return type(error).__name__ in ("OperationalError", "InterfaceError")
    return str(code).startswith(("08", "57P"))
