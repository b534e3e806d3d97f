"""`--owner` and `--where`: a command line that sees the sessions of one owner."""

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from support.empty_files import empty_file

WORD = "quetzalcoatl"


@pytest.fixture
def theirs(database: str) -> str:
    with Store.open(database, owner="acme") as acme:
        acme.create("sess-acme", title=WORD).append("user", WORD)
    return "sess-acme"


def test_owner_is_given_before_the_command_or_after_it(run, theirs):
    for words in (("--owner", "acme", "sessions"), ("sessions", "--owner", "acme")):
        assert theirs in run(*words).out
    assert theirs not in run("sessions", "--owner", "mallory").out
    assert run("append", "new", "--owner", "mallory", "hello").code == 0
    (mine,) = run("sessions", "--owner", "mallory", "--json").document["sessions"]
    assert mine["owner"] == "mallory"
    assert len(run("sessions", "--json").document["sessions"]) == 2


@pytest.mark.parametrize(
    "command",
    [
        *("show {}", "verify {}", "export {}", "append {} hello", "purge {} --yes"),
        f"search {WORD} --session {{}}",
    ],
)
def test_name_of_another_owners_session_names_none(run, theirs, command):
    found, missing = (
        run(*command.format(name).split(), "--owner", "mallory") for name in (theirs, "sess-none")
    )
    assert found.code == missing.code
    for one, other in ((found.out, missing.out), (found.err, missing.err)):
        assert one.replace(theirs, "sess-none") == other
    assert WORD not in found.out


def test_beginning_of_an_id_finds_no_others(run, theirs):
    for name in ("sess", "sess-a", "last"):
        done = run("show", name, "--owner", "mallory")
        assert (done.code, theirs in done.err) == (Code.NOT_FOUND, False)


@pytest.mark.parametrize("words", ["doctor", "backup copy.db", "db current", "db upgrade"])
def test_command_about_the_whole_database_takes_no_owner(run, theirs, words):
    done = run(*words.split(), "--owner", "acme")
    assert done.code == Code.USAGE
    assert done.err == (
        "roocontext: This command is about the whole database: leave out --owner.\n"
    )


def test_redaction_says_whose_copies_it_reached(run, theirs):
    done = run("redact", theirs, "2", "--yes", "--owner", "acme")
    assert "Only the sessions of acme were searched for copies." in done.out


def test_import_belongs_to_the_owner_that_makes_it(run, theirs, tmp_path, command_line):
    file = tmp_path / "log.jsonl"
    assert run("export", theirs, "-o", str(file)).code == 0
    assert run("import", str(file), "--owner", "mallory").code != 0  # the id is taken here
    other = command_line(empty_file(tmp_path / "other.db"))
    assert other("import", str(file), "--owner", "mallory").code == 0
    (mine,) = other("sessions", "--json").document["sessions"]
    assert (mine["session_id"], mine["owner"]) == (theirs, "mallory")
