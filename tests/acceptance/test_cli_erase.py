"""Purges and redactions show what they delete before they do it; old sessions are archived; a
database is copied."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from roocontext import ArchiveFolder, Store
from roocontext.cli import app
from roocontext.cli.command_context import CommandContext
from roocontext.cli.exit_codes import Code
from roocontext.log.entries import Quote, quoting
from support.steady_sources import SetClock

OLD = int(datetime(2025, 11, 1, tzinfo=UTC).timestamp() * 1_000)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """Sessions of November and December 2025, with one of the command line's time."""
    clock = SetClock(OLD)
    with Store.open(database, clock=clock) as store:
        for number, name in enumerate(("november", "december", "now")):
            clock.now = OLD + number * 45 * 86_400_000
            store.create(name, title=f"title of {name}").append("user", f"Prompt of {name}")
        yield store


def test_sessions_are_purged_by_their_age(store, run):
    planned = run("purge", "--older-than", "60d", "--dry-run")
    assert "This would delete 1 session with 1 message, 20 B." in planned.out
    assert len(store.sessions()) == 3
    done = run("purge", "--older-than", "2026-01-01", "--yes", "--json").document
    names = [row["session_id"] for row in done["sessions"]]
    assert sorted(names) == ["december", "november"]
    assert (done["messages"], done["bytes"], done["dry_run"]) == (2, 40, False)
    assert [info.session_id for info in store.sessions()] == ["now"]
    assert "No session matches." in run("purge", "--older-than", "60d", "--yes").out
    listed = run("sessions", "--purged", "--json").document["purged"]
    assert sorted(row["session_id"] for row in listed) == sorted(names)


def test_purge_by_age_goes_by_the_later_of_both_clocks(store, run):
    """Messages imported lately stay although they are old; so do those dated in the future."""
    store.create("imported").append("user", "x", ts=OLD - 9_000)
    store.session("december").append("user", "x", ts=OLD + 900 * 86_400_000)

    def older(*words: str) -> set[str]:
        done = run("purge", "--older-than", "2026-01-01", *words, "--dry-run", "--json").document
        return {row["session_id"] for row in done["sessions"]}

    assert older() == older("--recorded") == {"november"}
    assert older("--happened") == {"november", "imported"}
    assert run("purge", "now", "--happened", "--yes").code == Code.USAGE
    by_clock = run("sessions", "--recorded", "--json").document["sessions"]
    assert by_clock[0]["session_id"] == "december"


def test_purge_of_families_that_failed_is_continued(tmp_path, command_line):
    """No rule would find the sub-agents of a parent that was purged without them."""
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        chat = store.create("ann")
        chat.append("user", "Prompt")
        chat.fork(session_id="fork", parent="ann")
        chat.set_metadata({"user": "ann"})
        store.create("child", parent="ann")
        put = ArchiveFolder(tmp_path / "files")
        (archived,) = store.archive(session="child", put=put).archived
    run, words = command_line(str(path), tmp_path), ("purge", "--where", "user=ann", "--yes")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(
            "CREATE TRIGGER stop BEFORE UPDATE OF purged_at ON sessions"
            " WHEN NEW.session_id = 'child' BEGIN SELECT RAISE(ABORT, 'stop'); END"
        )
        assert run(*words).code == Code.DATABASE
        file.execute("DROP TRIGGER stop")
    done = run(*words).out
    assert "Deleted 3 sessions with 2 messages" in done
    assert f"{archived.file}\n  SHA-256 {archived.digest}\n" in done
    assert "Copies" not in done


@pytest.mark.parametrize("chosen", [["now"], ["--where", "user=ann"]])
def test_session_that_grows_while_a_person_is_asked_is_kept(
    store, database, monkeypatch, capsys, chosen
):
    chat = store.session("now")
    chat.set_metadata({"user": "ann"})
    monkeypatch.setattr(CommandContext, "confirm", lambda *_: chat.append("user", "more"))
    assert app.run(["purge", *chosen, "--db", database]) == Code.REFUSED
    assert "Session 'now' was written to" in capsys.readouterr().err
    assert chat.info().messages == 2


def test_purge_needs_a_session_or_an_age(store, run):
    for words in ([], ["now", "--older-than", "1d"], ["--older-than", "x"]):
        assert run("purge", *words, "--yes").code == Code.USAGE
    assert len(store.sessions()) == 3


def test_redaction_names_the_entries_that_quote_it(store, run):
    chat = store.session("now")
    chat.append("user", "Prompt of now, again", extra=quoting([Quote(None, 2, 2)]))
    planned = run("redact", "now", "2", "--dry-run")
    assert "Entries that quote it, to be redacted too: now 3." in planned.out
    assert run("redact", "now", "2", "--yes", "--json").document["quotes"] == [["now", 3]]


def test_backup_copies_a_database_in_use(tmp_path, command_line):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        chat = store.create("one")
        chat.append_many([{"role": "user", "content": "word " * 200} for _ in range(2_000)])
        run = command_line(str(path), tmp_path)
        done = run("backup", "copy.db", "--json").document
        assert done["bytes"] == (tmp_path / "copy.db").stat().st_size
        chat.append("user", "after the copy")
        with Store.open(tmp_path / "copy.db", read_only=True) as copy:
            assert copy.session("one").verify().ok
            assert copy.session("one").head_seq() == 2_000
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
        assert run("backup", "other.db").out.startswith("Copied the database to other.db, ")
        again = run("backup", "copy.db")
        assert (again.code, "overwrites nothing" in again.err) == (Code.DATABASE, True)
        assert run("backup", "none/copy.db").code == Code.DATABASE
        assert run("backup", "x.db", "--db", "none.db").code == Code.NOT_FOUND
        assert not (tmp_path / "x.db").exists()


def test_failed_backup_leaves_no_file(tmp_path, command_line):
    (tmp_path / "store.db").write_text("no database " * 1_000)
    done = command_line("store.db", tmp_path)("backup", "copy.db")
    assert done.code == Code.DATABASE
    assert not (tmp_path / "copy.db").exists()


def test_backup_of_postgres_names_pg_dump(postgres_url, command_line):
    url = "postgresql+psycopg://user:secret@host:5433/db?sslpassword=hidden"
    done = command_line(url)("backup", "a copy.dump")
    assert done.code == Code.NO
    assert "pg_dump --format=custom '--file=a copy.dump' postgresql://user@host:5433/db" in done.out
    assert "secret" not in done.out
    assert "hidden" not in done.out
    assert command_line(postgres_url)("backup", "x", "--json").document["bytes"] is None


def test_old_sessions_are_archived_and_imported_again(store, run, tmp_path):
    folder = tmp_path / "archive"
    heads = {info.session_id: store.session(info.session_id).head() for info in store.sessions()}
    planned = run("archive", "--older-than", "60d", "--to", str(folder), "--dry-run")
    assert "This would archive 1 session with 1 message, 20 B." in planned.out
    assert not folder.exists()
    done = run("archive", "--older-than", "2026-01-01", "--to", str(folder), "--json").document
    assert [row["session_id"] for row in done["archived"]] == ["december", "november"]
    assert (done["messages"], done["bytes"], done["left"]) == (2, 40, [])
    again = run("archive", "--older-than", "2026-01-01", "--to", str(folder))
    assert (again.code, again.out) == (0, "No session is that old. Nothing was archived.\n")
    row = run("sessions", "november").out.splitlines()[1]
    assert row.split()[-6:] == ["-", "1", "[archived]", "title", "of", "november"]
    assert run("verify").out.startswith("ok  now")
    assert run("stats", "--json").document["sessions"] == 1
    found = run("search", "Prompt")
    assert "Prompt of now" in found.out
    assert "Not searched: 2 archived sessions." in found.out
    refused = run("show", "november")
    assert refused.code == Code.REFUSED
    assert done["archived"][1]["file"] in refused.err
    assert done["archived"][1]["digest"] in refused.err
    assert "`roocontext import`" in refused.err
    files = [row["file"] for row in done["archived"]]
    assert "Imported 2 sessions, 0 unchanged." in run("import", *files).out
    assert {name: store.session(name).head() for name in heads} == heads
    assert run("archive", "last", "--to", str(folder)).code == 0
    assert store.find("now")[0].archived_at is not None


def test_archive_takes_a_session_or_an_age(run, store, tmp_path):
    for words in ([], ["now", "--older-than", "1d"]):
        refused = run("archive", *words, "--to", str(tmp_path / "archive"))
        assert (refused.code, len(store.sessions())) == (Code.USAGE, 3)
    assert run("archive", "now").code == Code.USAGE


def test_session_with_a_turn_is_left_and_leaves_no_file(store, run, tmp_path):
    with store.session("now").turn(lease=1_000_000):
        done = run("archive", "now", "--to", str(tmp_path / "archive"))
    assert (done.code, "Left now: a runner has its turn." in done.out) == (Code.NO, True)
    assert not (tmp_path / "archive").exists()


def test_purge_of_an_archived_session_says_which_file_to_destroy(store, run, tmp_path):
    fork = store.session("november").fork(session_id="fork")
    (row,) = run("archive", "november", "--to", str(tmp_path), "--json").document["archived"]
    redacted = run("redact", "fork", "2", "--yes")
    assert "Archived sessions that may hold it: november 2." in redacted.out
    planned = run("purge", "november", "--dry-run")
    assert f"Destroy this file:\n  {row['file']}\n  SHA-256 {row['digest']}\n" in planned.out
    assert "First prompt: Prompt of november" in planned.out
    done = run("purge", "november", "--yes", "--json").document
    assert (done["file"], done["digest"], done["copies"]) == (row["file"], row["digest"], [fork.id])
    assert run("import", row["file"]).code == Code.NO
