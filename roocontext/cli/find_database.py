"""Finds and opens the database that a command works on.

`--db` or ROOCONTEXT_DB names it. Otherwise it is a file in the user's data folder. Only that file
is created with the first session. Another name may be a typing error, so only `db upgrade` creates
a database there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roocontext
from roocontext.cli.exit_codes import NO_STORE, Code, Refusal
from roocontext.errors import SchemaMismatch, StoreNotFound

if TYPE_CHECKING:
    from roocontext import Store

VARIABLE = "ROOCONTEXT_DB"
_SECRET = ("password", "sslpassword")


def default_place() -> Path:
    """The file that is used if no database is named."""
    try:
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    except RuntimeError:
        raise Refusal("There is no home folder for the database: name one with --db.") from None
    return Path(data) / "roocontext" / "roocontext.db"


def is_first_use(url: str) -> bool:
    """Check if this is the default file, and it does not exist yet."""
    return _is_default(url) and not os.path.lexists(url)


def lasting(url: str) -> str:
    """The name of a database, if it names one that lasts."""
    if not url:
        raise Refusal(
            "The name of the database is empty: give a file or a URL in --db or ROOCONTEXT_DB."
        )
    if url == ":memory:" or (url.startswith("sqlite") and url.rstrip("/").endswith(":")):
        raise Refusal("A database in memory would be lost when the command ends. Name a file.")
    return url


def chosen(db: str | None) -> str:
    """The database that --db names, or else the environment, or else the default file."""
    return (os.environ.get(VARIABLE) or str(default_place())) if db is None else db


def without_password(url: str) -> str:
    """A path or URL without its password."""
    if "://" not in url:
        return url
    from roocontext.store.engine.engines import checked_url  # noqa: PLC0415 - heavy

    parsed = checked_url(url)
    secret = {name: "***" for name in _SECRET if name in parsed.query}
    return parsed.update_query_dict(secret).render_as_string(hide_password=True)


def open_store(url: str, *, write: bool, create: bool, **options: Any) -> "Store":
    """Open the store, for reading or for writing. `options` are others of `Store.open`."""
    # If another folder is missing, its name is more likely a typing error.
    if create and _is_default(url):
        Path(url).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with looked_for(url):
            return roocontext.Store.open(url, upgrade=create, read_only=not write, **options)
    except SchemaMismatch as error:
        raise _mismatch(error, without_password(url)) from error


@contextmanager
def looked_for(url: str) -> Iterator[None]:
    """If the default file does not exist, say *yet*: a command can create it."""
    try:
        yield
    except StoreNotFound:
        if not is_first_use(url):
            raise
        raise StoreNotFound(f"There is no file {url!r} yet.") from None


def _is_default(url: str) -> bool:
    """Check if this is the default file. Without a home folder there is none."""
    with suppress(Refusal):
        return url == str(default_place())
    return False


def _mismatch(error: SchemaMismatch, database: str) -> Refusal:
    if error.current is None:
        return Refusal(f"There is no store in {database!r} yet. {NO_STORE}", Code.NOT_FOUND)
    if "advice" in error.facts:
        return Refusal(f"{error.fact} {error.advice}", Code.DATABASE)
    return Refusal(f"{error.fact} `roocontext db upgrade` upgrades it.", Code.DATABASE)
