"""Purges and redactions show what they delete before they do it; a database is copied."""

import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from roocontext.log.entries import Quote, quoting
from support.cli_process import CommandLine
from support.steady_sources import SetClock

OLD = int(datetime(2025, 11, 1, tzinfo=UTC).timestamp() * 1_000)


@pytest.fixture
def run(database: str, command_line: Callable[..., CommandLine]) -> CommandLine:
    return command_line(database)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """Sessions of November and December 2025, with one of the command line's time."""
    clock = SetClock(OLD)
    with Store.open(database, clock=clock) as store:
        for number, name in enumerate(("november", "december", "now")):
            clock.now = OLD + number * 45 * 86_400_000
            store.create(name, title=f"title of {name}").append("user", f"Prompt of {name}")
        yield store


def test_sessions_are_purged_by_their_age(store: Store, run: CommandLine) -> None:
    planned = run("purge", "--older-than", "60d", "--dry-run")
    assert planned.code == 0
    assert "november" in planned.out
    assert "title of november" in planned.out
    assert "This would delete 1 session with 1 message, 20 B." in planned.out
    assert len(store.sessions()) == 3
    refused = run("purge", "--older-than", "60d")
    assert refused.code == Code.USAGE
    assert "standard input is not a terminal. Use --yes or --dry-run." in refused.err
    done = run("purge", "--older-than", "2026-01-01", "--yes", "--json").document
    names = [row["session_id"] for row in done["sessions"]]
    assert sorted(names) == ["december", "november"]
    assert (done["messages"], done["bytes"], done["dry_run"]) == (2, 40, False)
    assert [info.session_id for info in store.sessions()] == ["now"]
    assert "No session is that old." in run("purge", "--older-than", "60d", "--yes").out
    listed = run("sessions", "--purged", "--json").document["purged"]
    assert sorted(row["session_id"] for row in listed) == sorted(names)


def test_purge_by_age_goes_by_the_later_of_both_clocks(store: Store, run: CommandLine) -> None:
    """Messages imported lately stay although they are old; so do those dated in the future."""
    store.create("imported").append("user", "x", ts=OLD - 9_000)
    store.session("december").append("user", "x", ts=OLD + 900 * 86_400_000)

    def older(*words: str) -> set[str]:
        done = run("purge", "--older-than", "2026-01-01", *words, "--dry-run", "--json").document
        return {row["session_id"] for row in done["sessions"]}

    assert older() == older("--recorded") == {"november"}
    assert older("--happened") == {"november", "imported"}
    assert run("purge", "now", "--happened", "--yes").code == Code.USAGE
    listed = run("sessions", "--json").document["sessions"]
    assert listed[-1]["session_id"] == "imported"
    assert listed[-1]["happened_at"] == "2025-10-31T23:59:51.000+00:00"
    by_clock = run("sessions", "--recorded", "--json").document["sessions"]
    assert by_clock[0]["session_id"] == "december"


def test_purge_needs_a_session_or_an_age(store: Store, run: CommandLine) -> None:
    for words in ([], ["now", "--older-than", "1d"], ["--older-than", "x"]):
        assert run("purge", *words, "--yes").code == Code.USAGE
    assert len(store.sessions()) == 3


def test_purge_shows_what_it_will_delete(store: Store, run: CommandLine) -> None:
    planned = run("purge", "now", "--dry-run")
    assert "Title: title of now" in planned.out
    assert "First prompt: Prompt of now" in planned.out
    assert run("purge", "now", "--dry-run", "--json").document["first_prompt"] == "Prompt of now"
    done = run("purge", "now", "--yes", "--json").document
    assert (done["title"], done["first_prompt"]) == (None, None)
    assert "was purged before" in run("purge", "now", "--dry-run").out


def test_redaction_shows_what_it_will_erase(store: Store, run: CommandLine) -> None:
    planned = run("redact", "now", "2", "--dry-run")
    assert "user, 15 B: Prompt of now" in planned.out
    done = run("redact", "now", "2", "--yes")
    assert "Prompt of now" not in done.out
    assert run("redact", "now", "2", "--dry-run", "--json").document["beginning"] is None


def test_redaction_names_the_entries_that_quote_it(store: Store, run: CommandLine) -> None:
    chat = store.session("now")
    chat.append("user", "Prompt of now, again", extra=quoting([Quote(None, 2, 2)]))
    planned = run("redact", "now", "2", "--dry-run")
    assert "Entries that quote it, to be redacted too: now 3." in planned.out
    assert run("redact", "now", "2", "--yes", "--json").document["quotes"] == [["now", 3]]


def test_backup_copies_a_database_in_use(
    tmp_path: Path, command_line: Callable[..., CommandLine]
) -> None:
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


def test_failed_backup_leaves_no_file(
    tmp_path: Path, command_line: Callable[..., CommandLine]
) -> None:
    (tmp_path / "store.db").write_text("no database " * 1_000)
    done = command_line("store.db", tmp_path)("backup", "copy.db")
    assert done.code == Code.DATABASE
    assert not (tmp_path / "copy.db").exists()


def test_backup_of_postgres_names_pg_dump(
    postgres_url: str, command_line: Callable[..., CommandLine]
) -> None:
    url = "postgresql+psycopg://user:secret@host:5433/db?sslpassword=hidden"
    done = command_line(url)("backup", "a copy.dump")
    assert done.code == Code.NO
    assert "pg_dump --format=custom '--file=a copy.dump' postgresql://user@host:5433/db" in done.out
    assert "secret" not in done.out
    assert "hidden" not in done.out
    assert command_line(postgres_url)("backup", "x", "--json").document["bytes"] is None
