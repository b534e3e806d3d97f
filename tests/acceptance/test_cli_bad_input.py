"""Mistakes end in one clear line and an exit code, or everything that exists stays readable."""

import json
import os
import re
import runpy
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import Store
from roocontext.cli import find_database
from roocontext.cli.exit_codes import Code, Refusal
from roocontext.errors import StoreNotFound
from support import showcase
from support.cli_process import CommandLine, CommandLines, refused
from support.empty_files import empty_file
from support.steady_sources import SetClock

USER = 65_534 if os.geteuid() == 0 else None
"""Somebody with fewer rights than this process has, if that is possible."""
SECRET = "swordfish-canary"


def sql(url: str, *statements: str) -> None:
    with closing(
        psycopg.connect(plain(url), autocommit=True)
        if url.startswith("postgres")
        else sqlite3.connect(url, isolation_level=None)
    ) as connection:
        for statement in statements:
            connection.execute(statement)


def plain(url: str) -> str:
    """The URL of a server as its own programs take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def triggers(path: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        return [name for (name,) in rows]


@pytest.fixture
def run(shown_url: str, command_line: CommandLines) -> CommandLine:
    return command_line(shown_url)


@pytest.fixture
def own(database: str, command_line: CommandLines) -> CommandLine:
    """Commands on a showcase of the test's own."""
    showcase.build(database)
    return command_line(database)


def unhealthy(run: CommandLine, *words: str, **options: Any) -> None:
    """The doctor names what is wrong in these words."""
    doctor = run("doctor", "--json", **options)
    assert (doctor.code, doctor.err) == (Code.NO, "")
    assert [word for word in words if word not in doctor.out] == []


# The database


def test_reading_a_missing_database_creates_none(command_line, tmp_path):
    run = command_line(str(tmp_path / "none.db"))
    for command in (["sessions"], ["show", "last"], ["verify"], ["doctor"], ["db", "current"]):
        refused(run(*command), Code.NOT_FOUND, "none.db'", "`roocontext db upgrade`")
    refused(run("append", "last", "hello"), Code.NOT_FOUND)
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_is_named(command_line, tmp_path):
    run = command_line(str(tmp_path / "no" / "store.db"))
    for command in (["sessions"], ["doctor"], ["append", "new", "hello"], ["db", "upgrade"]):
        done = run(*command)
        refused(done, Code.NOT_FOUND, str(tmp_path / "no"), "Create the folder first")
        assert "db upgrade" not in done.err


def test_default_database_is_named_and_created_by_upgrade(command_line):
    run = command_line()
    for command in (["sessions"], ["doctor"], ["db", "current"]):
        done = run(*command)
        refused(done, Code.NOT_FOUND, "roocontext.db'", "`roocontext db upgrade`")
        refused(done, Code.NOT_FOUND, "--db", "ROOCONTEXT_DB")
    assert run("db", "upgrade").code == 0
    assert run("sessions").code == 0


@pytest.mark.parametrize("command", ["sessions", "doctor", "verify", "db upgrade"])
def test_database_path_that_is_no_file_is_refused(command, command_line, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, words in (
        (tmp_path, "is a folder"),
        ("/dev/null", "is not a regular file"),
        (loop, "link"),
        (loop / "store.db", "link"),
    ):
        done = command_line(str(path))(*command.split())
        refused(done, Code.NOT_FOUND, repr(str(path)), words)
        assert "db upgrade" not in done.err


def test_path_with_line_breaks_forges_no_line(command_line, tmp_path):
    done = command_line(str(tmp_path / "a\nb\x1b[31m"))("sessions")
    refused(done, Code.NOT_FOUND, "a\\nb\\x1b[31m")


def test_each_failed_connection_names_its_own_reason(command_line, postgres_url):
    there = make_url(postgres_url)
    for url, code, *words in (
        (there.set(database="nobody_made_this"), Code.DATABASE, "nobody_made_this"),
        (there.set(username="nobody_is_this"), Code.DATABASE, "nobody_is_this"),
        (make_url("postgresql://x:hunter2@127.0.0.1:9/x"), Code.DATABASE, "127.0.0.1"),
        (make_url("postgresql://127.0.0.1:9/x?nonsense=1"), Code.USAGE, "nonsense"),
    ):
        run = command_line(url.render_as_string(hide_password=False))
        done = run("sessions")
        refused(done, code, *words)
        assert "hunter2" not in done.err
        if code == Code.DATABASE:
            unhealthy(run, *words)
        else:
            refused(run("doctor"), code, *words)


def test_password_that_breaks_its_url_is_not_shown(command_line):
    done = command_line("postgresql://user:hun@ter2@127.0.0.1:9/x")("sessions")
    refused(done, Code.USAGE, "%40")
    assert "ter2" not in done.err
    asked = command_line("postgresql://127.0.0.1:9/x?password=hunter2")("doctor")
    assert "hunter2" not in asked.out + asked.err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("host=127.0.0.1 dbname=x password=hunter2", "by its URL"),
        ("", "empty"),
        *((url, "memory") for url in (":memory:", "sqlite://", "sqlite:///:memory:")),
        *((url, "") for url in ("mysql://localhost/x", "sqlite://host/x", "a\nb://c", "file:x.db")),
        ("://", "neither a path nor a database URL"),
        ("postgresql://user@host:port/x", "neither a path nor a database URL"),
    ],
)
def test_text_that_names_no_database_is_refused(url, words, command_line):
    for command in (["sessions"], ["append", "new", "x"], ["doctor"], ["backup", "copy.db"]):
        done = command_line()(*command, "--db", url)
        refused(done, Code.USAGE, words)
        assert "hunter2" not in done.err


def test_server_database_without_unicode_is_refused(command_line, postgres_url):
    name = f"ascii_{uuid4().hex}"
    kind = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    sql(postgres_url, f"CREATE DATABASE {name} {kind}")
    try:
        url = make_url(postgres_url).set(database=name)
        run = command_line(url.render_as_string(hide_password=False))
        refused(run("append", "new", "hello"), Code.DATABASE, "SQL_ASCII", "must be UTF8")
        unhealthy(run, "SQL_ASCII")
    finally:
        sql(postgres_url, f"DROP DATABASE {name}")


def test_broken_connection_reports_an_unknown_outcome(command_line, postgres_url, tmp_path):
    run = command_line(postgres_url)
    run("append", "new", "one", "--id", "held")
    files = [str(tmp_path / name) for name in ("in", "out", "err")]
    for file in files:
        Path(file).touch()
    url = plain(postgres_url)
    with (
        psycopg.connect(url, autocommit=True) as other,
        psycopg.connect(url, autocommit=True) as admin,
    ):
        with other.transaction():
            other.execute("SELECT FROM sessions WHERE session_id = 'held' FOR UPDATE")
            run.begin(["append", "held", "two"], files)
            hung_up = 0
            while not hung_up:
                (hung_up,) = admin.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ).fetchone() or (0,)
        code = run.ended()
    line = Path(files[2]).read_text()
    assert (code, Path(files[1]).read_text()) == (Code.UNCERTAIN, "")
    assert "the change may or may not have been made" in line
    assert line.count("\n") == 1


def test_file_that_is_no_database_is_refused(command_line, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("These are notes about the parser, not a database at all. " * 40)
    run = command_line(str(path))
    refused(run("sessions"), Code.DATABASE)
    refused(run("append", "new", "hello"), Code.DATABASE)
    (finding,) = run("doctor", "--json").document["findings"]
    assert (finding["check"], finding["status"]) == ("database", "bad")
    assert path.read_text().startswith("These are notes")


@pytest.mark.every_leg
def test_tables_of_the_store_without_a_version_are_refused(database, command_line):
    foreign = ["DROP VIEW effective_history", "DROP VIEW messages", "DROP TABLE roocontext_version"]
    sql(database, *foreign)
    run = command_line(database)
    refused(run("sessions"), Code.DATABASE, "entries", "without a version of roocontext's schema")
    refused(run("db", "upgrade"), Code.DATABASE, "entries")
    assert "without a version of roocontext's schema" in run("doctor", "--json").out


def test_tables_of_somebody_else_are_refused(command_line, tmp_path):
    for count, words in ((1, "a table or view that is"), (3, "3 tables and views that are")):
        path = str(tmp_path / f"{count}.db")
        sql(path, *(f"CREATE TABLE t{number} (x)" for number in range(count)))
        for command in (["sessions"], ["db", "upgrade"]):
            refused(command_line(path)(*command), Code.DATABASE, words)
        assert words in command_line(path)("doctor", "--json").out


def test_empty_file_holds_no_store_yet(command_line, tmp_path):
    path = tmp_path / "store.db"
    path.touch()
    run = command_line(str(path))
    refused(run("sessions"), Code.NOT_FOUND, "no store", "store.db", "`roocontext db upgrade`")
    upgraded = run("db", "upgrade", "--json").document
    assert (upgraded["before"], upgraded["after"]) == (None, "0001")
    assert run("sessions").out == "No sessions.\n"


@pytest.mark.every_leg
def test_schema_that_is_too_new_is_refused(database, command_line):
    newer = "version_num = '9999', oldest_release = '9.0.0'"
    sql(database, f"UPDATE roocontext_version SET {newer}")
    run = command_line(database)
    for command in ("sessions", "append new hello", "db upgrade", "db upgrade --check", "verify"):
        done = run(*command.split())
        refused(done, Code.DATABASE, "9999", "9.0.0 or newer")
        assert "`roocontext db upgrade`" not in done.err
    schema = {"current": "9999", "wanted": "0001", "oldest_release": "9.0.0"}
    assert run("db", "current", "--json").document == schema
    doctor = run("doctor", "--json")
    assert doctor.code == Code.NO
    assert {"check": "schema", "status": "bad"}.items() <= doctor.document["findings"][-1].items()


def test_unknown_schema_is_refused(database, command_line):
    sql(database, "UPDATE roocontext_version SET version_num = '0000'")
    run = command_line(database)
    refused(run("sessions"), Code.DATABASE, "0000", "`roocontext db upgrade`")
    done = run("db", "upgrade")
    refused(done, Code.DATABASE, "0000", "no release")
    assert "`roocontext db upgrade`" not in done.err


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter and write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_missing_rights_are_named(command_line, open_folder):
    path = open_folder / "store.db"
    showcase.build(str(path))
    run = command_line(str(path), folder=open_folder)

    path.chmod(0)
    for command in (["sessions"], ["append", "parser", "hello"], ["db", "upgrade"]):
        refused(run(*command, user=USER), Code.DATABASE, repr(str(path)))
    unhealthy(run, repr(str(path)), user=USER)
    open_folder.chmod(0o555)
    refused(run("db", "upgrade", "--db", "other.db", user=USER), Code.DATABASE, "other.db")
    open_folder.chmod(0)
    refused(run("sessions", user=USER, env={"HOME": "/"}), Code.DATABASE, "may not enter")
    unhealthy(run, user=USER, env={"HOME": "/"})
    open_folder.chmod(0o700)


LOOKS = ("sessions", "show parser", "audit parser", "verify", "doctor", "db current", "stats")


def test_reading_as_another_user_leaves_no_files(command_line, open_folder):
    path = open_folder / "store.db"
    showcase.build(str(path))
    path.chmod(0o644)
    run = command_line(str(path))
    before = path.read_bytes()
    if USER is not None:
        for words in (*LOOKS, "append parser no"):
            done = run(*words.split(), user=USER)
            assert done.code == (Code.NO if words == "doctor" else Code.DATABASE), words
            assert "belongs to another user" in f"{done.out} {done.err}", words
            assert [found.name for found in open_folder.iterdir()] == ["store.db"], words
    for words in LOOKS:
        assert run(*words.split()).code == 0, words
    assert path.read_bytes() == before
    assert run("append", "parser", "hello").code == 0
    assert [found.name for found in open_folder.iterdir()] == ["store.db"]


def test_damaged_file_is_named(command_line, tmp_path):
    path = tmp_path / "store.db"
    showcase.build(str(path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run = command_line(str(path))
    for command in ("sessions", "verify"):
        done = run(command)
        refused(done, Code.DATABASE, "is damaged", str(path), ".recover")
        assert "`roocontext verify`" not in done.err
    unhealthy(run, "is damaged")


def test_unusable_file_of_an_option_is_named(command_line, open_folder):
    path, closed = open_folder / "store.db", open_folder / "closed"
    showcase.build(str(path))
    path.chmod(0o666)
    closed.mkdir(0)
    run = command_line(str(path))
    if USER is not None:
        os.chown(path, USER, USER)
    for command in (["append", "parser", "--file"], ["verify", "parser", "--head"], ["demo"]):
        refused(run(*command, str(closed), user=USER), Code.NOT_FOUND, repr(str(closed)))
    closed.chmod(0o700)
    (open_folder / "head").write_bytes(b"\xff")
    refused(run("verify", "parser", "--head", str(open_folder / "head")), Code.USAGE, "UTF-8")


def test_role_with_read_rights_only_reads(postgres_url, command_line):
    showcase.build(postgres_url)
    role = f"reader_{uuid4().hex}"
    sql(postgres_url, f"CREATE ROLE {role}")
    url = make_url(postgres_url).update_query_dict({"options": f"-c role={role}"})
    run = command_line(url.render_as_string(hide_password=False))
    try:
        refused(run("sessions"), Code.DATABASE, "lacks a right", "GRANT")
        unhealthy(run, f"{role} cannot read")
        sql(postgres_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        assert run("show", "parser").code == 0
        refused(run("append", "parser", "hello"), Code.DATABASE)
        refused(run("purge", "parser", "--yes"), Code.DATABASE)
    finally:
        sql(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("words", ["audit big", "show big", "verify big"])
def test_damaged_pages_are_an_error_of_one_line(words, command_line, tmp_path):
    path = tmp_path / "store.db"
    with Store.open(str(path)) as store:
        store.create("big").append_many([{"role": "user", "content": "x" * 3_000}] * 300)
    whole = path.read_bytes()
    third = len(whole) // 3 // 4_096 * 4_096
    path.write_bytes(whole[:third] + b"\xff" * third + whole[2 * third :])
    done = command_line(str(path))(*words.split())
    assert (done.code, done.err.count("\n")) == (Code.DATABASE, 1)
    assert "damaged" in done.err


def test_unwritable_error_line_keeps_its_exit_code(shown_url):
    command = [sys.executable, "-m", "roocontext", "show", "nope", "--db", shown_url]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stderr=full, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (Code.NOT_FOUND, b"")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('[{"type": "text", "text": "x", "text": "y"}]', "a name occurs twice"),
        ("[1e999]", "larger than a float"),
        ("[NaN]", "NaN"),
        (f"[{'9' * 5_000}]", "too many digits"),
        ("[" * 20_000, "nested too deeply"),
        ("[", "at character 1"),
    ],
)
def test_json_that_would_lose_values_is_refused(content, why, command_line, database):
    run = command_line(database)
    for words in (("--content-json", content), ("x", "--usage", content)):
        named = "CONTENT" if words[0] == "--content-json" else "--usage"
        refused(run("append", "new", *words), Code.USAGE, f"{named} is not JSON", why)
    assert run("sessions", "--json").document["sessions"] == []


def test_pins_before_a_mistake_are_set(command_line, database):
    run = command_line(database)
    run("append", "new", "one", "--id", "s")
    refused(run("pin", "s", "1", "99"), Code.NOT_FOUND, "Entry 99")
    assert run("pin", "s", "--json").document["pins"] == [1]


def test_missing_home_folder_is_no_defect(monkeypatch):
    def missing() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv(find_database.VARIABLE, raising=False)
    monkeypatch.setattr(Path, "home", missing)
    with pytest.raises(Refusal, match="name one with --db"):
        find_database.chosen(None)
    assert find_database.chosen("x.db") == "x.db"
    missing_file = StoreNotFound("There is no file 'x.db'.")
    with pytest.raises(StoreNotFound) as told, find_database.looked_for("x.db"):
        raise missing_file
    assert told.value is missing_file


@pytest.mark.every_leg
def test_doctor_names_missing_entries(database, own):
    guard = (
        "ALTER TABLE entries DISABLE TRIGGER USER"
        if database.startswith("postgres")
        else "DROP TRIGGER entries_delete"
    )
    sql(database, guard, "DELETE FROM entries WHERE session_id = 'foreign' AND seq = 2")
    done = own("doctor")
    assert done.code == Code.NO
    said = " ".join(done.out.split())
    assert "entries: 1 session with missing or extra entries" in said
    missing = "entries_guard, entries_truncate" if "DISABLE" in guard else "entries_delete"
    assert f"triggers: missing: {missing}" in said


@pytest.mark.every_leg
def test_damaged_log_is_named(database, own):
    if database.startswith("postgres"):
        sql(database, "ALTER TABLE entries DISABLE TRIGGER USER")
    else:
        sql(database, *(f"DROP TRIGGER {name}" for name in triggers(database)))
    sql(database, "UPDATE entries SET content = '\"Another\"' WHERE seq = 3")
    found = own("verify", "parser", "--json")
    assert (found.code, found.err) == (Code.NO, "")
    (row,) = found.document["sessions"]
    assert (found.document["ok"], row["ok"], row["seq"]) == (False, False, 3)
    shown = own("verify")
    assert shown.code == Code.NO
    assert "BAD parser  2 entries, entry 3: the content is not what was written" in shown.out


# The session


@pytest.mark.every_leg
def test_empty_store_is_answered_by_every_command(database, command_line):
    run = command_line(database)
    assert run("sessions").out == "No sessions.\n"
    assert run("sessions", "--json").document == {"sessions": [], "purged": [], "next": None}
    assert run("verify", "--json").document == {"ok": True, "sessions": []}
    assert run("stats").out.startswith("0 sessions\n")
    for command in (["show"], ["audit"], ["rewind", "--to", "1"], ["purge", "--yes"]):
        refused(run(command[0], "last", *command[1:]), Code.NOT_FOUND, "empty")


def test_unknown_session_is_named(run):
    for command in ("show", "audit", "tree", "usage", "stats", "head", "undo", "pin", "verify"):
        refused(run(command, "nobody"), Code.NOT_FOUND, "nobody", "`roocontext sessions`")
    refused(run("search", "x", "--session", "nobody"), Code.NOT_FOUND, "nobody")
    refused(run("show", "=pars"), Code.NOT_FOUND)
    refused(run("show", "a\nb\x1b"), Code.NOT_FOUND, "\\x1b")
    refused(run("show", ""), Code.USAGE)
    refused(run("show", "x" * 2_000), Code.USAGE, "2,000 bytes")


def test_ambiguous_prefix_lists_its_sessions(database, own):
    refused(own("show", "pars"), Code.NOT_FOUND, "Several", "'parser', 'parsley'")
    refused(own("append", "pars", "hello"), Code.NOT_FOUND, "Several")
    assert own("head", "parse", "--json").document["session_id"] == "parser"
    assert own("head", "evil", "--json").document["session_id"] == showcase.HOSTILE
    with Store.open(database, clock=SetClock(showcase.START + 10_000_000)) as store:
        for name in ("last", "new", *(f"many-{number}" for number in range(7))):
            store.create(name)
    refused(own("show", "many"), Code.NOT_FOUND, "many-4", "and more")
    assert own("head", "last", "--json").document["session_id"] == "many-6"
    assert own("head", "=last", "--json").document["session_id"] == "last"
    assert own("append", "=new", "hello", "--json").document["session_id"] == "new"


# Times, seqs and options


@pytest.mark.parametrize(
    "when",
    ["tomorrowish", "-5", "1.5", "٣", "9" * 30, "2026-13-01", "1h", "99999999999999h ago", "25:00"],
)
def test_nonsense_for_a_time_is_refused(when, run):
    code = Code.USAGE if when in ("-5", "9" * 30) else Code.NOT_FOUND  # it might be a message's id
    refused(run("show", "parser", "--as-of", when), code, "--as-of")
    refused(run("diff", "parser", "--", when), code, "OLD")


@pytest.mark.parametrize("seq", ["x", "1.0", "-1", "9" * 30])
def test_nonsense_for_a_seq_is_refused(seq, run):
    code = Code.USAGE if seq in ("-1", "9" * 30) else Code.NOT_FOUND  # it might be a message's id
    refused(run("pin", "parser", "--", seq), code, "SEQ")
    refused(run("redact", "--yes", "parser", "--", seq), code, "SEQ")
    refused(run("fork", "parser", "--at", seq), code, "--at")
    refused(run("undo", "parser", "--of", seq), code, "--of")


@pytest.mark.parametrize(
    "words",
    [
        *("frobnicate", "show", "show parser --frob", "show parser --as-of"),
        *("sessions --limit 0", "sessions --limit x", "audit parser --after -1", "db"),
        *("db sideways", "rewind parser", "rewind parser --to 1 --ts 2"),
        *("rewind parser --ts x", "condense parser --limit 0"),
        *("append parser hello --id x", "append parser hello --file x"),
        *("append parser hello --content-json", "append parser hello --usage {"),
        "append parser [] --content-json --format openai",
        *("append new hello --id parser\x01\ud800", "append new hello --client-id request-1"),
        *("append parser", "title parser ''", "verify --head x"),
        *("search", "search x --role boss", "search x --where a", "search x --after x"),
        *("search x -n 0", "usage --all", "usage --family", "usage --by week"),
        *("usage parser --by day", "usage parser --since 7d"),
    ],
)
def test_misspelled_command_is_refused(words, run):
    arguments = ["" if word == "''" else word for word in words.split(" ")]
    refused(run(*arguments), Code.USAGE)


def test_mistyped_command_is_corrected(run):
    refused(run("shwo", "parser"), Code.USAGE, "Did you mean 'show'? See `roocontext --help`.")


def test_appended_text_must_be_utf_8(run, tmp_path):
    refused(run("append", "parser", stdin="caf\udce9"), Code.USAGE, "byte 3")
    path = tmp_path / "said.txt"
    refused(run("append", "parser", "--file", str(path)), Code.NOT_FOUND, "said.txt")
    path.write_bytes(b"\xff")
    refused(run("append", "parser", "--file", str(path)), Code.USAGE, "byte 0")


def test_conflict_is_refused_with_advice(own):
    refused(own("append", "parser", "x", "--expected-seq", "3"), Code.REFUSED, "3", "22")
    assert own("append", "build", "x", "--client-id", "one").code == 0
    again = own("append", "build", "y", "--client-id", "one")
    refused(again, Code.REFUSED, "Use another --client-id")
    for words in ("pin parser 18", "redact parser 18 --yes"):  # a rewind
        refused(own(*words.split()), Code.NOT_FOUND)


def test_destruction_without_a_terminal_needs_yes(run):
    before = run("head", "parser").out
    refused(run("redact", "parser", "3"), Code.USAGE, "--yes", "--dry-run")
    refused(run("purge", "parser", stdin="y\n"), Code.USAGE, "--yes", "--dry-run")
    assert run("purge", "parser", "--dry-run", "--json").document["dry_run"]
    assert run("head", "parser").out == before


def test_wrong_head_is_refused(run, tmp_path):
    path = tmp_path / "head.json"
    refused(run("verify", "parser", "--head", str(path)), Code.NOT_FOUND, "head.json")
    path.write_text("not a head")
    refused(run("verify", "parser", "--head", str(path)), Code.USAGE)
    path.write_text(run("head", "build").out)
    refused(run("verify", "parser", "--head", str(path)), Code.USAGE)
    saved = run("head", "parser").out
    assert run("verify", "parser", "--head", "-", stdin=saved).code == 0
    late = json.dumps({**json.loads(saved), "seq": 4_000})
    cut = run("verify", "parser", "--head", "-", stdin=late, env={"COLUMNS": "200"})
    assert cut.code == Code.NO
    assert "the log ends before the saved head, 4000" in cut.out


# Readable whatever it is


def test_twenty_columns_are_enough_to_read(run):
    from rich.cells import cell_len  # noqa: PLC0415

    for words in (
        *("sessions", "show parser", "show evil", "audit parser", "tree parser", "diff parser 10"),
        *("usage parser --all", "stats", "verify", "doctor", "preview build condense --limit 900"),
        "db history",
    ):
        done = run(*words.split(), env={"COLUMNS": "20"})
        assert done.code == 0, words
        assert done.err == ""
        assert max(map(cell_len, done.out.splitlines())) <= 20, words
    assert "drops" in run("show", "parser", env={"COLUMNS": "20"}).out
    assert "Usage: roocontext" in run("--help", env={"COLUMNS": "20"}).out


@pytest.mark.parametrize("columns", ["1", "2", "5"])
def test_narrow_terminal_breaks_nothing(columns, run):
    for words in ("sessions", "audit parser", "tree parser", "stats"):
        assert run(*words.split(), env={"COLUMNS": columns}).code == 0


@pytest.mark.parametrize("database", ["file"], indirect=True)
def test_ten_megabytes_in_one_message_stay_readable(database, command_line, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(f"{SECRET} \x1b[31m" + "many words of one message " * 400_000)
    run = command_line(database)
    assert run("append", "new", "--id", "fat", "--file", str(path)).code == 0
    shown = run("show", "fat")
    assert len(shown.out) < 2_500
    assert "10,398,8" in shown.out
    assert "--full" in shown.out
    assert len(run("audit", "fat").out) < 200
    assert len(run("diff", "fat", "0").out) < 300
    whole = run("show", "fat", "--full", env={"PAGER": "cat"}).out
    assert whole.count("many words of one message") == 400_000
    assert "\x1b" not in whole
    assert run("show", "fat", "--json").document["messages"][0]["content"] == path.read_text()


def test_error_line_never_holds_content(run):
    for words in (
        ["append", "nobody", SECRET],
        ["append", "parser", SECRET, "--content-json"],
        ["append", "parser", json.dumps([{"text": SECRET}]), "--content-json"],
        ["append", "parser", SECRET, "--expected-seq", "1"],
        ["append", "parser", SECRET, "--usage", SECRET],
    ):
        done = run(*words)
        assert done.code
        assert SECRET not in done.err


def test_debug_shows_where_an_error_comes_from(run):
    done = run("show", "nobody", "--debug")
    assert (done.code, done.out) == (Code.NOT_FOUND, "")
    assert "Traceback (most recent call last)" in done.err
    assert "SessionNotFound" in done.err


def test_every_exit_code_has_a_meaning():
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "cli_reference.py"))
    rows = re.findall(r"^\| (\d+) \| \w", tool["page"](), re.MULTILINE)
    assert [int(row) for row in rows] == sorted(Code)


# What strangers wrote


def test_id_of_several_lines_forges_no_line(command_line, tmp_path):
    run = command_line(empty_file(tmp_path / "store.db"))
    assert run("append", "new", "x", "--id", "good\nok  evil  9 entries").code == 0
    for command in (["verify"], ["sessions"], ["show", "last"], ["audit", "last"]):
        shown = run(*command)
        assert shown.code == 0
        assert not any(line.startswith("ok  evil") for line in shown.out.splitlines())


def test_warnings_are_single_escaped_lines(command_line, tmp_path):
    run = command_line(empty_file(tmp_path / "store.db"))
    usage = ["--usage", '{"input_tokens": 5}', "--role", "assistant"]
    assert run("append", "new", "word " * 3_000, "--id", "warn").code == 0
    for _ in range(2):  # one report alone is no reason to warn
        assert run("append", "warn", "ok", "--model", "m\x1b]0;title\x07", *usage).code == 0
    done = run("preview", "warn", "condense", "--limit", "9000")
    assert "\x1b" not in done.err
    done = run("condense", "warn", "--limit", "9000")
    assert "\x1b" not in done.err
    assert done.err.startswith("roocontext: warning: ")
    assert done.err.count("\n") == 1
    assert "reported 5" in done.err


def test_many_warnings_are_one_line(command_line, tmp_path):
    run = command_line(empty_file(tmp_path / "store.db"))
    assert run("append", "new", "word " * 3_000, "--id", "warn").code == 0
    wrong = {"MODEL_MAX_CONTEXT_TOKENS": "x", "MLC_MAX_CONTEXT_TOKENS": "-1"}
    done = run("preview", "warn", "--model", "gpt-4o", env=wrong)
    assert done.code == 0
    assert done.err.startswith("roocontext: warning: MODEL_MAX_CONTEXT_TOKENS is not an integer")
    assert re.search(r" \([0-9]+ more warnings\)\n$", done.err)
    assert done.err.count("\n") == 1


def test_demo_overwrites_nothing(command_line, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    refused(command_line("unused.db")("demo", str(tmp_path)), Code.REFUSED, "not empty")


def test_numbers_beyond_64_bits_are_refused(run):
    assert run("sessions", "--limit", str(2**63)).code == Code.USAGE
    assert run("audit", "parser", "--after", str(2**63 - 1)).code == 0
