"""The next release: a copy of the package with a migration 0002 and a function that uses it.

It runs in processes of its own, next to the package that is tested, on the same stores.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import roocontext
from support.python_process import Python, Script, python

PACKAGE = Path(roocontext.__file__).parent
MIGRATIONS = PACKAGE.parent / "migrations"
REVISION = "0002"

_MIGRATION = '''
"""A nullable column in each table of the log, a table, and another function for an append."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None
APPEND = Path(__file__).with_name("0002_append_postgresql.sql")


def upgrade():
    """Add them."""
    is_server = op.get_bind().dialect.name == "postgresql"
    text = sa.Text(collation="C") if is_server else sa.Text()
    op.add_column("sessions", sa.Column("colour", text))
    op.add_column("entries", sa.Column("mood", text))
    op.create_table(
        "stamps",
        sa.Column("session_id", text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "seq"),
    )
    if is_server:
        statement = APPEND.read_text().strip()
        op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
'''

_PROGRAM = """
import sys
from roocontext import Store

url, count = sys.argv[1], int(sys.argv[2])
with Store.open(url) as store:
    chat = store.open_session("shared")
    for number in range(count):
        chat.append("user", f"of the next release: {number}")
    assert chat.verify().ok
"""

_COMMAND = """
import sys
from roocontext.cli import main

main(sys.argv[1:])
"""


class NextRelease:
    """Ways to run the next release."""

    def __init__(self, python: Python) -> None:
        self._python = python

    def start(self, url: str, appends: int = 0) -> Script:
        """Start a process that opens a store, upgrades it, and appends to a session."""
        return self._python.start(_PROGRAM, url, str(appends), keeps_errors=True)

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command of the command line; its exit code and what it printed."""
        process = self._python.start(_COMMAND, *words, keeps_errors=True)
        printed, errors = process.communicate()
        return process.wait(), printed + errors

    def upgrade(self, url: str, appends: int = 0) -> None:
        """Upgrade a store to the schema of this release, and append to a session."""
        process = self.start(url, appends)
        _, errors = process.communicate()
        assert process.returncode == 0, errors


@contextmanager
def next_release(folder: Path) -> Iterator[NextRelease]:
    """The next release, with its files in an empty folder."""
    _make(folder / "roocontext")
    with python(folder) as running:
        yield NextRelease(running)


def _make(package: Path) -> None:
    shutil.copytree(PACKAGE, package)  # with its compiled files: each process would need them
    shutil.copytree(MIGRATIONS, package / "migrations")
    versions = package / "migrations" / "versions"
    (versions / "0002_next.py").write_text(_MIGRATION)
    append = (versions / "0001_append_postgresql.sql").read_text()
    stamped = append.replace(
        "END $$;", "    INSERT INTO stamps VALUES (session, new_seq);\nEND $$;"
    )
    (versions / "0002_append_postgresql.sql").write_text(
        stamped.replace("FUNCTION roocontext_append_v1", "FUNCTION roocontext_append_v2")
    )
    _replace(package / "store/engine/schema.py", 'REVISION = "0001"', 'REVISION = "0002"')
    _replace(package / "store/writing/append.py", "roocontext_append_v1", "roocontext_append_v2")


def _replace(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text, path
    path.write_text(text.replace(before, after))
