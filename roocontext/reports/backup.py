"""Backups: a copy of an SQLite database, or the command that copies a PostgreSQL database."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from roocontext.reports.document import Document, Text

if TYPE_CHECKING:
    from roocontext.store.verify import Progress


class Backup(Document):
    """A backup of a database in a new `file`.

    `bytes` is its size. PostgreSQL is not copied: then `bytes` is None, and `command` is what to
    run.
    """

    database: Text
    file: Text
    bytes: int | None
    command: Text | None


def backed_up(url: str, database: str, file: Path, progress: "Progress") -> Backup:
    """Copy the database of a URL, shown as `database`, to a file; or name the command to run."""
    from roocontext.store.backup import back_up  # noqa: PLC0415 - heavy

    command = _pg_dump(url, file) if url.startswith("postgres") else None
    copied = None if command else back_up(url, file, progress)
    return Backup(database=database, file=str(file), bytes=copied, command=command)


def _pg_dump(url: str, file: Path) -> str:
    """The command, without a password: pg_dump asks for it, or finds it in PGPASSWORD."""
    from sqlalchemy import URL, make_url  # noqa: PLC0415 - heavy

    given = make_url(url.replace("postgres://", "postgresql://", 1))
    query = {name: value for name, value in given.query.items() if "password" not in name}
    bare = URL.create(
        "postgresql",
        given.username,
        host=given.host,
        port=given.port,
        database=given.database,
        query=query,
    )
    return shlex.join(["pg_dump", "--format=custom", f"--file={file}", bare.render_as_string()])
